/** Checks trials of mutual predictability against those that the run's seed draws. */
import type { StrategyOf } from '../strategies/strategy.js';
import { STRATEGIES } from '../strategies/strategy.js';
import {
  answerOf,
  drawnFrom,
  drawTrials,
  isScored,
  NO_OTHER_ANSWER,
  NO_OTHER_REASONER,
  NO_PEER,
  OVERFLOWN,
  predictorIn,
  type Answer,
} from './measure.js';
import type { MutualTrialsRecord, RatingRecord } from './records.js';
import type { Plain } from './run-context.js';

interface Expected {
  /** Answer of the evaluated reasoner. */
  readonly answer: string;
  readonly problemId: string;
  readonly contextAnswers: readonly string[];
  readonly predictor: Party | null;
  readonly predicted: Party | null;
}
type Party = 'evaluated' | 'other';
/** Answer of another reasoner to a question; null if it gave none. */
export type PeerAnswer = (policyId: string, problemId: string) => string | null;

/** Expected trials; null for one with nothing to predict, or nothing to predict it from. */
function expected(
  of: Plain,
  strategy: StrategyOf<'mutual-predictability'>,
  seed: string,
  hasOther: boolean,
): (Expected | null)[] {
  const own: Answer = of.answers.find(
    ({ trajectory }) => trajectory.id === of.record.trajectory.id,
  )!;
  const parties = { evaluated: 'evaluated', other: hasOther ? 'other' : null } as const;
  const drawn = drawTrials<Party>(
    own,
    of.answers,
    parties,
    strategy,
    drawnFrom(seed, STRATEGIES.format(strategy), of.setup),
  );
  const said = ({ trajectory }: Answer): string => answerOf(trajectory);
  return drawn.map(({ target, context, predicted, ...of }) =>
    target === undefined || context.length === 0
      ? null
      : {
          ...{
            answer: said(target),
            problemId: target.problem.id,
            contextAnswers: context.map(said),
            predicted,
          },
          predictor: predictorIn(of, parties, strategy),
        },
  );
}

/** Tries with and without another reasoner: a log does not say whether there was one. */
const eitherWay = (agrees: (hasOther: boolean) => boolean): boolean =>
  agrees(true) || agrees(false);

/** True if trials contain what is drawn, in order, except those that could not be measured. */
export function areDrawn(
  { trials, unmeasured }: Pick<MutualTrialsRecord, 'trials' | 'unmeasured'>,
  of: Plain,
  strategy: StrategyOf<'mutual-predictability'>,
  seed: string,
  peer: PeerAnswer,
): boolean {
  // what does not count has no figures, and nothing else
  if (
    trials.some(
      (trial) => trial.conditional.length > 0 !== (isScored(trial) && trial.answer !== ''),
    )
  )
    return false;
  return eitherWay((hasOther) => {
    const all = expected(of, strategy, seed, hasOther);
    if (
      !hasOther &&
      (strategy.predictor === 'random-other' || strategy.predicted === 'random-other')
    )
      return trials.length === 0 && unmeasured.every((reason) => reason === NO_OTHER_REASONER);
    const possible = all.filter((each) => each !== null);
    if (
      unmeasured.filter((reason) => reason === NO_OTHER_ANSWER).length !==
      all.length - possible.length
    )
      return false;
    if (unmeasured.includes(NO_OTHER_REASONER)) return false;
    const ids = new Map<Party, string>();
    let next = 0;
    for (const { predictorId, predictedId, answer, contextAnswers } of trials) {
      const isOwn = predictedId === of.record.trajectory.policyId;
      const isIt = (each: Expected): boolean =>
        isOwn === (each.predicted === 'evaluated') &&
        answer === (isOwn ? each.answer : peer(predictedId, each.problemId)) &&
        // there is one other policy
        (isOwn || (ids.get('other') ?? predictedId) === predictedId) &&
        (isOwn || each.predictor !== 'other' || predictorId === predictedId) &&
        each.contextAnswers.length === contextAnswers.length &&
        each.contextAnswers.every((text, i) => text === contextAnswers[i]) &&
        (ids.get(each.predictor!) ?? predictorId) === predictorId;
      while (next < possible.length && !isIt(possible[next]!)) next++;
      const found = possible[next++];
      if (found === undefined) return false;
      ids.set(found.predictor!, predictorId);
      if (!isOwn) ids.set('other', predictedId);
    }
    return new Set(ids.values()).size === ids.size;
  });
}

/** True if a judge was asked about what is drawn. */
export function isRatedAsDrawn(
  { gradings, failed }: Pick<RatingRecord, 'gradings' | 'failed'>,
  of: Plain,
  strategy: StrategyOf<'mutual-predictability'>,
  seed: string,
  { peer, policies }: { readonly peer: PeerAnswer; readonly policies: readonly string[] },
): boolean {
  const isBy =
    (other: string | null) =>
    (hasOther: boolean): boolean => {
      const all = expected(of, strategy, seed, hasOther);
      const count = (reason: string): number => failed[reason] ?? 0;
      if (!hasOther && strategy.predicted === 'random-other')
        return gradings === 0 && count(NO_OTHER_REASONER) === all.length;
      const drawn = all.filter((each) => each !== null);
      const answers = drawn.map(({ predicted, answer, problemId }) =>
        predicted === 'evaluated' ? answer : other === null ? null : peer(other, problemId),
      );
      const possible = drawn.flatMap(({ contextAnswers }, i) =>
        answers[i] == null ? [] : [{ answer: answers[i], contextAnswers }],
      );
      const same = possible.filter(({ answer, contextAnswers }) =>
        contextAnswers.includes(answer),
      ).length;
      if (count(NO_PEER) !== (failed[OVERFLOWN] === undefined ? drawn.length - possible.length : 0))
        return false;
      if (failed[OVERFLOWN] !== undefined)
        return gradings === 0 && failed[OVERFLOWN] === possible.length;
      return (
        gradings === possible.length &&
        (failed[NO_OTHER_ANSWER] ?? 0) === all.length - possible.length &&
        (failed['the context holds the answer'] ?? 0) === same
      );
    };
  return [null, ...policies].some((other) => eitherWay(isBy(other)));
}
