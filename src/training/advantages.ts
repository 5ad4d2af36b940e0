/** What a policy gradient learns from: how much better or worse a sample was than the others of its problem (GRPO, arXiv 2402.03300 §4.1.2). */
import type { JudgedRollout, RolloutGroup } from '../rollouts/sample.js';

/** Added to the standard deviation of a group's rewards. */
const EPSILON = 1e-6;

/** (reward - mean) / (standard deviation + epsilon) within each group; reward 1 for a pass, 0 for a failure, none without a verdict. */
export function advantages(rewards: readonly (0 | 1 | null)[]): (number | null)[] {
  const known: number[] = rewards.filter((reward) => reward !== null);
  const mean = known.reduce((sum, reward) => sum + reward, 0) / known.length;
  const deviation = Math.sqrt(known.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / known.length);
  return rewards.map((reward) => (reward === null ? null : (reward - mean) / (deviation + EPSILON)));
}

/** Groups whose samples differ in verdict; the others have no gradient. */
export function informativeGroups(groups: readonly RolloutGroup[]): RolloutGroup[] {
  return groups.filter(({ rollouts }) => ['pass', 'fail'].every((kind) => rollouts.some(({ verdict }) => verdict.kind === kind)));
}

/** The rollouts that are trained on, with their advantages. One that was cut off counts in its group's mean, but is not trained on. */
export function contrasts(groups: readonly RolloutGroup[]): ReadonlyMap<JudgedRollout, number> {
  const found = new Map<JudgedRollout, number>();
  for (const { rollouts } of informativeGroups(groups)) {
    const values = advantages(rollouts.map(({ verdict }) => (verdict.kind === 'none' ? null : verdict.kind === 'pass' ? 1 : 0)));
    for (const [index, rollout] of rollouts.entries()) {
      const advantage = values[index];
      if (typeof advantage === 'number' && rollout.finish === 'stop') found.set(rollout, advantage);
    }
  }
  return found;
}
