/**
 * What a fine-tuning job comes to: the settings of the job behind it, what is told of it, and its
 * files. A small program stands for the command.
 */
import { rmSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { fileURLToPath } from 'node:url';
import type { Job, JobEvent } from '../../src/jobs/job.js';
import {
  checkpointsOf,
  fineTuningEvent,
  fineTuningJob,
} from '../../src/server/fine-tuning/shapes.js';
import { hashKey } from '../../src/server/keys.js';
import type { Server } from '../../src/server/server.js';
import type { Parsed } from '../models/parsed.js';
import {
  ADMIN,
  asAdmin,
  closeAll,
  folder,
  reported,
  send,
  start,
  type Answer,
} from '../models/server.js';

const PROGRAM = fileURLToPath(new URL('../jobs/job-program.mjs', import.meta.url));
const [ANN, BOB] = ['the-key-of-ann-1', 'the-key-of-bob-1'];
const keys = [
  hashKey('ann', ANN, ['train']),
  hashKey('bob', BOB, ['train']),
  hashKey('admin', ADMIN, ['admin']),
];
const runs = path.join(folder, 'fine-tuning-jobs');
let server: Server;
/** Holds the only place: what is asked for then waits. */
let holder: string;
beforeAll(async () => {
  const jobs = {
    runs,
    worker: PROGRAM,
    models: [],
    tasks: [],
    atOnce: 1,
    availableMemory: () => Infinity,
  };
  server = await start({ keys, jobs });
  holder = (await post('/api/jobs', { kind: 'eval', settings: { system: 'hold' } }, ADMIN)).body.id;
});
afterAll(async () => {
  await closeAll();
  rmSync(runs, { recursive: true, force: true });
});

const bearer = (key: string): { authorization: string } => ({ authorization: `Bearer ${key}` });
const get = (target: string, key = ANN): Promise<Answer> =>
  send(server, target, { headers: bearer(key) });
const post = (target: string, body: unknown, key = ANN): Promise<Answer> =>
  send(server, target, {
    method: 'POST',
    headers: bearer(key),
    ...(body !== undefined && { body }),
  });
/** A form of parts, each with its disposition. */
const form = (
  parts: readonly (readonly [disposition: string, value: string])[],
  key = ANN,
): Promise<Answer> =>
  send(server, '/v1/files', {
    headers: { ...bearer(key), 'content-type': 'multipart/form-data; boundary=b' },
    body: [
      ...parts.map(
        ([disposition, value]) =>
          `--b\r\ncontent-disposition: form-data; ${disposition}\r\n\r\n${value}\r\n`,
      ),
      '--b--\r\n',
    ].join(''),
  });
const upload = async (text: string, key = ANN, name = 'rows.jsonl'): Promise<string> => {
  const { status, body } = await form(
    [
      ['name="purpose"', 'fine-tune'],
      [`name="file"; filename="${name}"`, text],
    ],
    key,
  );
  expect(status).toBe(200);
  return body.id;
};
const jsonl = (rows: readonly object[]): string =>
  rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const EXAMPLES = jsonl([
  {
    messages: [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: 'b' },
    ],
  },
]);
const PAIRS = jsonl([{ prompt: 'a', chosen: 'b', rejected: 'c' }]);
const create = (body: object): Promise<Answer> =>
  post('/v1/fine_tuning/jobs', { model: 'base', ...body });
/** Of the job behind one, and the answer that told of it. */
async function settingsOf(body: object): Promise<{ settings: Parsed; kind: string; told: Parsed }> {
  const { status, body: told } = await create(body);
  expect([status, told.error ?? null]).toEqual([200, null]);
  const { settings, kind } = (await get(`/api/jobs/${told.id.replace('ftjob', 'job')}`)).body;
  return { settings, kind, told };
}
const failure = ({ status, body }: Answer): unknown[] => [
  status,
  body.error?.param,
  body.error?.code,
  body.error?.message,
];

describe('a job of examples', () => {
  test('as a whole, with what auto stands for', async () => {
    const file = await upload(EXAMPLES);
    const { settings, kind, told } = await settingsOf({
      training_file: file,
      seed: 7,
      suffix: 's.1',
      metadata: { a: 'b' },
    });
    expect([kind, settings]).toEqual([
      'train',
      { data: file, epochs: 1, batchSize: 8, learningRate: 2e-4, seed: '7' },
    ]);
    const hyperparameters = { n_epochs: 1, batch_size: 8, learning_rate_multiplier: 1 };
    expect(Math.abs(told.created_at - Date.now() / 1000)).toBeLessThan(100);
    const whole = {
      object: 'fine_tuning.job',
      id: expect.stringMatching(/^ftjob-[0-9a-f]{24}$/),
      created_at: expect.any(Number),
      error: null,
      fine_tuned_model: null,
      finished_at: null,
      hyperparameters,
      model: 'base',
      organization_id: 'ann',
      result_files: [],
      seed: 7,
      status: 'queued',
      trained_tokens: null,
      training_file: file,
      validation_file: null,
      estimated_finish: null,
      integrations: [],
      metadata: { a: 'b' },
      method: { type: 'supervised', supervised: { hyperparameters } },
    };
    expect(told).toEqual(whole);
    expect((await get(`/v1/fine_tuning/jobs/${told.id}`)).body).toEqual(told);
  });

  test('with figures of its own, by its method or as before there were methods', async () => {
    const [file, other] = [await upload(EXAMPLES), await upload(EXAMPLES)];
    const hyperparameters = { n_epochs: 4, batch_size: 2, learning_rate_multiplier: 0.5 };
    const wanted = {
      ...{ data: file, validationData: other, epochs: 4, batchSize: 2 },
      ...{ learningRate: 1e-4, seed: '0' },
    };
    const asked = { training_file: file, validation_file: other, seed: 0 };
    for (const more of [
      { hyperparameters },
      { method: { type: 'supervised', supervised: { hyperparameters } } },
    ]) {
      const { settings, told } = await settingsOf({ ...asked, ...more });
      expect([settings, told.hyperparameters, told.validation_file]).toEqual([
        wanted,
        hyperparameters,
        other,
      ]);
    }
    const auto = { n_epochs: 'auto', batch_size: 'auto', learning_rate_multiplier: 'auto' };
    expect(
      (await settingsOf({ training_file: file, hyperparameters: auto })).told.hyperparameters,
    ).toEqual({
      n_epochs: 1,
      batch_size: 8,
      learning_rate_multiplier: 1,
    });
    const seeds = [
      (await settingsOf({ training_file: file })).told.seed,
      (await settingsOf({ training_file: file })).told.seed,
    ];
    for (const seed of seeds)
      expect(seed >= 0 && seed < 2 ** 31 && Number.isInteger(seed)).toBe(true);
    expect(seeds[0]).not.toBe(seeds[1]);
  });

  test('of pairs', async () => {
    const [file, other] = [await upload(PAIRS), await upload(PAIRS)];
    const { settings, told } = await settingsOf({
      training_file: file,
      validation_file: other,
      seed: 1,
      method: { type: 'dpo' },
    });
    expect(settings).toEqual({
      ...{
        data: file,
        validationData: other,
        objective: 'dpo',
        beta: 0.1,
        epochs: 1,
        batchSize: 8,
        learningRate: 2e-5,
        seed: '1',
      },
    });
    expect(told.method).toEqual({
      type: 'dpo',
      dpo: {
        hyperparameters: { n_epochs: 1, batch_size: 8, learning_rate_multiplier: 1, beta: 0.1 },
      },
    });
    const own = await settingsOf({
      training_file: file,
      seed: 1,
      method: { type: 'dpo', dpo: { hyperparameters: { beta: 0.5 } } },
    });
    expect(own.settings).toEqual({
      data: file,
      objective: 'dpo',
      beta: 0.5,
      epochs: 1,
      batchSize: 8,
      learningRate: 2e-5,
      seed: '1',
    });
    const bad = await upload(EXAMPLES);
    expect(failure(await create({ training_file: bad, method: { type: 'dpo' } }))).toEqual([
      400,
      'training_file',
      'invalid_training_file',
      expect.stringMatching(new RegExp(`^${bad}: line 1: `)),
    ]);
    expect(
      (await create({ training_file: file, validation_file: bad, method: { type: 'dpo' } })).body
        .error.message,
    ).toContain(`${bad}: line 1`);
  });
});

describe('a job that is reinforced', () => {
  const reinforced = (grader: object, hyperparameters: object = {}): object => ({
    method: { type: 'reinforcement', reinforcement: { grader, hyperparameters } },
  });
  const SQL = { type: 'task', task: 'sql' };
  test('has the settings of a run of the task, and its own figures in their place', async () => {
    const { body } = await post('/api/jobs/estimate', {
      kind: 'run',
      settings: { task: 'sql', model: { name: 'base' } },
    });
    const { iterations, sampling, optimiser, evaluation } = body.settings;
    const plain = await settingsOf({ ...reinforced(SQL), seed: 3 });
    expect([plain.kind, plain.told.training_file]).toEqual(['run', 'sql']);
    expect(plain.settings).toEqual({
      task: 'sql',
      seed: '3',
      iterations,
      sampling: { rollouts: sampling.rollouts },
      optimiser: { batchSize: optimiser.batchSize, learningRate: optimiser.learningRate },
      evaluation: {
        devSize: Math.min(evaluation.devSize, evaluation.testSize),
        testSize: evaluation.testSize,
      },
    });
    const figures = {
      n_epochs: 2,
      batch_size: 3,
      learning_rate_multiplier: 2,
      compute_multiplier: 0.3,
      eval_samples: 2,
      eval_interval: 1,
      reasoning_effort: 'default',
    };
    const own = await settingsOf({ ...reinforced(SQL, figures), training_file: 'sql', seed: 3 });
    expect(own.settings).toEqual({
      task: 'sql',
      seed: '3',
      iterations: 2,
      sampling: { rollouts: Math.round(0.3 * sampling.rollouts) },
      optimiser: { batchSize: 3, learningRate: 2 * optimiser.learningRate },
      evaluation: { devSize: Math.min(2, evaluation.devSize), testSize: 2 },
    });
    expect(own.told.hyperparameters).toEqual(figures);
    expect(own.told.method).toEqual({
      type: 'reinforcement',
      reinforcement: { grader: SQL, hyperparameters: figures },
    });
    const least = await settingsOf({
      ...reinforced(SQL, { compute_multiplier: 1e-4, learning_rate_multiplier: 10_000 }),
      seed: 3,
    });
    expect([least.settings.sampling.rollouts, least.settings.optimiser.learningRate]).toEqual([
      sampling.samples,
      1,
    ]);
  });

  test('on rows has them in the form of its grader', async () => {
    const rows = [{ messages: [{ role: 'user', content: 'a?' }], of: 'x' }];
    const file = await upload(jsonl(rows));
    const input = '{{sample.output_text}}';
    for (const [operation, check] of [
      ['eq', 'exact'],
      ['like', 'contains'],
    ]) {
      const { settings, told } = await settingsOf({
        ...reinforced({ type: 'string_check', operation, input, reference: 'is {{item.of}}' }),
        training_file: file,
      });
      expect([settings.check, settings.sampling.style, told.training_file]).toEqual([
        check,
        'plain',
        file,
      ]);
      expect((await get(`/v1/files/${settings.task}/content`)).text).toBe(
        jsonl([{ messages: rows[0]!.messages, answer: 'is x' }]),
      );
    }
    const { settings } = await settingsOf({
      ...reinforced({ type: 'json_schema', schema: { type: 'object' } }),
      training_file: file,
    });
    expect((await get(`/v1/files/${settings.check.replace('json:', '')}/content`)).text).toBe(
      '{"type":"object"}',
    );
    expect((await get(`/v1/files/${settings.task}/content`)).text).toBe(
      jsonl([{ messages: rows[0]!.messages }]),
    );
  });

  test('copies of rows have a bound: four times the file and a MiB', async () => {
    const rows = jsonl(
      Array.from({ length: 200 }, (_, i) => ({ messages: [{ role: 'user', content: `${i}` }] })),
    );
    const file = await upload(rows);
    const long = reinforced({
      type: 'string_check',
      operation: 'eq',
      input: '{{sample.output_text}}',
      reference: 'r'.repeat(9000),
    });
    const { status, body } = await create({ ...long, training_file: file });
    expect([status, body.error.code, body.error.message]).toEqual([
      503,
      'write_failed',
      `the copy of the file exceeds the ${4 * rows.length + 2 ** 20} bytes that are left`,
    ]);
  });

  const [GRADER, FIGURES] = ['method.reinforcement.grader', 'method.reinforcement.hyperparameters'];
  const check = (more: object): object =>
    reinforced({
      type: 'string_check',
      operation: 'eq',
      input: '{{sample.output_text}}',
      reference: 'x',
      ...more,
    });
  test.each<[string, object, unknown[]]>([
    [
      'a file that is missing',
      {},
      [400, 'training_file', 'file_not_found', 'training_file: is missing'],
    ],
    [
      'a file that is none',
      { training_file: 'x' },
      [400, 'training_file', 'file_not_found', 'training_file: there is no file "x"'],
    ],
    [
      'figures twice',
      { hyperparameters: {}, method: { type: 'supervised' } },
      [400, 'hyperparameters', 'invalid_value', 'hyperparameters: give them inside method'],
    ],
    [
      'a tracker',
      { integrations: [{}] },
      [403, 'integrations', 'tracker_not_allowed', 'integrations: requests may not name trackers'],
    ],
    [
      'another model',
      { model: 'other' },
      [400, 'model', 'model_not_found', 'model: this server serves and trains base only'],
    ],
    [
      'problems to validate on',
      { ...reinforced(SQL), validation_file: 'x' },
      [
        400,
        'validation_file',
        'unsupported_parameter',
        'validation_file: not supported; problems are held out of the training file, or by the task',
      ],
    ],
    [
      'an effort',
      reinforced(SQL, { reasoning_effort: 'low' }),
      [
        400,
        `${FIGURES}.reasoning_effort`,
        'unsupported_parameter',
        'reasoning_effort: only default is supported',
      ],
    ],
    [
      'an interval',
      reinforced(SQL, { eval_interval: 2 }),
      [
        400,
        `${FIGURES}.eval_interval`,
        'unsupported_parameter',
        'eval_interval: only 1 is supported, which evaluates after each iteration',
      ],
    ],
    [
      'a file beside a task',
      { ...reinforced(SQL), training_file: 'x' },
      [
        400,
        'training_file',
        'unsupported_parameter',
        "training_file: the task sql makes its own problems; leave it out or give the task's name",
      ],
    ],
    [
      'an operation',
      { file: true, ...check({ operation: 'ilike' }) },
      [
        400,
        `${GRADER}.operation`,
        'unsupported_parameter',
        'ilike: string_check supports eq and like',
      ],
    ],
    [
      'a part of the reply',
      { file: true, ...check({ input: 'x {{sample.output_text}}' }) },
      [
        400,
        `${GRADER}.input`,
        'unsupported_parameter',
        'input: must be exactly {{sample.output_text}}',
      ],
    ],
    [
      'a reference to the sample',
      { file: true, ...check({ reference: '{{ sample.output_text }}' }) },
      [
        400,
        `${GRADER}.reference`,
        'unsupported_parameter',
        'reference: use only {{item.…}} here; {{sample.…}} is not allowed',
      ],
    ],
    [
      'a program',
      { file: true, ...reinforced({ type: 'python' }) },
      [
        400,
        `${GRADER}.type`,
        'unsupported_parameter',
        'python: not supported; use a task, json_schema, string_check or score_model grader',
      ],
    ],
    [
      'a task that is none',
      reinforced({ type: 'task', task: 'none' }),
      [403, `${GRADER}.task`, 'task_not_allowed', expect.stringContaining('"none"')],
    ],
  ])('%s is refused', async (_, { file, ...body }: { file?: boolean }, told) => {
    expect(
      failure(
        await create({ ...(file === true && { training_file: await upload(EXAMPLES) }), ...body }),
      ),
    ).toEqual(told);
  });

  test('of a bad row its place and its beginning are told', async () => {
    const bad = await upload(`${EXAMPLES}\n${EXAMPLES}{"messages": 7}\n`);
    const { body } = await create({ ...check({}), training_file: bad });
    expect(body.error.message).toMatch(new RegExp(`^${bad}: line 4: messages: `));
    const long = await upload(`{"messages": [{"role": "${'x'.repeat(3000)}", "content": "a"}]}\n`);
    const { length } = (await create({ ...check({}), training_file: long })).body.error
      .message as string;
    expect(length).toBeLessThanOrEqual(`${long}: `.length + 1000);
    const text = await upload('no JSON\n');
    expect((await create({ ...check({}), training_file: text })).body.error.message).toMatch(
      /^file-\w+: line 1 is not JSON: /,
    );
    // and the next file is read as if nothing had been
    expect((await create({ ...check({}), training_file: await upload(EXAMPLES) })).status).toBe(
      200,
    );
  });
});

describe('files', () => {
  test('are what was sent, in order, page by page', async () => {
    const sent: string[] = [];
    for (let i = 0; i < 5; i++) sent.push(await upload(`{"i": ${i}}\n`, BOB, `${i}.jsonl`));
    const ids = async (query: string): Promise<unknown[]> => {
      const { body } = await get(`/v1/files?${query}`, BOB);
      return [
        body.data.map(({ id }: { id: string }) => id),
        body.has_more,
        body.first_id,
        body.last_id,
      ];
    };
    const [a, b, c, d, e] = sent;
    expect(await ids('')).toEqual([[e, d, c, b, a], false, e, a]);
    expect(await ids('order=desc&limit=2')).toEqual([[e, d], true, e, d]);
    expect(await ids('order=asc')).toEqual([[a, b, c, d, e], false, a, e]);
    expect(await ids(`order=asc&limit=2&after=${b}`)).toEqual([[c, d], true, c, d]);
    expect(await ids(`limit=2&after=${c}`)).toEqual([[b, a], false, b, a]);
    expect(await ids('purpose=fine-tune&limit=1')).toEqual([[e], true, e, e]);
    expect(await ids('purpose=other')).toEqual([[], false, null, null]);
    const { body } = await get(`/v1/files/${a}`, BOB);
    expect(Math.abs(body.created_at - Date.now() / 1000)).toBeLessThan(100);
    expect(body).toEqual({
      ...{ id: a, object: 'file', bytes: 9, created_at: body.created_at, filename: '0.jsonl' },
      ...{ purpose: 'fine-tune', status: 'processed', status_details: null },
    });
    const content = await get(`/v1/files/${a}/content`, BOB);
    expect(content.text).toBe('{"i": 0}\n');
    expect(content.headers).toMatchObject({
      'content-disposition': 'attachment',
      'content-type': 'application/octet-stream',
    });
    expect(
      await send(server, `/v1/files/${a}`, { method: 'DELETE', headers: bearer(BOB) }),
    ).toMatchObject({
      status: 200,
      body: { id: a, object: 'file', deleted: true },
    });
    const gone = [404, null, 'file_not_found', `there is no file ${JSON.stringify(a)}`];
    for (const target of [`/v1/files/${a}`, `/v1/files/${a}/content`])
      expect(failure(await get(target, BOB))).toEqual(gone);
    expect(
      failure(await send(server, `/v1/files/${a}`, { method: 'DELETE', headers: bearer(BOB) })),
    ).toEqual(gone);
    expect(failure(await get(`/v1/files/${b}`, ANN)).slice(0, 3)).toEqual([
      404,
      null,
      'file_not_found',
    ]);
    expect((await get('/v1/files/file-results-0')).status).toBe(404);
  });

  const FILE = ['name="file"; filename="a.jsonl"', '{}'] as const;
  const PURPOSE = ['name="purpose"', 'fine-tune'] as const;
  test.each<[string, readonly (readonly [string, string])[], unknown[]]>([
    ['no file', [PURPOSE], [400, 'file', 'invalid_value', 'file: send a part with a file name']],
    [
      'no purpose',
      [FILE],
      [400, 'purpose', 'unsupported_parameter', 'purpose: only fine-tune is supported'],
    ],
    [
      'another purpose',
      [FILE, ['name="purpose"', 'batch']],
      [400, 'purpose', 'unsupported_parameter', 'purpose: only fine-tune is supported'],
    ],
    [
      'a field beside',
      [FILE, PURPOSE, ['name="expires"', '1']],
      [400, 'expires', 'unsupported_parameter', 'expires is not supported'],
    ],
    [
      'a file of another name',
      [PURPOSE, ['name="more"; filename="x"', '1']],
      [400, 'more', 'unsupported_parameter', 'more is not supported'],
    ],
    [
      'two fields beside',
      [['name="one"', '1'], ['name="two"', '1'], FILE, PURPOSE],
      [400, 'one', 'unsupported_parameter', 'one is not supported'],
    ],
    [
      'a field without a name',
      [FILE, PURPOSE, ['x=""', '1']],
      [400, null, 'unsupported_parameter', 'a part without a name is not supported'],
    ],
    [
      'a file as a field',
      [['name="file"', '{}'], PURPOSE],
      [400, 'file', 'invalid_value', 'file: send a part with a file name'],
    ],
    [
      'nine parts',
      [FILE, PURPOSE, ...Array(7).fill(PURPOSE)],
      [400, null, 'invalid_form', expect.stringMatching(/^the form cannot be read: /)],
    ],
    [
      'two files',
      [FILE, FILE, PURPOSE],
      [400, null, 'invalid_form', expect.stringMatching(/^the form cannot be read: /)],
    ],
    ['a file of that name', [[`name="file"; filename="${'n'.repeat(300)}"`, '{}'], PURPOSE], [200]],
    ['eight parts', [FILE, PURPOSE, ...Array(6).fill(PURPOSE)], [200]],
    ['the purpose first', [PURPOSE, FILE], [200]],
  ])('a form with %s', async (_, parts, told) => {
    const answer = await form(parts);
    expect(told.length === 1 ? [answer.status] : failure(answer)).toEqual(told);
    if (told.length === 1)
      expect(answer.body.filename.length).toBe(
        Math.min(
          255,
          /filename="(.*)"/.exec(parts.find(([head]) => head.includes('filename'))![0])![1]!.length,
        ),
      );
  });

  test('without a form are refused', async () => {
    expect(failure(await post('/v1/files', {}))).toEqual([
      400,
      null,
      'invalid_form',
      'send a file as multipart/form-data',
    ]);
  });
});

describe('jobs', () => {
  test('are listed by their owner, page by page, the newest first; what is no such job is none', async () => {
    const file = await upload(EXAMPLES);
    const before = (await get('/v1/fine_tuning/jobs?limit=100')).body.data.length;
    const made: string[] = [];
    for (let i = 0; i < 3; i++) made.push((await create({ training_file: file })).body.id);
    const page = async (query: string, key = ANN): Promise<Parsed> =>
      (await get(`/v1/fine_tuning/jobs?${query}`, key)).body;
    const two = await page('limit=2');
    expect(two).toMatchObject({
      object: 'list',
      first_id: made[2],
      last_id: made[1],
      has_more: true,
    });
    expect(two.data.map(({ id }: { id: string }) => id)).toEqual([made[2], made[1]]);
    const rest = await page(`limit=100&after=${made[1]}`);
    expect([rest.data.length, rest.first_id, rest.has_more]).toEqual([before + 1, made[0], false]);
    expect((await page('limit=100', BOB)).data).toEqual([]);
    expect((await page('limit=100', ADMIN)).data.length).toBe(before + 3);
    expect(failure(await get('/v1/fine_tuning/jobs?metadata%5Ba%5D=b'))).toEqual([
      400,
      'metadata[a]',
      'unsupported_parameter',
      'metadata: filtering lists by it is not supported',
    ]);
    const own = `/v1/fine_tuning/jobs/${made[0]}`;
    for (const [target, key] of [
      [own, BOB],
      [`${own}/events`, BOB],
      [`${own}/checkpoints`, BOB],
      [`/v1/fine_tuning/jobs/${holder.replace('job', 'ftjob')}`, ADMIN],
      ['/v1/fine_tuning/jobs/x', ANN],
    ] as const)
      expect(failure(await get(target, key)).slice(0, 3)).toEqual([
        404,
        null,
        'fine_tuning_job_not_found',
      ]);
    expect((await get(own, ADMIN)).status).toBe(200);
    expect((await get(`${own}/checkpoints`)).body).toEqual({
      object: 'list',
      data: [],
      first_id: null,
      last_id: null,
      has_more: false,
    });

    const act = (name: string): Promise<Answer> => post(`${own}/${name}`, undefined);
    expect([
      (await act('pause')).body.status,
      (await act('resume')).body.status,
      (await act('cancel')).body.status,
    ]).toEqual(['paused', 'queued', 'cancelled']);
    for (const name of ['pause', 'resume', 'cancel'])
      expect(failure(await act(name))).toEqual([
        400,
        null,
        'job_ended',
        `cannot ${name} the job: it is cancelled`,
      ]);
    const events = (await get(`${own}/events`)).body;
    expect(
      events.data.map(({ message, level, type, object }: Parsed) => [message, level, type, object]),
    ).toEqual(
      ['The job was cancelled', 'The job is queued', 'The job is paused', 'The job is queued'].map(
        (message) => [message, 'info', 'message', 'fine_tuning.job.event'],
      ),
    );
    const [last, , , first] = events.data;
    expect(first.id).toBe(`ftevent-${made[0]!.slice('ftjob-'.length)}-1`);
    expect((await get(`${own}/events?limit=1`)).body).toMatchObject({
      data: [last],
      has_more: true,
    });
    expect((await get(`${own}/events?after=${events.data[2].id}`)).body).toMatchObject({
      data: [first],
      has_more: false,
    });
    expect((await get(`${own}/events?after=nothing`)).body.data).toEqual([]);
    expect((await get(own)).body.finished_at).toBeGreaterThanOrEqual(first.created_at);
  });

  test('one is made once by its key', async () => {
    const file = await upload(EXAMPLES);
    const keyed = (body: object): Promise<Answer> =>
      send(server, '/v1/fine_tuning/jobs', {
        headers: { ...bearer(ANN), 'idempotency-key': 'once' },
        body: { model: 'base', training_file: file, ...body },
      });
    const [one, two] = [await keyed({}), await keyed({})];
    expect(two.body).toEqual(one.body);
    expect(failure(await keyed({ seed: 99 })).slice(0, 3)).toEqual([409, null, 'conflict']);
  });

  test('one whose adapter is not there has failed, and says so', async () => {
    for (const { id, status } of (await get('/v1/fine_tuning/jobs?limit=100', ADMIN)).body.data)
      if (status === 'queued') await post(`/v1/fine_tuning/jobs/${id}/cancel`, undefined, ADMIN);
    const { body: made } = await create({ training_file: await upload(EXAMPLES) });
    await send(server, `/api/jobs/${holder}/cancel`, { method: 'POST', headers: asAdmin });
    let job = made;
    while (['queued', 'running'].includes(job.status)) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      job = (await get(`/v1/fine_tuning/jobs/${made.id}`)).body;
    }
    const message = `the adapter of ${made.id.replace('ftjob', 'job')} no longer exists`;
    expect(job).toMatchObject({
      status: 'failed',
      error: { code: 'file_unreadable', message, param: null },
      fine_tuned_model: null,
      result_files: [],
    });
    const { data } = (await get(`/v1/fine_tuning/jobs/${made.id}/events`)).body;
    expect(data[0]).toMatchObject({ level: 'error', message: `The job failed: ${message}` });
    const metrics = data.filter(({ type }: { type: string }) => type === 'metrics').reverse();
    expect(
      metrics.map(({ message: said, data: figures, level }: Parsed) => [said, figures, level]),
    ).toEqual([
      ['Step 1: training loss=2.0000', { step: 1, train_loss: 2 }, 'info'],
      ['Step 2: training loss=1.0000', { step: 2, train_loss: 1 }, 'info'],
    ]);
    expect(reported.splice(0)).toMatchObject([{ code: 'FILE_UNREADABLE', message }]);
    // what it measured is a file all the same
    const id = `file-results-${made.id.slice('ftjob-'.length)}`;
    const table =
      'step,train_loss,valid_loss,train_mean_reward,valid_mean_reward\n1,2,,,\n2,1,,,\n';
    expect((await get(`/v1/files/${id}/content`)).text).toBe(table);
    expect((await get(`/v1/files/${id}`)).body).toMatchObject({
      ...{
        id,
        bytes: table.length,
        filename: 'step_metrics.csv',
        purpose: 'fine-tune-results',
        created_at: job.finished_at,
      },
    });
    expect((await get(`/v1/files/${id}`, BOB)).status).toBe(404);
    expect((await get(`/v1/files/${id}`, ADMIN)).status).toBe(200);
  });
});

describe('what is told of one that has succeeded', () => {
  const id = 'job-0123456789abcdef01234567';
  const figures = [
    { type: 'step', data: { step: 10, validationLoss: 0.5 } },
    { type: 'step', data: { step: 9, loss: 1 } },
    { type: 'step', data: { step: 10, loss: 0.75 } },
  ];
  const note = {
    model: 'base',
    training_file: 'f',
    validation_file: null,
    method: {},
    hyperparameters: { n_epochs: 3 },
    seed: 1,
    suffix: null,
    metadata: null,
  };
  const queue = {
    note: () => ({ fineTuning: note }),
    // two a page
    events: (_: string, after: number) => ({
      events: figures.map((event, i) => ({ ...event, id: i + 1, at: '' })).slice(after, after + 2),
      hasMore: after + 2 < figures.length,
    }),
  } as never;
  const models = { outcomeOf: () => 'served', nameOf: () => 'ft:name' } as never;
  const job = (result: unknown): Job =>
    ({
      id,
      state: 'succeeded',
      owner: 'ann',
      error: null,
      createdAt: '2026-01-01T00:00:10.900Z',
      endedAt: '2026-01-01T00:01:00.100Z',
      result,
    }) as never;

  test.each<[string, unknown, number | null]>([
    [
      'of a training: those of the file, as often as it was gone through',
      { tokens: 100, steps: 30, stepsTaken: 30 },
      300,
    ],
    ['of one that was stopped', { tokens: 100, steps: 30, stepsTaken: 8 }, 80],
    ['of a run: as it counted them', { tokens: { trained: 77, sampled: 1 } }, 77],
    ['of a run that did not count', { tokens: {} }, null],
    ['of neither', { tokens: 100, steps: 30 }, null],
    ['of nothing', null, null],
  ])('its tokens, %s', (_, result, tokens) => {
    expect(fineTuningJob(job(result), queue, models)).toMatchObject({
      ...{
        status: 'succeeded',
        trained_tokens: tokens,
        fine_tuned_model: 'ft:name',
        result_files: ['file-results-0123456789abcdef01234567'],
      },
      ...{
        created_at: Date.UTC(2026, 0, 1, 0, 0, 10) / 1000,
        finished_at: Date.UTC(2026, 0, 1, 0, 1) / 1000,
      },
    });
  });

  test.each<[string, object, number, object]>([
    [
      'of a run: the iteration that was kept',
      { adapter: { iteration: 9 }, stepsTaken: 10 },
      9,
      { step: 9, train_loss: 1 },
    ],
    [
      'of a training: the best one',
      { validation: { best: { step: 10 } }, stepsTaken: 12 },
      10,
      { step: 10, valid_loss: 0.5, train_loss: 0.75 },
    ],
    [
      'of a training that was not measured: the last',
      { validation: null, stepsTaken: 12 },
      12,
      { step: 12 },
    ],
    ['of nothing', {}, 0, { step: 0 }],
  ])('its checkpoint, %s', (_, result, step, metrics) => {
    expect(checkpointsOf(job(result), queue, models)).toEqual([
      {
        object: 'fine_tuning.job.checkpoint',
        id: `ftckpt-0123456789abcdef01234567-${step}`,
        created_at: Date.UTC(2026, 0, 1, 0, 1) / 1000,
        fine_tuned_model_checkpoint: 'ft:name',
        fine_tuning_job_id: 'ftjob-0123456789abcdef01234567',
        metrics,
        step_number: step,
      },
    ]);
  });

  test('while its adapter is loaded it runs, and has neither model nor checkpoint', () => {
    const loading = { outcomeOf: () => null, nameOf: () => 'ft:name' } as never;
    expect(fineTuningJob(job({}), queue, loading)).toMatchObject({
      ...{
        status: 'running',
        error: null,
        fine_tuned_model: null,
        finished_at: null,
        result_files: [],
        trained_tokens: null,
      },
    });
    expect(checkpointsOf(job({}), queue, loading)).toEqual([]);
  });

  const event = (type: string, data: unknown): JobEvent =>
    ({ id: 4, at: '2026-01-01T00:00:10.900Z', type, data }) as never;
  test.each<[string, unknown, string, string, string]>([
    ['state', { state: 'running' }, 'info', 'Fine-tuning job started', 'message'],
    ['state', { state: 'succeeded' }, 'info', 'The job has successfully completed', 'message'],
    [
      'state',
      { state: 'failed', error: { message: 'no room' } },
      'error',
      'The job failed: no room',
      'message',
    ],
    ['rule', {}, 'warn', 'Rules of the monitor fired', 'message'],
    ['notice', { text: 'words' }, 'warn', 'words', 'message'],
    [
      'iteration',
      { iteration: 2, loss: 1.5, validationLoss: 0.25, hitRate: 0.125, dev: { mean: 1 } },
      'info',
      'Step 2: training loss=1.5000, validation loss=0.2500, train mean reward=0.1250, valid mean reward=1.0000',
      'metrics',
    ],
  ])('an event %s of %j', (type, data, level, message, kind) => {
    expect(fineTuningEvent(job({}), event(type, data), models)).toEqual({
      object: 'fine_tuning.job.event',
      id: 'ftevent-0123456789abcdef01234567-4',
      created_at: Date.UTC(2026, 0, 1, 0, 0, 10) / 1000,
      level,
      message,
      type: kind,
      data:
        kind === 'metrics'
          ? {
              step: 2,
              train_loss: 1.5,
              valid_loss: 0.25,
              train_mean_reward: 0.125,
              valid_mean_reward: 1,
            }
          : {},
    });
  });
});
