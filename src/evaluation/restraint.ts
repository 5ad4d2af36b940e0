/** Strength of an adapter under a limit on what it forgets. */

export interface Restraint {
  /** Nats per token of held-out English that the adapter must lose less than. */
  readonly limit: number;
  /** Part of its strength at which the adapter is submitted: W + strength s B A. */
  readonly strength: number;
  /** In the order in which they were measured; the first is the whole strength. */
  readonly tried: readonly { readonly strength: number; readonly lost: number }[];
}

/** Strengths are so many parts of one: f32 scales take these without rounding. */
const PARTS = 16;

/**
 * Asks what is lost at one strength after the other, by halving the distance, since a stronger
 * adapter forgets more, and ends with the greatest that loses less than the limit; the least where
 * none does.
 */
function* search(limit: number): Generator<number, number, number> {
  if ((yield 1) < limit) return 1;
  let [within, beyond] = [0, PARTS];
  while (beyond - within > 1) {
    const middle = Math.floor((within + beyond) / 2);
    if ((yield middle / PARTS) < limit) within = middle;
    else beyond = middle;
  }
  return Math.max(1, within) / PARTS;
}

/**
 * The greatest strength, of sixteenths, at which fewer nats than the limit are lost; the least
 * where none is found. Weights between a model and what became of it: Wortsman et al. 2022, Robust
 * fine-tuning of zero-shot models, §3.
 * @param lostAt nats a token that are lost with such a part of the adapter's strength
 */
export async function restrain(
  limit: number,
  lostAt: (strength: number) => Promise<number>,
): Promise<Restraint> {
  const tried: { strength: number; lost: number }[] = [];
  const asking = search(limit);
  let asked = asking.next();
  while (asked.done !== true) {
    const lost = await lostAt(asked.value);
    tried.push({ strength: asked.value, lost });
    asked = asking.next(lost);
  }
  return { limit, strength: asked.value, tried };
}

/**
 * Returns the fault of a restraint that a run reports; null if it follows from the losses reported
 * with it.
 */
export function restraintFault({ limit, strength, tried }: Restraint): string | null {
  const asking = search(limit);
  let asked = asking.next();
  for (const each of tried) {
    if (asked.done === true)
      return `strength ${each.strength} was tried after ${asked.value} had been found`;
    if (asked.value !== each.strength)
      return `strength ${each.strength} was tried instead of ${asked.value}`;
    asked = asking.next(each.lost);
  }
  if (asked.done !== true) return `strength ${asked.value} was not tried`;
  return strength === asked.value
    ? null
    : `the strength is ${strength}, but the measured losses give ${asked.value}`;
}
