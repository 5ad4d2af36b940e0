/**
 * E-processes on the mean difference of two versions, in both directions: which of them is better,
 * and whether one is not worse.
 */
import { mean } from '../statistics/index.js';
import { BettingProcess, fixedBet, logDiscordant, uniformBets } from './e-process.js';
import { shownE, type Outcome } from './outcome.js';
import type { EProcessTerms, Guard } from './terms.js';
import { differenceOf, type Block } from './trials.js';
import { twoSided, type TwoSided } from './two-sided.js';

/** ln of an e-value as JSON has it. */
const finite = (log: number): number | null => (log === -Infinity ? null : log);

/**
 * Differences in [-1, 1], moved by `shift` and drawn together again, so that 0 is where the
 * hypotheses meet.
 */
const shifted = (differences: readonly number[], shift: number): number[] =>
  differences.map((difference) => (difference + shift) / (1 + Math.abs(shift)));

const negative = (difference: number): number => -difference;

function logBet(differences: readonly number[], bets = uniformBets()): number {
  const process = new BettingProcess(bets);
  for (const difference of differences) process.add(difference);
  return process.logE();
}

/** Threshold that ln of an e-value has to reach. */
const logThresholdOf = (alpha: number): number => (alpha > 0 ? -Math.log(alpha) : Number.MAX_VALUE);

/** Why blocks cannot be verdicts; null where they can. */
function noVerdicts(blocks: readonly Block[]): string | null {
  if (blocks.some(({ challenger }) => challenger.length > 1))
    return 'measure verdict takes one sample of each problem; for several use measure score';
  const scores = blocks.flatMap(({ challenger, incumbent }) => [...challenger, ...incumbent]);
  return scores.some((score) => score !== 0 && score !== 1)
    ? 'measure verdict takes scores of 0 and 1; for others use measure score'
    : null;
}

/** The policy `e-process` on the blocks of the target. */
export function superiority(
  blocks: readonly Block[],
  terms: EProcessTerms,
  alpha: number,
): Outcome {
  const differences = blocks.map(differenceOf);
  const logThreshold = logThresholdOf(alpha);
  const average = blocks.length === 0 ? null : mean(differences);
  const ended = (state: Outcome['state'], reason: string, logE: number | null = 0): Outcome => ({
    ...{ state, reason },
    statistic: { kind: 'e-process', logE, logThreshold, mean: average },
  });
  if (alpha === 0) return ended('inconclusive', 'no alpha is left for this attempt');
  const wrong = terms.measure === 'verdict' ? noVerdicts(blocks) : null;
  if (wrong !== null) return ended('invalid', wrong);
  const { better, worse, reach } = evidence(differences, terms, terms.most - blocks.length);
  const logE = finite(better);
  const of = (log: number): string => `E is ${shownE(log)}; ${shownE(logThreshold)} is required`;
  if (better >= logThreshold) return ended('shown', of(better), logE);
  if (worse >= logThreshold) return ended('refuted', `against the challenger: ${of(worse)}`, logE);
  if (blocks.length >= terms.most)
    return ended('inconclusive', `${of(better)}, after ${blocks.length} problems`, logE);
  if (reach() >= logThreshold) return ended('open', of(better), logE);
  const why = `${of(better)}; winning all the rest of ${terms.most} problems would not be enough`;
  return ended('inconclusive', why, logE);
}

/**
 * ln of the evidence for either side, and of what it were for the challenger if it won the `left`
 * problems to come, where there are any.
 */
function evidence(
  differences: readonly number[],
  terms: EProcessTerms,
  left: number,
): { better: number; worse: number; reach: () => number } {
  if (terms.measure === 'verdict' && terms.fraction === undefined) {
    const count = (value: number): number =>
      differences.filter((difference) => difference === value).length;
    const [won, lost] = [count(1), count(-1)];
    return {
      better: logDiscordant(won, lost),
      worse: logDiscordant(lost, won),
      reach: () => logDiscordant(won + left, lost),
    };
  }
  const bets = terms.fraction === undefined ? uniformBets() : fixedBet(terms.fraction);
  const moved = shifted(differences, -terms.minimumEffect);
  const win = (1 - terms.minimumEffect) / (1 + terms.minimumEffect);
  const better = logBet(moved, bets);
  const worse = logBet(moved.map(negative), bets);
  // no bet gains more than all of its wealth times the win, in one problem
  const largest = Math.max(...bets.fractions);
  return { better, worse, reach: () => better + left * Math.log1p(largest * win) };
}

function oneSided(differences: readonly number[], margin: number): TwoSided {
  const moved = shifted(differences, margin);
  const worse = logBet(moved.map(negative));
  return { notWorse: logBet(moved), worse, mean: mean(differences) };
}

/**
 * A guard on its blocks: that the mean is not worse by the margin, or that no problem came out
 * worse by more than it.
 */
export function heldGuard(blocks: readonly Block[], guard: Guard, alpha: number): Outcome {
  const margin = guard.margin / (guard.ceiling ?? 1);
  const differences = blocks.map(differenceOf);
  if (guard.kind === 'safety') {
    const regressed = differences.filter((difference) => difference < -margin).length;
    const rateBelow = regressed > 0 || blocks.length === 0 ? null : 1 - 0.05 ** (1 / blocks.length);
    const statistic = { kind: 'safety', blocks: blocks.length, regressed, rateBelow } as const;
    const reason = `${regressed} of ${blocks.length} problems got worse`;
    if (regressed > 0) return { state: 'refuted', reason, statistic };
    return { state: blocks.length < guard.least ? 'open' : 'shown', reason, statistic };
  }
  const logThreshold = logThresholdOf(alpha);
  const isSigned = blocks.some(({ costs }) => costs !== undefined);
  const found = isSigned ? twoSided(blocks, margin) : oneSided(differences, margin);
  const { notWorse: better, worse } = found;
  const average = blocks.length === 0 ? null : found.mean;
  const statistic = { kind: 'e-process', logE: better, logThreshold, mean: average } as const;
  const reason = `E is ${shownE(better)} for a mean worse by less than the margin`;
  if (better >= logThreshold) return { state: 'shown', reason, statistic };
  if (worse >= logThreshold)
    return { state: 'refuted', reason: 'the mean is worse by more than the margin', statistic };
  return { state: blocks.length < guard.most ? 'open' : 'inconclusive', reason, statistic };
}
