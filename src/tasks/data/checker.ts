import type { GivenVerdict } from '../define-task.js';
import type { Parsed, VerifyContext } from '../task.js';
import type { DataProblem } from './data-problem.js';

/** `read` is of the answer's text: of the whole reply, or of what stands in its answer tag. */
export interface Checker<A = unknown> {
  read(text: string, problem: DataProblem): Parsed<A>;
  verify(
    problem: DataProblem,
    answer: A,
    context: VerifyContext,
  ): GivenVerdict | Promise<GivenVerdict>;
}
