/**
 * Requests to the server of the page. The key comes with the address and is kept as long as the tab
 * is open.
 */
import { EventSourceParserStream } from 'eventsource-parser/stream';

export type * from '../server/page/shapes.js';

const PLACE = 'isopro-key';

/** Removes the key from the address, so that it is in no history and no screenshot. */
export function takeKey(): void {
  const given = /^#token=([^&]+)(?:&(.*))?$/.exec(location.hash);
  if (given === null) return;
  sessionStorage.setItem(PLACE, decodeURIComponent(given[1]!));
  history.replaceState(
    null,
    '',
    `#${given[2] === undefined ? '/runs' : decodeURIComponent(given[2])}`,
  );
}

export const hasKey = (): boolean => sessionStorage.getItem(PLACE) !== null;
export function setKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(PLACE);
  else sessionStorage.setItem(PLACE, key.trim());
}

export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly code: string | null,
  ) {
    super(message);
  }
}

interface Sent {
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

async function send(path: string, { body, signal, headers = {} }: Sent = {}): Promise<Response> {
  const key = sessionStorage.getItem(PLACE);
  const answer = await fetch(path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    cache: 'no-store',
    referrerPolicy: 'no-referrer',
  });
  if (answer.ok) return answer;
  const text = await answer.text();
  let error: { message?: string; code?: string | null } = {};
  try {
    error = (JSON.parse(text) as { error: typeof error }).error;
  } catch {
    // the answer is not from this server
  }
  if (answer.status === 401) globalThis.dispatchEvent(new Event('isopro-locked'));
  throw new ApiError(
    answer.status,
    error.message ?? `the server answered ${answer.status}`,
    error.code ?? null,
  );
}

export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return (await (await send(path, { signal })).json()) as T;
}

export async function post<T>(
  path: string,
  body: unknown,
  options: Omit<Sent, 'body'> = {},
): Promise<T> {
  return (await (await send(path, { ...options, body })).json()) as T;
}

/** Yields the data of each event of a stream. With a body the request is a POST. */
export async function* events<T>(
  path: string,
  options: Sent = {},
): AsyncGenerator<T, void, undefined> {
  const answer = await send(path, {
    ...options,
    headers: { accept: 'text/event-stream', ...options.headers },
  });
  const reader = answer
    .body!.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      if (value.data !== '' && value.data !== '[DONE]') yield JSON.parse(value.data) as T;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** Encodes a name as a part of a path. */
export const part = encodeURIComponent;

export function query(values: Readonly<Record<string, string | number | undefined>>): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== '');
  return given.length === 0
    ? ''
    : `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()}`;
}
