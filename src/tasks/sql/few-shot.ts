import { deriveSeed } from '../../random.js';
import type { ChatMessage, PromptStyle } from '../task.js';
import type { SqlProblem } from './problem.js';
import { sqlPrompt } from './prompt.js';

/** A reply that passes, in the form that the style asks for. */
export const solvedReply = ({ query }: SqlProblem, style: PromptStyle): string =>
  style === 'plain' ? `${query};` : `The question is answered by this statement.\n\n\`\`\`sql\n${query};\n\`\`\``;

/** Solved examples of the question's own tier, none of them the question itself or twice there. */
export function fewShotExamples(
  question: SqlProblem,
  style: PromptStyle,
  count: number,
  seed: bigint,
  generate: (tier: string, seed: bigint) => SqlProblem,
): ChatMessage[] {
  const used = new Set([question.id]);
  const messages: ChatMessage[] = [];
  for (let draw = 0; messages.length < 2 * count; draw++) {
    const key = { runSeed: seed, purpose: 'few-shot', iteration: 0, problemId: question.id, sample: draw };
    const example = generate(question.tier, deriveSeed(key));
    if (used.has(example.id)) continue;
    used.add(example.id);
    messages.push(...sqlPrompt(example, style), { role: 'assistant', content: solvedReply(example, style) });
  }
  return messages;
}
