/** Results of a run, derived from its log, so that every reader gets the same figures. */
import { dictionary, type Dictionary } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import type { Restraint } from '../evaluation/restraint.js';
import { compareEvaluations, type PairedCounts } from '../run-folder/comparison.js';
import { compareDev, meanLoss, pooledHitRate } from '../run-folder/derived-figures.js';
import { readManifest } from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import { readEvaluations, type LoggedEvaluations } from '../run-folder/read-evaluations.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { READINGS, type Forgetting, type Reading, type Summary } from '../statistics/index.js';
import type { Failures } from '../tasks/failures.js';
import type { IterationReport } from './hooks.js';

interface Paired {
  readonly pairedP: number;
  readonly gained: number;
  readonly lost: number;
}

export interface RunResult {
  readonly runId: string;
  readonly folder: string;
  readonly test: {
    readonly before: Summary;
    readonly after: Summary;
    /** p of the change of the mean (run-folder/comparison). */
    readonly pairedP: number;
    readonly gained: number;
    readonly lost: number;
    /** Results with the answer grammar, if it was requested. */
    readonly constrained?: { readonly before: Summary; readonly after: Summary } & Paired;
    /** Tests of other readings of the same replies; their rates are in `before` and `after`. */
    readonly readings: { readonly [reading in Reading]?: Paired };
  };
  /** Results of the trivial policies on the same problems. */
  readonly trivialPolicies: Dictionary<Summary>;
  /** Forgetting of what the model was not trained on; null if it was not measured. */
  readonly forgetting: Forgetting | null;
  /** Strength of the adapter under a forgetting limit; null without a limit. */
  readonly restraint: Restraint | null;
  readonly seconds: number;
  readonly peakRssBytes: number;
  readonly tokens: { readonly prompt: number; readonly sampled: number; readonly trained: number };
  /** Trained layers. */
  readonly layers: readonly number[];
  readonly adapter: { readonly file: string; readonly sha256: string; readonly iteration: number };
  /** Reason for the end of the run. */
  readonly stopped: string;
  readonly iterations: readonly IterationReport[];
  /**
   * Rollouts to train on, over all iterations: accepted ones, or with grpo those with an advantage.
   */
  readonly accepted: number;
  /**
   * Reasons for failing replies: to the test problems before and after (null if the log has none),
   * and of all rollouts.
   */
  readonly failures: {
    readonly before: Failures | null;
    readonly after: Failures | null;
    readonly rollouts: Failures;
    /** Passing rollouts that were not trained on, by the reason. */
    readonly refused: Dictionary<number>;
  };
}

const paired = ({ p, gained, lost }: PairedCounts): Paired => ({ pairedP: p, gained, lost });

/** Reports of all iterations. */
function iterationsOf(
  folder: string,
  { iterations, evaluations, tiers, rollouts, steps, rules }: LoggedEvaluations,
): IterationReport[] {
  const {
    buffer: { kind, tierCap = Infinity },
    evaluation: { gate = false, gateLevel = NaN },
  } = readWrittenSettings(readManifest(folder).start.settings);
  const comparisons = compareDev(evaluations, tiers, { gate, gateLevel });
  return iterations.map(({ kind: _, iteration, ...logged }): IterationReport => {
    const own = steps.filter((each) => each.iteration === iteration);
    const dev = comparisons.get(iteration);
    if (dev === undefined)
      throw new IsoproError(
        'LOG_UNREADABLE',
        `the log in ${folder} lacks the dev evaluation of iteration ${iteration}`,
      );
    const { gained, lost, difference, p } = dev.change;
    return {
      iteration,
      hitRate: pooledHitRate(rollouts.of(iteration)),
      rollouts: dictionary(rollouts.of(iteration)),
      refused: rollouts.refusedIn(iteration),
      buffer: rollouts.buffer(iteration, kind === 'classic' ? Infinity : tierCap),
      steps: own.length,
      loss: meanLoss(own),
      dev: dev.evaluation.summary,
      gate: gate ? { gained, lost, difference, p, rolledBack: dev.rolledBack } : null,
      rulesFired: rules.find((each) => each.iteration === iteration)?.fired ?? [],
      ...logged,
    };
  });
}

/**
 * Reads the result of a finished run from its folder.
 * @throws IsoproError INVALID_ARGUMENT if the run has not ended; LOG_NOT_FOUND, LOG_UNREADABLE
 */
export function readResult(folder: string): RunResult {
  const logged = readEvaluations(folder);
  const {
    runId,
    evaluations,
    constrained,
    policies: trivialPolicies,
    forgetting,
    submission: submitted,
    end,
  } = logged;
  const [before, after] = (['before', 'after'] as const).map((when) =>
    evaluations.find((each) => each.set === 'test' && each.when === when),
  );
  if (
    end === null ||
    typeof submitted?.adapter !== 'string' ||
    before === undefined ||
    after === undefined
  )
    throw new IsoproError('INVALID_ARGUMENT', `the run in ${folder} has not ended`);
  const comparison = compareEvaluations(before, after, logged.tiers);
  const readings = READINGS.flatMap((reading) => {
    const change = comparison.readings[reading];
    return change === undefined ? [] : [[reading, paired(change)] as const];
  });
  const [was, is] = (['before', 'after'] as const).map((when) =>
    constrained.find((each) => each.when === when),
  );
  const bothConstrained = was !== undefined &&
    is !== undefined && {
      constrained: {
        before: was.summary,
        after: is.summary,
        ...paired(compareEvaluations(was, is, logged.tiers)),
      },
    };
  const { seconds, peakRssBytes, tokens, layers, stopped } = end;
  const iterations = iterationsOf(folder, logged);
  return {
    runId,
    folder,
    test: {
      before: before.summary,
      after: after.summary,
      ...paired(comparison),
      readings: Object.fromEntries(readings),
      ...bothConstrained,
    },
    trivialPolicies,
    forgetting,
    restraint: submitted.restraint ?? null,
    seconds,
    peakRssBytes,
    tokens,
    layers,
    adapter: {
      file: runPaths(folder).adapter(submitted.adapter),
      sha256: submitted.adapter,
      iteration: end.adapterIteration,
    },
    stopped,
    iterations,
    failures: {
      before: before.failures,
      after: after.failures,
      rollouts: logged.failures,
      refused: logged.rollouts.refused,
    },
    accepted: iterations.reduce(
      (sum, { rollouts }) =>
        sum + Object.values(rollouts).reduce((of, { admitted }) => of + admitted, 0),
      0,
    ),
  };
}
