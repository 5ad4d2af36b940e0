import type { ReplayBuffer } from '../algorithms/replay-buffer.js';
import { trainSequence } from '../algorithms/sequences.js';
import type { TrainSequence } from '../engine/trainer.js';
import type { RolloutGroup } from '../rollouts/sample.js';

/**
 * Sequences that layers are chosen on, and on which it is measured how far a remedy moves the
 * function.
 */
export const PROBES = 8;

/**
 * The iteration's first accepted traces, or what passed where nothing is accepted (grpo), or whole
 * prompts where there is none; of an adapter that acts from the reply on, any replies.
 */
export function probeSequences(
  buffer: Pick<ReplayBuffer, 'traces'>,
  groups: readonly RolloutGroup[],
  iteration: number,
  adapterFrom?: 'reply',
): TrainSequence[] {
  const traces = buffer.traces.filter((trace) => trace.iteration === iteration);
  const passed = groups.flatMap(({ rollouts }) =>
    rollouts.filter(({ verdict, finish }) => verdict.kind === 'pass' && finish === 'stop'),
  );
  const right = (traces.length > 0 ? traces : passed).slice(0, PROBES);
  if (right.length > 0) return right.map(({ episode }) => trainSequence(episode));
  // an adapter that acts from the reply on changes nothing before it
  if (adapterFrom === 'reply')
    return groups.slice(0, PROBES).map(({ rollouts }) => trainSequence(rollouts[0]!.episode));
  return groups.slice(0, PROBES).map(({ rollouts }) => {
    const { ids } = rollouts[0]!.episode[0]!;
    return { tokenIds: ids, labelMask: Uint8Array.from(ids, (_, t) => (t > 0 ? 1 : 0)) };
  });
}
