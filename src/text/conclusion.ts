/** Conclusion of a run in one sentence, which claims no more than was measured. */
import { testComparison, testFinding } from '../run-folder/comparison.js';
import { testEvaluation, type RunRecord } from '../run-folder/read-run.js';
import type { Summary } from '../statistics/index.js';
import { percent, pValue } from './figures.js';
import { label } from './hostile-text.js';

const NO_RESULT = 'No result';

/** The program without a model that solves the most test problems; null if there is none. */
export function bestPolicy({
  policies,
}: Pick<RunRecord, 'policies'>): readonly [name: string, Summary] | null {
  const [best] = Object.entries(policies).sort(
    ([, one], [, other]) => (other.mean ?? -1) - (one.mean ?? -1),
  );
  return best === undefined || best[1].mean === null ? null : best;
}

/** Rollouts that training took, over all iterations. */
const accepted = ({ rollouts }: RunRecord): number =>
  [...rollouts.values()].reduce(
    (sum, tiers) => [...tiers.values()].reduce((of, { admitted }) => of + admitted, sum),
    0,
  );

/**
 * Says what is wrong with a run as a whole; null if it ended with a result and a trained adapter
 * that was accepted.
 */
export function shortcoming(run: RunRecord): string | null {
  const evaluations = [testEvaluation(run, 'before'), testEvaluation(run, 'after')];
  if (evaluations.some((each) => each?.summary.valid === false))
    return `${NO_RESULT}: the verifier reached no verdict on more than 1 % of the replies to the test problems`;
  if (run.defects.length > 0) return 'Parts of this run are missing or damaged';
  if (run.end === null) return 'The run has not ended';
  if (accepted(run) === 0) return 'Nothing was trained: no iteration had a rollout to train on';
  if (run.end.adapterIteration === 0)
    return 'The adapter changes nothing: no iteration was better than the base model on the dev problems';
  if (evaluations.includes(null)) return 'The test problems were not answered before and after';
  return null;
}

/** Without a subject; null until the test problems were answered. */
function tested(run: RunRecord): string | null {
  const [before, after] = [
    testEvaluation(run, 'before')?.summary,
    testEvaluation(run, 'after')?.summary,
  ];
  if (before === undefined || before.mean === null) return null;
  const [was, over] = [
    percent(before.mean),
    Object.keys(before.byTier).length > 1 ? ' (mean over tiers)' : '',
  ];
  const comparison = testComparison(run);
  if (after === undefined || after.mean === null || comparison === null)
    return `solves ${was} % of the test problems${over} before`;
  const { p, gained, lost } = comparison;
  const now = `solves ${percent(after.mean)} % of the test problems${over}`;
  if (gained === 0 && lost === 0) return `${now}, as before`;
  return testFinding(run, comparison) === 'chance'
    ? `${now}, ${was} % before: a difference that may be chance (p = ${pValue(p)})`
    : `${now} instead of ${was} %`;
}

/** Returns true if the mean over tiers fell, beyond chance. */
export const gotWorse = (run: RunRecord): boolean => testFinding(run) === 'worse';

/**
 * Tone of the conclusion: good if a gain is claimed and nothing is missing, bad if the model got
 * worse.
 */
export function toneOfConclusion(run: RunRecord): 'good' | 'fair' | 'bad' {
  if (shortcoming(run) !== null) return 'fair';
  const finding = testFinding(run);
  return finding === 'better' ? 'good' : finding === 'worse' ? 'bad' : 'fair';
}

/** Conclusion for the end of a run, the list of runs, and the top of a report. */
export function conclusion(run: RunRecord): string {
  const [lacking, figures, best] = [shortcoming(run), tested(run), bestPolicy(run)];
  if (figures === null || lacking?.startsWith(NO_RESULT) === true)
    return `${lacking ?? NO_RESULT}.`;
  const program =
    best === null
      ? ''
      : `; a program without a model (${label(best[0], 60)}) solves ${percent(best[1].mean)} %`;
  if (lacking !== null) return `${lacking}; the model ${figures}${program}.`;
  return gotWorse(run) ? `Got worse: ${figures}${program}.` : `S${figures.slice(1)}${program}.`;
}
