import { describe, expect, test } from '@jest/globals';
import { Slices } from '../../src/server/time-slices.js';
import { Turnstile } from '../../src/server/event-loop-gate.js';

const busy = (ms: number): void => {
  for (const begun = performance.now(); performance.now() - begun < ms; );
};

/** How often the event loop turned meanwhile. */
async function turnsOf(work: () => Promise<unknown>): Promise<number> {
  let turns = 0;
  let ticking = setImmediate(function tick() {
    turns++;
    ticking = setImmediate(tick);
  });
  await work();
  clearImmediate(ticking);
  return turns;
}

describe('the event loop turns', () => {
  test('between members that take long', async () => {
    const made: number[] = [];
    const turns = await turnsOf(async () => {
      const slices = new Slices(new Turnstile());
      made.push(
        ...(await slices.map(Int32Array.of(3, 1, 2, 5, 4), (item, i) => {
          busy(5);
          return item * 10 + i;
        })),
      );
    });
    expect(made).toEqual([30, 11, 22, 53, 44]);
    expect(turns).toBeGreaterThanOrEqual(5);
  });

  test('while a long list is written, in an answer or in its choices', async () => {
    const slow = {
      toJSON() {
        busy(1);
        return 1;
      },
    };
    const list = Array.from({ length: 150 }, () => slow);
    for (const answer of [{ list }, { choices: [{ logprobs: { content: list } }] }])
      expect(await turnsOf(() => new Slices(new Turnstile()).json(answer))).toBeGreaterThan(5);
  });
});

test.each([
  ['scalars', { a: 1.5, b: -0, c: null, d: true, e: 'x"\u{2028}\ud800' }],
  [
    'what is left out',
    { a: undefined, b: { c: undefined }, d: [undefined, null, { e: undefined }] },
  ],
  ['lists of lists', { a: [], b: [[]], c: [[1, [2]], { d: [3, { e: [] }] }], f: [null, { g: 1 }] }],
  [
    'long lists',
    {
      a: Array.from({ length: 5000 }, (_, i) => i),
      b: Array.from({ length: 300 }, (_, i) => ({ [`k${i}`]: [i, 'x'] })),
    },
  ],
  [
    'choices',
    {
      choices: Array.from({ length: 3 }, (_, i) => ({
        i,
        content: Array.from({ length: 500 }, (_, k) => ({ k })),
      })),
    },
  ],
])('JSON of %s is that of JSON.stringify', async (_, answer) => {
  expect(await new Slices(new Turnstile()).json(answer)).toBe(JSON.stringify(answer));
});
