/** Parts that the routes of a server share. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ChatMessage } from '../../engine/prompt-renderer.js';
import { IsoproError } from '../../errors.js';
import type { HostedModel } from '../../host/hosted-model.js';
import { sendStream } from '../event-stream.js';
import { DEFECT, failureOf, invalid, ofMember, type RequestFailure } from '../failures.js';
import type { FairQueue } from '../fair-queue.js';
import type { Caller } from '../keys.js';
import type { ServerMetrics } from '../metrics.js';
import { Slices } from '../time-slices.js';
import type { Turnstile } from '../event-loop-gate.js';
import type { Unread } from '../stream-backlog.js';
import type { Served, ServedModels } from './models.js';
import type { Asking } from './replying.js';
import type { LoraBody, SamplingBody } from './requests.js';
import { eventOf } from './shapes.js';

export interface ServerContext {
  readonly models: ServedModels;
  readonly queue: FairQueue;
  readonly unread: Unread;
  readonly turns: Turnstile;
  readonly metrics: ServerMetrics;
  /** Tokens that a reply may have at most. */
  readonly mostTokens: number;
  /** Ends with the client's connection, with the time that a request has, or with the server. */
  signalOf(request: FastifyRequest): AbortSignal;
  callerOf(request: FastifyRequest): Caller;
  /** Names the draws of a request without a seed, so that no two are equal. */
  nextDraw(): string;
  report(error: unknown): void;
  /** Stops admission; running replies are waited for, or ended. */
  pause(mode: 'abort' | 'wait'): Promise<void>;
}

interface NamesModel {
  readonly model?: string | undefined;
  readonly lora?: readonly LoraBody[] | undefined;
  /** Requests with the same user get the same version of a name that points to two. */
  readonly user?: string | undefined;
}

/** @throws as ServedModels.open and ServedModels.nameOf */
export const openModel = (
  { models }: ServerContext,
  { model, lora, user }: NamesModel,
  { whose }: Asking,
): Promise<Served> =>
  models.open(lora === undefined ? model : models.nameOf(model, lora), user ?? whose);

type PromptOptions = Parameters<HostedModel['promptIdsAside']>[1];
type AskedPrompt = [
  content: { readonly messages: readonly ChatMessage[] } | { readonly text: string },
  options?: PromptOptions,
];

/** Characters from which on tokenizing waits for its turn, as a reply does. */
const MANY = 2 ** 14;

/** @throws as HostedModel.promptIdsAside and FairQueue.enter */
export async function tokenized(
  { model }: Served,
  { queue, whose, signal }: Asking,
  ...[content, options]: AskedPrompt
): Promise<Int32Array> {
  const texts =
    'text' in content ? [content.text] : content.messages.map((message) => message.content);
  if (texts.reduce((sum, { length }) => sum + length, 0) < MANY)
    return model.promptIdsAside(content, options);
  const { leave } = await queue.enter(whose, signal);
  try {
    return await model.promptIdsAside(content, options);
  } finally {
    leave();
  }
}

/** @throws IsoproError CONTEXT_OVERFLOW where no token of a reply would have room */
function requireRoom(
  { model: { contextTokens } }: Served,
  { length }: { readonly length: number },
): void {
  if (length < contextTokens) return;
  const needed = `with one token of a reply it needs ${length + 1}, but the context has ${contextTokens}`;
  throw new IsoproError('CONTEXT_OVERFLOW', `the prompt has ${length} tokens; ${needed}`);
}

/**
 * Token ids of a prompt.
 * @param param member that a failure names
 * @throws as tokenized; RequestFailure context_length_exceeded before more is made of megabytes
 */
export const promptIdsOf = (
  served: Served,
  asking: Asking,
  param: string,
  ...prompt: AskedPrompt
): Promise<Int32Array> =>
  ofMember(param, async () => {
    const ids = await tokenized(served, asking, ...prompt);
    requireRoom(served, ids);
    return ids;
  });

/**
 * Token ids that a request names, held against the vocabulary.
 * @throws RequestFailure 400 at the first that it does not have
 */
export function requireTokens(
  { model }: Served,
  ids: readonly number[] | Int32Array,
  placeOf: (at: number) => string,
): void {
  const { vocabularySize } = model.info;
  const at = ids.findIndex((id) => id >= vocabularySize);
  if (at < 0) return;
  throw invalid(
    placeOf(at),
    `${placeOf(at)}: there is no token ${ids[at]} in a vocabulary of ${vocabularySize}`,
    'invalid_argument',
  );
}

/** A prompt of token ids. @throws RequestFailure as requireTokens and promptIdsOf */
export async function requirePromptIds<Ids extends readonly number[] | Int32Array>(
  served: Served,
  param: string,
  ids: Ids,
): Promise<Ids> {
  requireTokens(served, ids, (at) => `${param}[${at}]`);
  await ofMember(param, () => requireRoom(served, ids));
  return ids;
}

/** Tokens by which a request asks for its draws. @throws RequestFailure as requireTokens */
export function requireDrawTokens(
  served: Served,
  { logit_bias: biases = {}, stop_token_ids: stops = [] }: Partial<SamplingBody>,
  of = '',
): void {
  const biased = Object.keys(biases);
  requireTokens(served, biased.map(Number), (at) => `${of}logit_bias.${biased[at]}`);
  requireTokens(served, stops, (at) => `${of}stop_token_ids[${at}]`);
}

export function askingOf(
  { queue, unread, turns, metrics, signalOf, callerOf }: ServerContext,
  request: FastifyRequest,
): Asking {
  const whose = callerOf(request).name;
  const { cache_salt: salt = '' } = request.body as { readonly cache_salt?: string };
  const cachePartition = JSON.stringify([whose, salt]);
  return {
    queue,
    unread,
    turns,
    slices: new Slices(turns),
    metrics,
    whose,
    cachePartition,
    signal: signalOf(request),
  };
}

/**
 * Names of the draws of one prompt: with a seed, the numbers of the choices; without one, names
 * that no other request has.
 */
export function drawIds(
  context: ServerContext,
  seed: number | bigint | undefined,
  count: number,
): string[] {
  const of = seed === undefined ? `${context.nextDraw()}/` : '';
  return Array.from({ length: count }, (_, choice) => `${of}${choice}`);
}

/** Sends a whole answer, of which lists may be long. */
export async function sendWhole(
  { slices }: Asking,
  reply: FastifyReply,
  answer: Promise<object>,
): Promise<FastifyReply> {
  const json = await slices.json(await answer);
  return reply.type('application/json; charset=utf-8').send(json);
}

/**
 * Sends events as they come. What fails before the first is an answer of its own; later it is the
 * last event.
 * @param errorEvent as the path has it
 */
export async function sendEvents(
  { report, signalOf }: ServerContext,
  request: FastifyRequest,
  reply: FastifyReply,
  events: AsyncGenerator<string, void, undefined>,
  errorEvent = ({ body }: RequestFailure): string => eventOf(body),
): Promise<FastifyReply> {
  const first = await events.next();
  async function* all(): AsyncGenerator<string, void, undefined> {
    try {
      if (first.done === true) return;
      yield first.value;
      yield* events;
    } catch (error) {
      const failure = failureOf(error);
      if (failure === null) report(error);
      if (!signalOf(request).aborted || failure !== null) yield errorEvent(failure ?? DEFECT);
    } finally {
      await events.return();
    }
  }
  return sendStream(reply, all());
}
