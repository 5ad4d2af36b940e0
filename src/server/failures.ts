/** Failures of requests: the status and the body that OpenAI's clients read. */
import type { FastifyError } from 'fastify';
import type { z } from 'zod';
import { IsoproError, type ErrorCode } from '../errors.js';
import { plainIssue, strangeKeys } from '../wrong-input.js';
import { NotAllowed } from '../operations/not-allowed.js';

export type FailureType =
  | 'invalid_request_error'
  | 'authentication_error'
  | 'permission_error'
  | 'not_found_error'
  | 'rate_limit_error'
  | 'server_error';

/**
 * Codes by which a client distinguishes failures: those of the library in lower case, those of
 * names that a request may not use, and these.
 */
export type FailureCode =
  | Lowercase<ErrorCode>
  | NotAllowed['code']
  | `${'path' | 'host' | 'origin' | 'tracker'}_not_allowed`
  | `${'file' | 'job' | 'fine_tuning_job' | 'kind' | 'model'}_not_found`
  | `invalid_${'value' | 'json' | 'form' | 'url' | 'api_key' | 'content_length' | 'training_file'}`
  | `unsupported_${'media_type' | 'parameter'}`
  | `unknown_${'parameter' | 'url'}`
  | `${'body' | 'headers'}_too_large`
  | 'bad_request'
  | 'client_closed_request'
  | 'context_length_exceeded'
  | 'gone'
  | 'insufficient_scope'
  | 'internal_error'
  | 'not_found'
  | 'not_implemented'
  | 'other_model'
  | 'paused'
  | 'queue_full'
  | 'rate_limit_exceeded'
  | 'request_timeout'
  | 'shutting_down'
  | 'stream_not_read'
  | 'timeout'
  | 'too_many_requests';

export interface FailureDetails {
  /** Member of the body that the failure is about, such as `messages[0].content`. */
  readonly param?: string | undefined;
  readonly retryAfter?: number | undefined;
  /** Default: the one of the status. */
  readonly type?: FailureType;
}

const TYPES: Readonly<Record<number, FailureType>> = {
  401: 'authentication_error',
  403: 'permission_error',
  404: 'not_found_error',
  429: 'rate_limit_error',
};

export class RequestFailure extends Error {
  override readonly name = 'RequestFailure';
  readonly type: FailureType;
  readonly param: string | null;
  /** Seconds after which the client may repeat the request. */
  readonly retryAfter: number | undefined;

  constructor(
    readonly status: number,
    message: string,
    readonly code: FailureCode | null,
    { param, retryAfter, type }: FailureDetails = {},
  ) {
    super(message);
    this.type = type ?? TYPES[status] ?? (status >= 500 ? 'server_error' : 'invalid_request_error');
    this.param = param || null; // the body as a whole is not a member
    this.retryAfter = retryAfter;
  }

  get body(): { readonly error: Pick<RequestFailure, 'message' | 'type' | 'param' | 'code'> } {
    const { message, type, param, code } = this;
    return { error: { message, type, param, code } };
  }
}

/** A member's name has no blank in it: a message in its place does not compile. */
type Member<Name extends string> = Name extends `${string} ${string}` ? never : Name;

/** 400 for a feature that this server lacks, alone or together with another member. */
export const unsupported = <Name extends string>(
  param: Member<Name>,
  message: string,
): RequestFailure => new RequestFailure(400, message, 'unsupported_parameter', { param });

export const invalid = <Name extends string>(
  param: Member<Name>,
  message: string,
  code: FailureCode = 'invalid_value',
): RequestFailure => new RequestFailure(400, message, code, { param });

/** 403 for what no request may do, whatever its key. */
export const forbidden = (message: string, code: FailureCode, param?: string): RequestFailure =>
  new RequestFailure(403, message, code, { param });

const STATUS: Partial<Record<ErrorCode, readonly [status: number, code?: FailureCode]>> = {
  INVALID_ARGUMENT: [400],
  GRAMMAR_INVALID: [400],
  TEMPLATE_INVALID: [400],
  CONTEXT_OVERFLOW: [400, 'context_length_exceeded'],
  ADAPTER_CORRUPT: [400],
  ADAPTER_MISMATCH: [400],
  REGISTRY_UNRESOLVED: [404, 'model_not_found'],
  CONFLICT: [409],
  JOBS_BUSY: [503],
  JOBS_UNREADABLE: [503],
  WRITE_FAILED: [503],
  OUT_OF_MEMORY: [503],
  SYSTEM_LIMIT: [503],
  OBJECT_DISPOSED: [503, 'shutting_down'],
};

/** Code in lower case, as OpenAI writes codes. */
export const smallLetters = (code: ErrorCode): Lowercase<ErrorCode> =>
  code.toLowerCase() as Lowercase<ErrorCode>;

function ofLibrary(error: IsoproError): RequestFailure | null {
  const known = STATUS[error.code];
  if (known === undefined) return null;
  const [status, code = smallLetters(error.code)] = known;
  const retryAfter = status === 503 ? 1 : undefined;
  return new RequestFailure(status, error.message, code, { retryAfter });
}

/** Characters of a caller's name in an answer. */
const LONGEST_NAME = 100;
const named = (key: PropertyKey): string => String(key).slice(0, LONGEST_NAME);

/**
 * Calls a function for a member of a request, and adds the name of the member to what the library
 * refuses.
 * @throws RequestFailure; other errors of the call
 */
export async function ofMember<Made>(
  param: string,
  make: () => Made | Promise<Made>,
): Promise<Made> {
  try {
    return await make();
  } catch (error) {
    const failure = error instanceof IsoproError ? failureOf(error) : null;
    if (failure === null || failure.status !== 400 || failure.param !== null) throw error;
    throw new RequestFailure(failure.status, failure.message, failure.code, { param });
  }
}

/** `messages[0].content` */
const memberOf = (path: readonly PropertyKey[]): string =>
  path
    .map((key, i) => (typeof key === 'number' ? `[${key}]` : `${i === 0 ? '' : '.'}${named(key)}`))
    .join('');

/** Failure for the first issue that a schema finds in a request. */
export function ofSchema({ issues }: z.ZodError, schema: z.ZodType): RequestFailure {
  const issue = plainIssue(issues[0]!);
  const { path, message } = issue;
  const place = memberOf(path);
  if (issue.code === 'custom' && issue.params?.isUnsupported === true)
    return unsupported(place, `${place}: ${message}`);
  if (issue.code === 'unrecognized_keys') {
    const key = named(issue.keys[0]!);
    const [words] = strangeKeys(schema, path, [key]);
    return invalid(
      memberOf([...path, key]),
      `${place === '' ? '' : `${place}: `}${words}`,
      'unknown_parameter',
    );
  }
  return invalid(place, `${place === '' ? 'the body' : place}: ${message}`);
}

/** Failure that an error is to the client; null for a defect, whose message is not sent. */
export function failureOf(error: unknown): RequestFailure | null {
  if (error instanceof RequestFailure) return error;
  if (error instanceof NotAllowed) return forbidden(error.message, error.code, error.param);
  if (error instanceof IsoproError)
    return error.cause instanceof RequestFailure ? error.cause : ofLibrary(error);
  const { statusCode, message, code } = (error ?? {}) as Partial<FastifyError>;
  if (statusCode === undefined || statusCode < 400 || statusCode >= 500) return null;
  const [said, words] = FRAMEWORK[code ?? ''] ?? [code as FailureCode | undefined];
  return new RequestFailure(statusCode, words ?? message ?? 'refused', said ?? null);
}

const NO_JSON = [
  'unsupported_media_type',
  'send the body as JSON, with the header content-type: application/json',
] as const;

/**
 * Refusals of fastify: the code to send and, if its own message does not say what to do, the
 * message.
 */
const FRAMEWORK: Readonly<Record<string, readonly [code: FailureCode, words?: string]>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: ['body_too_large'],
  FST_ERR_CTP_INVALID_MEDIA_TYPE: NO_JSON,
  FST_ERR_CTP_EMPTY_TYPE: NO_JSON,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: ['invalid_content_length'],
  FST_ERR_BAD_URL: ['invalid_url'],
  FST_ERR_MAX_PARAM_LENGTH: [
    'invalid_url',
    'a part of the path is longer than any name on this server',
  ],
};

/** Reasons for which the signal of a request is aborted. */
export const ENDINGS = {
  /** No one reads the answer. */
  gone: new RequestFailure(499, 'the client closed the connection', 'client_closed_request'),
  unread: new RequestFailure(
    499,
    'the client does not read the stream, and the server cannot buffer more of it',
    'stream_not_read',
  ),
  time: new RequestFailure(503, 'the request exceeded the time limit of the server', 'timeout', {
    retryAfter: 1,
  }),
  shutdown: new RequestFailure(503, 'the server is shutting down', 'shutting_down', {
    retryAfter: 5,
  }),
  paused: new RequestFailure(503, 'the server is paused', 'paused', { retryAfter: 1 }),
} as const;

export const DEFECT = new RequestFailure(
  500,
  'internal server error; see the server log',
  'internal_error',
);
