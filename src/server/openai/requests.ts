/**
 * Bodies of OpenAI's API and of vLLM's additions, with the form of each member. Other members are
 * refused by name.
 */
import { z } from 'zod';
import type { Json } from '../../canonical-json.js';
import { lengthOfRules } from '../../engine/json-keywords.js';
import { single, singleOrZero } from '../../engine/single-precision.js';
import { mostMembers } from '../first-issue.js';
import {
  argumentsText,
  clientMessage,
  functionName,
  saidContent,
  toldContent,
} from '../../engine/messages.js';
import { maybe, members } from '../../object-schemas.js';

/**
 * OpenAI's limit. A template blocks the main thread for about a millisecond per twenty messages.
 */
const MOST_MESSAGES = 2048;
const INT32_MAX = 2 ** 31 - 1;
const flag = maybe(z.boolean());
/** Refuses stream_options without stream, as OpenAI does. */
const streamsOptions = <
  Body extends { stream?: boolean | undefined; stream_options?: object | undefined },
>({
  value: { stream, stream_options: options },
  issues,
}: z.core.ParsePayload<Body>): void => {
  if (options !== undefined && stream !== true)
    issues.push({
      code: 'custom',
      path: ['stream_options'],
      message: 'allowed only with stream: true',
      input: options,
    });
};

const penalty = maybe(singleOrZero.min(-2).max(2));
const tokenId = z.int().min(0).max(INT32_MAX);
const tokenList = z.array(tokenId).min(1).max(1_000_000);
const modelName = z
  .string({
    error: ({ input }) =>
      input === undefined ? 'is missing: GET /v1/models lists the names' : undefined,
  })
  .min(1)
  .max(400);

const streamOptions = members({ include_usage: flag, include_obfuscation: flag });
const streamFields = { stream: flag, stream_options: maybe(streamOptions) };
/** vLLM's: each event has the usage so far. */
const completionStreamFields = {
  ...streamFields,
  stream_options: maybe(members({ ...streamOptions.shape, continuous_usage_stats: flag })),
};

/** OpenAI's limit. */
const MOST_PAIRS = 16;

/**
 * Taken, and without any effect: they are about accounts, storage and billing, or about models that
 * think before they reply.
 */
const accountFields = {
  user: maybe(z.string()),
  metadata: maybe(z.record(z.string(), z.string()).check(mostMembers(MOST_PAIRS))),
  safety_identifier: maybe(z.string()),
  prompt_cache_key: maybe(z.string()),
  reasoning_effort: maybe(z.string()),
  service_tier: maybe(z.enum(['auto', 'default'])),
};

/** Biases of a request; each of its choices has all of them. */
const MOST_BIASES = 1024;

/** Members on how replies are sampled and where they end. */
const samplingFields = {
  max_tokens: maybe(z.int().min(1).max(INT32_MAX)),
  temperature: maybe(singleOrZero.min(0).max(1000)),
  /** 0: the most likely token alone. */
  top_p: maybe(singleOrZero.min(0).max(1)),
  /** -1 and 0: off. */
  top_k: maybe(z.int().min(-1).max(INT32_MAX)),
  min_p: maybe(singleOrZero.min(0).max(1)),
  repetition_penalty: maybe(single.gt(0).max(1000)),
  presence_penalty: penalty,
  frequency_penalty: penalty,
  logit_bias: maybe(
    z
      .record(z.string().regex(/^\d{1,9}$/, 'expected token ids'), singleOrZero.min(-100).max(100))
      .check(mostMembers(MOST_BIASES)),
  ),
  /** 64 bits; a negative number denotes the same bits. */
  seed: maybe(
    z.union(
      [
        z.int(),
        z
          .bigint()
          .min(-(2n ** 63n))
          .max(2n ** 64n - 1n),
      ],
      { error: 'expected a 64-bit integer' },
    ),
  ),
  n: maybe(z.int().min(1).max(128)),
  stop: maybe(z.union([z.string(), z.array(z.string()).max(16)])),
  stop_token_ids: maybe(z.array(tokenId).max(1000)),
  ignore_eos: flag,
  min_tokens: maybe(z.int().min(0).max(INT32_MAX)),
  /** Makes the same seed, model and adapter give the same tokens, whatever else runs. */
  deterministic: flag,
};
const samplingBody = members(samplingFields);
export type SamplingBody = z.output<typeof samplingBody>;

/** Salt of the prefix cache: only requests of the same key with the same salt share entries. */
const cacheSalt = maybe(z.string().max(1000));
/**
 * vLLM's: the exact ids, tokens named by them (`token_id:7`) in log-probabilities, and what the
 * model thinks of the prompt.
 */
const tokenFields = {
  return_token_ids: flag,
  return_tokens_as_token_ids: flag,
  prompt_logprobs: maybe(z.int().min(0).max(20)),
  cache_salt: cacheSalt,
};

/** llama-server's: which adapter, by its name or its place among those of /v1/models. */
const lora = members({
  id: maybe(z.union([z.int().min(0).max(INT32_MAX), modelName])),
  name: maybe(modelName),
  scale: maybe(z.number()),
}).refine(({ id, name }) => (id === undefined) !== (name === undefined), 'give either id or name');
export type LoraBody = z.output<typeof lora>;
const adapterFields = { lora: maybe(z.array(lora).max(1000)) };

const LARGEST_VARIABLES = 2 ** 14;
const DEEPEST_VARIABLES = 8;
const MOST_VARIABLES = 128;
/** Variables that the renderer sets, and words of the template language. */
const TAKEN = new Set(
  (
    'messages tools add_generation_prompt bos_token eos_token true false none True False None range namespace raise_exception ' +
    'strftime_now'
  ).split(' '),
);
const depthOf = (value: unknown): number =>
  typeof value !== 'object' || value === null
    ? 0
    : 1 +
      Object.values(value).reduce<number>(
        (deepest, member) => Math.max(deepest, depthOf(member)),
        0,
      );
/** vLLM's: variables of the chat template; one that the template does not ask for has no effect. */
const templateVariables = z
  .record(
    z
      .string()
      .regex(/^[A-Za-z_]\w{0,99}$/, 'expected the name of a variable')
      .refine(
        (variable) => !TAKEN.has(variable),
        'is reserved: the server passes it to every template',
      ),
    z.unknown() as z.ZodType<Json>, // of a body of JSON
  )
  .check(mostMembers(MOST_VARIABLES))
  .refine(
    (variables) => JSON.stringify(variables).length <= LARGEST_VARIABLES,
    `more than ${LARGEST_VARIABLES} characters of JSON`,
  )
  .refine(
    (variables) => depthOf(variables) <= DEEPEST_VARIABLES,
    `nested more than ${DEEPEST_VARIABLES} deep`,
  );

/**
 * Becoming a grammar takes the thread that answers all others, a millisecond for some kilobytes.
 */
const LARGEST_SCHEMA = 2 ** 16;
const TOO_LARGE = `more than ${LARGEST_SCHEMA} characters of JSON Schema apart from descriptions`;
const jsonSchema = z
  .record(z.string(), z.unknown())
  .check(mostMembers(1024))
  .refine((schema) => lengthOfRules(schema) <= LARGEST_SCHEMA, TOO_LARGE);
/** OpenAPI's and JSON Schema's `true`: anything. */
const parameters = maybe(z.union([z.boolean(), jsonSchema]));
const areSmallEnough = (
  tools: readonly { readonly parameters?: object | boolean | undefined }[],
): boolean =>
  tools.reduce((sum, tool) => sum + lengthOfRules(tool.parameters ?? true), 0) <= LARGEST_SCHEMA;
export const tool = members({
  type: z.literal('function'),
  function: members({
    name: functionName,
    description: maybe(z.string()),
    parameters,
    strict: flag,
  }),
});
export type ToolBody = z.output<typeof tool>;

export const toolChoice = z.union([
  z.enum(['none', 'auto', 'required']),
  members({ type: z.literal('function'), function: members({ name: functionName }) }),
]);
export type ToolChoiceBody = z.output<typeof toolChoice>;

/** OpenAI's form, and llama-server's with the schema next to the type. */
export const responseFormat = z.discriminatedUnion('type', [
  members({ type: z.literal('text') }),
  members({ type: z.literal('json_object'), schema: maybe(jsonSchema) }),
  members({
    type: z.literal('json_schema'),
    json_schema: maybe(
      members({
        name: maybe(z.string()),
        description: maybe(z.string()),
        schema: maybe(jsonSchema),
        strict: flag,
      }),
    ),
    schema: maybe(jsonSchema),
  }),
]);
export type ResponseFormatBody = z.output<typeof responseFormat>;

export const chatBody = members({
  model: modelName,
  messages: z.array(clientMessage).min(1).max(MOST_MESSAGES),
  ...completionStreamFields,
  ...samplingFields,
  ...tokenFields,
  ...accountFields,
  max_completion_tokens: samplingFields.max_tokens,
  /** agent-lightning's proxy says 1. */
  logprobs: maybe(z.union([z.boolean(), z.literal([0, 1]).transform((value) => value === 1)])),
  top_logprobs: maybe(z.int().min(0).max(20)),
  response_format: maybe(responseFormat),
  tools: maybe(
    z
      .array(tool)
      .max(128)
      .refine((tools) => areSmallEnough(tools.map((one) => one.function)), TOO_LARGE),
  ),
  tool_choice: maybe(toolChoice),
  parallel_tool_calls: flag,
  chat_template_kwargs: maybe(templateVariables),
  ...adapterFields,
  store: maybe(z.literal(false)),
}).check(streamsOptions);
export type ChatBody = z.output<typeof chatBody>;

export const completionBody = members({
  model: modelName,
  prompt: z.union([
    z.string(),
    tokenList,
    z.array(z.string()).min(1).max(256),
    z.array(tokenList).min(1).max(256),
  ]),
  ...completionStreamFields,
  ...samplingFields,
  /** 0 together with `echo`: the prompt is scored, and nothing is added. */
  max_tokens: maybe(z.int().min(0).max(INT32_MAX)),
  ...tokenFields,
  ...accountFields,
  logprobs: maybe(z.int().min(0).max(20)),
  echo: flag,
  best_of: maybe(z.int().min(1).max(128)),
  suffix: maybe(z.string()),
  ...adapterFields,
  response_format: maybe(responseFormat),
}).check(streamsOptions);
export type CompletionBody = z.output<typeof completionBody>;

export const generateBody = members({
  request_id: maybe(z.string().max(200)),
  model: maybe(modelName),
  token_ids: tokenList,
  sampling_params: members({
    ...samplingFields,
    logprobs: maybe(z.int().min(0).max(20)),
    prompt_logprobs: tokenFields.prompt_logprobs,
    /** vLLM's number for an answer in one piece. */
    output_kind: maybe(z.literal(2)),
  }).prefault({}),
  /** Member for images, which are not supported. */
  features: maybe(z.null()),
  stream: maybe(z.literal(false)),
  stream_options: maybe(members({ include_usage: flag })),
  cache_salt: cacheSalt,
  /** Requests run in turn by key. */
  priority: maybe(z.literal(0)),
});
export type GenerateBody = z.output<typeof generateBody>;

const itemFields = {
  id: maybe(z.string()),
  status: maybe(z.enum(['in_progress', 'completed', 'incomplete'])),
};
const isMessage = maybe(z.literal('message'));
/** Schema of a member that refers to data that this server does not keep. */
const notKept = (remedy: string) =>
  z
    .unknown()
    .optional()
    .superRefine((value, { addIssue }) => {
      if (value !== undefined && value !== null)
        addIssue({ code: 'custom', message: remedy, params: { isUnsupported: true } });
    });
const reference = <Shape extends z.core.$ZodLooseShape>(shape: Shape) =>
  z
    .object(shape)
    .superRefine((_, { addIssue }) =>
      addIssue({
        code: 'custom',
        message: 'send the item itself: this server keeps no responses',
        params: { isUnsupported: true },
      }),
    )
    .describe('refused: unsupported_parameter');
/** Items of earlier answers are accepted with all their members. */
const responseItem = z.discriminatedUnion('type', [
  z.discriminatedUnion('role', [
    members({
      type: isMessage,
      role: z.enum(['user', 'system', 'developer']),
      content: toldContent,
      phase: maybe(z.string()),
      ...itemFields,
    }),
    z.object({ type: isMessage, role: z.literal('assistant'), content: saidContent }),
  ]),
  z.object({
    type: z.literal('function_call'),
    call_id: z.string(),
    name: functionName,
    arguments: argumentsText,
  }),
  members({
    type: z.literal('function_call_output'),
    call_id: z.string(),
    output: toldContent,
    ...itemFields,
  }),
  z.object({ type: z.literal('reasoning') }),
  reference({ type: z.literal('item_reference') }),
]);

export const responseBody = members({
  model: modelName,
  input: z.union([z.string(), z.array(responseItem).min(1).max(MOST_MESSAGES)]),
  instructions: maybe(z.string()),
  max_output_tokens: samplingFields.max_tokens,
  temperature: samplingFields.temperature,
  top_p: samplingFields.top_p,
  top_k: samplingFields.top_k,
  min_p: samplingFields.min_p,
  seed: samplingFields.seed,
  stop: samplingFields.stop,
  ignore_eos: flag,
  deterministic: flag,
  cache_salt: cacheSalt,
  ...streamFields,
  ...accountFields,
  tools: maybe(
    z
      .array(
        members({
          type: z.literal('function'),
          name: functionName,
          description: maybe(z.string()),
          parameters,
          strict: flag,
        }),
      )
      .max(128)
      .refine(areSmallEnough, TOO_LARGE),
  ),
  tool_choice: maybe(
    z.union([
      z.enum(['none', 'auto', 'required']),
      members({ type: z.literal('function'), name: functionName }),
    ]),
  ),
  parallel_tool_calls: flag,
  text: maybe(
    members({
      format: maybe(
        z.discriminatedUnion('type', [
          members({ type: z.literal('text') }),
          members({ type: z.literal('json_object') }),
          members({
            type: z.literal('json_schema'),
            name: maybe(z.string()),
            description: maybe(z.string()),
            schema: jsonSchema,
            strict: flag,
          }),
        ]),
      ),
    }),
  ),
  /** Reasoning may be included, but there is none. */
  include: maybe(
    z.array(z.enum(['message.output_text.logprobs', 'reasoning.encrypted_content'])).max(16),
  ),
  top_logprobs: maybe(z.int().min(0).max(20)),
  truncation: maybe(z.literal('disabled')),
  /** Setting of reasoning models, such as reasoning_effort of a chat; no effect. */
  reasoning: maybe(z.looseObject({})),
  /** Nothing is stored: earlier messages come with the request. */
  store: flag,
  previous_response_id: notKept(
    'this server keeps no responses; send the earlier messages as input',
  ),
  conversation: notKept('this server keeps no conversations; send the earlier messages as input'),
  prompt: notKept('this server keeps no prompts; send the text as instructions and input'),
  background: maybe(z.literal(false)),
}).check(streamsOptions);
export type ResponseBody = z.output<typeof responseBody>;

export const embeddingBody = members({
  model: modelName,
  input: z.union([
    z.string(),
    tokenList,
    z.array(z.string()).min(1).max(2048),
    z.array(tokenList).min(1).max(2048),
  ]),
  encoding_format: maybe(z.enum(['float', 'base64'])),
  dimensions: maybe(z.int().min(1)),
  user: accountFields.user,
});
export type EmbeddingBody = z.output<typeof embeddingBody>;

/** vLLM's: a text, or messages as they are rendered. */
export const tokenizeBody = members({
  model: maybe(modelName),
  prompt: maybe(z.string()),
  messages: maybe(z.array(clientMessage).min(1).max(MOST_MESSAGES)),
  add_special_tokens: flag,
  add_generation_prompt: flag,
  return_token_strs: flag,
}).refine(
  ({ prompt, messages }) => (prompt === undefined) !== (messages === undefined),
  'give either prompt or messages',
);
export const detokenizeBody = members({
  model: maybe(modelName),
  tokens: z.array(tokenId).max(1_000_000),
});

export const loadAdapterBody = members({
  lora_name: modelName,
  lora_path: z.string().min(1).max(4096),
  load_inplace: flag,
});
export const unloadAdapterBody = members({ lora_name: modelName, lora_int_id: maybe(z.int()) });
export const pauseQuery = members({ mode: z.enum(['abort', 'wait', 'keep']).default('wait') });
