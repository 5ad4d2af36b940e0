/** Answers of server-sent events. */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

/** Milliseconds between two comments on an idle stream; proxies close a silent one. */
const ALIVE_MS = 15_000;

/** Signal that is aborted when the client has closed the connection, or had closed it before. */
export function goneWith({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  if (raw.closed || raw.destroyed) gone.abort();
  else raw.once('close', () => gone.abort());
  return gone.signal;
}

/** Adds a comment to the texts whenever nothing happens for a while. */
async function* alive(
  texts: AsyncGenerator<string, void, undefined>,
): AsyncGenerator<string, void, undefined> {
  let next = texts.next();
  while (true) {
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<null>((resolve) => {
      timer = setTimeout(() => resolve(null), ALIVE_MS);
    });
    const heard = await Promise.race([next, silence]).finally(() => clearTimeout(timer));
    if (heard === null) yield ': \n\n';
    else if (heard.done === true) return;
    else {
      yield heard.value;
      next = texts.next();
    }
  }
}

/** Sends a stream of events. */
export const sendStream = (reply: FastifyReply, texts: AsyncIterable<string>): FastifyReply =>
  reply
    .header('content-type', 'text/event-stream; charset=utf-8')
    .header('cache-control', 'no-cache')
    .header('x-accel-buffering', 'no')
    .send(Readable.from(texts));

/**
 * Sends a stream in which nothing may happen for a while.
 * @param texts of events; it reports its own failures and throws none
 */
export const sendEvents = (
  reply: FastifyReply,
  texts: AsyncGenerator<string, void, undefined>,
): FastifyReply =>
  // a connection that is kept for another request would keep the server from closing
  sendStream(reply.header('connection', 'close'), alive(texts));
