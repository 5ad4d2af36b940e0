/**
 * E-processes on the mean difference of two versions, in both directions: which of them is better,
 * and whether one is not worse.
 */
import { mean } from '../statistics/index.js';
import { BettingProcess, fixedBet, logDiscordant, UNIFORM_BETS } from './e-process.js';
import { shownE, type Outcome } from './outcome.js';
import type { EProcessPolicy, Guard } from './policy.js';
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

function logBet(differences: readonly number[], bets = UNIFORM_BETS): number {
  const process = new BettingProcess(bets);
  for (const difference of differences) process.add(difference);
  return process.logE();
}

/** The policy `e-process` on the blocks of the target. */
export function superiority(
  blocks: readonly Block[],
  policy: EProcessPolicy,
  alpha: number,
): Outcome {
  const differences = blocks.map(differenceOf);
  const logThreshold = alpha > 0 ? -Math.log(alpha) : Number.MAX_VALUE;
  const average = blocks.length === 0 ? null : mean(differences);
  const statistic = { kind: 'e-process', logE: 0, logThreshold, mean: average } as const;
  const ended = (state: Outcome['state'], reason: string): Outcome => ({
    state,
    reason,
    statistic,
  });
  if (alpha === 0) return ended('inconclusive', 'no alpha is left for this attempt');
  if (policy.measure === 'verdict') {
    if (blocks.some(({ challenger }) => challenger.length > 1))
      return ended(
        'invalid',
        'several samples of a problem are one unit: the measure verdict takes one; use the measure score',
      );
    if (
      blocks.some((block) =>
        [...block.challenger, ...block.incumbent].some((score) => score !== 0 && score !== 1),
      )
    )
      return ended('invalid', 'a score other than 0 and 1 is no verdict; use the measure score');
  }
  const { better, worse, reach } = evidence(differences, policy, policy.most - blocks.length);
  const measured = { ...statistic, logE: finite(better) };
  const of = (log: number): string =>
    `E is ${shownE(log)} where ${shownE(logThreshold)} is asked for`;
  if (better >= logThreshold) return { state: 'shown', reason: of(better), statistic: measured };
  if (worse >= logThreshold)
    return {
      state: 'refuted',
      reason: `against the challenger, ${of(worse)}`,
      statistic: measured,
    };
  if (blocks.length >= policy.most)
    return {
      state: 'inconclusive',
      reason: `${of(better)}, after ${blocks.length} problems`,
      statistic: measured,
    };
  if (reach() < logThreshold)
    return {
      state: 'inconclusive',
      reason: `${of(better)}; winning all that is left of ${policy.most} problems would not do`,
      statistic: measured,
    };
  return { state: 'open', reason: of(better), statistic: measured };
}

/**
 * ln of the evidence for either side, and of what it were for the challenger if it won the `left`
 * problems to come, where there are any.
 */
function evidence(
  differences: readonly number[],
  policy: EProcessPolicy,
  left: number,
): { better: number; worse: number; reach: () => number } {
  if (policy.measure === 'verdict' && policy.fraction === undefined) {
    const count = (value: number): number =>
      differences.filter((difference) => difference === value).length;
    const [won, lost] = [count(1), count(-1)];
    return {
      better: logDiscordant(won, lost),
      worse: logDiscordant(lost, won),
      reach: () => logDiscordant(won + left, lost),
    };
  }
  const bets = policy.fraction === undefined ? UNIFORM_BETS : fixedBet(policy.fraction);
  const moved = shifted(differences, -policy.minimumEffect);
  const win = (1 - policy.minimumEffect) / (1 + policy.minimumEffect);
  const better = logBet(moved, bets);
  // no bet gains more than all of its wealth times the win, in one problem
  const largest = Math.max(...bets.fractions);
  return {
    better,
    worse: logBet(
      moved.map((difference) => -difference),
      bets,
    ),
    reach: () => better + left * Math.log1p(largest * win),
  };
}

function oneSided(differences: readonly number[], margin: number): TwoSided {
  const moved = shifted(differences, margin);
  return {
    notWorse: logBet(moved),
    worse: logBet(moved.map((difference) => -difference)),
    mean: mean(differences),
  };
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
    const reason = `${regressed} of ${blocks.length} problems came out worse`;
    if (regressed > 0) return { state: 'refuted', reason, statistic };
    return { state: blocks.length < guard.least ? 'open' : 'shown', reason, statistic };
  }
  const logThreshold = alpha > 0 ? -Math.log(alpha) : Number.MAX_VALUE;
  const isSigned = blocks.some(({ costs }) => costs !== undefined);
  const {
    notWorse: better,
    worse,
    mean: average,
  } = isSigned ? twoSided(blocks, margin) : oneSided(differences, margin);
  const statistic = {
    kind: 'e-process',
    logE: better,
    logThreshold,
    mean: blocks.length === 0 ? null : average,
  } as const;
  const reason = `E is ${shownE(better)} for a mean that is worse by less than the margin`;
  if (better >= logThreshold) return { state: 'shown', reason, statistic };
  if (worse >= logThreshold)
    return { state: 'refuted', reason: 'the mean is worse by more than the margin', statistic };
  return { state: blocks.length < guard.most ? 'open' : 'inconclusive', reason, statistic };
}
