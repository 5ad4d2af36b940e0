import { deriveSeed, Random } from '../../random.js';
import { frozenIndex } from '../frozen-sets.js';
import type { ChatMessage, SynchronousTask } from '../task.js';
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
  let problem = drawProblem(ID, shape, random, 'training');
  while (frozenIndex(ID).has(problem.id)) problem = drawProblem(ID, shape, random, 'training');
  return problem;
}

/**
 * `count` solved problems of the question's tier, never the question itself nor a frozen problem.
 */
function fewShot(question: LadderProblem, count: number, seed: bigint): ChatMessage[] {
  const messages: ChatMessage[] = [];
  const used = new Set([question.id]);
  for (let sample = 0; used.size <= count; sample++) {
    const example = generate(
      question.tier,
      deriveSeed({
        runSeed: seed,
        purpose: 'few-shot',
        iteration: 0,
        problemId: question.id,
        sample,
      }),
    );
    if (used.has(example.id)) continue;
    used.add(example.id);
    messages.push(
      { role: 'user', content: questionText(example) },
      { role: 'assistant', content: solve(example) },
    );
  }
  return messages;
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
  fewShot: async (problem, _style, count, seed) => fewShot(problem, count, seed),
  referenceReply: solve,
  trivialPolicies: POLICIES,
  policyNotes: POLICY_NOTES,
  get exploits() {
    return ladderExploits();
  },
};
