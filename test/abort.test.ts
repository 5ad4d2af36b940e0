/** However many wait for a signal, it has one listener. */
import { getEventListeners } from 'node:events';
import { expect, test } from '@jest/globals';
import { offAbort, onAbort } from '../src/abort.js';

test('each that waits is told once, and none that has left', () => {
  const ending = new AbortController();
  const told: number[] = [];
  const hear = Array.from({ length: 50 }, (_, i) => () => {
    told.push(i);
    offAbort(ending.signal, hear[i]!);
  });
  for (const each of hear) onAbort(ending.signal, each);
  expect(getEventListeners(ending.signal, 'abort')).toHaveLength(1);
  for (const each of hear.slice(10)) offAbort(ending.signal, each);
  offAbort(ending.signal, () => {});
  offAbort(undefined, hear[0]!);
  onAbort(undefined, hear[0]!);
  ending.abort();
  expect(told).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
});

test('when nobody waits any more nothing is left at the signal', () => {
  const { signal } = new AbortController();
  const hear = [() => {}, () => {}];
  for (const each of hear) onAbort(signal, each);
  for (const each of hear) offAbort(signal, each);
  expect(getEventListeners(signal, 'abort')).toHaveLength(0);
  onAbort(signal, hear[0]!);
  expect(getEventListeners(signal, 'abort')).toHaveLength(1);
});
