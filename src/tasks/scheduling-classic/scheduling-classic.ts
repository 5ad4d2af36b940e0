import { Random } from '../../random.js';
import { unfrozen } from '../built-in.js';
import { schedulingFeedback } from '../scheduling/feedback.js';
import { gradeSchedule, type GroundTruth } from '../scheduling/grade.js';
import { groundTruth } from '../scheduling/ground-truth.js';
import type { Schedule, SchedulingProblem } from '../scheduling/problem.js';
import type { SynchronousTask } from '../task.js';
import { findTier, publicTier } from '../tier.js';
import { classicCorpus } from './exploits.js';
import { CLASSIC_TIERS, drawClassicProblem } from './generate.js';
import { parseClassic } from './parse.js';
import { CLASSIC_POLICIES } from './policies.js';
import { classicPrompt } from './prompt.js';
import { verifyClassic } from './verify.js';

const ID = 'scheduling-classic';

function generate(tierId: string, seed: bigint): SchedulingProblem {
  const tier = findTier(ID, CLASSIC_TIERS, tierId);
  const random = new Random(seed);
  return unfrozen(ID, () => drawClassicProblem(tier, random));
}

/**
 * The original's benchmark with its defects, so that its published rows can be set beside ours. Not
 * for training: its verifier accepts `knownHoles`.
 */
export const schedulingClassic: SynchronousTask<SchedulingProblem, Schedule, GroundTruth> = {
  id: ID,
  version: '1',
  tiers: CLASSIC_TIERS.map(publicTier),
  judgesTruncated: true,
  generate,
  prompt: classicPrompt,
  parse: parseClassic,
  verify: verifyClassic,
  grade: (_problem, verdict, reference) => gradeSchedule(verdict, reference),
  feedback: schedulingFeedback,
  oracle: async (problem) => (await groundTruth(ID, problem)).schedule,
  reference: (problem) => groundTruth(ID, problem),
  trivialPolicies: CLASSIC_POLICIES,
  get exploits() {
    return classicCorpus().exploits;
  },
  get knownHoles() {
    return classicCorpus().knownHoles;
  },
};
