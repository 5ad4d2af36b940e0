/**
 * report.html of a truth run: one file that opens offline, from truth.json and log.sqlite alone,
 * and what was measured of tokens.
 */
import { writeFileAtomically } from '../engine/atomic-file.js';
import { policyName, readerNamed, whoseBeliefs } from '../truth-seeking/analysis/from-run.js';
import { readTruthRun, type TruthRun } from '../truth-seeking/run/folder.js';
import { verifyTruthRun } from '../truth-seeking/run/verify.js';
import { whole } from '../text/figures.js';
import { html, label, type Html } from '../text/hostile-text.js';
import { checkLog, integrityLine, type Integrity } from './integrity.js';
import { card, contents, list, name, section, type Section } from './markup.js';
import { integritySection, leaves } from './origin-sections.js';
import { page } from './page.js';
import { shownSetups } from './truth-figures.js';
import {
  beliefSection,
  differenceSection,
  resultsSection,
  trajectorySection,
  type TokenFigures,
} from './truth-sections.js';

function truthHeader(run: TruthRun, integrity: Integrity): Html {
  const { runId, start, state } = run;
  const { config } = start;
  const { text, tone } = integrityLine(integrity);
  const reliable = !['tampered', 'truncated', 'equivocation'].includes(integrity.outcome);
  const believed = state.trajectories.filter(({ trajectory: { id } }) =>
    state.readers.some((by) => state.beliefs(id, by) !== null),
  ).length;
  return html`<header>
<p class="muted note">isopro-native ${label(start.code.version)} · truth run ${runId} · seed ${label(config.seed, 20)}</p>
<h1>${name(policyName(run), 80)} on ${name(config.domain.join(', '), 100)}</h1>
${!reliable && html`<p class="conclusion bad">Nothing on this page is reliable.</p>`}
<p><span class="badge ${tone === 'good' ? 'plain' : tone}">${text}</span></p>
${state.complete === null && html`<p class="fair"><b>The run has not ended.</b> This page shows what its log holds so far.</p>`}
<div class="cards">
${card(whole(state.trajectories.length), 'trajectories')}
${card(whole(believed), 'trajectories with beliefs')}
${card(whole(state.results.length), 'results')}
${card(whole(state.failures.length), 'questions without a result')}
</div>
</header>
`;
}

function settingsSection({ start }: TruthRun): Section {
  const { config, ...rest } = start;
  const table = (value: unknown): Html =>
    list(
      [...leaves(value)]
        .slice(0, 240)
        .map(([key, of]) => [label(key, 60), label(of, 300)] as const),
    );
  return section(
    'settings',
    'Settings and hashes',
    table(config),
    html`<h3>What determined the run</h3>`,
    table(rest),
  );
}

export interface TruthPageOptions {
  readonly tokens?: TokenFigures | undefined;
  readonly other?: TruthRun | null;
  /** Reader whose beliefs are shown, as `readerNamed` takes it. */
  readonly reader?: string | undefined;
}

/** The page's text; the same for the same folders and keys. */
export function truthReportHtml(
  run: TruthRun,
  integrity: Integrity,
  { tokens = { heat: [], evidence: [] }, other = null, reader: named }: TruthPageOptions = {},
): string {
  const reader = readerNamed(run, named);
  const setups = shownSetups(run, reader);
  const sections = [
    resultsSection(run),
    beliefSection(setups, reader === undefined ? null : whoseBeliefs(run, reader)),
    other === null ? null : differenceSection(run, other, named),
    trajectorySection(run, setups, tokens, reader === undefined ? null : whoseBeliefs(run, reader)),
    integritySection(integrity),
    settingsSection(run),
  ].filter((each) => each !== null);
  const title = `${label(policyName(run))}, truth run ${run.runId.slice(0, 8)}`;
  return page(title, [truthHeader(run, integrity), contents(sections), sections]);
}

export interface TruthReportOptions {
  readonly file: string;
  /** Folder of a run to compare with. */
  readonly against?: string;
  readonly tokens?: TokenFigures;
  readonly reader?: string | undefined;
  readonly signal?: AbortSignal;
}

/**
 * @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID, LOG_NOT_FOUND, LOG_UNREADABLE,
 *   WRITE_FAILED, ABORTED
 */
export async function writeTruthReport(
  folder: string,
  { file, against, tokens, reader, signal }: TruthReportOptions,
): Promise<number> {
  const run = readTruthRun(folder);
  const other = against === undefined ? null : readTruthRun(against);
  const integrity = await checkLog(folder, () => verifyTruthRun(folder, signal && { signal }));
  const bytes = Buffer.from(truthReportHtml(run, integrity, { tokens, other, reader }));
  await writeFileAtomically(file, [bytes]);
  return bytes.length;
}
