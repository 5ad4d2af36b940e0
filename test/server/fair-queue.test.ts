/** Turns are shared out by whose they are, not by who came first with how many. */
import { getEventListeners } from 'node:events';
import { expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { FairQueue } from '../../src/server/fair-queue.js';

const never = new AbortController().signal;

/**
 * Enters for each, one after the other, and tells the order in which they were admitted, each
 * ending at once.
 */
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
  expect(await admitted(queue, ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'])).toEqual([
    'a1',
    'b1',
    'c1',
    'a2',
    'b2',
    'a3',
    'a4',
  ]);
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
  await expect(queue.enter('b', never)).rejects.toMatchObject({
    status: 429,
    code: 'queue_full',
    retryAfter: 1,
  });
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
      ({ status, code }: { status: number; code: string }) =>
        void told.push(`${name} ${status} ${code}`),
    );
  for (const name of ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'b1', 'b2', 'c1', 'a7']) wait(name);
  await new Promise((resolve) => setImmediate(resolve));
  expect(told).toEqual([
    'a7 429 queue_full',
    'a6 429 queue_full',
    'a5 429 queue_full',
    'a4 429 queue_full',
  ]);
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

/**
 * The rules of the docs once more, slowly: who runs and who waits are plain lists, and every
 * question is asked of the whole of them.
 */
class PlainQueue {
  readonly running: { whose: string; rank: number; name: string }[] = [];
  /** Whose turn it is next comes first. */
  lines: { whose: string; names: string[] }[] = [];
  isOpen = true;
  readonly told: string[] = [];
  constructor(readonly limits: { running: number; waiting: number; isShared: boolean }) {}

  get waiting(): number {
    return this.lines.reduce((sum, { names }) => sum + names.length, 0);
  }

  mayRun(whose: string): boolean {
    const free = this.limits.running - this.running.length;
    const own = this.running.filter((each) => each.whose === whose).length;
    if (free === 0) return false;
    // with it there are at most three of a key for each place that is free then
    return own === 0 || !this.limits.isShared || own + 1 <= 3 * (free - 1);
  }

  run(whose: string, name: string): void {
    const ranks = this.running.filter((each) => each.whose === whose).map(({ rank }) => rank);
    const rank = [...Array(this.limits.running).keys()].find((each) => !ranks.includes(each))!;
    this.running.push({ whose, rank, name });
    this.told.push(`${name} runs at ${rank}`);
  }

  enter(whose: string, name: string): void {
    const own = this.lines.find((line) => line.whose === whose);
    if (this.isOpen && own === undefined && this.mayRun(whose)) {
      this.run(whose, name);
      return;
    }
    if (this.waiting === this.limits.waiting) {
      const most = Math.max(0, ...this.lines.map(({ names }) => names.length));
      const refused = `is refused: the queue is full: ${this.limits.waiting} replies are waiting`;
      // there has to be one who would still have more, or as many, without its last
      if (most - 1 <= (own?.names.length ?? 0)) return void this.told.push(`${name} ${refused}`);
      this.told.push(
        `${this.lines.find(({ names }) => names.length === most)!.names.pop()!} ${refused}`,
      );
    }
    if (own === undefined) this.lines.push({ whose, names: [name] });
    else own.names.push(name);
  }

  leave(name: string): void {
    const at = this.running.findIndex((each) => each.name === name);
    if (at < 0) return;
    this.running.splice(at, 1);
    this.admit();
  }

  goAway(name: string): void {
    for (const line of this.lines) {
      if (!line.names.includes(name)) continue;
      line.names = line.names.filter((each) => each !== name);
      this.told.push(`${name} is refused: gone`);
    }
    this.lines = this.lines.filter(({ names }) => names.length > 0);
  }

  admit(): void {
    for (
      let next: { whose: string; names: string[] } | undefined;
      this.isOpen && (next = this.lines.find(({ whose }) => this.mayRun(whose))) !== undefined;
    ) {
      const { whose, names } = next;
      this.lines = this.lines.filter((line) => line !== next);
      this.run(whose, names[0]!);
      if (names.length > 1) this.lines.push({ whose, names: names.slice(1) });
    }
  }
}

test.each([
  [1, 2, false],
  [3, 5, false],
  [4, 3, true],
  [9, 8, true],
  [16, 6, true],
])(
  'with %i places and %i that may wait, shared: %s, whoever enters, leaves or goes away is served by the rules',
  async (running, waiting, isShared) => {
    const limits = { running, waiting, isShared };
    const [queue, plain] = [new FairQueue(limits), new PlainQueue(limits)];
    const told: string[] = [];
    const leaves = new Map<string, () => void>();
    const signals = new Map<string, AbortController>();
    const random = new Random(BigInt(running));
    const one = <T>(of: readonly T[]): T | undefined =>
      of[random.nextInteger(0, Math.max(0, of.length - 1))];
    let busiest = 0;
    for (let i = 0; i < 700; i++) {
      const act = random.nextInteger(0, 19);
      if (act < 11) {
        // one asks as often as all others
        const whose = random.nextInteger(0, 1) === 0 ? 'a' : one(['b', 'c', 'd'])!;
        const name = `${whose}${i}`;
        const signal = new AbortController();
        signals.set(name, signal);
        plain.enter(whose, name);
        queue.enter(whose, signal.signal).then(
          ({ rank, leave }) => {
            told.push(`${name} runs at ${rank}`);
            leaves.set(name, leave);
          },
          ({ message }: Error) => void told.push(`${name} is refused: ${message}`),
        );
      } else if (act < 16) {
        const name = one([...leaves.keys()]);
        if (name === undefined) continue;
        plain.leave(name);
        leaves.get(name)!();
        if (random.nextInteger(0, 1) === 1) leaves.get(name)!(); // the second time it is nothing
        leaves.delete(name);
      } else if (act < 18) {
        const name = one(plain.lines.flatMap(({ names }) => names));
        if (name === undefined) continue;
        plain.goAway(name);
        signals.get(name)!.abort(new Error('gone'));
      } else if (act === 18) {
        plain.isOpen = false;
        queue.close();
      } else {
        plain.isOpen = true;
        plain.admit();
        queue.reopen();
      }
      await new Promise((resolve) => setImmediate(resolve));
      expect([told.sort(), queue.open]).toEqual([plain.told.sort(), plain.isOpen]);
      expect([queue.running, queue.waiting]).toEqual([plain.running.length, plain.waiting]);
      busiest = Math.max(busiest, queue.running);
      told.length = 0;
      plain.told.length = 0;
    }
    expect(busiest).toBeGreaterThanOrEqual(running - 1);
  },
);

test('idle ends with the last that runs, for everybody who waits for it, also where others queue', async () => {
  const queue = new FairQueue({ running: 2, waiting: 9 });
  await queue.idle();
  const turns = [await queue.enter('a', never), await queue.enter('b', never)];
  let told = 0;
  for (let i = 0; i < 3; i++) void queue.idle().then(() => told++);
  const seen = async (): Promise<number> => {
    await new Promise((resolve) => setImmediate(resolve));
    return told;
  };
  queue.close();
  void queue.enter('c', never);
  turns[0]!.leave();
  expect(await seen()).toBe(0);
  turns[1]!.leave();
  expect(await seen()).toBe(3);
  queue.reopen();
  expect(queue.running).toBe(1);
  void queue.idle().then(() => told++);
  expect(await seen()).toBe(3);
});

test('who has waited is told of no end of its signal any more, and one that is turned away neither', async () => {
  const queue = new FairQueue({ running: 1, waiting: 2 });
  const { leave } = await queue.enter('a', never);
  const [admittedLater, turnedAway] = [new AbortController(), new AbortController()];
  const later = queue.enter('b', admittedLater.signal);
  const away = queue.enter('b', turnedAway.signal);
  const inItsPlace = queue.enter('c', never);
  await expect(away).rejects.toMatchObject({
    code: 'queue_full',
    message: 'the queue is full: 2 replies are waiting',
  });
  leave();
  const turn = await later;
  admittedLater.abort();
  turnedAway.abort();
  expect([queue.running, queue.waiting]).toEqual([1, 1]);
  expect([
    getEventListeners(admittedLater.signal, 'abort'),
    getEventListeners(turnedAway.signal, 'abort'),
  ]).toEqual([[], []]);
  turn.leave();
  (await inItsPlace).leave();
  expect([queue.running, queue.waiting]).toEqual([0, 0]);
});
