/**
 * Requests of the host on behalf of one caller: they wait for their turn, are counted, and end with
 * the caller's connection.
 */
import type { HostReply, HostRequest, TokenEvent } from '../../host/host-request.js';
import type { FairQueue } from '../fair-queue.js';
import type { ServerMetrics } from '../metrics.js';
import type { Slices } from '../time-slices.js';
import { ENDINGS } from '../failures.js';
import type { Turnstile } from '../event-loop-gate.js';
import type { Unread } from '../stream-backlog.js';
import type { Served } from './models.js';

export interface Asking {
  readonly queue: FairQueue;
  readonly unread: Unread;
  readonly turns: Turnstile;
  /** Slices for long answers. */
  readonly slices: Slices;
  readonly metrics: ServerMetrics;
  /** Name of the key, by which turns are taken. */
  readonly whose: string;
  /** Partition of the prefix cache. */
  readonly cachePartition: string;
  readonly signal: AbortSignal;
}

export type Draw = Omit<HostRequest, 'adapter' | 'signal' | 'rank'>;

/** A token of one of several replies, or its end. */
export type ReplyEvent = { readonly index: number } & (
  | { readonly token: TokenEvent; readonly reply?: undefined }
  | { readonly token?: undefined; readonly reply: HostReply }
);

type Events = AsyncGenerator<ReplyEvent, void, undefined>;
type TokenStream = AsyncGenerator<TokenEvent, HostReply, undefined>;

interface Drawing {
  readonly index: number;
  readonly withTokens: boolean;
  /** Ends all replies of the request. */
  readonly end: () => void;
}

const weightOf = ({ topLogprobs }: TokenEvent): number => 1 + (topLogprobs?.length ?? 0);

/**
 * Computes a stream at full speed, however slowly it is read, so that a slow reader does not keep a
 * place from others.
 * @param computed called when the computation has ended
 */
async function* ahead(
  source: TokenStream,
  { index, end }: Drawing,
  unread: Unread,
  computed: () => void,
): AsyncGenerator<ReplyEvent, HostReply, undefined> {
  const tokens: TokenEvent[] = [];
  let ended = false;
  let isDropped = false;
  let wake = (): void => {};
  const waiting = unread.stream(() => {
    isDropped = true;
    tokens.length = 0;
    end();
  });
  const work = async (): Promise<HostReply> => {
    for (;;) {
      const next = await source.next();
      if (next.done === true) return next.value;
      tokens.push(next.value);
      waiting.move(weightOf(next.value));
      wake();
    }
  };
  const reply = work().finally(() => {
    ended = true;
    computed();
    wake();
  });
  reply.catch(() => undefined); // it is waited for below, or nobody reads it any more
  try {
    for (;;) {
      for (let token = tokens.shift(); token !== undefined; token = tokens.shift()) {
        waiting.move(-weightOf(token));
        yield { index, token };
      }
      // also for a complete reply, because a part of it was dropped
      if (ended && isDropped) throw ENDINGS.unread;
      if (ended) return await reply;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    waiting.close();
  }
}

async function* one(
  { model, adapter }: Served,
  draw: Draw,
  drawing: Drawing,
  asking: Asking,
): Events {
  const { queue, unread, turns, metrics, whose, cachePartition, signal } = asking;
  const { index, withTokens } = drawing;
  const { leave, rank } = await queue.enter(whose, signal);
  try {
    await turns.pass(); // of those who are let in together
    const request = { ...draw, adapter, cachePartition, rank, signal };
    // delegated to, so that it is closed with this one
    const reply = withTokens
      ? yield* ahead(model.stream(request), drawing, unread, leave)
      : await model.generate(request);
    leave();
    metrics.replied(reply);
    await turns.pass(); // of those that one step has ended
    yield { index, reply };
  } finally {
    leave();
  }
}

/**
 * Yields tokens and replies of all draws as they arrive. If one fails, all end.
 * @param withTokens whether each token is yielded, or only the replies
 */
export async function* streamReplies(
  served: Served,
  draws: readonly Draw[],
  asking: Asking,
  withTokens = true,
): Events {
  const ended = new AbortController();
  const signal = AbortSignal.any([asking.signal, ended.signal]);
  const end = (): void => ended.abort(ENDINGS.unread);
  const streams = draws.map((draw, index) =>
    one(served, draw, { index, withTokens, end }, { ...asking, signal }),
  );
  const next = (stream: Events) => stream.next().then((result) => ({ stream, result }));
  const waiting = new Map(streams.map((stream) => [stream, next(stream)]));
  try {
    while (waiting.size > 0) {
      const { stream, result } = await Promise.race(waiting.values());
      if (result.done === true) {
        waiting.delete(stream);
      } else {
        waiting.set(stream, next(stream));
        yield result.value;
      }
    }
  } finally {
    if (waiting.size > 0) ended.abort();
    await Promise.allSettled([...waiting.values(), ...streams.map((stream) => stream.return())]);
  }
}

/** Replies in the order of the draws. */
export async function allReplies(
  served: Served,
  draws: readonly Draw[],
  asking: Asking,
): Promise<HostReply[]> {
  const replies: HostReply[] = [];
  for await (const { index, reply } of streamReplies(served, draws, asking, false))
    if (reply !== undefined) replies[index] = reply;
  return replies;
}
