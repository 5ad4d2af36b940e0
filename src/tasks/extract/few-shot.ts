import { deriveSeed } from '../../random.js';
import type { ChatMessage } from '../task.js';
import type { ExtractProblem } from './problem.js';
import { extractPrompt, printAnswer } from './prompt.js';

/** The reply that says what the problem expects, in the order of its schema. */
export const solvedReply = ({ schema, expected }: ExtractProblem): string =>
  printAnswer(schema, ({ key }) => expected[key]!);

/**
 * `count` solved messages of the question's tier, never the question itself nor a frozen problem.
 */
export function fewShotExamples(
  question: ExtractProblem,
  count: number,
  seed: bigint,
  generate: (tier: string, seed: bigint) => ExtractProblem,
): ChatMessage[] {
  const messages: ChatMessage[] = [];
  const used = new Set([question.id]);
  for (let sample = 0; used.size <= count; sample++) {
    const draw = deriveSeed({
      runSeed: seed,
      purpose: 'few-shot',
      iteration: 0,
      problemId: question.id,
      sample,
    });
    const example = generate(question.tier, draw);
    if (used.has(example.id)) continue;
    used.add(example.id);
    messages.push(...extractPrompt(example), { role: 'assistant', content: solvedReply(example) });
  }
  return messages;
}
