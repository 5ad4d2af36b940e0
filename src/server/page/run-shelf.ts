/**
 * The runs of a folder, as the page asks for them. It reads whole logs, and is kept in a thread of
 * its own.
 */
import { hash } from 'node:crypto';
import { statSync } from 'node:fs';
import path from 'node:path';
import { IsoproError } from '../../errors.js';
import { runFolders, runName } from '../../lookup/runs.js';
import { label } from '../../text/hostile-text.js';
import {
  checkIntegrity,
  integrityLine,
  integrityText,
  type Integrity,
} from '../../report/integrity.js';
import { judgedBadge, readJudged } from '../../report/judge-badge.js';
import { compareRuns, summariseRun } from '../../lookup/run-list.js';
import { reportHtml, REPORT_ROLLOUTS } from '../../report/write-report.js';
import { runPaths } from '../../run-folder/paths.js';
import { inOrder, readRun, type RunRecord } from '../../run-folder/read-run.js';
import { byPart } from '../../run-folder/written-settings.js';
import {
  devProblems,
  devReplies,
  findRollouts,
  readRollout,
  type RolloutFilter,
} from './rollout-views.js';
import { detailOf, lineOf, pairedOf, rateOf } from './run-view.js';
import { noRun } from './no-run.js';
import { readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import {
  truthFolders,
  truthLine,
  truthReportText,
  truthShown,
  truthTrajectory,
} from './truth-view.js';
import type {
  DevProblem,
  DevReplies,
  IntegrityAnswer,
  RolloutDetail,
  RolloutPage,
  RunDetail,
  RunLine,
  RunsCompared,
  TruthLine,
  TruthShown,
  TruthTrajectory,
} from './shapes.js';

/** Records of runs that are kept, the latest ones. */
const KEPT = 6;

/** Stamp of the files of a run's page, which changes when one of them does. */
function stampOf(folder: string): string {
  const { manifest, log, judgeTrace, comparison } = runPaths(folder);
  const states = [manifest, log, `${log}-wal`, judgeTrace, comparison].map((file) => {
    const found = statSync(file, { throwIfNoEntry: false, bigint: true });
    return found === undefined ? '-' : `${found.size}.${found.mtimeNs}`;
  });
  return hash('sha256', states.join()).slice(0, 16);
}

/** Cache of one value per folder, valid while the folder is unchanged. */
class Kept<T> {
  readonly #values = new Map<string, { readonly stamp: string; readonly value: T }>();

  constructor(readonly most: number) {}

  of(folder: string, read: () => T): { readonly stamp: string; readonly value: T } {
    const stamp = stampOf(folder);
    const known = this.#values.get(folder);
    this.#values.delete(folder);
    const kept = known?.stamp === stamp ? known : { stamp, value: read() };
    this.#values.set(folder, kept);
    for (const oldest of this.#values.keys())
      if (this.#values.size > this.most) this.#values.delete(oldest);
    return kept;
  }
}

/** Members in which two settings differ, with both values. */
function valueAt(value: unknown, member: string): string {
  const found = member
    .split('.')
    .reduce<unknown>(
      (at, key) =>
        typeof at === 'object' && at !== null && Object.hasOwn(at, key)
          ? (at as Record<string, unknown>)[key]
          : undefined,
      value,
    );
  return label(found === undefined ? '–' : JSON.stringify(found), 120);
}

export class RunShelf {
  readonly #parent: string;
  readonly #records = new Kept<RunRecord>(KEPT);
  readonly #lines = new Kept<RunLine>(10_000);
  readonly #truths = new Kept<TruthRun>(KEPT);
  readonly #truthLines = new Kept<TruthLine>(10_000);
  /**
   * Intervals take a bootstrap each. Of a record and not of a folder, which may have changed since
   * the record was read.
   */
  readonly #details = new WeakMap<RunRecord, RunDetail>();
  readonly #reports = new Kept<Promise<string>>(2);
  readonly #integrity = new Kept<Promise<Integrity>>(100);

  constructor(parent: string) {
    this.#parent = parent;
  }

  /**
   * A folder of those that are listed, whatever the name says.
   * @throws IsoproError RUN_NOT_FOUND
   */
  #folder(name: string): string {
    const found = runFolders(this.#parent).find((folder) => runName(folder, this.#parent) === name);
    if (found === undefined) throw noRun(name);
    return found;
  }

  #record(name: string): { readonly stamp: string; readonly value: RunRecord } {
    const folder = this.#folder(name);
    return this.#records.of(folder, () => readRun(folder));
  }

  #integrityOf(folder: string): Promise<Integrity> {
    return this.#integrity.of(folder, () => checkIntegrity(folder)).value;
  }

  /** Newest first. */
  list(): RunLine[] {
    return runFolders(this.#parent)
      .map(
        (folder) =>
          this.#lines.of(folder, () => lineOf(runName(folder, this.#parent), summariseRun(folder)))
            .value,
      )
      .sort(
        (a, b) =>
          (b.startedAt ?? '').localeCompare(a.startedAt ?? '') || (a.name < b.name ? -1 : 1),
      );
  }

  /** @param since a stamp; null is answered where the run is as it was then */
  run(name: string, since?: string): RunDetail | null {
    const { stamp, value } = this.#record(name);
    if (stamp === since) return null;
    const detail = this.#details.get(value) ?? detailOf(name, stamp, value);
    this.#details.set(value, detail);
    return detail;
  }

  async integrity(name: string): Promise<IntegrityAnswer> {
    const { value } = this.#record(name);
    const integrity = await this.#integrityOf(value.folder);
    return {
      badge: integrityLine(integrity),
      judged: judgedBadge(readJudged(value), value, integrity),
      sentences: integrityText(integrity).map((each) => label(each, 600)),
    };
  }

  /** The text of report.html, as `report` writes it. */
  async report(name: string): Promise<string> {
    const folder = this.#folder(name);
    const write = async (): Promise<string> =>
      reportHtml(readRun(folder, { rollouts: REPORT_ROLLOUTS }), await this.#integrityOf(folder));
    return this.#reports.of(folder, write).value;
  }

  #truthFolder(name: string): string {
    const found = truthFolders(this.#parent).find((folder) => path.basename(folder) === name);
    if (found === undefined) throw noRun(name);
    return found;
  }

  #truthRun(name: string): TruthRun {
    const folder = this.#truthFolder(name);
    return this.#truths.of(folder, () => readTruthRun(folder)).value;
  }

  truths(): TruthLine[] {
    return truthFolders(this.#parent).map(
      (folder) => this.#truthLines.of(folder, () => truthLine(folder)).value,
    );
  }

  truth(name: string): TruthShown {
    return truthShown(name, this.#truthRun(name));
  }

  trajectory(name: string, id: string): TruthTrajectory {
    const found = truthTrajectory(this.#truthRun(name), id);
    if (found === null) throw new IsoproError('RUN_NOT_FOUND', 'the run has no such trajectory');
    return found;
  }

  async truthReport(name: string): Promise<string> {
    return truthReportText(this.#truthFolder(name));
  }

  rollouts(name: string, filter: RolloutFilter): RolloutPage {
    return findRollouts(this.#folder(name), filter);
  }

  rollout(name: string, id: number): RolloutDetail {
    const found = readRollout(this.#folder(name), id);
    if (found === null) throw new IsoproError('RUN_NOT_FOUND', `the run has no rollout ${id}`);
    return found;
  }

  problems(name: string): DevProblem[] {
    return devProblems(this.#record(name).value);
  }

  replies(name: string, problem: string): DevReplies {
    const found = devReplies(this.#record(name).value, problem);
    if (found === null) throw new IsoproError('RUN_NOT_FOUND', 'the run has no such dev problem');
    return found;
  }

  /** Model of a run, and the file of its adapter. */
  origin(name: string): { readonly modelSha256: string; readonly adapterFile: string | null } {
    const { folder, manifest, submission } = this.#record(name).value;
    const adapter = submission?.adapter ?? null;
    return {
      modelSha256: manifest.start.model.sha256,
      adapterFile: adapter === null ? null : runPaths(folder).adapter(adapter),
    };
  }

  compare(a: string, b: string): RunsCompared {
    const names = [a, b] as const;
    const {
      a: one,
      b: other,
      comparison,
      differences,
      evaluations,
    } = compareRuns(this.#folder(a), this.#folder(b));
    const [first, second] = names.map((name) => this.#record(name).value);
    const { tiers } = first!;
    const [was, is] = evaluations.map(({ summary }) => summary);
    const start = ({ manifest: { start } }: RunRecord): object => ({
      ...start,
      settings: byPart(start.settings),
    });
    const rate = (summary: typeof was, tier: string) =>
      summary!.byTier[tier] === undefined ? null : rateOf(summary!.byTier[tier]!);
    return {
      a: lineOf(a, one),
      b: lineOf(b, other),
      test: pairedOf(comparison, tiers),
      aAfter: rateOf(was!),
      bAfter: rateOf(is!),
      byTier: inOrder(Object.keys(was!.byTier), tiers).map((tier) => ({
        tier: label(tier, 80),
        a: rate(was, tier),
        b: rate(is, tier),
      })),
      differences: differences.slice(0, 200).map((member) => ({
        member: label(member, 120),
        a: valueAt(start(first!), member),
        b: valueAt(start(second!), member),
      })),
    };
  }
}
