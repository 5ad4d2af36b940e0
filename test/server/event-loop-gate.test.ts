import { expect, test } from '@jest/globals';
import { Turnstile } from '../../src/server/event-loop-gate.js';

test('who comes at once goes in in order, one a turn of the event loop', async () => {
  let turn = 0;
  const tick = (): void => {
    turn++;
    if (turn < 100) setImmediate(tick);
  };
  setImmediate(tick);
  const turnstile = new Turnstile();
  const passed: (readonly [who: number, turn: number])[] = [];
  const pass = async (who: number): Promise<void> => {
    await turnstile.pass();
    passed.push([who, turn]);
  };
  await Promise.all([
    ...Array.from({ length: 5 }, (_, who) => pass(who)),
    pass(5).then(() => pass(6)),
  ]);
  expect(passed.map(([who]) => who)).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(new Set(passed.map(([, at]) => at)).size).toBe(7);
});
