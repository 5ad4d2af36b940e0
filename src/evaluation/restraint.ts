/** How strong an adapter may be where a limit is set to what it forgets. */

export interface Restraint {
  /** Nats a token of held-out English that the adapter may lose: fewer than these. */
  readonly limit: number;
  /** Part of its strength at which the adapter is submitted: W + strength s B A. */
  readonly strength: number;
  /** In the order in which they were measured; the first is the whole strength. */
  readonly tried: readonly { readonly strength: number; readonly lost: number }[];
}

/** Strengths are so many parts of one: f32 scales take these without rounding. */
const PARTS = 16;

/**
 * The greatest strength at which fewer nats than the limit are lost, by halving the distance, since a stronger adapter forgets more
 * (weights between a model and what became of it: Wortsman et al. 2022, Robust fine-tuning of zero-shot models, §3). Where none is found
 * it is the least one.
 * @param lostAt nats a token that are lost with such a part of the adapter's strength
 */
export async function restrain(limit: number, lostAt: (strength: number) => Promise<number>): Promise<Restraint> {
  const tried: { strength: number; lost: number }[] = [];
  const holdsAt = async (parts: number): Promise<boolean> => {
    const strength = parts / PARTS;
    const lost = await lostAt(strength);
    tried.push({ strength, lost });
    return lost < limit;
  };
  let [within, beyond] = (await holdsAt(PARTS)) ? [PARTS, PARTS + 1] : [0, PARTS];
  while (beyond - within > 1) {
    const middle = Math.floor((within + beyond) / 2);
    if (await holdsAt(middle)) within = middle;
    else beyond = middle;
  }
  return { limit, strength: Math.max(1, within) / PARTS, tried };
}

/** What is wrong with a restraint that a run reports; null where its strength follows from what was tried. */
export function restraintFault({ limit, strength, tried }: Restraint): string | null {
  const lostAt = (of: number): number | undefined => tried.find((each) => each.strength === of)?.lost;
  if (lostAt(1) === undefined) return 'what the whole adapter forgets was not measured';
  const holding = tried.filter(({ lost }) => lost < limit).map((each) => each.strength);
  const expected = holding.length > 0 ? Math.max(...holding) : 1 / PARTS;
  if (lostAt(expected) === undefined) return 'no strength that was tried keeps to the limit, and the least was not tried';
  return strength === expected ? null : `the strength is ${strength}, and what was tried gives ${expected}`;
}
