import { Random } from '../../random.js';
import { solvedExamples, unfrozen } from '../built-in.js';
import type { SynchronousTask } from '../task.js';
import { findTier, publicTier } from '../tier.js';
import { ANSWER_GRAMMAR, parseAnswer, readLeniently } from './answer.js';
import { ladderExploits } from './exploits.js';
import { drawProblem, TIERS } from './generate.js';
import { POLICIES, POLICY_NOTES } from './policies.js';
import type { LadderProblem } from './problem.js';
import { ladderPrompt, questionText } from './prompt.js';
import { solve } from './solve.js';
import { ladderFeedback, verifyAnswer } from './verify.js';

const ID = 'ladder';

/** A training problem: the first draw of the seed's stream that is not in a frozen set. */
function generate(tier: string, seed: bigint): LadderProblem {
  const shape = findTier(ID, TIERS, tier);
  const random = new Random(seed);
  return unfrozen(ID, () => drawProblem(ID, shape, random, 'training'));
}

/**
 * Six small skills, each at two levels: where a small model stands before it is trained on anything
 * larger.
 */
export const ladder: SynchronousTask<LadderProblem, string> = {
  id: ID,
  version: '1',
  tiers: TIERS.map(publicTier),
  generate,
  prompt: ladderPrompt,
  parse: parseAnswer,
  readLeniently,
  answerGrammar: ANSWER_GRAMMAR,
  verify: verifyAnswer,
  feedback: ladderFeedback,
  oracle: async (problem) => solve(problem),
  fewShot: (question, _style, count, seed) =>
    solvedExamples(question, count, seed, generate, (example) => [
      { role: 'user', content: questionText(example) },
      { role: 'assistant', content: solve(example) },
    ]),
  referenceReply: solve,
  trivialPolicies: POLICIES,
  policyNotes: POLICY_NOTES,
  get exploits() {
    return ladderExploits();
  },
};
