/** Figures as text, for the terminal and the page. */
import type { Submission } from '../run-folder/course-records.js';
import {
  FORGETTING_SET,
  intervalOfMean,
  type Forgetting,
  type Interval,
  type MeanPerToken,
  type MeasureName,
} from '../statistics/index.js';
import type { TestRate } from '../run-folder/comparison.js';

export const percent = (fraction: number | null | undefined): string =>
  fraction == null ? '–' : (100 * fraction).toFixed(1);
export const bounds = ({ low, high }: Interval): string =>
  `${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}`;
const withSign = (difference: number | null | undefined, text: (size: number) => string): string =>
  difference == null
    ? '–'
    : `${difference > 0 ? '+' : difference < 0 ? '−' : ''}${text(Math.abs(difference))}`;
/** Percentage points with their sign. */
export const points = (difference: number | null | undefined): string =>
  withSign(difference, (size) => (100 * size).toFixed(1));
export const pValue = (p: number): string => (p < 1e-4 ? p.toExponential(1) : p.toFixed(4));
/** A count with its thousands apart. */
export const whole = (count: number): string =>
  String(Math.round(count)).replace(/\B(?=(\d{3})+$)/g, ',');

export const decimal = (value: number | null | undefined): string =>
  value == null ? '–' : value.toFixed(3);
export const decimalBounds = ({ low, high }: Interval): string =>
  `${low.toFixed(3)}–${high.toFixed(3)}`;
export const decimalChange = (difference: number | null): string =>
  withSign(difference, (size) => size.toFixed(3));

const nats = (value: number): string => `${value < 0 ? '−' : ''}${Math.abs(value).toFixed(4)}`;
const interval = (of: MeanPerToken): string => {
  const found = intervalOfMean(of);
  return found === null ? '' : `95 % interval ${nats(found.low)} to ${nats(found.high)}, `;
};
const partOf = (count: number, all: number): string =>
  count < all ? `${count} of ${all}` : String(count);

/**
 * Sentences in nats a token with 95 % intervals, and with the number of texts if not all were used.
 */
export function forgettingSentences({ english, lost, divergence }: Forgetting): string[] {
  return [
    `log-probability of held-out English ${nats(english.before)} before, ${nats(english.after)} after: ` +
      `${nats(lost.mean)} nats a token lost ` +
      `(${interval(lost)}${whole(lost.tokens)} tokens in ${partOf(lost.texts, FORGETTING_SET.paragraphs)} paragraphs)`,
    ...(divergence === null
      ? []
      : [
          `KL(base || trained) on ${partOf(divergence.texts, FORGETTING_SET.prompts)} general prompts ` +
            `${nats(divergence.mean)} nats a token ` +
            `(${interval(divergence)}Monte Carlo, over ${whole(divergence.tokens)} tokens that the base model sampled)`,
        ]),
  ];
}

/** Sentences on a limit to forgetting; none if the whole adapter kept to it. */
export function restraintSentences(restraint: Submission['restraint'] | null): string[] {
  if (restraint == null || restraint.strength === 1) return [];
  const { limit, strength, tried } = restraint;
  const lostAt = (of: number): string =>
    nats(tried.find((each) => each.strength === of)?.lost ?? NaN);
  const kept = tried.some((each) => each.strength === strength && each.lost < limit);
  return [
    `submitted at ${strength} of its strength: at full strength the adapter loses ${lostAt(1)} nats a token` +
      (kept
        ? `, and the limit is ${limit}`
        : `, at this strength ${lostAt(strength)}, and the limit is ${limit}`),
  ];
}

/** Note that a larger measure is available, if not all texts were used. */
export function forgettingNotes({ lost, divergence }: Forgetting): string[] {
  const { paragraphs, prompts } = FORGETTING_SET;
  if (lost.texts >= paragraphs && (divergence?.texts ?? 0) >= prompts) return [];
  return [
    `a small run uses part of the texts, which widens the intervals; --forgetting ${prompts} uses all of them`,
  ];
}

/** Sentences on forgetting, with the limit that was set and a note on the size of the measure. */
export const forgettingText = (
  forgetting: Forgetting,
  restraint: Submission['restraint'] | null,
): string[] => [
  ...forgettingSentences(forgetting),
  ...restraintSentences(restraint),
  ...forgettingNotes(forgetting),
];

/** Titles of the rates next to the accuracy. */
export const RATE_TITLES: Readonly<Record<TestRate['name'], string>> = {
  format: 'well-formed',
  lenient: 'solved, leniently',
  constrained: 'solved, form given',
};
export const RATE_NOTES: Readonly<Record<TestRate['name'], string>> = {
  format: 'well-formed: replies that parse strictly, right or wrong',
  lenient: 'solved, leniently: an answer anywhere in the same reply is accepted',
  constrained: "solved, form given: separate replies, decoded under the task's answer grammar",
};

export const MEASURE_TITLES: Readonly<Record<MeasureName, string>> = {
  score: 'mean score',
  brier: 'Brier score',
  logarithmic: 'log score',
};
export const MEASURE_NOTES: Readonly<Record<MeasureName, string>> = {
  score:
    'mean score: 0 to 1, higher is better; a pass without a score counts 1, a fail without one 0',
  brier: 'Brier score: (probability − outcome)², 0 to 1, lower is better; valid forecasts only',
  logarithmic:
    'log score: −ln of the probability of what came about, lower is better; valid forecasts only',
};

/** Tiers with a row or column next to the mean: none if there is one tier. */
export const severalOf = (keys: readonly string[]): readonly string[] =>
  keys.length === 1 ? [] : keys;
