import { Random } from '../src/random.js';
import { solvedReply } from '../src/tasks/scheduling/few-shot.js';
import { solveExactly } from '../src/tasks/scheduling/exact.js';
import { POLICIES } from '../src/tasks/scheduling/policies.js';
import type { SchedulingProblem } from '../src/tasks/scheduling/problem.js';
import { scheduling } from '../src/tasks/scheduling/scheduling.js';
import { judgeReply } from '../src/tasks/verdict.js';

export interface VerifyBench {
  /**
   * Whole replies (reasoning and answer block) of T5 parsed and judged a second, one thread, half
   * of them failing; median of seven passes.
   */
  readonly verdictsPerSecond: number;
  /** T5 problems generated a second, one thread, without the solver; median of seven passes. */
  readonly generatedPerSecond: number;
  readonly replies: number;
  readonly meanCharacters: number;
}

const PASSES = 7;
const median = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 1]!;

/** Operations a second over at least `milliseconds`, median of the passes. */
function rate(operate: (index: number) => void, milliseconds: number): number {
  const passes: number[] = [];
  for (let pass = 0; pass < PASSES; pass++) {
    const started = performance.now();
    let count = 0;
    while (performance.now() - started < milliseconds)
      for (let burst = 0; burst < 16; burst++) operate(count++);
    passes.push((1000 * count) / (performance.now() - started));
  }
  return Math.round(median(passes));
}

export function benchVerify(): VerifyBench {
  const random = new Random(1n);
  const cases = Array.from({ length: 256 }, (_, index) => {
    const problem = scheduling.generate('T5', random.nextUint64()) as SchedulingProblem;
    const schedule =
      index % 2 === 0
        ? solveExactly(problem)!.schedule
        : POLICIES['list-alphabetical'].decide(problem);
    return { problem, text: solvedReply(problem, schedule, 'cot') };
  });
  return {
    verdictsPerSecond: rate(
      (index) =>
        void judgeReply(
          scheduling,
          cases[index % cases.length]!.problem,
          cases[index % cases.length]!.text,
          'stop',
        ),
      300,
    ),
    generatedPerSecond: rate((index) => void scheduling.generate('T5', BigInt(index)), 300),
    replies: cases.length,
    meanCharacters: Math.round(
      cases.reduce((sum, { text }) => sum + text.length, 0) / cases.length,
    ),
  };
}
