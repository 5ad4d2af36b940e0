/** Who gets memory, who waits and who is refused. */
import { expect, test } from '@jest/globals';
import { MemoryBudget } from '../../src/host/memory-budget.js';

const never = new AbortController().signal;
const options = (what: string, wait = false, signal = never) => ({ what, wait, signal });

test('promises what is there and gets it back once, however often it is given back', async () => {
  const budget = new MemoryBudget(100);
  const one = await budget.take(60, options('one'));
  const two = await budget.take(40, options('two'));
  expect(budget.used).toBe(100);
  one();
  one();
  expect(budget.used).toBe(40);
  two();
  expect(budget.used).toBe(0);
});

test('refuses with the figures what has no room, and at once what never will', async () => {
  const budget = new MemoryBudget(100);
  await budget.take(70, options('one'));
  const refused = expect.objectContaining({
    code: 'OUT_OF_MEMORY',
    message: "two needs 31 bytes, but only 30 of the host's 100 bytes are free",
  });
  await expect(budget.take(31, options('two'))).rejects.toEqual(refused);
  await expect(budget.take(101, options('three', true))).rejects.toMatchObject({
    code: 'OUT_OF_MEMORY',
  });
  expect(budget.used).toBe(70);
});

test('those who wait are served in order: the large one is not overtaken by the small, nor by who would not wait', async () => {
  const budget = new MemoryBudget(100);
  const giveBack = await budget.take(80, options('first'));
  const served: string[] = [];
  const large = budget.take(90, options('large', true)).then((give) => {
    served.push('large');
    return give;
  });
  const small = budget.take(10, options('small', true)).then((give) => {
    served.push('small');
    return give;
  });
  await expect(budget.take(5, options('hasty'))).rejects.toMatchObject({
    message: expect.stringContaining('2 other loads are waiting'),
  });
  expect(served).toEqual([]);
  giveBack();
  await Promise.all([large, small]);
  expect(served).toEqual(['large', 'small']);
  expect([budget.used, budget.waiting]).toEqual([100, 0]);
});

test('who is cancelled leaves the queue, and those behind move up', async () => {
  const budget = new MemoryBudget(100);
  await budget.take(80, options('first'));
  const controller = new AbortController();
  const large = budget.take(90, options('large', true, controller.signal));
  const small = budget.take(20, options('small', true));
  controller.abort();
  await expect(large).rejects.toMatchObject({ code: 'ABORTED' });
  await small;
  expect([budget.used, budget.waiting]).toEqual([100, 0]);
  await expect(budget.take(1, options('late', true, controller.signal))).rejects.toMatchObject({
    code: 'ABORTED',
  });
});

test('all of it is given to one or to several, to the last byte; who was let in has left the queue for good', async () => {
  const budget = new MemoryBudget(100);
  const whole = await budget.take(100, options('whole'));
  const controller = new AbortController();
  const waiting = [60, 40, 1].map((bytes) =>
    budget.take(bytes, options('waiting', true, controller.signal)),
  );
  expect([budget.used, budget.waiting]).toEqual([100, 3]);
  whole();
  const [first, second] = await Promise.all(waiting.slice(0, 2));
  expect([budget.used, budget.waiting]).toEqual([100, 1]);
  const refused = budget.take(1, options('hasty'));
  await expect(refused).rejects.toMatchObject({
    message:
      "hasty needs 1 bytes, but only 0 of the host's 100 bytes are free, and 1 other load is waiting",
  });
  controller.abort(); // of those who were let in nothing is taken away
  await expect(waiting[2]).rejects.toMatchObject({ code: 'ABORTED' });
  expect([budget.used, budget.waiting]).toEqual([100, 0]);
  for (const giveBack of [first!, second!, first!, second!]) giveBack();
  expect(budget.used).toBe(0);
});
