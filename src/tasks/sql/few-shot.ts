import { deriveSeed } from '../../random.js';
import type { ChatMessage, PromptStyle } from '../task.js';
import type { SqlProblem } from './problem.js';
import { sqlQuestion, writtenReply } from './prompt.js';

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
    const key = {
      runSeed: seed,
      purpose: 'few-shot',
      iteration: 0,
      problemId: question.id,
      sample: draw,
    };
    const example = generate(question.tier, deriveSeed(key));
    if (used.has(example.id)) continue;
    used.add(example.id);
    messages.push(sqlQuestion(example), writtenReply(example.query, style));
  }
  return messages;
}
