/**
 * What was computed and nobody reads has a bound over all streams; who holds the most gives way.
 */
import { once } from 'node:events';
import { expect, test } from '@jest/globals';
import type { HostReply, HostRequest, TokenEvent } from '../../src/host/host-request.js';
import { FairQueue } from '../../src/server/fair-queue.js';
import type { Served } from '../../src/server/openai/models.js';
import { streamReplies, type Asking } from '../../src/server/openai/replying.js';
import { Turnstile } from '../../src/server/event-loop-gate.js';
import { Unread } from '../../src/server/stream-backlog.js';

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

test.each([1, 2, 30])(
  'a client that goes away after %i of 40 tokens leaves nothing behind that counts',
  async (read) => {
    const unread = new Unread(100);
    const token = { tokenId: 1, logprob: 0, sampledLogprob: 0, text: 'x' };
    async function* stream({
      signal,
    }: HostRequest): AsyncGenerator<TokenEvent, HostReply, undefined> {
      for (let i = 0; i < 40; i++) yield token;
      await once(signal!, 'abort'); // as a reply that goes on
      throw signal!.reason;
    }
    const served = { model: { stream }, adapter: null } as unknown as Served;
    const asking = {
      ...{ queue: new FairQueue({ running: 1, waiting: 0 }), unread, turns: new Turnstile() },
      ...{ whose: 'a', cachePartition: '', signal: new AbortController().signal },
    } as unknown as Asking;
    let told = 0;
    for await (const _ of streamReplies(served, [{ tokenIds: [1], id: '0' }], asking))
      if (++told === read) break;
    let isDropped = false;
    unread.stream(() => (isDropped = true)).move(100);
    expect([told, isDropped, asking.queue.running]).toEqual([read, false, 0]);
  },
);
