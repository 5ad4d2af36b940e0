/** How many problems each tier gets in an iteration. */

/** Verdicts of a tier so far; `none` is in neither. */
export interface TierRecord {
  readonly passed: number;
  readonly failed: number;
}

/** Earlier iterations count half as much with each one that follows: the model changes. */
export const DECAY = 0.5;

export interface AllocationOptions {
  readonly tiers: readonly string[];
  /** Problems in all. */
  readonly problems: number;
  /** By tier; a tier without one is unknown. */
  readonly records: ReadonlyMap<string, TierRecord>;
  /** Least part of its uniform share that a tier gets, in [0, 1]; 1 is uniform. */
  readonly floor: number;
}

/**
 * Problems by tier. What a sample teaches is largest where about half succeed: a tier's part above
 * the floor is proportional to the expectation of p(1 - p) under Beta(1 + passed, 1 + failed),
 * which is ab / ((a + b)(a + b + 1)), so that solved and hopeless tiers fade as the evidence grows.
 * Rounded by largest remainders, ties by the order of the tiers.
 */
export function allocate({
  tiers,
  problems,
  records,
  floor,
}: AllocationOptions): Map<string, number> {
  const interest = tiers.map((tier) => {
    const { passed, failed } = records.get(tier) ?? { passed: 0, failed: 0 };
    const [a, b] = [1 + passed, 1 + failed];
    return (a * b) / ((a + b) * (a + b + 1));
  });
  const total = interest.reduce((sum, value) => sum + value, 0);
  const shares = interest.map(
    (value) => problems * (floor / tiers.length + (1 - floor) * (value / total)),
  );
  const counts = shares.map(Math.floor);
  const left = problems - counts.reduce((sum, value) => sum + value, 0);
  const byRemainder = shares
    .map((share, index) => ({ index, remainder: share - Math.floor(share) }))
    .sort((x, y) => y.remainder - x.remainder || x.index - y.index);
  for (const { index } of byRemainder.slice(0, left)) counts[index]!++;
  return new Map(tiers.map((tier, index) => [tier, counts[index]!]));
}
