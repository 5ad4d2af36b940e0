/**
 * What went wrong with one request, in the few words that may leave this process. Errors of the
 * AI SDK hold addresses, headers and bodies, so none of them is handed on, not even as a cause.
 */
import { withoutKeys } from '../../keys.js';
import type { SampleFailure } from '../backend.js';

type TransportFailure = 'network' | 'redirect' | 'invalid' | 'context';

/** What a request of ours found before there was an answer (http.ts). */
export class TransportError extends Error {
  override readonly name = 'TransportError';
  readonly kind: TransportFailure;
  constructor(kind: TransportFailure, message: string) {
    super(message);
    this.kind = kind;
  }
}

export interface AttemptFailure extends Omit<SampleFailure, 'attempts'> {
  /** Whether the same request may succeed later. */
  readonly isTransient: boolean;
  /** Time after which the server wants to be asked again. */
  readonly waitMs?: number;
  /** The server refused the request before it worked on it: no tokens are to be paid for. */
  readonly isUnpaid: boolean;
}

/** A server that wants a longer wait is not waited for. */
export const LONGEST_WAIT_MS = 60_000;
const MESSAGE_CHARACTERS = 240;
const LONGEST_CHAIN = 8;

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null;
const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' && value !== '' ? value : undefined;

/** A text of a server: without keys and queries of addresses, on one line, cut. */
function shortened(text: string): string {
  const clean = withoutKeys(text)
    .replace(/(\bhttps?:\/\/[^\s?#"']*)[?#][^\s"']*/gi, '$1')
    .replace(/(\bhttps?:\/\/)[^\s/@"']*@/gi, '$1')
    .replace(/\s+/g, ' ')
    .trim();
  return (
    clean.length > MESSAGE_CHARACTERS ? `${clean.slice(0, MESSAGE_CHARACTERS)}…` : clean
  ).toWellFormed();
}

function parsed(body: unknown): unknown {
  if (typeof body !== 'string') return body;
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
}

/** What vendors write about a failure: OpenAI's, Anthropic's, Ollama's and vLLM's forms. */
function saidIn(body: unknown): {
  readonly code?: string;
  readonly status?: number;
  readonly message?: string;
} {
  const value = parsed(body);
  const error = isObject(value) ? (value.error ?? value) : value;
  if (typeof error === 'string') return { message: error };
  if (!isObject(error)) return {};
  const message = textOf(error.message) ?? textOf(error.detail);
  const code = [error.code, error.type].map(textOf).find((each) => each !== undefined);
  const status = [error.code, error.status].find((each) => Number.isInteger(each));
  return {
    ...(message !== undefined && { message }),
    ...(code !== undefined && { code }),
    ...(status !== undefined && { status: status as number }),
  };
}

function headersOf(error: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const { responseHeaders } = error;
  return isObject(responseHeaders) ? responseHeaders : {};
}

/** @returns undefined where the header is none, or not one that can be read */
function waitOf(headers: Readonly<Record<string, unknown>>, now: number): number | undefined {
  const milliseconds = Number(textOf(headers['retry-after-ms']));
  if (milliseconds >= 0) return milliseconds;
  const after = textOf(headers['retry-after']);
  if (after === undefined) return undefined;
  const seconds = Number(after);
  if (Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  const date = Date.parse(after);
  return Number.isNaN(date) ? undefined : Math.max(0, date - now);
}

const QUOTA =
  /insufficient_quota|quota_exceeded|billing|credit balance|insufficient.{0,10}(credit|fund|balance)/i;
const isTransientStatus = (status: number): boolean =>
  status === 408 || status === 409 || status === 429 || (status >= 500 && status <= 599);

const BROKEN =
  /^(ECONN|EPIPE|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|EAI_AGAIN|ERR_STREAM_PREMATURE_CLOSE|UND_ERR_)/;
/** The name of a server that does not exist will not exist in a second. */
const UNKNOWN_HOST = /^ENOTFOUND$/;

function* chainOf(error: unknown): Generator<Readonly<Record<string, unknown>>> {
  for (let each = error, left = LONGEST_CHAIN; isObject(each) && left > 0; left--) {
    yield each;
    each = each.cause;
  }
}

/** @param status as the header has it; 200 for a body that says something else */
function ofStatus(
  status: number,
  error: Readonly<Record<string, unknown>>,
  body: unknown,
  now: number,
): AttemptFailure {
  const { code, message = textOf(error.message) ?? 'no message' } = saidIn(body);
  const said = code === undefined || message.includes(code) ? message : `${code}: ${message}`;
  const refused = { status, isUnpaid: status >= 400 && status < 500, message: shortened(said) };
  if (status === 402 || QUOTA.test(`${code} ${message}`))
    return { ...refused, kind: 'quota', isTransient: false };
  if (!isTransientStatus(status)) return { ...refused, kind: 'status', isTransient: false };
  const waitMs = waitOf(headersOf(error), now);
  if (waitMs !== undefined && waitMs > LONGEST_WAIT_MS)
    return {
      ...refused,
      kind: 'wait',
      isTransient: false,
      message: `the server asks to wait for ${Math.ceil(waitMs / 1000)} s: ${refused.message}`,
    };
  return {
    ...refused,
    kind: 'status',
    isTransient: true,
    ...(waitMs !== undefined && { waitMs }),
  };
}

const invalid = (message: string, isTransient: boolean): AttemptFailure => ({
  kind: 'invalid',
  isTransient,
  isUnpaid: false,
  message,
});

/** @param error what `doGenerate` threw */
export function attemptFailure(error: unknown, now = Date.now()): AttemptFailure {
  const chain = [...chainOf(error)];
  const own = chain.find((each) => each instanceof TransportError);
  if (own instanceof TransportError)
    return {
      kind: own.kind,
      isTransient: own.kind === 'network',
      isUnpaid: false,
      message: shortened(own.message),
    };
  const call = chain.find(({ statusCode }) => typeof statusCode === 'number');
  if (
    call !== undefined &&
    ((call.statusCode as number) < 200 || (call.statusCode as number) > 299)
  )
    return ofStatus(call.statusCode as number, call, call.responseBody, now);
  const codes = chain.flatMap(({ code }) => textOf(code) ?? []);
  const isBroken = codes.some((code) => BROKEN.test(code));
  const words = chain.flatMap(({ message }) => textOf(message) ?? []);
  if (
    isBroken ||
    codes.some((code) => UNKNOWN_HOST.test(code)) ||
    words.some((each) => /^(terminated|fetch failed|Failed to fetch)$/i.test(each)) ||
    (call === undefined && chain[0]?.name === 'AI_APICallError')
  )
    return {
      kind: 'network',
      isTransient: !codes.some((code) => UNKNOWN_HOST.test(code)),
      isUnpaid: false,
      message: shortened(words.at(-1) || codes[0] || 'the connection failed'),
    };
  const names = chain.flatMap(({ name }) => textOf(name) ?? []);
  const body = call?.responseBody;
  if (names.includes('AI_JSONParseError'))
    return invalid('the body is not JSON, as if it were cut off', true);
  const data = chain.find((each) => 'data' in each && each.data !== undefined)?.data;
  const said = saidIn(body ?? data ?? chain.find(({ value }) => value !== undefined)?.value);
  if (said.status !== undefined && said.status >= 400)
    return ofStatus(said.status, call ?? {}, body ?? data, now);
  if (said.message !== undefined && call !== undefined)
    return invalid(shortened(`the answer holds an error: ${said.message}`), false);
  return invalid(shortened(words[0] ?? 'the model gave no answer'), false);
}
