import { afterEach, expect, jest, test } from '@jest/globals';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import { solvedReply } from '../../src/tasks/scheduling/few-shot.js';
import { solveExactly } from '../../src/tasks/scheduling/exact.js';
import type { Task, Verdict, VerifyContext } from '../../src/tasks/task.js';
import { judgeReply } from '../../src/tasks/verdict.js';

const PASS: Verdict = { kind: 'pass', violations: [], metrics: {} };
const problem = { id: 'x', tier: 'T' };

const taskOf = (
  verify: (context: VerifyContext) => Promise<Verdict>,
  verifySeconds = 0.05,
): Pick<Task<typeof problem, string>, 'parse' | 'verify' | 'limits'> => ({
  parse: (answer) => ({ ok: true, answer, form: 'text' }),
  verify: (_problem, _answer, context) => verify(context),
  limits: { verifySeconds },
});
const untilTold = ({ signal }: VerifyContext): Promise<Verdict> =>
  new Promise((told) => signal.addEventListener('abort', () => told(PASS), { once: true }));

afterEach(() => void jest.restoreAllMocks());

test('a verdict that is there at once is no promise, and neither a signal nor a timer is made for it', () => {
  const made = jest.spyOn(globalThis, 'AbortController');
  const timed = jest.spyOn(globalThis, 'setTimeout');
  const asked = scheduling.generate('T0', 1n) as Awaited<ReturnType<typeof scheduling.generate>>;
  const judged = judgeReply(
    scheduling,
    asked,
    solvedReply(asked, solveExactly(asked)!.schedule, 'cot'),
    'stop',
  );
  expect(judged.verdict.kind).toBe('pass');
  expect(made).not.toHaveBeenCalled();
  expect(timed).not.toHaveBeenCalled();
});

test('a promised one is waited for, with the form of its answer', async () => {
  expect(
    await judgeReply(
      taskOf(async () => PASS),
      problem,
      'x',
      'stop',
    ),
  ).toEqual({ verdict: PASS, form: 'text' });
  await expect(
    judgeReply(
      taskOf(() => Promise.reject(new Error('broken'))),
      problem,
      'x',
      'stop',
    ),
  ).rejects.toThrow('broken');
});

test('past the limit the signal is aborted, and what comes then is no verdict', async () => {
  for (const verify of [
    untilTold,
    (context: VerifyContext) => untilTold(context).then(() => Promise.reject(new Error('cut off'))),
  ])
    expect(await judgeReply(taskOf(verify), problem, 'x', 'stop')).toMatchObject({
      verdict: { kind: 'none', reason: expect.stringContaining('0.05 seconds') },
    });
});

test('when nobody waits any more the signal is aborted at once', async () => {
  for (const signal of [AbortSignal.abort(), AbortSignal.timeout(10)])
    await expect(
      judgeReply(taskOf(untilTold, 3600), problem, 'x', 'stop', { signal }),
    ).rejects.toMatchObject({ code: 'ABORTED' });
});
