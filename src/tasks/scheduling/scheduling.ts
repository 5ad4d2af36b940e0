import { Random } from '../../random.js';
import { unfrozen } from '../built-in.js';
import type { SynchronousTask } from '../task.js';
import { findTier, publicTier } from '../tier.js';
import { parseAnswer } from './answer.js';
import { schedulingExploits } from './exploits.js';
import { fewShotExamples, solvedReply } from './few-shot.js';
import { schedulingFeedback } from './feedback.js';
import { drawProblem, TIERS } from './generate.js';
import { gradeSchedule, type GroundTruth } from './grade.js';
import { groundTruth } from './ground-truth.js';
import { POLICIES, POLICY_NOTES } from './policies.js';
import type { Schedule, SchedulingProblem } from './problem.js';
import { schedulingPrompt } from './prompt.js';
import { checkSchedulingTrace } from './trace.js';
import { verifySchedule } from './verify.js';

const ID = 'scheduling';

/** A training problem: the first draw of the seed's stream that is not in a frozen set. */
function generate(tier: string, seed: bigint): SchedulingProblem {
  const shape = findTier(ID, TIERS, tier);
  const random = new Random(seed);
  return unfrozen(ID, () => drawProblem(ID, shape, random));
}

const reference = (problem: SchedulingProblem): Promise<GroundTruth> => groundTruth(ID, problem);
const oracle = async (problem: SchedulingProblem): Promise<Schedule | null> =>
  (await reference(problem)).schedule;

/**
 * Scheduling done soundly: the prompt states every rule, every problem is feasible, the answer is
 * one strict block.
 */
export const scheduling: SynchronousTask<SchedulingProblem, Schedule, GroundTruth> = {
  id: ID,
  version: '2',
  tiers: TIERS.map(publicTier),
  generate,
  prompt: schedulingPrompt,
  parse: parseAnswer,
  verify: (problem, schedule) => verifySchedule(problem, schedule),
  grade: (_problem, verdict, reference) => gradeSchedule(verdict, reference),
  feedback: schedulingFeedback,
  oracle,
  reference,
  checkTrace: checkSchedulingTrace,
  fewShot: (problem, style, count, seed) =>
    fewShotExamples(problem, style, count, seed, generate, oracle),
  referenceReply: async (problem, style) => {
    const schedule = await oracle(problem);
    return schedule === null ? null : solvedReply(problem, schedule, style);
  },
  trivialPolicies: Object.fromEntries(
    Object.entries(POLICIES).map(([name, policy]) => [name, policy.decide]),
  ),
  policyNotes: POLICY_NOTES,
  get exploits() {
    return schedulingExploits();
  },
};
