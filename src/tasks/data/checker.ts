import type { GivenVerdict } from '../define-task.js';
import type { Parsed, VerifyContext } from '../task.js';
import type { DataProblem } from './data-problem.js';

/** `read` gets the text of the answer: the whole reply, or the content of its answer tag. */
export interface Checker<A = unknown> {
  read(text: string, problem: DataProblem): Parsed<A>;
  verify(
    problem: DataProblem,
    answer: A,
    context: VerifyContext,
  ): GivenVerdict | Promise<GivenVerdict>;
}
