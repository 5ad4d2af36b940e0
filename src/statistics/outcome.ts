import { given, type Given } from '../given.js';

/**
 * An answer that is a probability: what it gave an event, in [0, 1], and whether the event came
 * about.
 */
export interface Forecast {
  readonly probability: number;
  readonly outcome: boolean;
}

/** Figures of a verdict in addition to its kind. */
export interface Figures {
  /** In [0, 1], 1 being best. */
  readonly score?: number | undefined;
  readonly forecast?: Forecast | undefined;
}
export type FigureName = keyof Figures;
export const FIGURE_NAMES: readonly FigureName[] = ['score', 'forecast'];

/** One verdict on one problem. */
export interface Outcome extends Figures {
  readonly tier: string;
  readonly kind: 'pass' | 'fail' | 'none';
  /** True if the strict reading of the reply succeeded; absent if unknown or nothing was read. */
  readonly formed?: boolean | undefined;
  /**
   * Verdict under the most lenient reading of the same reply, which includes the strict one; absent
   * if the task has none.
   */
  readonly lenient?: 'pass' | 'fail' | 'none' | undefined;
}

/** Other ways of counting the same replies, each as if its verdicts were the verdicts. */
export const READINGS = ['format', 'lenient'] as const;
export type Reading = (typeof READINGS)[number];

/**
 * The verdicts of a reading: of `format` whether the strict reading succeeded, over the replies
 * that have a verdict. Null where one of the outcomes does not say.
 */
export function underReading(
  outcomes: readonly Outcome[],
  reading: Reading,
): Pick<Outcome, 'tier' | 'kind'>[] | null {
  const kindOf = ({ kind, formed, lenient }: Outcome): Outcome['kind'] | undefined =>
    reading === 'lenient'
      ? lenient
      : formed === undefined
        ? undefined
        : kind === 'none'
          ? 'none'
          : formed
            ? 'pass'
            : 'fail';
  const read = outcomes.flatMap((outcome) => {
    const kind = kindOf(outcome);
    return kind === undefined ? [] : [{ tier: outcome.tier, kind }];
  });
  return read.length > 0 && read.length === outcomes.length ? read : null;
}

/** Returns the figures of a verdict, without members that it lacks. */
export const figuresOf = ({ score, forecast }: Figures): Given<Figures> =>
  given({
    score,
    forecast: forecast && { probability: forecast.probability, outcome: forecast.outcome },
  });

/** Names of the figures that any of the verdicts has. */
export const figuresGiven = (verdicts: readonly Figures[]): FigureName[] =>
  FIGURE_NAMES.filter((name) => verdicts.some((verdict) => verdict[name] !== undefined));
