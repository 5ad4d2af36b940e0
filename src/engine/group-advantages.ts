/** Added to the standard deviation of a group's rewards. */
const EPSILON = 1e-6;

/**
 * Advantages of replies to one problem from their rewards: (reward - mean), and where standardised
 * that over (standard deviation + 1e-6). Null, which counts in no mean, without a reward.
 */
export function advantages(
  rewards: readonly (number | null)[],
  standardised: boolean,
): (number | null)[] {
  const known: number[] = rewards.filter((reward) => reward !== null);
  const mean = known.reduce((sum, reward) => sum + reward, 0) / known.length;
  const deviation = Math.sqrt(
    known.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / known.length,
  );
  const unit = standardised ? deviation + EPSILON : 1;
  return rewards.map((reward) => (reward === null ? null : (reward - mean) / unit));
}
