import { expect, test } from '@jest/globals';
import { callAhead } from '../../src/judge/ordered-concurrency.js';

const after = <T>(ms: number, value: T): Promise<T> =>
  new Promise((resume) => setTimeout(() => resume(value), ms));

/** What comes out, and at last what is thrown. */
async function gather(generator: AsyncGenerator<readonly [number, string]>): Promise<string[]> {
  const found: string[] = [];
  try {
    for await (const [item, result] of generator) found.push(`${item} ${result}`);
  } catch (error) {
    found.push((error as Error).message);
  }
  return found;
}

test.each([1, 2, 5])('in the order of the items, with at most %i calls at once', async (atOnce) => {
  let [going, most] = [0, 0];
  const call = async (item: number): Promise<string> => {
    most = Math.max(most, ++going);
    await after(10 * (4 - item), null);
    going--;
    return `done`;
  };
  expect(await gather(callAhead([0, 1, 2, 3], atOnce, call))).toEqual([
    '0 done',
    '1 done',
    '2 done',
    '3 done',
  ]);
  expect(most).toBe(Math.min(atOnce, 4));
});

test.each([1, 2, 5])(
  'with %i calls at once the first item that fails is the one that is told of, however late it fails',
  async (atOnce) => {
    const call = async (item: number): Promise<string> => {
      await after(item === 1 ? 30 : 0, null);
      if (item > 0) throw new Error(`item ${item}`);
      return 'done';
    };
    expect(await gather(callAhead([0, 1, 2], atOnce, call))).toEqual(['0 done', 'item 1']);
    const source = function* (): Generator<number> {
      yield 0;
      yield 1;
      throw new Error('the source');
    };
    expect(await gather(callAhead(source(), atOnce, call))).toEqual(['0 done', 'item 1']);
    expect(await gather(callAhead(source(), atOnce, () => after(10, 'done')))).toEqual([
      '0 done',
      '1 done',
      'the source',
    ]);
  },
);
