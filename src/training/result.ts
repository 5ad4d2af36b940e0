/** What a run ends with, derived from the records of its log: the same figures whoever asks, the command, the report or `runs`. */
import { z } from 'zod';
import { dictionary, type Dictionary } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import { LogReader } from '../log/read.js';
import {
  compareDev,
  figuresLogged,
  loggedEvaluation,
  meanLoss,
  policySummaries,
  pooledHitRate,
  RolloutTally,
  strayEvaluation,
  tiersOf,
  type LoggedEvaluation,
} from '../run-folder/derived.js';
import { readManifest } from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import {
  heldOut,
  iterationReport,
  policies,
  rollout,
  submission,
  type HeldOut,
  type IterationRecord,
  type Policies,
  type Submission,
} from '../run-folder/records.js';
import type { Summary } from '../statistics/index.js';
import { compareOutcomes, type Outcomes } from './gate.js';
import type { IterationReport } from './hooks.js';
import { RUN_STREAMS } from '../run-folder/streams.js';

export interface RunResult {
  readonly runId: string;
  readonly folder: string;
  readonly test: {
    readonly before: Summary;
    readonly after: Summary;
    /** Exact McNemar test over the same problems, each counting once: the means weigh tiers alike, this does not. */
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

const step = z.object({
  kind: z.literal('step'),
  iteration: z.int(),
  loss: z.number().or(z.nan()).or(z.literal(Infinity)).or(z.literal(-Infinity)),
  tokens: z.number(),
});
const ruleEvaluation = z.object({ kind: z.literal('rule_eval'), iteration: z.int(), fired: z.array(z.string()) });
const countedRollout = rollout.pick({ iteration: true, problemId: true, tier: true, verdict: true, admission: true });
const sessionEnd = z.object({
  kind: z.literal('session_end'),
  stopped: z.string(),
  seconds: z.number(),
  peakRssBytes: z.number(),
  tokens: z.object({ prompt: z.number(), sampled: z.number(), trained: z.number() }),
  layers: z.array(z.int()),
  adapterIteration: z.int(),
});

/** Everything of a log that concerns accuracy. */
export interface LoggedEvaluations {
  readonly runId: string;
  readonly evaluations: readonly LoggedEvaluation[];
  readonly iterations: readonly IterationRecord[];
  readonly tiers: Policies['tiers'];
  readonly policies: Dictionary<Summary>;
  readonly rollouts: RolloutTally;
  readonly steps: readonly z.infer<typeof step>[];
  readonly rules: readonly z.infer<typeof ruleEvaluation>[];
  readonly submission: Submission | null;
  readonly end: z.infer<typeof sessionEnd> | null;
}

export const outcomesOf = (evaluation: Pick<HeldOut, 'outcomes'>): Outcomes =>
  new Map(evaluation.outcomes.map(([problemId, , verdict]) => [problemId, verdict]));

/** @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE */
export function readEvaluations(folder: string): LoggedEvaluations {
  const file = runPaths(folder).log;
  const reader = new LogReader(file, RUN_STREAMS);
  const heldOuts: HeldOut[] = [];
  const found = {
    iterations: [] as IterationRecord[],
    rollouts: new RolloutTally(),
    steps: [] as z.infer<typeof step>[],
    rules: [] as z.infer<typeof ruleEvaluation>[],
    submission: null as Submission | null,
    end: null as LoggedEvaluations['end'],
  };
  let named: Policies | null = null;
  const unreadable = (what: string): never => {
    throw new IsoproError('LOG_UNREADABLE', `${file}: ${what}`);
  };
  const read = <T>(schema: z.ZodType<T>, gseq: number, payload: unknown): T => {
    const parsed = schema.safeParse(payload);
    return parsed.success ? parsed.data : unreadable(`record ${gseq} does not have the form of its kind: ${z.prettifyError(parsed.error)}`);
  };
  try {
    const runId = reader.runId ?? '';
    for (const { gseq, payload } of reader.records()) {
      const { kind } = payload;
      if (kind === 'rollout') found.rollouts.take(read(countedRollout, gseq, payload));
      if (kind === 'step') found.steps.push(read(step, gseq, payload));
      if (kind === 'rule_eval') found.rules.push(read(ruleEvaluation, gseq, payload));
      if (kind === 'held_out') heldOuts.push(read(heldOut, gseq, payload));
      if (kind === 'policies') named = read(policies, gseq, payload);
      if (kind === 'submission') found.submission = read(submission, gseq, payload);
      if (kind === 'iteration_report') found.iterations.push(read(iterationReport, gseq, payload));
      if (kind === 'session_end') found.end = read(sessionEnd, gseq, payload);
    }
    const stray = strayEvaluation(heldOuts);
    if (stray !== null) unreadable(stray);
    const tiers = tiersOf(
      named?.tiers,
      heldOuts.flatMap(({ outcomes }) => outcomes.map(([, tier]) => tier)),
    );
    const test = heldOuts.find(({ set }) => set === 'test');
    const figures = figuresLogged(heldOuts, named);
    const summaries =
      named === null
        ? dictionary<Summary>()
        : (policySummaries(named, test?.outcomes ?? [], figures) ??
          unreadable('the trivial policies were not judged on the test problems'));
    return { runId, ...found, tiers, evaluations: heldOuts.map((each) => loggedEvaluation(each, tiers, figures)), policies: summaries };
  } finally {
    reader.close();
  }
}

/** Iterations with their figures. */
function iterationsOf(folder: string, { iterations, evaluations, tiers, rollouts, steps, rules }: LoggedEvaluations): IterationReport[] {
  const { gate, gateLevel, buffer, tierCap } = readManifest(folder).start.settings;
  const comparisons = compareDev(evaluations, tiers, { gate: gate === true, gateLevel: Number(gateLevel) });
  return iterations.map(({ kind: _, iteration, ...logged }): IterationReport => {
    const own = steps.filter((each) => each.iteration === iteration);
    const dev = comparisons.get(iteration);
    if (dev === undefined)
      throw new IsoproError('LOG_UNREADABLE', `the log in ${folder} lacks the dev evaluation of iteration ${iteration}`);
    const { gained, lost, difference, p } = dev.change;
    return {
      iteration,
      hitRate: pooledHitRate(rollouts.of(iteration)),
      rollouts: dictionary(rollouts.of(iteration)),
      buffer: rollouts.buffer(iteration, buffer === 'classic' ? Infinity : Number(tierCap)),
      steps: own.length,
      loss: meanLoss(own),
      dev: dev.evaluation.summary,
      gate: gate === true ? { gained, lost, difference, p, rolledBack: dev.rolledBack } : null,
      rulesFired: rules.find((each) => each.iteration === iteration)?.fired ?? [],
      ...logged,
    };
  });
}

/** @throws IsoproError INVALID_ARGUMENT where the run has not ended; LOG_NOT_FOUND, LOG_UNREADABLE */
export function readResult(folder: string): RunResult {
  const logged = readEvaluations(folder);
  const { runId, evaluations, policies: trivialPolicies, submission: submitted, end } = logged;
  const [before, after] = (['before', 'after'] as const).map((when) =>
    evaluations.find((each) => each.set === 'test' && each.when === when),
  );
  if (end === null || typeof submitted?.adapter !== 'string' || before === undefined || after === undefined)
    throw new IsoproError('INVALID_ARGUMENT', `the run in ${folder} has not ended`);
  const { gained, lost, p } = compareOutcomes(outcomesOf(before), outcomesOf(after));
  const { seconds, peakRssBytes, tokens, layers, stopped } = end;
  const iterations = iterationsOf(folder, logged);
  return {
    runId,
    folder,
    test: { before: before.summary, after: after.summary, pairedP: p, gained, lost },
    trivialPolicies,
    seconds,
    peakRssBytes,
    tokens,
    layers,
    adapter: { file: runPaths(folder).adapter(submitted.adapter), sha256: submitted.adapter, iteration: end.adapterIteration },
    stopped,
    iterations,
    accepted: iterations.reduce((sum, { rollouts }) => sum + Object.values(rollouts).reduce((of, { admitted }) => of + admitted, 0), 0),
  };
}
