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

/** Error text for a value that is not an object of this form. */
const formed = (form: string) => ({
  error: ({ code }: z.core.$ZodRawIssue) =>
    code === 'invalid_type' ? `must be an object: ${form}` : undefined,
});

/**
 * A prompt: a user message or chat messages, which the model's template renders with a generation
 * prompt; a text, which the model continues without a template; or token ids, which are used as
 * they are.
 */
const promptFields = {
  /** Shorthand for a single user message. */
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
   * Text to continue, after a BOS if the vocabulary asks for one. The name of a control token is
   * plain text.
   */
  text: z.string().optional(),
  tokenIds: tokenIds.optional(),
  /** Name of the prompt, from which the seeds of its samples are derived. Default: its index. */
  id: z.string().optional(),
};

/** Checked content of a prompt: exactly one of the three. */
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

/** Replaces a `prompt` with the chat message that it stands for. */
function asMessages<
  T extends { prompt?: string | undefined; messages?: readonly MessageInput[] | undefined },
>({ prompt, ...rest }: T): Omit<T, 'prompt'> {
  return prompt === undefined ? rest : { ...rest, messages: [{ role: 'user', content: prompt }] };
}

const promptSchema = z
  .strictObject({
    ...promptFields,
    /** One 64-bit seed per sample, instead of derived seeds. */
    seeds: bounded(z.array(seed)).optional(),
  })
  .refine(...oneContent)
  .transform(asMessages);
export type Prompt = z.input<typeof promptSchema>;

/** Returns a prompt of Model.generate in its full form. */
export const namedPrompt = (prompt: Prompt | string): Omit<Prompt, 'prompt'> =>
  asMessages(typeof prompt === 'string' ? { prompt } : prompt);

const penalty = singleOrZero.min(-2).max(2).default(0);

const samplingSettings = z.strictObject({
  /** Softmax temperature; 0 picks the most likely token. Default 1. */
  temperature: singleOrZero.min(0).max(1000).default(1),
  /** Number of most likely tokens to sample from; 0: off. Default 0. */
  topK: z.int().min(0).max(INT32_MAX).default(0),
  /** Nucleus probability in [0, 1]; 1: off, 0: only the most likely token. Default 1. */
  topP: singleOrZero.min(0).max(1).default(1),
  /** Minimum probability relative to the most likely token, in [0, 1]; 0: off. Default 0. */
  minP: singleOrZero.min(0).max(1).default(0),
  /** Penalty on the last `repeatWindow` tokens, prompt included; above 0, 1: off. Default 1. */
  repeatPenalty: single.gt(0).max(1000).default(1),
  /** Number of tokens that the repeat penalty looks back over. Default 64. */
  repeatWindow: z.int().min(0).max(1_000_000).default(64),
  /**
   * Subtracted from the logit of every token that the reply already contains. In [-2, 2]; 0: off.
   * Default 0.
   */
  presencePenalty: penalty,
  /**
   * Subtracted from a token's logit once for each time that the reply contains it. In [-2, 2]; 0:
   * off. Default 0.
   */
  frequencyPenalty: penalty,
  /** Added to the logits of tokens, by token id; each in [-100, 100]. */
  logitBias: (
    z.record(
      z.string().regex(/^\d{1,9}$/, 'expected a token id'),
      singleOrZero.min(-100).max(100),
    ) as z.ZodType<Record<string, number>, Readonly<Record<number, number>>>
  )
    .default({})
    .transform((biases) => Object.entries(biases).map(([id, bias]) => [Number(id), bias] as const)),
  /** 64-bit seed of the request, from which the seed of each sample is derived. Default 0. */
  seed: seed.default(0n),
});
export type SamplingSettings = z.input<typeof samplingSettings>;

/** Settings of how a reply is sampled and when it ends. */
const replyFields = {
  /**
   * Transformations apply in this order: logit bias, repeat penalty, frequency and presence
   * penalties, grammar and `minTokens`, temperature, top-k, top-p, min-p.
   */
  sampling: samplingSettings.prefault({}),
  /** Maximum number of tokens per sample. Default 256. */
  maxTokens: z.int().min(1).max(INT32_MAX).default(256),
  /**
   * Minimum number of tokens before an end-of-turn token, stop token or stop string can end the
   * reply. A grammar whose document is complete still ends it. Default 0.
   */
  minTokens: z.int().min(0).max(INT32_MAX).default(0),
  /** Number of most likely tokens to return with each token, at most 20. Default 0. */
  topLogprobs: z.int().min(0).max(20).default(0),
  /** Stop strings; the reply is the text before the first of them. */
  stop: bounded(z.array(z.string().min(1))).default([]),
  stopTokens: bounded(z.array(z.int().min(0).max(INT32_MAX))).default([]),
  /** Text after which `stop` and `stopTokens` no longer apply. Default '': they always apply. */
  stopBefore: z.string().default(''),
  /** Continue after an end-of-sequence or end-of-turn token. Default false. */
  ignoreEndOfSequence: z.boolean().default(false),
  /** GBNF; its start rule is `root`. */
  grammar: z.string().min(1).optional(),
  /**
   * JSON Schema that every complete reply follows. A schema that a grammar cannot enforce is
   * GRAMMAR_INVALID (docs/commands/generate.md).
   */
  jsonSchema: z
    .custom<object>(
      (value) => typeof value === 'object' && value !== null,
      'expected a JSON Schema',
    )
    .optional(),
  /** Adapter for this request only; null: the bare base model. Default: the model's own adapter. */
  adapter: adapterOption,
  /** Factor on the adapter's output. Default 1. */
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
       * Prompts, each with exactly one of `prompt`, `messages`, `text` and `tokenIds`. A string is
       * shorthand for `{ prompt }`.
       */
      prompts: bounded(
        z.array(
          z.preprocess(
            (prompt: Prompt | string) => (typeof prompt === 'string' ? { prompt } : prompt),
            promptSchema,
          ),
        ),
      ),
      /** Number of samples per prompt; a prompt with `seeds` has one per seed. Default 1. */
      samples: z.int().min(0).max(1_000_000).default(1),
      /** Layer whose input (the residual stream) is captured, for the trainer's boundary cache. */
      captureBoundary: z.int().min(0).max(INT32_MAX).optional(),
      /**
       * Number of sequences in the running batch. Default 64, maximum 253. Each has its own keys
       * and values, with room for the longest prompt and `maxTokens`. Fewer run if the model's
       * `contextTokens` cannot hold that many.
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
       * What to do if prompt and `maxTokens` exceed the context: 'refuse' with CONTEXT_OVERFLOW, or
       * 'stop' the reply with finish 'length' when the context is full. Default 'refuse'.
       */
      whenContextFull: z.enum(['refuse', 'stop']).default('refuse'),
      /**
       * Return the same tokens and log-probabilities, bit for bit, whatever else is running: those
       * of `Model.generate` for one sample of the same prompt, `id` and seed on a model with
       * `fixedThreads`. Such replies run one after the other, each in its own batch. Default false.
       */
      deterministic: z.boolean().default(false),
      /**
       * Partition of the prefix cache; a request reuses only prefixes of its own partition. Default
       * ''.
       */
      cachePartition: z.string().default(''),
      /**
       * Priority if there is not room for all requests: a lower rank runs first. A running reply of
       * a higher rank pauses and continues later. Within a rank, the earlier request runs first.
       * Default 0.
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
 * One prompt and the settings of its reply; exactly one of `prompt`, `messages`, `text` and
 * `tokenIds`.
 */
export type BatchRequest = z.input<typeof batchRequestSchema>;
export type CheckedBatchRequest = z.output<typeof batchRequestSchema>;

/** Returns the reply settings in the form of the addon. @throws IsoproError GRAMMAR_INVALID */
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
