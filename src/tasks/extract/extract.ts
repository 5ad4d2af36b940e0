import { Random } from '../../random.js';
import type { SynchronousTask } from '../task.js';
import { solvedExamples } from '../built-in.js';
import { findTier, publicTier } from '../tier.js';
import { ANSWER_GRAMMAR, parseAnswer, readLeniently } from './answer.js';
import { extractExploits } from './exploits.js';
import { extractFeedback } from './feedback.js';
import { drawProblem, TIERS } from './generate.js';
import { POLICIES, POLICY_NOTES } from './policies.js';
import type { Extraction, ExtractProblem } from './problem.js';
import { extractPrompt, solvedReply } from './prompt.js';
import { verifyExtraction } from './verify.js';

const ID = 'extract';

/**
 * A training problem. The frozen sets are drawn from other names, keys and phrases, so that none of
 * theirs can come out.
 */
const generate = (tier: string, seed: bigint): ExtractProblem =>
  drawProblem(ID, findTier(ID, TIERS, tier), new Random(seed), 'training');

/** A message to JSON of a given schema: exact values, right types, no other keys. */
export const extract: SynchronousTask<ExtractProblem, Extraction> = {
  id: ID,
  version: '1',
  tiers: TIERS.map(publicTier),
  generate,
  prompt: extractPrompt,
  parse: parseAnswer,
  readLeniently,
  answerGrammar: ANSWER_GRAMMAR,
  verify: verifyExtraction,
  feedback: extractFeedback,
  oracle: async (problem) => problem.expected,
  fewShot: (question, _style, count, seed) =>
    solvedExamples(question, count, seed, generate, (example) => [
      ...extractPrompt(example),
      { role: 'assistant', content: solvedReply(example) },
    ]),
  referenceReply: solvedReply,
  trivialPolicies: POLICIES,
  policyNotes: POLICY_NOTES,
  get exploits() {
    return extractExploits();
  },
};
