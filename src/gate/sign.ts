/**
 * Sign e-process over a fixed number of blocks: every win doubles the evidence, and one block
 * without a win ends it.
 */
import type { Outcome } from './outcome.js';
import type { SignTerms } from './terms.js';
import type { Block } from './trials.js';

/** A decimal number as digits × 10^-scale. */
interface Decimal {
  readonly digits: bigint;
  readonly scale: number;
}

/** The shortest decimal spelling of a double up to 1, which is what was written in the evidence. */
function decimalOf(value: number): Decimal {
  const [mantissa, exponent = '0'] = String(value).split('e');
  const [whole, part = ''] = mantissa!.split('.');
  return { digits: BigInt(whole! + part), scale: part.length - Number(exponent) };
}

/** Its digits as those of a number of a finer scale. */
const atScale = (value: Decimal, scale: number): bigint =>
  value.digits * 10n ** BigInt(scale - value.scale);

function sum(values: readonly Decimal[]): Decimal {
  const scale = Math.max(...values.map((value) => value.scale));
  return { digits: values.reduce((total, value) => total + atScale(value, scale), 0n), scale };
}

/**
 * Returns true if the challenger's mean score of a block reaches the incumbent's plus the margin.
 * The comparison is exact on the written decimals, so that 0.3 reaches 0.2 + 0.1. A tie at the
 * boundary wins.
 */
export function wins({ challenger, incumbent }: Block, margin: number): boolean {
  const asked = decimalOf(margin);
  const left = sum(challenger.map(decimalOf));
  const right = sum([
    ...incumbent.map(decimalOf),
    { digits: asked.digits * BigInt(incumbent.length), scale: asked.scale },
  ]);
  const scale = Math.max(left.scale, right.scale);
  return atScale(left, scale) >= atScale(right, scale);
}

export function sign(blocks: readonly Block[], terms: SignTerms, alpha: number): Outcome {
  const won = blocks.filter((block) => wins(block, terms.margin)).length;
  const statistic = {
    kind: 'sign',
    logE: won === blocks.length ? won * Math.LN2 : null,
    logThreshold: alpha > 0 ? -Math.log(alpha) : Number.MAX_VALUE,
    blocks: blocks.length,
    wins: won,
  } as const;
  const said = `${won} of ${blocks.length} blocks won`;
  const ended = (state: Outcome['state'], reason: string): Outcome => ({
    state,
    reason,
    statistic,
  });
  if (blocks.length > terms.blocks)
    return ended(
      'invalid',
      `${blocks.length} blocks, but the policy allows ${terms.blocks}: more evidence than planned`,
    );
  if (alpha === 0) return ended('inconclusive', 'no alpha is left for this attempt');
  if (blocks.length < terms.blocks) return ended('open', `${said}, of ${terms.blocks} planned`);
  // 2^-blocks <= alpha, the same in doubles as in numbers: a power of two is exact down to 2^-1074
  return won === blocks.length && 2 ** -blocks.length <= alpha
    ? ended('shown', said)
    : ended('inconclusive', `${said}: only winning every block counts as evidence`);
}
