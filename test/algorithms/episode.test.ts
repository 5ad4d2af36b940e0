/** What is trained on of an episode: the tokens that were sampled, wherever they stand. */
import { expect, test } from '@jest/globals';
import { trainSequence } from '../../src/algorithms/sequences.js';
import {
  episodeIds,
  exchange,
  lossMask,
  ofSampled,
  type Episode,
} from '../../src/rollouts/episode.js';

const ids = (...values: number[]): Int32Array => Int32Array.from(values);
/** Two turns; the second reply has an opening that was put into the model's mouth. */
const EPISODE: Episode = [
  ...exchange(ids(1, 2, 3), ids(4, 5)),
  { role: 'user', ids: ids(6), sampled: false },
  { role: 'assistant', ids: ids(7), sampled: false },
  { role: 'assistant', ids: ids(8, 9), sampled: true },
];

test('the ids of an episode are those of its segments, and the loss is over the sampled ones', () => {
  expect(trainSequence(EPISODE)).toEqual({
    tokenIds: ids(1, 2, 3, 4, 5, 6, 7, 8, 9),
    labelMask: Uint8Array.of(0, 0, 0, 1, 1, 0, 0, 1, 1),
  });
  expect(episodeIds([])).toEqual(ids());
  expect(lossMask(exchange(ids(1), ids()))).toEqual(Uint8Array.of(0));
});

test('of a row with a value a token, those of the sampled tokens', () => {
  expect(ofSampled(EPISODE, Float32Array.of(10, 20, 30, 40, 50, 60, 70, 80, 90))).toEqual(
    Float32Array.of(40, 50, 80, 90),
  );
});
