/** What a run ends with, read from its log alone: the same figures whoever asks, the command, the report or `runs`. */
import { z } from 'zod';
import { dictionary, dictionaryOf, type Dictionary } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import { LogReader } from '../log/read.js';
import { runPaths } from '../run-folder/paths.js';
import { heldOut, submission } from '../run-folder/records.js';
import type { Summary } from '../statistics/index.js';
import { compareOutcomes, type Outcomes } from './gate.js';
import type { IterationReport } from './hooks.js';

export interface RunResult {
  readonly runId: string;
  readonly folder: string;
  readonly test: {
    readonly before: Summary;
    readonly after: Summary;
    /** Exact McNemar test over the same problems. */
    readonly pairedP: number;
    readonly gained: number;
    readonly lost: number;
  };
  /** On the same problems. */
  readonly trivialPolicies: Dictionary<Summary>;
  readonly seconds: number;
  readonly peakRssBytes: number;
  readonly tokens: { readonly prompt: number; readonly sampled: number; readonly trained: number };
  /** Layers that were trained. */
  readonly layers: readonly number[];
  readonly adapter: { readonly file: string; readonly sha256: string; readonly iteration: number };
  /** Why the run ended. */
  readonly stopped: string;
  readonly iterations: readonly IterationReport[];
  /** Rollouts to train on, over all iterations: accepted ones, with grpo those that have an advantage. */
  readonly accepted: number;
}

const summary = z.custom<Summary>((value) => typeof (value as Summary | null)?.byTier === 'object');
const records = {
  held_out: heldOut.extend({ summary }),
  policies: z.object({ kind: z.literal('policies'), summaries: dictionaryOf(summary) }),
  submission,
  iteration_report: z.custom<IterationReport & { kind: 'iteration_report' }>((value) => typeof (value as IterationReport | null)?.iteration === 'number'),
  session_end: z.object({
    kind: z.literal('session_end'),
    stopped: z.string(),
    seconds: z.number(),
    peakRssBytes: z.number(),
    tokens: z.object({ prompt: z.number(), sampled: z.number(), trained: z.number() }),
    layers: z.array(z.int()),
    adapterIteration: z.int(),
  }),
};

/** Everything of a log that concerns accuracy. */
export interface LoggedEvaluations {
  readonly runId: string;
  readonly evaluations: readonly z.infer<typeof records.held_out>[];
  readonly iterations: readonly IterationReport[];
  readonly policies: Dictionary<Summary>;
  readonly submission: z.infer<typeof records.submission> | null;
  readonly end: z.infer<typeof records.session_end> | null;
}

export const outcomesOf = (evaluation: z.infer<typeof records.held_out>): Outcomes => new Map(evaluation.outcomes.map(([problemId, , verdict]) => [problemId, verdict]));

/** @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE */
export function readEvaluations(folder: string): LoggedEvaluations {
  const file = runPaths(folder).log;
  const reader = new LogReader(file);
  const found = { runId: '', evaluations: [] as z.infer<typeof records.held_out>[], iterations: [] as IterationReport[], policies: dictionary() as Dictionary<Summary>, submission: null as LoggedEvaluations['submission'], end: null as LoggedEvaluations['end'] };
  const read = <T>(schema: z.ZodType<T>, gseq: number, payload: unknown): T => {
    const parsed = schema.safeParse(payload);
    if (!parsed.success) throw new IsoproError('LOG_UNREADABLE', `record ${gseq} of ${file} does not have the form of its kind: ${z.prettifyError(parsed.error)}`);
    return parsed.data;
  };
  try {
    found.runId = reader.runId ?? '';
    for (const stream of ['metrics', 'evaluations', 'control'] as const) {
      for (const { gseq, payload } of reader.records({ stream })) {
        if (payload.kind === 'held_out') found.evaluations.push(read(records.held_out, gseq, payload));
        if (payload.kind === 'policies') found.policies = read(records.policies, gseq, payload).summaries;
        if (payload.kind === 'submission') found.submission = read(records.submission, gseq, payload);
        if (payload.kind === 'iteration_report') found.iterations.push(read(records.iteration_report, gseq, payload));
        if (payload.kind === 'session_end') found.end = read(records.session_end, gseq, payload);
      }
    }
  } finally {
    reader.close();
  }
  return found;
}

/** @throws IsoproError INVALID_ARGUMENT where the run has not ended; LOG_NOT_FOUND, LOG_UNREADABLE */
export function readResult(folder: string): RunResult {
  const { runId, evaluations, iterations, policies, submission: submitted, end } = readEvaluations(folder);
  const [before, after] = (['before', 'after'] as const).map((when) => evaluations.find((each) => each.set === 'test' && each.when === when));
  if (end === null || typeof submitted?.adapter !== 'string' || before === undefined || after === undefined) throw new IsoproError('INVALID_ARGUMENT', `the run in ${folder} has not ended`);
  const { gained, lost, p } = compareOutcomes(outcomesOf(before), outcomesOf(after));
  const { seconds, peakRssBytes, tokens, layers, stopped } = end;
  return {
    runId,
    folder,
    test: { before: before.summary, after: after.summary, pairedP: p, gained, lost },
    trivialPolicies: policies,
    seconds, peakRssBytes, tokens, layers,
    adapter: { file: runPaths(folder).adapter(submitted.adapter), sha256: submitted.adapter, iteration: end.adapterIteration },
    stopped,
    iterations,
    accepted: iterations.reduce((sum, { rollouts }) => sum + Object.values(rollouts).reduce((of, { admitted }) => of + admitted, 0), 0),
  };
}
