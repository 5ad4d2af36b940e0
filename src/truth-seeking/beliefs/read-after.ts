/** The belief at one place of a reasoning, in place of all of them. */
import type { Reasoner } from '../reasoner.js';
import type { BinaryProblem } from '../problem.js';
import type { Trajectory } from '../trajectory.js';
import { readBeliefs, type ReadBelief, type ReadoutOptions } from './readout.js';

/**
 * After a text that the policy has said in answer to the trajectory's prompt; the trajectory's own
 * steps are not read.
 * @throws IsoproError as `readBeliefs`
 */
export async function readBeliefAfter(
  reasoner: Reasoner,
  problem: BinaryProblem,
  of: Trajectory,
  said: string,
  options: ReadoutOptions = {},
): Promise<ReadBelief> {
  // what has been said so far stands for what the policy is asked
  const reading: Reasoner = {
    ...reasoner,
    promptIds: (messages) => [...reasoner.promptIds(messages), ...reasoner.textIds(said)],
  };
  const { readings } = await readBeliefs(reading, problem, { ...of, steps: [] }, options);
  return readings[0]!;
}
