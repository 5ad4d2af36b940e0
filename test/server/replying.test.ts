/**
 * Replies of one request: in which order they come, whose places they take and for how long, and
 * what ends them. The model says what the test lets it say.
 */
import { once } from 'node:events';
import { describe, expect, test } from '@jest/globals';
import type { HostReply, HostRequest, TokenEvent } from '../../src/host/host-request.js';
import { FairQueue } from '../../src/server/fair-queue.js';
import type { Served } from '../../src/server/openai/models.js';
import {
  allReplies,
  streamReplies,
  type Asking,
  type Draw,
  type ReplyEvent,
} from '../../src/server/openai/replying.js';
import { Turnstile } from '../../src/server/event-loop-gate.js';
import { Unread } from '../../src/server/stream-backlog.js';

const later = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5));
const replyOf = (text: string): HostReply => ({ text }) as HostReply;
const tokenOf = (text: string, alternatives = 0): TokenEvent => ({
  tokenId: 1,
  logprob: 0,
  sampledLogprob: 0,
  text,
  ...(alternatives > 0 && { topLogprobs: Array(alternatives).fill({ tokenId: 1, logprob: 0 }) }),
});

/**
 * Says each letter of a draw's text; at `!` it waits for the end, at `~` a while, at `?` it fails.
 */
class Model {
  readonly asked: HostRequest[] = [];
  closed = 0;
  /** Those that said all. */
  ended: string[] = [];
  constructor(readonly alternatives = 0) {}

  async *stream(request: HostRequest): AsyncGenerator<TokenEvent, HostReply, undefined> {
    this.asked.push(request);
    const { text, signal } = request;
    try {
      for (const letter of text!) {
        if (letter === '?') throw new Error('failed');
        if (letter === '~') await later();
        if (letter === '!') {
          if (!signal!.aborted) await once(signal!, 'abort');
          throw signal!.reason;
        }
        yield tokenOf(letter, this.alternatives);
      }
      this.ended.push(text!);
      return replyOf(text!);
    } finally {
      this.closed++;
    }
  }

  async generate(request: HostRequest): Promise<HostReply> {
    const stream = this.stream(request);
    for (;;) {
      const next = await stream.next();
      if (next.done === true) return next.value;
    }
  }
}

const ADAPTER = { id: 'adapter' };
function setting(
  { model = new Model(), running = 9, unread = new Unread() } = {},
  signal = new AbortController().signal,
) {
  const counted: HostReply[] = [];
  const served = { model, adapter: ADAPTER } as unknown as Served;
  const asking = {
    ...{ queue: new FairQueue({ running, waiting: 9 }), unread, turns: new Turnstile() },
    ...{ metrics: { replied: (reply: HostReply) => counted.push(reply) } },
    ...{ whose: 'ann', cachePartition: 'of ann', signal },
  } as unknown as Asking;
  return { model, served, asking, counted };
}
const draws = (...texts: string[]): Draw[] =>
  texts.map((text, i) => ({ text, id: String(i), maxTokens: 5 }));
const shown = ({ index, token, reply }: ReplyEvent): string =>
  `${index}${token === undefined ? `=${reply!.text}` : token.text}`;

describe('streamed', () => {
  test('each draw gives its tokens in order, then its reply, and is asked with what its caller has', async () => {
    const { model, served, asking, counted } = setting();
    const events: string[] = [];
    for await (const event of streamReplies(served, draws('abc', 'x', ''), asking))
      events.push(shown(event));
    const of = (index: number): string[] => events.filter((event) => event[0] === String(index));
    expect(of(0)).toEqual(['0a', '0b', '0c', '0=abc']);
    expect(of(1)).toEqual(['1x', '1=x']);
    expect(of(2)).toEqual(['2=']);
    expect(counted.map(({ text }) => text).sort()).toEqual(['', 'abc', 'x']);
    const common = { adapter: ADAPTER, cachePartition: 'of ann', maxTokens: 5 };
    expect(model.asked.map(({ signal: _, ...request }) => request)).toEqual([
      { ...common, text: 'abc', id: '0', rank: 0 },
      { ...common, text: 'x', id: '1', rank: 1 },
      { ...common, text: '', id: '2', rank: 2 },
    ]);
    expect([asking.queue.running, asking.queue.waiting]).toEqual([0, 0]);
  });

  test('a reply that is computed gives its place back, however slowly it is read', async () => {
    const { model, served, asking } = setting({ running: 1 });
    const events = streamReplies(served, draws('abcdefgh'), asking);
    expect(shown((await events.next()).value as ReplyEvent)).toBe('0a');
    await later();
    expect([model.ended, asking.queue.running]).toEqual([['abcdefgh'], 0]);
    const rest: string[] = [];
    for await (const event of events) rest.push(shown(event));
    expect(rest).toEqual(['0b', '0c', '0d', '0e', '0f', '0g', '0h', '0=abcdefgh']);
  });

  test('what waits to be read counts with its alternatives; beyond the bound the request ends by name', async () => {
    const at = async (most: number): Promise<unknown> => {
      const { served, asking } = setting({ model: new Model(3), unread: new Unread(most) });
      const events = streamReplies(served, draws('abcdefgh'), asking);
      await events.next();
      await later(); // all are computed, the first is read
      try {
        let count = 1;
        for await (const _ of events) count++;
        return count;
      } catch (error) {
        return (error as { code: string }).code;
      }
    };
    // eight tokens of four each; two have left, one read and one on its way
    expect([await at(24), await at(23)]).toEqual([9, 'stream_not_read']);
  });

  test('one that is whole and gives way to others ends by name, not as if its rest were all', async () => {
    const unread = new Unread(9);
    const { model, served, asking, counted } = setting({ unread });
    const events = streamReplies(served, draws('abcdefgh'), asking);
    await events.next();
    await later();
    expect(model.ended).toEqual(['abcdefgh']);
    const other = unread.stream(() => expect('the other').toBe('kept'));
    other.move(4); // six wait to be read
    await expect(
      (async () => {
        for await (const { reply } of events) expect(reply).toBeUndefined();
      })(),
    ).rejects.toMatchObject({ code: 'stream_not_read' });
    expect(counted).toEqual([]);
  });

  test('what was read counts no more: a reader that keeps up has no end', async () => {
    const unread = new Unread(8);
    const { served, asking } = setting({ model: new Model(1), unread });
    let dropped = 0;
    const other = unread.stream(() => dropped++);
    let count = 0;
    for await (const _ of streamReplies(served, draws('ab'), asking)) count++;
    for await (const _ of streamReplies(served, draws('cd'), asking)) count++;
    other.move(8);
    expect([count, dropped]).toEqual([6, 0]);
    other.move(1);
    expect(dropped).toBe(1);
  });

  test.each([true, false])(
    'one that fails ends the others with it (tokens: %s)',
    async (withTokens) => {
      const { model, served, asking, counted } = setting();
      const events = streamReplies(served, draws('ab!', 'x?', 'c!'), asking, withTokens);
      await expect(
        (async () => {
          for await (const _ of events);
        })(),
      ).rejects.toThrow('failed');
      expect([model.closed, asking.queue.running, counted]).toEqual([3, 0, []]);
    },
  );

  test.each([true, false])(
    'the end of the caller ends all, with its reason (before: %s)',
    async (isBefore) => {
      const caller = new AbortController();
      const { model, served, asking } = setting({ running: 1 }, caller.signal);
      const gone = new Error('gone');
      if (isBefore) caller.abort(gone);
      const events = streamReplies(served, draws('a!', 'b'), asking);
      if (!isBefore) {
        await events.next();
        expect([asking.queue.running, asking.queue.waiting]).toEqual([1, 1]);
        caller.abort(gone);
      }
      await expect(events.next()).rejects.toBe(gone);
      expect([asking.queue.running, asking.queue.waiting]).toEqual([0, 0]);
      expect(model.asked.length).toBe(isBefore ? 0 : 1);
    },
  );

  test('a reader that leaves ends what runs and what waits', async () => {
    const { model, served, asking } = setting({ running: 1 });
    for await (const _ of streamReplies(served, draws('a!', 'b', 'c'), asking)) break;
    expect([model.asked.length, model.closed]).toEqual([1, 1]);
    expect([asking.queue.running, asking.queue.waiting]).toEqual([0, 0]);
  });
});

test('as a whole, replies stand in the order of the draws, whichever ends first, and each is counted once', async () => {
  const { served, asking, counted, model } = setting({ running: 2 });
  const slow = `a${'~'.repeat(40)}`;
  const texts = [slow, 'x', 'c~', ''];
  const replies = await allReplies(served, draws(...texts), asking);
  expect(replies.map(({ text }) => text)).toEqual(texts);
  expect(model.ended).toEqual(['x', 'c~', '', slow]);
  expect(counted).toHaveLength(4);
  expect(asking.queue.running).toBe(0);
});

test('those that are let in together begin one a turn of the event loop', async () => {
  const { model, served, asking } = setting();
  const turns: number[] = [];
  let turn = 0;
  const tick = (): void => {
    if (model.asked.length > turns.length) turns.push(turn);
    if (turn++ < 50) setImmediate(tick);
  };
  setImmediate(tick);
  await allReplies(served, draws('a', 'b', 'c', 'd'), asking);
  while (turns.length < 4 && turn < 50) await new Promise(setImmediate);
  expect(new Set(turns).size).toBe(4);
});
