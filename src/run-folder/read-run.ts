/**
 * A run as its folder tells it, from manifest.json, log.sqlite and, where methods were compared,
 * comparison.json. Whatever can be read is read: an aborted run has no end, a damaged log has fewer
 * records, and both are worth a report that says so.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { canonicalJson, type Json } from '../canonical-json.js';
import type { Dictionary } from '../dictionary.js';
import { dictionaryOf } from '../dictionary-schema.js';
import { IsoproError } from '../errors.js';
import { LogReader, type LogRecord } from '../log/read.js';
import { readManifest, type RunManifest } from './manifest.js';
import { runPaths } from './paths.js';
import { meanLoss, type LoggedEvaluation, type TierCounts } from './derived-figures.js';
import type { Policies } from './evaluation-records.js';
import { anyRollout, LoggedRecords, type AnyRollout, type Logged } from './logged-records.js';
import { readRecord } from './record.js';
import { problem } from './rollout-records.js';
import type { Forgetting, Summary } from '../statistics/index.js';
import type { Failures } from '../tasks/failures.js';
import { chooseRollouts, type RolloutPlace } from './choose-rollouts.js';
import { RUN_STREAMS } from './streams.js';
import { readWrittenSettings } from './written-settings.js';

const count = z.number().int().min(0);
const interval = { low: z.number(), high: z.number() };

/** comparison.json, which `run --mode` writes after the log has ended. */
const comparisonForm = z.object({
  methods: z
    .array(
      z.object({
        method: z.string(),
        test: z.object({
          ...interval,
          mean: z.number().nullable(),
          n: count,
          byTier: dictionaryOf(z.object({ ...interval, mean: z.number().nullable() })),
        }),
        k: z.number(),
        tokens: count,
        seconds: z.number(),
        note: z.string(),
      }),
    )
    .max(1000),
  skipped: z.array(z.object({ method: z.string(), reason: z.string() })).max(1000),
});

const problemForm = problem.pick({ problemId: true, prompt: true, problem: true });
export type TierInfo = Policies['tiers'][number];
export type { LoggedEvaluation };
export interface ShownRollout extends Omit<AnyRollout, 'tokenIds' | 'turns'> {
  readonly gseq: number;
  readonly tokens: number;
  /** Prompt, or the problem as JSON if the log has no prompt. */
  readonly prompt: string;
}

/** An iteration that was completed, with its figures. */
export interface IterationFigures extends Omit<Logged<'iteration_report'>, 'kind'> {
  /** Accepted rollouts that are kept, by tier. */
  readonly buffer: Readonly<Record<string, number>>;
  /** Per labelled token. */
  readonly loss: number | null;
}

export interface RunRecord {
  readonly folder: string;
  readonly manifest: RunManifest;
  /** Microseconds since 1970 of the first and the last record; null without a record. */
  readonly time: { readonly first: number; readonly last: number } | null;
  readonly tiers: readonly TierInfo[];
  readonly evaluations: readonly LoggedEvaluation[];
  /**
   * Evaluations of the test problems under the answer grammar, before and after; empty if not
   * requested.
   */
  readonly constrained: readonly LoggedEvaluation[];
  readonly policies: Dictionary<Summary>;
  /** Forgetting of the submitted adapter; null if not measured. */
  readonly forgetting: Forgetting | null;
  /** Results of other methods with the same model; not part of the signed log. */
  readonly methods: z.output<typeof comparisonForm> | null;
  readonly iterations: readonly IterationFigures[];
  /** Counts of rollouts by iteration and tier, of unfinished iterations too. */
  readonly rollouts: ReadonlyMap<number, ReadonlyMap<string, Readonly<TierCounts>>>;
  readonly steps: readonly Logged<'step'>[];
  readonly layers: Logged<'layers'> | null;
  /** Last adapter state. */
  readonly adapterState: Logged<'adapter_state'> | null;
  readonly submission: Logged<'submission'> | null;
  readonly gates: readonly Logged<'gate'>[];
  readonly ruleEvaluations: readonly Logged<'rule_eval'>[];
  readonly decisions: readonly Logged<'decision'>[];
  readonly effects: readonly Logged<'effect'>[];
  readonly end: Omit<Logged<'session_end'>, 'kind' | 'layers'> | null;
  /** Some of the rollouts, chosen evenly. */
  readonly shown: readonly ShownRollout[];
  readonly rolloutCount: number;
  /** Failures of rollouts. */
  readonly failures: Failures;
  /** Passes that training did not take, by what became of them. */
  readonly refused: Dictionary<number>;
  /** Sentences about what could not be read. */
  readonly defects: readonly string[];
}

export interface ReadRunOptions {
  /** Rollouts with their texts; 0 by default. */
  readonly rollouts?: number;
}

/**
 * @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID; a log that is missing or damaged is a
 *   defect of the result, not an error
 */
export function readRun(folder: string, { rollouts: limit = 0 }: ReadRunOptions = {}): RunRecord {
  const manifest = readManifest(folder);
  const taken = new Taken();
  const shown: ShownRollout[] = [];
  const attempt = (read: (reader: LogReader) => void): void => {
    try {
      using reader = new LogReader(runPaths(folder).log, RUN_STREAMS);
      read(reader);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      taken.defects.add(
        `the log could not be read completely: ${error.message.replaceAll(path.join(folder, path.sep), '')}`,
      );
    }
  };
  attempt((reader) => {
    for (const record of reader.records()) taken.take(record);
  });
  if (limit > 0 && taken.places.length > 0) {
    const chosen = new Set(chooseRollouts(taken.places, limit));
    attempt((reader) => {
      for (const rollout of rolloutsOf(reader, chosen)) shown.push(rollout);
    });
  }
  return taken.result(folder, manifest, shown);
}

function* rolloutsOf(reader: LogReader, chosen: ReadonlySet<number>): Generator<ShownRollout> {
  let problem: z.output<typeof problemForm> | null = null;
  for (const record of reader.records({ stream: 'rollouts' })) {
    const { gseq, payload } = record;
    if (payload.kind === 'problem') problem = problemForm.safeParse(payload).data ?? null;
    if (!chosen.has(gseq)) continue;
    const { tokenIds, turns = [], ...rollout } = readRecord(anyRollout, record);
    const text = [
      ...turns.flatMap((turn) => [turn.text, `[told] ${turn.said}`]),
      rollout.text,
    ].join('\n\n');
    const prompt =
      problem?.problemId !== rollout.problemId
        ? ''
        : (problem.prompt ?? JSON.stringify(problem.problem, null, 1));
    yield { ...rollout, text, gseq, tokens: tokenIds.length, prompt };
  }
}

/** Gathers the records of one pass. */
class Taken {
  readonly defects = new Set<string>();
  readonly places: RolloutPlace[] = [];
  readonly #logged = new LoggedRecords((gseq, { iteration, tier, verdict: { kind: verdict } }) =>
    this.places.push({ gseq, iteration, tier, verdict }),
  );
  readonly #malformed = new Map<string, number>();
  #time: { first: number; last: number } | null = null;

  take(record: LogRecord): void {
    const { timeUs, payload } = record;
    this.#time = { first: this.#time?.first ?? timeUs, last: timeUs };
    try {
      this.#logged.take(record);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      this.#malformed.set(payload.kind, (this.#malformed.get(payload.kind) ?? 0) + 1);
    }
  }

  #comparison(folder: string): RunRecord['methods'] {
    let text: string;
    try {
      text = readFileSync(runPaths(folder).comparison, 'utf8');
    } catch {
      return null; // no methods were compared
    }
    try {
      return comparisonForm.parse(JSON.parse(text));
    } catch {
      this.defects.add('comparison.json could not be read');
      return null;
    }
  }

  result(folder: string, manifest: RunManifest, shown: readonly ShownRollout[]): RunRecord {
    const logged = this.#logged;
    const comparison = this.#comparison(folder);
    const begun = logged.of('session_start')[0];
    if (
      begun !== undefined &&
      (begun.runId !== manifest.runId ||
        canonicalJson(begun.runConfig as Json) !== canonicalJson(manifest.start as Json))
    )
      this.defects.add('manifest.json does not match the configuration at the start of the log');
    for (const [kind, n] of this.#malformed)
      this.defects.add(`${n} record${n === 1 ? '' : 's'} of kind ${kind} could not be read`);
    const { stray, tiers, evaluations, constrained, policies, forgetting } = logged.evaluations(
      this.places.map((place) => place.tier),
    );
    if (stray !== null) this.defects.add(stray);
    const after = evaluations.findLast(({ set, when }) => set === 'test' && when === 'after');
    if (policies === null)
      this.defects.add('the trivial policies were not judged on the test problems');
    const { kind, tierCap = Infinity } = readWrittenSettings(manifest.start.settings).buffer;
    const steps = logged.of('step');
    return {
      folder,
      manifest,
      time: this.#time,
      // a title that repeats the name adds nothing
      tiers: tiers.map((tier) => (tier.title === tier.id ? { ...tier, title: '' } : tier)),
      evaluations,
      constrained,
      shown,
      policies: policies ?? {},
      forgetting,
      // the loop's own row comes from the log, whatever the file says
      methods:
        comparison === null
          ? null
          : {
              ...comparison,
              methods: comparison.methods.flatMap((row) => {
                if (row.method !== 'isopro') return [row];
                return after === undefined ? [] : [{ ...row, test: after.summary }];
              }),
            },
      iterations: logged.of('iteration_report').map(({ kind: _, ...report }) => ({
        ...report,
        buffer: logged.rollouts.buffer(report.iteration, kind === 'classic' ? Infinity : tierCap),
        loss: meanLoss(steps.filter(({ iteration }) => iteration === report.iteration)),
      })),
      rollouts: logged.rollouts.counts,
      steps,
      layers: logged.last('layers'),
      adapterState: logged.last('adapter_state'),
      submission: logged.last('submission'),
      gates: logged.of('gate'),
      ruleEvaluations: logged.of('rule_eval'),
      decisions: logged.of('decision'),
      effects: logged.of('effect'),
      end: endOf(logged.last('session_end')),
      rolloutCount: this.places.length,
      failures: logged.failures,
      refused: logged.rollouts.refused,
      defects: [...this.defects],
    };
  }
}

function endOf(logged: Logged<'session_end'> | null): RunRecord['end'] {
  if (logged === null) return null;
  const { kind: _, layers: __, ...end } = logged;
  return end;
}

/** Returns the evaluation of the test set before or after; null if it was not made. */
export const testEvaluation = (
  { evaluations }: Pick<RunRecord, 'evaluations'>,
  when: 'before' | 'after',
): LoggedEvaluation | null =>
  evaluations.findLast((each) => each.set === 'test' && each.when === when) ?? null;

/** Returns the dev evaluations by iteration; 0 is before any training. */
export const devEvaluations = ({
  evaluations,
}: Pick<RunRecord, 'evaluations'>): LoggedEvaluation[] =>
  evaluations.filter(({ set, when }) => set === 'dev' && when !== 'after');

/**
 * Sorts tiers and groups in the task's order, a group after its last tier.
 * @param keys of an evaluation, which the log keeps sorted
 */
export function inOrder(keys: readonly string[], tiers: readonly TierInfo[]): string[] {
  const position = (key: string): number => {
    const own = tiers.findIndex(({ id }) => id === key);
    return own >= 0 ? own : tiers.findLastIndex(({ group }) => group === key) + 0.5;
  };
  return [...keys].sort((a, b) => position(a) - position(b));
}
