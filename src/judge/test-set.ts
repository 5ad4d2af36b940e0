import { given } from '../given.js';
import type { JudgedTestSet } from './findings.js';
import { checkForgetting, readForgettingClaim } from './forgetting.js';
import { freshDoubts, measureFresh } from './fresh-problems.js';
import { FRESH_PER_TIER } from './options.js';
import { HardFail } from './hard-fail.js';
import { evaluateHeldOut, heldOutDoubts, readClaims, type HeldOutResult } from './held-out.js';
import type { Step } from './step.js';
import { lines, plural } from './trace.js';

/**
 * Evaluates the test problems, forgetting and the fresh problems, and collects the reasons against
 * a pass.
 */

const NOTHING: JudgedTestSet = {
  heldOut: null,
  fresh: null,
  forgetting: null,
  unverified: 0,
  doubts: [],
};

export const testSetEvaluation: Step<
  | 'options'
  | 'reader'
  | 'figures'
  | 'submitted'
  | 'nonce'
  | 'model'
  | 'loaded'
  | 'start'
  | 'sameMachine'
  | 'opened',
  'testSet'
> = {
  name: 'test_set_evaluation',
  gate: 'scoring',
  faults: ['LOG_UNREADABLE'],
  run: async (found) => {
    const { options, reader, figures, submitted, model, loaded, start } = found;
    const { nonce, sameMachine, opened } = found;
    const { heldOut: which = 'both', fresh: perTier = FRESH_PER_TIER, signal } = options;
    const claims = await readClaims(reader, start, submitted.adapter, signal);
    if (figures.policies === null && submitted.adapter !== null)
      throw new HardFail('test_set_evaluation', 'the log has no verdicts of the trivial policies');
    const forgot = await readForgettingClaim(reader, start, submitted, signal);
    const { task } = opened;
    const leftOut = lines(
      task !== null && which === 'none' && 'test problems were not evaluated again',
      task !== null && which === 'after' && 'the accuracy before training was not measured again',
    );
    if (which === 'none')
      return {
        found: { testSet: { ...NOTHING, doubts: leftOut } },
        detail: 'not requested',
        status: 'skipped',
      };
    if (task === null)
      return { found: { testSet: NOTHING }, detail: opened.reason, status: 'skipped' };

    const cancelling = given(options, 'signal');
    const { onForgetting, onFresh } = options;
    const heldOut = await evaluateHeldOut(model, task, start, claims, loaded, sameMachine, {
      which,
      ...given(options, 'signal', 'onProgress'),
    });
    const forgetting =
      forgot &&
      (await checkForgetting(model, forgot, loaded, sameMachine, {
        ...cancelling,
        ...(onForgetting && { onProgress: onForgetting }),
      }));
    const fresh =
      perTier === 0
        ? null
        : await measureFresh({
            ...{ reader, start, task, model, nonce, perTier },
            adapter: loaded,
            tested: heldOut.after.measured,
            ...cancelling,
            ...(onFresh && { onProgress: onFresh }),
          });
    const ofFresh = fresh === null ? [] : freshDoubts(fresh);
    const { text, isAsClaimed, unverified } = besideClaims(heldOut);
    const without = perTier === 0 ? '' : '; the task does not have fresh problems of every tier';
    const beside =
      fresh === null ? without : `; ${plural(fresh.measured.n, 'fresh problem')} as well`;
    const doubts = [
      ...leftOut,
      ...heldOutDoubts(heldOut, sameMachine),
      ...(perTier === 0 ? ['no fresh problems were requested'] : ofFresh),
    ];
    return {
      found: { testSet: { heldOut, fresh, forgetting, unverified, doubts } },
      detail: `${text}${beside}`,
      status: isAsClaimed && ofFresh.length === 0 ? 'pass' : 'findings',
    };
  },
};

/** Describes the differences between claims and measurements. */
function besideClaims({ before, after, constrained }: HeldOutResult): {
  readonly text: string;
  readonly isAsClaimed: boolean;
  readonly unverified: number;
} {
  const all = [before, after, constrained?.before, constrained?.after].flatMap(
    (comparison) => comparison ?? [],
  );
  const sum = (of: (comparison: (typeof all)[number]) => number): number =>
    all.reduce((total, each) => total + of(each), 0);
  const differingOf = (parts: readonly { readonly differing: number }[] = []): number =>
    parts.reduce((total, { differing }) => total + differing, 0);
  const verdicts = sum(({ differing }) => differing);
  const unverified = sum((each) => each.unverified);
  const figures = sum((each) => differingOf(each.figures));
  const readings = sum((each) => differingOf(each.readings));
  const others = (n: number, one: string, several = `${one}s`): string =>
    n === 1 ? `${n} ${one} differs from the claim` : `${n} ${several} differ from the claim`;
  const agreed =
    unverified === 0 ? 'every verdict matches the claim' : 'no verdict differs from the claim';
  return {
    text: [
      verdicts === 0 ? agreed : others(verdicts, 'verdict'),
      ...lines(
        figures > 0 && others(figures, 'figure of a verdict', 'figures of verdicts'),
        readings > 0 &&
          others(readings, 'further reading of a reply', 'further readings of replies'),
        unverified > 0 &&
          `${plural(unverified, 'verdict')} not verified: the verifier ran out of time`,
      ),
    ].join('; '),
    isAsClaimed: verdicts + figures + readings + unverified === 0,
    unverified,
  };
}
