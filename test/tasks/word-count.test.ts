/**
 * The lesson of examples/word-count.ts: what the published verifier gave its best score to fails
 * here, and an honest text passes.
 */
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { openTask, type OpenTask, type Problem } from '../../src/index.js';

const file = fileURLToPath(new URL('../../examples/word-count.ts', import.meta.url));

/** As it was published (autocontext): target 50, the letters "test" anywhere, nothing else. */
function published(text: string): number {
  const words = text.split(/\s+/).filter((word) => word !== '').length;
  const accuracy = Math.max(0, 1 - Math.abs(words - 50) / 50);
  return Math.max(0, Math.min(1, accuracy - (text.toLowerCase().includes('test') ? 0 : 0.1)));
}
const HONEST =
  'A test runs a piece of code with some input. It checks whether the result is what somebody expected. When an error appears, the ' +
  'failure points at a bug. Good tests are short, and each one asks a single question. They never depend on the clock or on luck. ' +
  'Write them before you forget why the program works.';

async function about(
  task: OpenTask,
  topic: string,
  fits: (target: number) => boolean,
): Promise<Problem> {
  for (let seed = 0n; seed < 2000n; seed++) {
    const problem = (await task.generate('text', seed)) as Problem & {
      topic: string;
      target: number;
    };
    if (problem.topic === topic && fits(problem.target)) return problem;
  }
  throw new Error('no seed draws it');
}

test('fifty times "test" scored 1.0 and now has no score; what keeps the rules has the score of its length', async () => {
  expect(published('test '.repeat(50))).toBe(1);
  await using task = await openTask(path.resolve(file));
  const problem = await about(task, 'testing software', (target) => target === 55);
  const verdictOn = async (text: string) => (await task.judge(problem, text, 'stop')).verdict;
  const copies = await verdictOn('test '.repeat(50));
  expect([copies.kind, copies.score]).toEqual(['fail', undefined]);
  const words = HONEST.split(' ').length;
  expect(await verdictOn(HONEST)).toMatchObject({
    kind: 'pass',
    score: 1 - Math.abs(words - 55) / 55,
    metrics: { words },
  });
  const short = await verdictOn(HONEST.split('. ').slice(0, 4).join('. '));
  expect(short).toMatchObject({ kind: 'fail', violations: [{ category: 'length' }] });
  expect(short.score!).toBeLessThan(0.9);
});

test('no exploit passes, no one text is right for all, and the policies show what is closed and what stays open', async () => {
  await using task = await openTask(path.resolve(file));
  for (const { problem, text, finish } of task.exploits)
    expect((await task.judge(problem, text, finish)).verdict.kind).toBe('fail');
  expect(task.exploits.length).toBeGreaterThan(4);
  const problems = await Promise.all(
    Array.from({ length: 20 }, (_, i) => task.generate('text', BigInt(i))),
  );
  const kinds = async (policy: string) =>
    Promise.all(problems.map(async (problem) => (await task.applyPolicy(policy, problem)).kind));
  expect(new Set(await kinds('fifty times test'))).toEqual(new Set(['fail']));
  expect(new Set(await kinds('word salad'))).toEqual(new Set(['pass']));
  const honest = await Promise.all(
    problems.map(async (problem) => (await task.judge(problem, HONEST, 'stop')).verdict.kind),
  );
  expect(honest.filter((kind) => kind === 'pass').length).toBeLessThan(10);
});
