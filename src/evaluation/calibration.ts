/**
 * Shows how a model does on a task before training: which tiers it can learn from, and with which
 * settings.
 */
import { MORE_ROOM } from '../engine/context-overflow.js';
import type { JudgedReply } from '../rollouts/answer.js';
import { passAtK } from '../statistics/index.js';
import { SHOWING, type Unshown } from '../example-hint.js';
import type { EpisodeEnd, Tier, VerdictKind } from '../tasks/task.js';
import { isWellFormed } from '../tasks/verdict.js';
import type { LongestReference } from './longest-reference.js';
import { estimate, type PassAtKEstimate } from './pass-at-k.js';

/** Data that is kept of a reply. */
export interface CalibrationSample {
  readonly kind: VerdictKind;
  readonly formed: boolean;
  readonly finish: EpisodeEnd;
  /** Sampled tokens of all turns, and of the longest; null if the back end does not count them. */
  readonly tokens: number | null;
  readonly longest: number | null;
}

/** The samples of one problem. */
export interface CalibrationGroup {
  readonly tier: string;
  readonly samples: readonly CalibrationSample[];
}

export function calibrationSample({ judgement, rollout, earlier }: JudgedReply): CalibrationSample {
  const turns = [...earlier.map(({ reply }) => reply), rollout].map(
    ({ tokenIds, tokens = tokenIds?.length }) => tokens,
  );
  const counted = turns.filter((tokens) => tokens !== undefined);
  const known = counted.length === turns.length;
  return {
    kind: judgement.verdict.kind,
    formed: isWellFormed(judgement),
    finish: rollout.finish,
    tokens: known ? counted.reduce((sum, tokens) => sum + tokens, 0) : null,
    longest: known ? Math.max(...counted) : null,
  };
}

/**
 * `learn`: groups with passes and failures are common enough. Otherwise a run learns little:
 * `solved` if most replies pass already, `too hard` if hardly any does. `unknown`: no problem has
 * all its verdicts.
 */
export type Advice = 'learn' | 'solved' | 'too hard' | 'unknown';

export interface TierCalibration {
  readonly tier: string;
  readonly trains: boolean;
  /** Problems with a verdict on every sample; all shares are over these. */
  readonly problems: number;
  /** Samples without a verdict, over all problems. */
  readonly none: number;
  /** Samples that finished, and samples that did not. */
  readonly replies: number;
  readonly missing: number;
  /** Chance that a reply passes. */
  readonly passAt1: PassAtKEstimate;
  /** Chance that one of all samples of a problem passes. */
  readonly passAtAll: PassAtKEstimate;
  /**
   * Share of problems with both passing and failing samples, from which group-relative and
   * rejection sampling learn.
   */
  readonly mixed: PassAtKEstimate;
  /** Share of replies whose strict reading succeeded, right or wrong. */
  readonly format: PassAtKEstimate;
  /** Share of replies that were cut off. */
  readonly truncated: number | null;
  readonly tokensPerReply: number | null;
  readonly repliesPerSecond: number | null;
  readonly advice: Advice;
}

export interface Recommendation {
  /** Tiers to train on. */
  readonly tiers: readonly string[];
  /** Settings of `run`; absent: the default. Null if no tier can be learned from. */
  readonly settings: {
    readonly samples: number;
    readonly rollouts: number;
    readonly maxTokens: number;
    readonly allocationFloor?: number;
  } | null;
  /** Sentences that explain the figures. */
  readonly reasons: readonly string[];
}

/** Least share of mixed groups of a tier that is worth training on. */
export const LEAST_MIXED = 0.1;
/**
 * With as many samples a problem as this share of groups is mixed; more of them cost replies that
 * say the same again.
 */
const ENOUGH_MIXED = 0.5;
/** Below, a group is worth twice the samples. */
const RARELY_MIXED = 0.25;
/** Accepted replies that an iteration should come to, and rollouts that it may cost. */
const ACCEPTED = 64;
const MOST_ROLLOUTS = 2048;
const MOSTLY = 0.5;
const CUT_OFF = 0.05;
/** Of a reply's tokens, beyond the longest in a hundred that ended by itself. */
const ROOM = 1.25;
const TOKEN_STEP = 32;
const LOW_FLOOR = 0.1;

const mean = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length;
/** Of a tier's replies, those that ended so. */
const shareOf = (
  ended: EpisodeEnd,
  tier: string,
  all: readonly CalibrationGroup[],
): number | null =>
  mean(
    all.flatMap((group) =>
      group.tier === tier ? group.samples.map(({ finish }) => Number(finish === ended)) : [],
    ),
  );
const decided = ({ samples }: CalibrationGroup): readonly CalibrationSample[] =>
  samples.filter(({ kind }) => kind !== 'none');
const passes = (group: CalibrationGroup): number =>
  decided(group).filter(({ kind }) => kind === 'pass').length;

/**
 * Estimates, without bias, the chance that k samples drawn without replacement from those of a
 * problem include passes and failures.
 * @param samples with a verdict, at least k
 */
export const mixedAtK = (samples: number, passed: number, k: number): number =>
  Math.max(0, passAtK(samples, passed, k) + passAtK(samples, samples - passed, k) - 1);

/** @param seconds duration of the replies of the tier; null if it was not measured separately */
export function calibrateTier(
  { id: tier, trains }: Pick<Tier, 'id' | 'trains'>,
  all: readonly CalibrationGroup[],
  samples: number,
  seconds: number | null,
): TierCalibration {
  const own = all.filter((group) => group.tier === tier);
  const groups = own.filter((group) => decided(group).length >= samples);
  const shares = (value: (group: CalibrationGroup) => number): PassAtKEstimate =>
    estimate(groups.length === 0 ? [] : [{ weight: 1, values: groups.map(value) }]);
  const replies = own.flatMap((group) => group.samples);
  const tokens = replies.flatMap((sample) => (sample.tokens === null ? [] : [sample.tokens]));
  const passAt1 = shares((group) => passAtK(decided(group).length, passes(group), 1));
  const mixed = shares((group) => mixedAtK(decided(group).length, passes(group), samples));
  const advice = (): Advice => {
    if (mixed.mean === null || passAt1.mean === null) return 'unknown';
    return mixed.mean >= LEAST_MIXED ? 'learn' : passAt1.mean >= MOSTLY ? 'solved' : 'too hard';
  };
  return {
    tier,
    trains,
    problems: groups.length,
    replies: replies.length,
    missing: own.length * samples - replies.length,
    none: own.reduce((sum, group) => sum + group.samples.length - decided(group).length, 0),
    passAt1,
    passAtAll: shares((group) => passAtK(decided(group).length, passes(group), samples)),
    mixed,
    format: shares((group) => mean(decided(group).map(({ formed }) => Number(formed)))!),
    truncated: shareOf('length', tier, all),
    tokensPerReply: mean(tokens),
    repliesPerSecond: seconds === null || seconds <= 0 ? null : replies.length / seconds,
    advice: advice(),
  };
}

/**
 * Fewest samples, a power of two from 4, of which enough groups are mixed; twice those that were
 * drawn where few are.
 */
function samplesFor(groups: readonly CalibrationGroup[], samples: number): number {
  const at = (k: number): number =>
    mean(groups.map((group) => mixedAtK(decided(group).length, passes(group), k)))!;
  for (let k = 4; k < samples; k *= 2) if (at(k) >= ENOUGH_MIXED) return k;
  return at(samples) < RARELY_MIXED ? 2 * samples : samples;
}

/** Fewer problems than this say little of a tier of which none was mixed. */
const ENOUGH_PROBLEMS = 32;

const SHOW: Readonly<Record<Unshown, string>> = {
  rows: `first show the model what an answer looks like: ${SHOWING.rows}`,
  problems: `if the task has solved examples, show them first: ${SHOWING.problems}`,
};

/** Settings of a calibration, and facts about its task. */
export interface Calibrated {
  /** Of each problem. */
  readonly samples: number;
  /** That a reply was allowed. */
  readonly maxTokens: number;
  /** Most tokens that fit in the context after the longest prompt. */
  readonly mostTokens: number;
  /** Longest correct reply that the task knows, held-out tiers included. */
  readonly references: LongestReference;
  /** Kind of solved examples that could be shown but were not. */
  readonly unshown?: Unshown | null;
}

const percent = (share: number | null): string => `${(100 * (share ?? 0)).toFixed(0)} %`;
const inSteps = (tokens: number): number => Math.ceil(tokens / TOKEN_STEP) * TOKEN_STEP;

function standing({ tier, advice, mixed, none, replies, missing }: TierCalibration): string {
  if (advice !== 'unknown')
    return `${tier} is ${advice}: for ${percent(mixed.mean)} of its problems, some replies pass and some fail`;
  if (replies + missing === 0) return `${tier} is unknown: no problem could be drawn from it`;
  return none > missing
    ? `${tier} is unknown: the verifier gave no verdict on ${none} of ${replies} replies`
    : `${tier} is unknown: no problem has a complete set of replies`;
}

/** Advice about tiers that are unknown. */
function toKnow(unknown: readonly TierCalibration[]): string {
  const names = unknown.map(({ tier }) => tier).join(', ');
  if (unknown.some(({ none, missing }) => none > missing))
    return `it is not known whether ${names} can be learned from: \`tasks verify\` shows the replies that the verifier does not decide`;
  if (unknown.some(({ missing }) => missing > 0))
    return `it is not known whether ${names} can be learned from: run \`tasks calibrate\`, which has no time limit`;
  return `it is not known whether ${names} can be learned from: all problems are in the evaluation sets or do not fit in the context`;
}

/**
 * Advice if no tier is worth training on.
 * @param crowded greatest share of a tier's episodes without room for their next turn
 */
function instead(
  trained: readonly TierCalibration[],
  calibrated: Calibrated,
  crowded: number,
): string {
  const { maxTokens, unshown = null } = calibrated;
  const unknown = trained.filter(({ advice }) => advice === 'unknown');
  if (unknown.length > 0) return toKnow(unknown);
  const none = 'no tier has enough problems of which some replies pass and some fail: ';
  const solved = trained.every(({ advice }) => advice === 'solved');
  const show = unshown === null || solved ? '' : `${SHOW[unshown]}. Otherwise `;
  if (crowded >= MOSTLY)
    return (
      `${none}${percent(crowded)} of a tier's episodes have no room for their next turn, so their outcome is unknown: ` +
      MORE_ROOM
    );
  const most = Math.max(...trained.map(({ truncated }) => truncated ?? 0));
  const more = moreTokens(calibrated);
  if (most >= MOSTLY && more > maxTokens)
    return (
      `${none}${percent(most)} of a tier's replies are cut off at ${maxTokens} tokens, so their outcome is unknown: ${show}` +
      `allow more, such as ${more}`
    );
  return `${none}${show}use ${solved ? 'harder problems' : 'easier problems, or a larger model'}`;
}

const moreTokens = ({ maxTokens, mostTokens, references }: Calibrated): number =>
  Math.min(mostTokens, Math.max(2 * maxTokens, inSteps(references.tokens ?? 0)));

export function recommend(
  tiers: readonly TierCalibration[],
  all: readonly CalibrationGroup[],
  calibrated: Calibrated,
): Recommendation {
  const { samples, maxTokens, mostTokens, references } = calibrated;
  const trained = tiers.filter(({ trains }) => trains);
  if (trained.length === 0)
    return { tiers: [], settings: null, reasons: ['all these tiers are held out of training'] };
  const learned = trained.filter(({ advice }) => advice === 'learn');
  const reasons = trained.filter(({ advice }) => advice !== 'learn').map(standing);
  const crowding = trained.map(({ tier }) => ({ tier, share: shareOf('context', tier, all) ?? 0 }));
  for (const [i, { tier, format, truncated }] of trained.entries())
    if (
      format.mean !== null &&
      format.mean < MOSTLY &&
      (truncated ?? 0) + crowding[i]!.share < MOSTLY
    )
      reasons.push(
        `${tier}: ${percent(format.mean)} of the replies are well-formed, so a run first learns the answer format`,
      );
  const reference = references.tokens ?? 0;
  if (reference > maxTokens)
    reasons.push(
      `correct replies have up to ${reference} tokens, but only ${maxTokens} were allowed`,
    );
  if (reference > mostTokens)
    reasons.push(
      `after the longest prompt, the context has room for ${mostTokens} tokens, but correct replies have up to ` +
        `${reference}: use a larger context`,
    );
  if (references.unread > 0)
    reasons.push(
      `the correct replies to ${references.unread} problems were not measured and may be longer`,
    );
  for (const { tier, share } of crowding)
    if (share > CUT_OFF && (learned.length > 0 || share < MOSTLY))
      reasons.push(
        `${tier}: ${percent(share)} of the episodes have no room in the context for their next turn: ${MORE_ROOM}`,
      );
  const crowded = Math.max(...crowding.map(({ share }) => share));
  if (learned.length === 0) {
    const few = trained.filter(
      ({ advice, mixed, problems }) =>
        advice === 'too hard' && problems < ENOUGH_PROBLEMS && (mixed.high ?? 0) >= LEAST_MIXED,
    );
    if (few.length > 0)
      reasons.push(
        `${few[0]!.problems} problems per tier are too few to be sure: for up to ` +
          `${percent(Math.max(...few.map(({ mixed }) => mixed.high!)))} of ` +
          'the problems, some replies may pass and some fail; `tasks calibrate` tries 64 problems per tier',
      );
    return {
      tiers: [],
      settings: null,
      reasons: [...reasons, instead(trained, calibrated, crowded)],
    };
  }
  const names = learned.map(({ tier }) => tier);
  const groups = all.filter(
    (group) => names.includes(group.tier) && decided(group).length >= samples,
  );
  const each = samplesFor(groups, samples);
  const passing = mean(learned.map(({ passAt1 }) => passAt1.mean!))!;
  const wanted = Math.min(MOST_ROLLOUTS, ACCEPTED / Math.max(passing, ACCEPTED / MOST_ROLLOUTS));
  const round = each * learned.length;
  const ended = groups.flatMap((group) =>
    group.samples.flatMap(({ finish, longest }) =>
      finish === 'stop' && longest !== null ? [longest] : [],
    ),
  );
  const cut = Math.max(...learned.map(({ truncated }) => truncated ?? 0));
  const longer = cut > CUT_OFF && crowded <= CUT_OFF && moreTokens(calibrated) > maxTokens;
  if (longer)
    reasons.push(
      `up to ${percent(cut)} of a tier's replies are cut off at ${maxTokens} tokens: allow more, such as ${moreTokens(calibrated)}`,
    );
  const usual = ended.sort((a, b) => a - b)[Math.floor(0.99 * (ended.length - 1))];
  const room =
    usual === undefined || cut > CUT_OFF ? maxTokens : Math.min(maxTokens, inSteps(ROOM * usual));
  return {
    tiers: names,
    settings: {
      samples: each,
      rollouts:
        Math.max(1, Math.min(Math.round(wanted / round), Math.floor(MOST_ROLLOUTS / round))) *
        round,
      maxTokens: longer
        ? moreTokens(calibrated)
        : Math.max(room, Math.min(mostTokens, inSteps(reference))),
      ...(learned.length < trained.length ? { allocationFloor: LOW_FLOOR } : {}),
    },
    reasons,
  };
}
