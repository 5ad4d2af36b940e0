/**
 * The request of Model.generate: its fields, their limits and defaults, checked once where it
 * enters.
 */
import { types } from 'node:util';
import { z } from 'zod';
import { adapterOption } from './adapter.js';
import type { GenerationProgress, NativeReplySettings } from './addon.js';
import { bounded, wrongLength } from './bounded-list.js';
import { abortSignal, callback, checked } from './argument-check.js';
import { grammarOfJsonSchema } from './json-schema.js';
import { chatMessages, type MessageInput } from './messages.js';
import { seed } from './seed.js';
import { single, singleOrZero } from './single-precision.js';
import { copied } from './typed-array.js';

export type TokenIds = Int32Array | readonly number[];

const INT32_MAX = 2 ** 31 - 1;

/** An Int32Array or an array of whole numbers that fit one; arrives as an Int32Array of its own. */
export const tokenIds = z
  .custom<TokenIds>(
    (value) =>
      types.isInt32Array(value) ||
      (Array.isArray(value) &&
        wrongLength(value) === undefined &&
        value.every((id) => Number.isInteger(id) && Math.abs(id as number) <= INT32_MAX)),
    {
      error: ({ input }) =>
        wrongLength(input) ?? 'expected an Int32Array or an array of whole numbers',
      abort: true,
    },
  )
  .transform((ids) => (types.isInt32Array(ids) ? ids : Int32Array.from(ids)))
  .pipe(copied(types.isInt32Array, Int32Array));

/** In the place of zod's words where what should be an object of this form is none. */
const formed = (form: string) => ({
  error: ({ code }: z.core.$ZodRawIssue) =>
    code === 'invalid_type' ? `must be an object: ${form}` : undefined,
});

/**
 * A prompt: what the user says, or chat messages, rendered by the model's template with a
 * generation prompt; a text that the model continues, without a template; or token ids as they are.
 */
const promptFields = {
  /** Short for one message of the user. */
  prompt: z
    .string({
      error: ({ input }) =>
        typeof input === 'object'
          ? 'must be a string, the user message; use messages, text or tokenIds for other prompts'
          : undefined,
    })
    .optional(),
  messages: chatMessages.optional(),
  /**
   * After a BOS where the vocabulary asks for one. The name of a control token is text like any
   * other.
   */
  text: z.string().optional(),
  tokenIds: tokenIds.optional(),
  /** Names the prompt in the derivation of its samples' seeds; its index where absent. */
  id: z.string().optional(),
};

/** A prompt's content, checked: exactly one of the three. */
export interface PromptContent {
  readonly messages?: readonly MessageInput[] | undefined;
  readonly text?: string | undefined;
  readonly tokenIds?: Int32Array | undefined;
}

const oneContent = [
  ({
    prompt,
    messages,
    text,
    tokenIds: ids,
  }: PromptContent & { readonly prompt?: string | undefined }): boolean =>
    [prompt, messages, text, ids].filter((form) => form !== undefined).length === 1,
  'a prompt has exactly one of prompt, messages, text and tokenIds',
] as const;

/** A prompt, or what has one, as chat messages where it is what the user says. */
function asMessages<
  T extends { prompt?: string | undefined; messages?: readonly MessageInput[] | undefined },
>({ prompt, ...rest }: T): Omit<T, 'prompt'> {
  return prompt === undefined ? rest : { ...rest, messages: [{ role: 'user', content: prompt }] };
}

const promptSchema = z
  .strictObject({
    ...promptFields,
    /** One 64-bit seed a sample, instead of derived ones. */
    seeds: bounded(z.array(seed)).optional(),
  })
  .refine(...oneContent)
  .transform(asMessages);
export type Prompt = z.input<typeof promptSchema>;

/** What Model.generate makes of one of its prompts. */
export const namedPrompt = (prompt: Prompt | string): Omit<Prompt, 'prompt'> =>
  asMessages(typeof prompt === 'string' ? { prompt } : prompt);

const penalty = singleOrZero.min(-2).max(2).default(0);

const samplingSettings = z.strictObject({
  /** 0 takes the most likely token. Default 1. */
  temperature: singleOrZero.min(0).max(1000).default(1),
  /** 0: off. Default 0. */
  topK: z.int().min(0).max(INT32_MAX).default(0),
  /** In [0, 1]; 1: off, 0: the most likely token alone. Default 1. */
  topP: singleOrZero.min(0).max(1).default(1),
  /** In [0, 1]; 0: off. Default 0. */
  minP: singleOrZero.min(0).max(1).default(0),
  /** Above 0; 1: off. Default 1. Applies to the last `repeatWindow` tokens, prompt included. */
  repeatPenalty: single.gt(0).max(1000).default(1),
  /** Default 64. */
  repeatWindow: z.int().min(0).max(1_000_000).default(64),
  /**
   * Taken from the logit of every token that this reply has already. In [-2, 2]; 0: off. Default 0.
   */
  presencePenalty: penalty,
  /**
   * Taken from a token's logit for each time that this reply has it already. In [-2, 2]; 0: off.
   * Default 0.
   */
  frequencyPenalty: penalty,
  /** Added to the logits of tokens, by their ids; each in [-100, 100]. */
  logitBias: (
    z.record(
      z.string().regex(/^\d{1,9}$/, 'expected a token id'),
      singleOrZero.min(-100).max(100),
    ) as z.ZodType<Record<string, number>, Readonly<Record<number, number>>>
  )
    .default({})
    .transform((biases) => Object.entries(biases).map(([id, bias]) => [Number(id), bias] as const)),
  /** 64-bit seed of the request, from which each sample's seed is derived. Default 0. */
  seed: seed.default(0n),
});
export type SamplingSettings = z.input<typeof samplingSettings>;

/** How a reply is sampled, and when it ends. */
const replyFields = {
  /**
   * Transformations apply in this order: logit bias, repeat penalty, frequency and presence
   * penalties, grammar and `minTokens`, temperature, top-k, top-p, min-p.
   */
  sampling: samplingSettings.prefault({}),
  /** Per sample. Default 256. */
  maxTokens: z.int().min(1).max(INT32_MAX).default(256),
  /**
   * No end-of-turn token, stop token or stop string ends the reply before it has so many tokens;
   * only a grammar whose document is whole does. Default 0.
   */
  minTokens: z.int().min(0).max(INT32_MAX).default(0),
  /** With each token, so many of the most likely ones; at most 20. Default 0. */
  topLogprobs: z.int().min(0).max(20).default(0),
  /** Text before the first of these is kept. */
  stop: bounded(z.array(z.string().min(1))).default([]),
  stopTokens: bounded(z.array(z.int().min(0).max(INT32_MAX))).default([]),
  /**
   * From this text on, `stop` and `stopTokens` end nothing. Absent, or empty: they hold everywhere.
   */
  stopBefore: z.string().default(''),
  /** Go on after an end-of-sequence or end-of-turn token. Default false. */
  ignoreEndOfSequence: z.boolean().default(false),
  /** GBNF; its start rule is `root`. */
  grammar: z.string().min(1).optional(),
  /**
   * Every complete answer is a document of it; a schema that a grammar cannot keep is
   * GRAMMAR_INVALID (docs/commands/generate.md).
   */
  jsonSchema: z
    .custom<object>(
      (value) => typeof value === 'object' && value !== null,
      'expected a JSON Schema',
    )
    .optional(),
  /** For this request only: an adapter, or null for the bare base. The model's own where absent. */
  adapter: adapterOption,
  /** Default 1. */
  adapterScale: single.default(1),
  signal: abortSignal.optional(),
};

const oneGrammar = [
  (request: { grammar?: string | undefined; jsonSchema?: object | undefined }): boolean =>
    request.grammar === undefined || request.jsonSchema === undefined,
  'use either grammar or jsonSchema, not both',
] as const;

const roomForLeast = [
  // below its own limit maxTokens has had its complaint
  ({ minTokens, maxTokens }: { minTokens: number; maxTokens: number }): boolean =>
    maxTokens < 1 || minTokens <= maxTokens,
  'minTokens is greater than maxTokens',
] as const;

const requestSchema = z
  .strictObject(
    {
      ...replyFields,
      /**
       * Each has exactly one of `prompt`, `messages`, `text` and `tokenIds`; a string is short for
       * `{ prompt }`.
       */
      prompts: bounded(
        z.array(
          z.preprocess(
            (prompt: Prompt | string) => (typeof prompt === 'string' ? { prompt } : prompt),
            promptSchema,
          ),
        ),
      ),
      /** Samples a prompt; a prompt with `seeds` has as many as those. Default 1. */
      samples: z.int().min(0).max(1_000_000).default(1),
      /** Capture the residual stream that enters this layer, for the trainer's boundary cache. */
      captureBoundary: z.int().min(0).max(INT32_MAX).optional(),
      /**
       * Sequences in the running batch. Default 64, maximum 253. Each has keys and values of its
       * own, room for the longest prompt and `maxTokens`: fewer run where the model's
       * `contextTokens` hold fewer of them.
       */
      maxSequences: z.int().min(1).max(253).default(64),
      onProgress: callback<(progress: GenerationProgress) => void>().optional(),
    },
    formed("{ prompts: ['…'] }"),
  )
  .refine(...oneGrammar)
  .refine(...roomForLeast);
export type GenerateRequest = z.input<typeof requestSchema>;
export type CheckedRequest = z.output<typeof requestSchema>;

const batchRequestSchema = z
  .strictObject(
    {
      ...promptFields,
      ...replyFields,
      /**
       * Where prompt and `maxTokens` are more than the context: 'refuse' with CONTEXT_OVERFLOW, or
       * 'stop' the reply, with finish 'length', where the context is full. Default 'refuse'.
       */
      whenContextFull: z.enum(['refuse', 'stop']).default('refuse'),
      /**
       * The same tokens and log-probabilities, bit for bit, whatever else runs: those of
       * `Model.generate` for one sample of the same prompt, `id` and seed on a model with
       * `fixedThreads`. Such replies run one after the other, each in a batch of its own. Default
       * false.
       */
      deterministic: z.boolean().default(false),
      /** Requests find kept prefixes of their own partition alone. Default ''. */
      cachePartition: z.string().default(''),
      /**
       * Where there is not room for all, a lower one runs first: one that runs already pauses for
       * it, and its tokens go on from there later. Of the same rank, whoever came first. Default 0.
       */
      rank: z.int().min(0).max(INT32_MAX).default(0),
    },
    formed("{ prompt: '…' }"),
  )
  .refine(...oneContent)
  .refine(...oneGrammar)
  .refine(...roomForLeast)
  .transform(asMessages);
/**
 * One prompt and how it is replied to; exactly one of `prompt`, `messages`, `text` and `tokenIds`.
 */
export type BatchRequest = z.input<typeof batchRequestSchema>;
export type CheckedBatchRequest = z.output<typeof batchRequestSchema>;

/** What the addon is told of how to reply. @throws IsoproError GRAMMAR_INVALID */
export function nativeReplySettings(
  request: Omit<CheckedRequest, 'prompts' | 'samples' | 'maxSequences'>,
): NativeReplySettings {
  const { logitBias, ...sampling } = request.sampling;
  return {
    sampling: {
      ...sampling,
      biasedTokens: Int32Array.from(logitBias, ([id]) => id),
      biases: Float32Array.from(logitBias, ([, bias]) => bias),
      topLogprobs: request.topLogprobs,
    },
    maxTokens: request.maxTokens,
    minTokens: request.minTokens,
    stopStrings: request.stop,
    stopTokens: Int32Array.from(request.stopTokens),
    stopBefore: request.stopBefore,
    ignoreEndOfSequence: request.ignoreEndOfSequence,
    grammar:
      request.jsonSchema === undefined
        ? (request.grammar ?? '')
        : grammarOfJsonSchema(request.jsonSchema),
    adapterScale: request.adapterScale,
  };
}

/** @throws IsoproError INVALID_ARGUMENT naming the field */
export function checkBatchRequest(request: BatchRequest): CheckedBatchRequest {
  return checked(batchRequestSchema, request, 'request');
}

/** @throws IsoproError INVALID_ARGUMENT naming the field */
export function checkRequest(request: GenerateRequest): CheckedRequest {
  return checked(requestSchema, request, 'request');
}
