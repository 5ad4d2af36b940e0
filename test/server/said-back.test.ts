/**
 * What clients send beside what they mean: null for what they leave out, what earlier replies had,
 * references; and what is told of it.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newFineTuning } from '../../src/server/fine-tuning/requests.js';
import type { Server } from '../../src/server/server.js';
import { closeAll, reported, send, start, type Answer } from '../models/server.js';

let server: Server;
beforeAll(async () => {
  server = await start();
});
afterAll(async () => {
  await closeAll();
  expect(reported).toEqual([]);
});

const ask = (to: string, body: object): Promise<Answer> =>
  send(server, `/v1/${to}`, { body: { model: 'base', ...body } });
const failure = ({ status, body }: Answer): unknown[] => [
  status,
  body.error?.param,
  body.error?.code,
];
const user = { role: 'user', content: 'Hi' };
const chat = (body: object): Promise<Answer> =>
  ask('chat/completions', { max_tokens: 2, messages: [user], ...body });
const respond = (body: object): Promise<Answer> =>
  ask('responses', { max_output_tokens: 2, input: 'Hi', ...body });

describe('null', () => {
  /** Optional members by OpenAI's own client, 6.x, and some that other servers have. */
  const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
    'chat/completions': (
      'audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens metadata modalities moderation n ' +
      'parallel_tool_calls prediction presence_penalty prompt_cache_key prompt_cache_retention reasoning_effort response_format ' +
      'safety_identifier seed service_tier stop store stream stream_options temperature tool_choice tools top_logprobs top_p user ' +
      'verbosity web_search_options top_k guided_json thinking'
    ).split(' '),
    completions: (
      'best_of echo frequency_penalty logit_bias logprobs n presence_penalty seed stop stream stream_options suffix temperature top_p ' +
      'user response_format grammar'
    ).split(' '),
    responses: (
      'background context_management conversation include instructions max_tool_calls metadata parallel_tool_calls previous_response_id ' +
      'prompt prompt_cache_key prompt_cache_retention reasoning safety_identifier service_tier store stream stream_options temperature ' +
      'text tool_choice tools top_logprobs top_p truncation user'
    ).split(' '),
    embeddings: ['dimensions', 'encoding_format', 'user', 'input_type'],
  };
  const CONTENT: Readonly<Record<string, object>> = {
    'chat/completions': { messages: [user], max_tokens: 2, temperature: 0 },
    completions: { prompt: 'Hi', max_tokens: 2, temperature: 0 },
    responses: { input: 'Hi', max_output_tokens: 2, temperature: 0 },
    embeddings: { input: 'Hi' },
  };
  test.each(Object.keys(OPTIONAL))(
    '/v1/%s: each optional member, and all at once',
    async (target) => {
      const names = OPTIONAL[target]!;
      const all = await ask(target, {
        ...Object.fromEntries(names.map((name) => [name, null])),
        ...CONTENT[target],
      });
      expect(all.body.error ?? null).toBeNull();
      for (const name of names.filter((each) => !(each in CONTENT[target]!)))
        expect([
          name,
          (await ask(target, { ...CONTENT[target], [name]: null })).body.error ?? null,
        ]).toEqual([name, null]);
    },
  );

  test('in what a member holds', async () => {
    const schema = {
      type: 'object',
      properties: { on: { type: 'boolean' } },
      required: ['on'],
      additionalProperties: false,
    };
    const parameters = schema;
    for (const body of [
      {
        tools: [
          {
            type: 'function',
            function: { name: 'f', description: null, parameters: null, strict: null, cache: null },
          },
        ],
      },
      { tools: [{ type: 'function', function: { name: 'f', parameters }, defer_loading: null }] },
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'x', description: null, strict: null, schema },
          schema: null,
        },
      },
      { response_format: { type: 'text', schema: null } },
      { messages: [{ ...user, name: null, refusal: null, tool_calls: null }] },
    ])
      expect((await chat(body)).body.error ?? null).toBeNull();
    for (const body of [
      {
        input: [
          {
            type: null,
            role: 'user',
            id: null,
            status: null,
            phase: null,
            content: [{ type: 'input_text', text: 'Hi', detail: null }],
          },
        ],
      },
      { text: { format: null, verbosity: null } },
      { reasoning: { effort: null, summary: null, generate_summary: null } },
      {
        tools: [
          {
            type: 'function',
            name: 'f',
            parameters: null,
            strict: null,
            description: null,
            defer_loading: null,
          },
        ],
      },
    ])
      expect((await respond(body)).body.error ?? null).toBeNull();
  });

  test('of a fine-tuning job, in its method and in a grader too', () => {
    const asked = {
      model: 'base',
      training_file: 'file-1',
      validation_file: null,
      seed: null,
      suffix: null,
      metadata: null,
      integrations: null,
    };
    const hyperparameters = {
      n_epochs: null,
      batch_size: null,
      learning_rate_multiplier: null,
      beta: null,
    };
    const grader = {
      type: 'score_model',
      name: null,
      model: 'base',
      input: [{ role: 'user', content: '{{sample.output_text}}', type: null }],
      range: null,
      sampling_params: { seed: null, temperature: null, top_p: null, reasoning_effort: null },
      pass_threshold: null,
    };
    for (const method of [
      null,
      { type: 'supervised', supervised: null, dpo: null, reinforcement: null },
      { type: 'supervised', supervised: { hyperparameters } },
      { type: 'dpo', dpo: { hyperparameters: null } },
      {
        type: 'reinforcement',
        reinforcement: { grader, hyperparameters: { eval_interval: null, reasoning_effort: null } },
      },
    ])
      expect(
        newFineTuning.safeParse({ ...asked, method, hyperparameters: null, job_timeout: null })
          .error,
      ).toBeUndefined();
    expect(newFineTuning.safeParse({ ...asked, job_timeout: 1 }).success).toBe(false);
  });

  test('is nothing where a member is wanted, and a member that is set is refused by its name', async () => {
    expect(failure(await chat({ messages: null }))).toEqual([400, 'messages', 'invalid_value']);
    expect(failure(await chat({ functions: [{ name: 'f' }] }))).toEqual([
      400,
      'functions',
      'unknown_parameter',
    ]);
    expect(failure(await chat({ messages: [{ ...user, refusal: 'x' }] }))).toEqual([
      400,
      'messages[0].refusal',
      'unknown_parameter',
    ]);
  });
});

describe('what a response gave', () => {
  const items = [
    {
      id: 'rs_1',
      type: 'reasoning',
      summary: [{ type: 'summary_text', text: 'so' }],
      encrypted_content: null,
      status: null,
    },
    {
      id: 'msg_1',
      type: 'message',
      status: 'completed',
      role: 'assistant',
      phase: 'final',
      content: [
        { type: 'output_text', text: 'Hello', annotations: [], logprobs: [], parsed: { a: 1 } },
        { type: 'refusal', refusal: '!' },
      ],
    },
    { id: 'rs_2', type: 'reasoning', summary: [], content: null },
    {
      id: 'fc_1',
      type: 'function_call',
      call_id: 'c',
      name: 'f',
      arguments: '{}',
      status: 'completed',
      parsed_arguments: {},
      namespace: null,
    },
    {
      type: 'function_call_output',
      call_id: 'c',
      output: [{ type: 'input_text', text: 'ok' }],
      id: null,
      status: null,
    },
  ];

  test('goes back as it is; what was thought is no part of it', async () => {
    const asked = { input: [user, ...items, user], temperature: 0, max_output_tokens: 8 };
    const plain = [
      user,
      { role: 'assistant', content: 'Hello!' },
      { type: 'function_call', call_id: 'c', name: 'f', arguments: '{}' },
      { type: 'function_call_output', call_id: 'c', output: 'ok' },
      user,
    ];
    const [full, bare] = [await respond(asked), await respond({ ...asked, input: plain })];
    expect(full.body.error ?? null).toBeNull();
    expect(full.body.usage.input_tokens).toBe(bare.body.usage.input_tokens);
    expect(full.body.output[0].content).toEqual(bare.body.output[0].content);
  });

  test('reasoning that is asked for has no effect', async () => {
    const asked = { temperature: 0, max_output_tokens: 8 };
    const plain = await respond(asked);
    for (const more of [
      { reasoning: { effort: 'high', summary: 'auto' } },
      { reasoning: {} },
      { include: ['reasoning.encrypted_content'] },
    ]) {
      const { body } = await respond({ ...asked, ...more });
      expect(body.output?.[0].content).toEqual(plain.body.output[0].content);
    }
  });

  test.each<[string, object, string, string]>([
    [
      'an item',
      { input: [user, { type: 'item_reference', id: 'msg_1' }] },
      'input[1]',
      'send the item itself: this server keeps no responses',
    ],
    [
      'a response',
      { previous_response_id: 'resp_1' },
      'previous_response_id',
      'send the earlier messages as input',
    ],
    [
      'a conversation',
      { conversation: { id: 'conv_1' } },
      'conversation',
      'send the earlier messages as input',
    ],
    [
      'a conversation by its name',
      { conversation: 'conv_1' },
      'conversation',
      'this server keeps no conversations',
    ],
    ['a prompt', { prompt: { id: 'pmpt_1' } }, 'prompt', 'this server keeps no prompts'],
    ['one to keep', { store: true }, 'store', 'this server keeps no responses'],
  ])(
    '%s that this server does not have is refused with what to do',
    async (_, body, param, message) => {
      const answer = await respond(body);
      expect(failure(answer)).toEqual([400, param, 'unsupported_parameter']);
      expect(answer.body.error.message).toContain(message);
    },
  );
});

describe('what is wrong is told by the member that was sent', () => {
  const far = 999_999;
  const pattern = { type: 'object', properties: { a: { type: 'string', pattern: 'a' } } };
  const long = 'word '.repeat(600);
  const tool = { name: 'f', strict: true, parameters: pattern };
  const picture = [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }];
  test.each<[string, object, string]>([
    ['chat/completions', { messages: [user], stop_token_ids: [1, far] }, 'stop_token_ids[1]'],
    ['chat/completions', { messages: [user], logit_bias: { 1: 1, [far]: 1 } }, `logit_bias.${far}`],
    ['completions', { prompt: [1, 2, far] }, 'prompt[2]'],
    ['completions', { prompt: [[1], [far]] }, 'prompt[1][0]'],
    ['completions', { prompt: 'x', logit_bias: { [far]: 1 } }, `logit_bias.${far}`],
    ['completions', { prompt: ['x', long] }, 'prompt[1]'],
    ['completions', { prompt: Array(600).fill(1) }, 'prompt'],
    [
      'completions',
      { prompt: 'x', response_format: { type: 'json_object', schema: pattern } },
      'response_format',
    ],
    ['responses', { input: long }, 'input'],
    ['responses', { input: picture }, 'input[0].content[0]'],
    [
      'responses',
      {
        input: 'x',
        text: { format: { type: 'json_schema', name: 'x', strict: true, schema: pattern } },
      },
      'text.format',
    ],
    ['responses', { input: 'x', tools: [{ type: 'function', ...tool }] }, 'tools[0].parameters'],
    [
      'responses',
      { input: 'x', tools: [1, 2].map(() => ({ type: 'function', name: 'f' })) },
      'tools[1].name',
    ],
    ['embeddings', { input: [[1], [far]] }, 'input[1]'],
    ['embeddings', { input: long }, 'input'],
    ['detokenize', { tokens: [1, far] }, 'tokens[1]'],
  ])('/v1/%s %j', async (target, body, param) => {
    const { status, body: told } = await ask(target, body);
    expect([status, told.error.param]).toEqual([400, param]);
  });

  test('of ids alone too', async () => {
    const generate = (body: object): Promise<Answer> =>
      send(server, '/inference/v1/generate', { body });
    expect(failure(await generate({ token_ids: [1, far] })).slice(0, 2)).toEqual([
      400,
      'token_ids[1]',
    ]);
    const biased = { token_ids: [1], sampling_params: { logit_bias: { [far]: 1 } } };
    expect(failure(await generate(biased)).slice(0, 2)).toEqual([
      400,
      `sampling_params.logit_bias.${far}`,
    ]);
  });
});
