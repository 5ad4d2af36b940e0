import { IsoproError } from '../../errors.js';
import { solvedExamples } from '../built-in.js';
import type { ChatMessage, PromptStyle } from '../task.js';
import { printAnswer } from './answer.js';
import type { Schedule, SchedulingProblem } from './problem.js';
import { explainSchedule, schedulingPrompt } from './prompt.js';

/**
 * A complete reply in the style asked for: reasoning whose every claim holds, then the answer
 * block; or the block alone.
 */
export const solvedReply = (
  problem: SchedulingProblem,
  schedule: Schedule,
  style: PromptStyle,
): string =>
  style === 'cot'
    ? `${explainSchedule(problem, schedule)}\n\n${printAnswer(schedule)}`
    : printAnswer(schedule);

/**
 * `count` solved examples of the question's tier, as user and assistant turns; never the question
 * itself, never a frozen problem (`generate` excludes those).
 * @throws IsoproError SOLVER_FAILED where the oracle does not answer
 */
export const fewShotExamples = (
  question: SchedulingProblem,
  style: PromptStyle,
  count: number,
  seed: bigint,
  generate: (tier: string, seed: bigint) => SchedulingProblem,
  oracle: (problem: SchedulingProblem) => Promise<Schedule | null>,
): Promise<ChatMessage[]> =>
  solvedExamples(question, count, seed, generate, async (example, draw) => {
    if (draw > 10 * count + 10)
      throw new IsoproError(
        'SOLVER_FAILED',
        `the solver could not solve ${count} examples of tier ${question.tier}`,
      );
    const schedule = await oracle(example);
    if (schedule === null) return null;
    const content = solvedReply(example, schedule, style);
    return [...schedulingPrompt(example, style), { role: 'assistant', content }];
  });
