/** Turns are shared out by whose they are, not by who came first with how many. */
import { expect, test } from '@jest/globals';
import { FairQueue } from '../../src/server/fair-queue.js';

const never = new AbortController().signal;

/** Enters for each, one after the other, and tells the order in which they were admitted, each ending at once. */
async function admitted(queue: FairQueue, names: readonly string[]): Promise<string[]> {
  const { leave: hold } = await queue.enter('first', never);
  const order: string[] = [];
  const all = names.map(async (name) => {
    const { leave } = await queue.enter(name[0]!, never);
    order.push(name);
    leave();
  });
  hold();
  await Promise.all(all);
  return order;
}

test('whoever asks once is served before the second of one who asks often', async () => {
  const queue = new FairQueue({ running: 1, waiting: 100 });
  expect(await admitted(queue, ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'])).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3', 'a4']);
  expect([queue.running, queue.waiting]).toEqual([0, 0]);
});

test('as many run as there is room, and leaving twice is leaving once', async () => {
  const queue = new FairQueue({ running: 2, waiting: 100 });
  const leave = [(await queue.enter('a', never)).leave, (await queue.enter('a', never)).leave];
  const third = queue.enter('b', never);
  expect([queue.running, queue.waiting]).toEqual([2, 1]);
  leave[0]!();
  leave[0]!();
  await third;
  expect([queue.running, queue.waiting]).toEqual([2, 0]);
});

test('who has to wait behind too many is refused with 429 and when to come again', async () => {
  const queue = new FairQueue({ running: 1, waiting: 1 });
  await queue.enter('a', never);
  void queue.enter('a', never);
  await expect(queue.enter('b', never)).rejects.toMatchObject({ status: 429, code: 'queue_full', retryAfter: 1 });
});

test('who goes away while waiting is not admitted, and keeps nobody from it', async () => {
  const queue = new FairQueue({ running: 1, waiting: 9 });
  const { leave } = await queue.enter('a', never);
  const left = new AbortController();
  const gone = queue.enter('b', left.signal);
  const next = queue.enter('c', never);
  left.abort(new Error('gone'));
  await expect(gone).rejects.toThrow('gone');
  expect(queue.waiting).toBe(1);
  leave();
  await next;
  await expect(queue.enter('d', left.signal)).rejects.toThrow('gone');
  expect([queue.running, queue.waiting]).toEqual([1, 0]);
});

test('closed, it admits nobody until it is opened again; idle tells when nobody runs', async () => {
  const queue = new FairQueue({ running: 4, waiting: 9 });
  const { leave } = await queue.enter('a', never);
  queue.close();
  let [admittedWhileClosed, isIdle] = [false, false];
  const waiting = queue.enter('a', never).then((end) => {
    admittedWhileClosed = true;
    return end;
  });
  const idle = queue.idle().then(() => {
    isIdle = true;
  });
  await Promise.resolve();
  expect([admittedWhileClosed, isIdle]).toEqual([false, false]);
  leave();
  await idle;
  expect(admittedWhileClosed).toBe(false);
  queue.reopen();
  (await waiting).leave();
  await queue.idle();
  expect(queue.running).toBe(0);
});

test('where keys share, each leaves places for one that comes later, and those that run nothing find one', async () => {
  for (const running of [2, 5, 16, 64]) {
    const queue = new FairQueue({ running, waiting: 1000, isShared: true });
    const enter = (whose: string, count: number): void => {
      for (let i = 0; i < count; i++) void queue.enter(whose, never);
    };
    enter('a', 200);
    const ofA = queue.running;
    expect(ofA).toBeLessThan(running);
    expect(ofA).toBeGreaterThanOrEqual(Math.floor((3 * running) / 4) - 1);
    enter('b', 200);
    if (running > 4) expect(queue.running).toBeLessThan(running);
    const before = queue.running;
    if (running > before) {
      await queue.enter('c', never);
      expect(queue.running).toBe(before + 1);
    }
  }
});

test('one place is anybody’s, and without other keys all places are', async () => {
  const one = new FairQueue({ running: 1, waiting: 9, isShared: true });
  await one.enter('a', never);
  expect(one.running).toBe(1);
  const alone = new FairQueue({ running: 4, waiting: 9 });
  for (let i = 0; i < 4; i++) await alone.enter('a', never);
  expect(alone.running).toBe(4);
});

test('where no more may wait, the last of whoever has the most makes room for one who has fewer', async () => {
  const queue = new FairQueue({ running: 1, waiting: 6, isShared: true });
  const { leave } = await queue.enter('a', never);
  const told: string[] = [];
  const wait = (name: string): void =>
    void queue.enter(name[0]!, never).then(
      (turn) => {
        told.push(name);
        turn.leave();
      },
      ({ status, code }: { status: number; code: string }) => void told.push(`${name} ${status} ${code}`),
    );
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'b2', 'c1', 'a7']) wait(name);
  await new Promise((resolve) => setImmediate(resolve));
  expect(told).toEqual(['a7 429 queue_full', 'a6 429 queue_full', 'a5 429 queue_full', 'a4 429 queue_full']);
  expect(queue.waiting).toBe(6);
  leave();
  await new Promise((resolve) => setImmediate(resolve));
  expect(told.slice(4).sort()).toEqual(['a1', 'a2', 'a3', 'b1', 'b2', 'c1']);
  expect([queue.running, queue.waiting]).toEqual([0, 0]);
});

test('ranks are the lowest that are free among those of a key', async () => {
  const queue = new FairQueue({ running: 9, waiting: 9 });
  const turns = [
    await queue.enter('a', never),
    await queue.enter('a', never),
    await queue.enter('b', never),
    await queue.enter('a', never),
  ];
  expect(turns.map(({ rank }) => rank)).toEqual([0, 1, 0, 2]);
  turns[1]!.leave();
  turns[1]!.leave();
  expect((await queue.enter('a', never)).rank).toBe(1);
  expect((await queue.enter('a', never)).rank).toBe(3);
});
