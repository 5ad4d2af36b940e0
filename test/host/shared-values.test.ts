/**
 * Values that several hold at once: opened once, closed with the last, and never two of one key at
 * a time.
 */
import { expect, test } from '@jest/globals';
import { SharedValues } from '../../src/host/shared-values.js';

const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test('whoever asks while the value is being closed waits until it is gone', async () => {
  const shared = new SharedValues<number>();
  const told: string[] = [];
  let opened = 0;
  let closed = (): void => {};
  const opening = {
    open: async () => {
      told.push(`open ${++opened}`);
      return opened;
    },
    close: (value: number) =>
      new Promise<void>((resolve) => {
        told.push(`close ${value}`);
        closed = () => {
          told.push(`closed ${value}`);
          resolve();
        };
      }),
  };
  const first = await shared.hold('a', opening);
  const leaving = first.release();
  await later();
  const [second, third] = [shared.hold('a', opening), shared.hold('a', opening)];
  await later();
  expect(told).toEqual(['open 1', 'close 1']);
  await shared.hold('b', opening); // another key waits for nobody
  closed();
  await leaving;
  expect([(await second).value, (await third).value]).toEqual([3, 3]);
  expect(told).toEqual(['open 1', 'close 1', 'open 2', 'closed 1', 'open 3']);
  expect(shared.values()).toEqual([
    { value: 3, references: 2 },
    { value: 2, references: 1 },
  ]);
});

test('a value that could not be closed, or opened, keeps nobody from a new one', async () => {
  const shared = new SharedValues<number>();
  const bad = { open: async () => 1, close: async () => Promise.reject(new Error('not closed')) };
  await (await shared.hold('a', bad)).release();
  const worse = {
    open: async () => Promise.reject(new Error('not opened')),
    close: async () => undefined,
  };
  await expect(shared.hold('a', worse)).rejects.toThrow('not opened');
  const good = { open: async () => 2, close: async () => undefined };
  expect((await shared.hold('a', good)).value).toBe(2);
});

test('the last holder closes it, and each lets go once; who is late or leaves early keeps nothing', async () => {
  const shared = new SharedValues<string>();
  const told: string[] = [];
  let opened = (_: string): void => {};
  const opening = {
    open: (signal: AbortSignal) => {
      signal.addEventListener('abort', () => told.push('abandoned'));
      return new Promise<string>((resolve) => (opened = resolve));
    },
    close: async (value: string) => void told.push(`close ${value}`),
  };
  await expect(shared.hold('a', opening, AbortSignal.abort())).rejects.toMatchObject({
    code: 'ABORTED',
  });
  const controller = new AbortController();
  const [one, two, left] = [
    shared.hold('a', opening),
    shared.hold('a', opening),
    shared.hold('a', opening, controller.signal),
  ];
  expect(shared.values()).toEqual([]); // not open yet
  controller.abort();
  await expect(left).rejects.toMatchObject({ code: 'ABORTED' });
  await later();
  opened('x');
  const [first, second] = [await one, await two];
  expect(shared.values()).toEqual([{ value: 'x', references: 2 }]);
  await first.release();
  await first.release();
  expect([shared.values(), told]).toEqual([[{ value: 'x', references: 1 }], []]);
  await second.release();
  expect([shared.values(), told]).toEqual([[], ['abandoned', 'close x']]);
});
