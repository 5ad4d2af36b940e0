/** Trials of mutual predictability against those that the run's seed draws: what stands in them is nobody's choice. */
import type { StrategyOf } from '../strategies/strategy.js';
import { STRATEGIES } from '../strategies/strategy.js';
import {
  answerOf,
  drawnFrom,
  drawTrials,
  isScored,
  NO_OTHER_ANSWER,
  NO_OTHER_POLICY,
  OVERFLOWN,
  predictorIn,
  type Answer,
} from './measure.js';
import type { MutualTrialsRecord, RatingRecord } from './records.js';
import type { Plain } from './work.js';

interface Expected {
  readonly answer: string;
  readonly contextAnswers: readonly string[];
  readonly predictor: Party | null;
}
type Party = 'evaluated' | 'other';

/** Null where there is nothing to predict, or to predict it from. */
function expected(of: Plain, strategy: StrategyOf<'mutual-predictability'>, seed: string, hasOther: boolean): (Expected | null)[] {
  const own: Answer = of.answers.find(({ trajectory }) => trajectory.id === of.record.trajectory.id)!;
  const parties = { evaluated: 'evaluated', other: hasOther ? 'other' : null } as const;
  const drawn = drawTrials<Party>(own, of.answers, parties, strategy, drawnFrom(seed, STRATEGIES.format(strategy), of.setup));
  const said = ({ trajectory }: Answer): string => answerOf(trajectory);
  return drawn.map(({ target, context, ...of }) =>
    target === undefined || context.length === 0
      ? null
      : { answer: said(target), contextAnswers: context.map(said), predictor: predictorIn(of, parties, strategy) },
  );
}

/** With another policy and without: a log does not say whether there was one to draw from. */
const eitherWay = (agrees: (hasOther: boolean) => boolean): boolean => agrees(true) || agrees(false);

/** Whether trials hold what is drawn, in its order, but for those that could not be measured. */
export function areDrawn(
  { trials, unmeasured }: Pick<MutualTrialsRecord, 'trials' | 'unmeasured'>,
  of: Plain,
  strategy: StrategyOf<'mutual-predictability'>,
  seed: string,
): boolean {
  // what does not count has no figures, and nothing else
  if (trials.some((trial) => trial.conditional.length > 0 !== (isScored(trial) && trial.answer !== ''))) return false;
  return eitherWay((hasOther) => {
    const all = expected(of, strategy, seed, hasOther);
    if (!hasOther && strategy.predictor === 'random-other')
      return trials.length === 0 && unmeasured.every((reason) => reason === NO_OTHER_POLICY);
    const possible = all.filter((each) => each !== null);
    if (unmeasured.filter((reason) => reason === NO_OTHER_ANSWER).length !== all.length - possible.length) return false;
    if (unmeasured.includes(NO_OTHER_POLICY)) return false;
    const ids = new Map<Party, string>();
    let next = 0;
    for (const { predictorId, answer, contextAnswers } of trials) {
      const isIt = (each: Expected): boolean =>
        each.answer === answer &&
        each.contextAnswers.length === contextAnswers.length &&
        each.contextAnswers.every((text, i) => text === contextAnswers[i]) &&
        (ids.get(each.predictor!) ?? predictorId) === predictorId;
      while (next < possible.length && !isIt(possible[next]!)) next++;
      const found = possible[next++];
      if (found === undefined) return false;
      ids.set(found.predictor!, predictorId);
    }
    return new Set(ids.values()).size === ids.size;
  });
}

/** Whether a judge was asked about what is drawn. */
export function isRatedAsDrawn(
  { gradings, failed }: Pick<RatingRecord, 'gradings' | 'failed'>,
  of: Plain,
  strategy: StrategyOf<'mutual-predictability'>,
  seed: string,
): boolean {
  return eitherWay((hasOther) => {
    const all = expected(of, strategy, seed, hasOther);
    const possible = all.filter((each) => each !== null);
    const same = possible.filter(({ answer, contextAnswers }) => contextAnswers.includes(answer)).length;
    if (failed[OVERFLOWN] !== undefined) return gradings === 0 && failed[OVERFLOWN] === possible.length;
    return (
      gradings === possible.length &&
      (failed[NO_OTHER_ANSWER] ?? 0) === all.length - possible.length &&
      (failed['the context holds the answer'] ?? 0) === same
    );
  });
}
