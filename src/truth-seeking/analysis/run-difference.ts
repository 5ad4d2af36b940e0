/** Compares two runs, result by result. */
import type { TruthRun } from '../run/folder.js';
import { multiplicity, type Claim, type Estimate, type Multiplicity } from './claim.js';
import { readerNamed, scoredRuns } from './from-run.js';
import { setupKey, towardsZero, type ScoredRun, type Setup } from './scored-run.js';
import { trainingEffect } from './training-effect.js';

export interface RunDifference {
  /** In the order of `here`'s results; of setups and strategies that both have. */
  readonly rows: readonly {
    readonly setup: Setup;
    readonly there: number | null;
    readonly here: number | null;
    /** Null if scores of trajectories cannot be compared by problem, or no problem is shared. */
    readonly change: {
      readonly difference: Estimate;
      readonly problems: number;
      readonly claim: Claim;
    } | null;
  }[];
  readonly multiplicity: Multiplicity;
}

/** @param reader as `readerNamed` takes it */
export function crossRunDifference(
  here: TruthRun,
  there: TruthRun,
  reader?: string,
): RunDifference {
  const [mine, theirs] = [here, there].map((run) =>
    towardsZero(scoredRuns(run, readerNamed(run, reader), { withoutNoise: true })),
  ) as [ScoredRun[], ScoredRun[]];
  const other = new Map(theirs.map((each) => [setupKey(each.setup), each]));
  const common = mine.flatMap((own): (readonly [ScoredRun, ScoredRun])[] => {
    const found = other.get(setupKey(own.setup));
    return found === undefined ? [] : [[own, found]];
  });
  const effect = trainingEffect(
    common.map(([, found]) => found),
    common.map(([own]) => own),
  );
  const changes = new Map(effect.changes.map((each) => [setupKey(each.setup), each]));
  return {
    rows: common.map(([own, found]) => {
      const change = changes.get(setupKey(own.setup));
      return {
        setup: own.setup,
        there: found.value,
        here: own.value,
        change:
          change === undefined
            ? null
            : { difference: change.overProblems, problems: change.problems, claim: change.claim },
      };
    }),
    multiplicity: effect.changes.length === 0 ? multiplicity(0) : effect.multiplicity,
  };
}
