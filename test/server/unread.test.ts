/** What was computed and nobody reads has a bound over all streams; who holds the most gives way. */
import { expect, test } from '@jest/globals';
import { Unread } from '../../src/server/unread.js';

test('the stream with the most ends, as often as it takes, and what it held counts no more', () => {
  const unread = new Unread(100);
  const told: string[] = [];
  const [a, b, c] = ['a', 'b', 'c'].map((name) => unread.stream(() => told.push(name)));
  a!.move(60);
  b!.move(30);
  c!.move(10);
  expect(told).toEqual([]);
  c!.move(1);
  expect(told).toEqual(['a']);
  a!.move(1000); // nobody counts it any more
  b!.move(59);
  expect(told).toEqual(['a']);
  b!.move(-79);
  c!.move(79);
  expect(told).toEqual(['a']);
  c!.move(2);
  expect(told).toEqual(['a', 'c']);
  b!.close();
  b!.close();
  const d = unread.stream(() => told.push('d'));
  d.move(100);
  expect(told).toEqual(['a', 'c']);
  d.move(1);
  expect(told).toEqual(['a', 'c', 'd']);
});
