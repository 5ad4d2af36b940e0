/**
 * report.html of a run folder: one file that opens offline, from manifest.json and log.sqlite
 * alone.
 */
import { writeFileAtomically } from '../engine/atomic-file.js';
import { given } from '../given.js';
import { runPaths } from '../run-folder/paths.js';
import { checkIntegrity, type Integrity } from './integrity.js';
import { page } from './page.js';
import { readRun, type RunRecord } from '../run-folder/read-run.js';
import { adapterSection, learningSection, methodSection, ruleSection } from './course-sections.js';
import { failureSection } from './failure-section.js';
import { header, pageTitle } from './header.js';
import { integritySection, settingsSection } from './origin-sections.js';
import { contents, section, type Section } from './markup.js';
import { resultSection } from './result-section.js';
import { rolloutSection } from './rollout-section.js';
import { useSection } from './use-section.js';

/** A report never has more bytes. */
export const REPORT_BYTES = 2_000_000;
export const REPORT_ROLLOUTS = 300;
/** Heading, search and filters around the rollouts, at most so many bytes. */
const ROLLOUT_FRAME = 100_000;

export interface WrittenReport {
  readonly file: string;
  readonly bytes: number;
  readonly runId: string;
  readonly integrity: Integrity;
  readonly rollouts: number;
}

/** The page's text; the same for the same folder and the same keys on this machine. */
export function reportHtml(run: RunRecord, integrity: Integrity): string {
  const above = [
    resultSection(run),
    failureSection(run),
    learningSection(run),
    methodSection(run),
    adapterSection(run),
    useSection(run),
    ruleSection(run),
    integritySection(integrity),
  ].filter((each) => each !== null);
  const [top, below] = [header(run, integrity), settingsSection(run)];
  const whole = (rollouts: Section): string => {
    const sections = [...above, rollouts, below];
    return page(pageTitle(run), [top, contents(sections), sections]);
  };
  const frame = Buffer.byteLength(whole(section('rollouts', 'Rollouts')));
  return whole(rolloutSection(run, REPORT_BYTES - frame - ROLLOUT_FRAME));
}

/**
 * Writes the report of a run, finished or not.
 * @param options.file default: report.html in the folder
 * @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID, WRITE_FAILED, ABORTED
 */
export async function writeReport(
  folder: string,
  options: { readonly file?: string; readonly signal?: AbortSignal } = {},
): Promise<WrittenReport> {
  const { file = runPaths(folder).report, signal } = options;
  const run = readRun(folder, { rollouts: REPORT_ROLLOUTS });
  const integrity = await checkIntegrity(folder, given({ signal }));
  const bytes = Buffer.from(reportHtml(run, integrity));
  await writeFileAtomically(file, [bytes], options.file === undefined ? 'replace' : 'follow');
  return {
    file,
    bytes: bytes.length,
    runId: run.manifest.runId,
    integrity,
    rollouts: run.shown.length,
  };
}
