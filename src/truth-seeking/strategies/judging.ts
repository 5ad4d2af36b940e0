/** Number of questions to a qualitative judge. */

export const FEW_SHOT_ORDERS = ['none', 'static', 'permuted'] as const;
export type FewShotOrder = (typeof FEW_SHOT_ORDERS)[number];

const factorial = (n: number): number => (n < 2 ? 1 : n * factorial(n - 1));

/** Number of gradings of a candidate: all orders of the examples, `rounds` times each. */
export const gradings = (examples: number, order: FewShotOrder, rounds: number): number =>
  rounds * (order === 'permuted' ? factorial(examples) : 1);

/**
 * Examples before each bootstrap round and after the last: each round adds as many as there are, at
 * least one.
 */
export function bootstrapSizes(examples: number, rounds: number): number[] {
  const sizes = [examples];
  for (let round = 0; round < rounds; round++)
    sizes.push(sizes.at(-1)! + Math.max(1, sizes.at(-1)!));
  return sizes;
}
