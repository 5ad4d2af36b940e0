/**
 * Fine-tuning with OpenAI's own client: files, jobs with examples and with a grader, and the model
 * that comes of them.
 */
import { existsSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import OpenAI, { toFile } from 'openai';
import type { FineTuningJob } from 'openai/resources/fine-tuning/jobs/jobs.js';
import { hashKey } from '../../src/server/keys.js';
import type { Server } from '../../src/server/server.js';
import { asAdmin, ADMIN, closeAll, folder, reported, send, start } from '../models/server.js';
import { processorMs } from '../models/processor-time.js';

const [ANN, BOB] = ['the-key-of-ann-1', 'the-key-of-bob-1'];
const keys = [
  hashKey('ann', ANN, ['train', 'infer', 'read']),
  hashKey('bob', BOB, ['train']),
  hashKey('admin', ADMIN, ['admin']),
];
const runs = path.join(folder, 'fine-tuning');
const jobs = {
  runs,

  models: [],
  tasks: [],
  atOnce: 1,
  availableMemory: () => Infinity,
};
const begin = (): Promise<Server> => start({ model: 'tiny', name: 'tiny', keys, jobs });

let server: Server;
const clientOf = (apiKey: string): OpenAI =>
  new OpenAI({ baseURL: `${server.url}/v1`, apiKey, maxRetries: 0 });
beforeAll(async () => {
  server = await begin();
});
afterAll(async () => {
  await closeAll();
  rmSync(runs, { recursive: true, force: true });
  expect(reported).toEqual([]);
});

const examples = Array.from({ length: 6 }, (_, i) => ({
  messages: [
    { role: 'user', content: `J1 takes ${i + 1} h.` },
    { role: 'assistant', content: `J1 start=${i}` },
  ],
}));
const jsonl = (rows: readonly object[]): string =>
  rows.map((row) => `${JSON.stringify(row)}\n`).join('');
const upload = async (client: OpenAI, text: string) =>
  client.files.create({
    file: await toFile(Buffer.from(text), 'train.jsonl'),
    purpose: 'fine-tune',
  });

/** As it has ended. */
async function ended(client: OpenAI, { id }: FineTuningJob): Promise<FineTuningJob> {
  const states = ['succeeded', 'failed', 'cancelled'];
  for (
    let job = await client.fineTuning.jobs.retrieve(id);
    ;
    job = await client.fineTuning.jobs.retrieve(id)
  ) {
    if (states.includes(job.status)) return job;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

test("OpenAI's client trains the embedded model on scheduling, and asks it", async () => {
  const client = clientOf(ANN);
  const made = await client.fineTuning.jobs.create({
    model: 'tiny',
    training_file: 'scheduling',
    seed: 42,
    suffix: 'small',
    metadata: { of: 'a test' },
    method: {
      type: 'reinforcement',
      reinforcement: {
        grader: { type: 'task', name: 'verifier', task: 'scheduling' } as never,
        hyperparameters: { n_epochs: 1, compute_multiplier: 0.02, batch_size: 1, eval_samples: 1 },
      },
    },
  });
  expect(made).toMatchObject({
    object: 'fine_tuning.job',
    model: 'tiny',
    fine_tuned_model: null,
    finished_at: null,
    result_files: [],
    seed: 42,
  });
  const job = await ended(client, made);
  expect(job).toMatchObject({
    status: 'succeeded',
    error: null,
    organization_id: 'ann',
    training_file: 'scheduling',
    metadata: { of: 'a test' },
  });
  const name = job.fine_tuned_model!;
  expect(name).toMatch(/^ft:tiny:ann:small:[0-9a-f]{8}$/);
  expect(job.finished_at!).toBeGreaterThanOrEqual(job.created_at);
  expect(job.method!.reinforcement!.hyperparameters).toMatchObject({
    n_epochs: 1,
    eval_interval: 1,
    eval_samples: 1,
  });

  const reply = await client.chat.completions.create({
    model: name,
    messages: [{ role: 'user', content: 'x' }],
    max_tokens: 4,
  });
  expect(reply.model).toBe(name);
  const models = [];
  for await (const model of client.models.list()) models.push(model.id);
  expect(models).toEqual(['tiny', name]);

  const events = [];
  for await (const event of client.fineTuning.jobs.listEvents(job.id, { limit: 2 }))
    events.push(event);
  expect(events.at(0)!.message).toBe('The job has successfully completed');
  expect(events.at(-1)!.message).toBe('The job is queued');
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  const metrics = events.find(({ type }) => type === 'metrics')!.data as {
    step: number;
    train_mean_reward: number;
  };
  expect(metrics.step).toBe(1);
  const { data: checkpoints } = await client.fineTuning.jobs.checkpoints.list(job.id);
  expect(checkpoints).toHaveLength(1);
  expect(checkpoints[0]).toMatchObject({
    fine_tuning_job_id: job.id,
    fine_tuned_model_checkpoint: name,
  });
  const [results] = job.result_files;
  expect(await client.files.retrieve(results!)).toMatchObject({
    object: 'file',
    purpose: 'fine-tune-results',
  });
  const table = await (await client.files.content(results!)).text();
  expect(table).toMatch(/^step,train_loss,valid_loss,train_mean_reward,valid_mean_reward\n1,/);
  expect(Number(table.split('\n')[1]!.split(',')[3])).toBe(metrics.train_mean_reward);
});

test('examples are learned, a server that begins again has the model, and its name in its answers', async () => {
  let client = clientOf(ANN);
  const file = await upload(client, jsonl(examples));
  expect(file).toMatchObject({
    object: 'file',
    filename: 'train.jsonl',
    purpose: 'fine-tune',
    bytes: jsonl(examples).length,
  });
  const hyperparameters = {
    n_epochs: 4,
    batch_size: examples.length,
    learning_rate_multiplier: 20,
  };
  const method = { type: 'supervised', supervised: { hyperparameters } } as const;
  const made = await client.fineTuning.jobs.create({
    model: 'tiny',
    training_file: file.id,
    method,
    seed: 7,
  });
  expect(made.hyperparameters).toEqual(hyperparameters);
  const job = await ended(client, made);
  expect(job).toMatchObject({ status: 'succeeded', error: null });
  const { body: behind } = await send(server, `/api/jobs/${job.id.replace('ftjob', 'job')}`, {
    headers: asAdmin,
  });
  expect(job.trained_tokens).toBe(4 * behind.result.tokens);
  const table = await (await client.files.content(job.result_files[0]!)).text();
  const losses = table
    .trim()
    .split('\n')
    .slice(1)
    .map((line) => Number(line.split(',')[1]));
  expect(losses).toHaveLength(4); // one batch, four times
  expect(losses.at(-1)!).toBeLessThan(losses[0]!);

  await server.close(0);
  server = await begin();
  client = clientOf(ANN);
  expect(await client.fineTuning.jobs.retrieve(job.id)).toEqual(job);
  const reply = await client.chat.completions.create({
    model: job.fine_tuned_model!,
    messages: [{ role: 'user', content: 'x' }],
    max_tokens: 2,
  });
  expect(reply.system_fingerprint).toBeDefined();
  const listed: string[] = [];
  for await (const { id } of client.fineTuning.jobs.list({ limit: 1 })) listed.push(id);
  expect(listed[0]).toBe(job.id);
  expect(listed).toHaveLength(2);
});

test('a file that was taken away under the server is none, and what lies in its place is deleted with it', async () => {
  const client = clientOf(ANN);
  const { id } = await upload(client, '{"a": 1}\n');
  const file = path.join(runs, '.jobs', 'files', id, `${id}.jsonl`);
  rmSync(file);
  symlinkSync(path.basename(file), file); // to itself
  expect((await client.files.list()).data.map((each) => each.id)).not.toContain(id);
  rmSync(file);
  mkdirSync(path.join(file, 'within'), { recursive: true });
  await expect(client.files.content(id)).rejects.toMatchObject({ status: 404 });
  await expect(
    client.fineTuning.jobs.create({ model: 'tiny', training_file: id }),
  ).rejects.toMatchObject({ code: 'file_not_found' });
  expect((await client.files.list()).data.map((each) => each.id)).not.toContain(id);
  expect(await client.files.delete(id)).toMatchObject({ deleted: true });
  expect(existsSync(file)).toBe(false);
});

test('files are listed, read and deleted by their owner alone', async () => {
  const [ann, bob] = [clientOf(ANN), clientOf(BOB)];
  const [first, second] = [await upload(bob, '{"a": 1}\n'), await upload(bob, '{"b": 2}\n')];
  const listed: string[] = [];
  for await (const { id } of bob.files.list({ limit: 1 })) listed.push(id);
  expect(listed).toEqual([second.id, first.id]);
  expect(await (await bob.files.content(first.id)).text()).toBe('{"a": 1}\n');
  for (const call of [
    ann.files.retrieve(first.id),
    ann.files.content(first.id),
    ann.files.delete(first.id),
    bob.files.retrieve('../jobs.sqlite'),
  ])
    await expect(call).rejects.toMatchObject({ status: 404 });
  await expect(
    ann.fineTuning.jobs.create({ model: 'tiny', training_file: first.id }),
  ).rejects.toMatchObject({
    status: 400,
    code: 'file_not_found',
  });
  expect(await bob.files.delete(first.id)).toEqual({ id: first.id, object: 'file', deleted: true });
  await expect(bob.files.retrieve(first.id)).rejects.toMatchObject({ status: 404 });
  await expect(
    new OpenAI({ baseURL: `${server.url}/v1`, apiKey: 'none' }).files.list(),
  ).rejects.toMatchObject({ status: 401 });
});

test.each([
  ['no form', 'application/json', '{}', 400],
  ['a form without a boundary', 'multipart/form-data', 'x', 400],
  [
    'a form that ends early',
    'multipart/form-data; boundary=b',
    '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx',
    400,
  ],
  [
    'a form of very many parts',
    'multipart/form-data; boundary=b',
    '--b\r\n\r\n\r\n'.repeat(10_000),
    400,
  ],
  ['a form on another path', 'multipart/form-data; boundary=b', '--b--', 415],
])('%s is refused', async (what, type, body, status) => {
  const target = what.endsWith('another path') ? '/v1/fine_tuning/jobs' : '/v1/files';
  const answer = await send(server, target, {
    method: 'POST',
    headers: { ...asAdmin, 'content-type': type },
    body,
  });
  const code = status === 415 ? 'unsupported_media_type' : 'invalid_form';
  expect([answer.status, answer.body.error.code]).toEqual([status, code]);
  expect(answer.body.error.message).not.toBe(code);
});

const LARGE_FORMS = {
  'a name': () => `name="${'%22'.repeat(2e7)}"`,
  headers: () => `name="file"; filename="x"${'\r\nx: y'.repeat(1e7)}`,
  'a type': () => `name="file"; filename="x"\r\ncontent-type: ${'y'.repeat(6e7)}`,
  'a value': () => `name="purpose"\r\n\r\n${'y'.repeat(6e7)}`,
  'a file without its end': () => `name="file"; filename="x"\r\n\r\n${'\r\n--c'.repeat(1e7)}`,
  'a file that is too large': () => `name="file"; filename="x"\r\n\r\n${'y'.repeat(65 * 2 ** 20)}`,
};
test.each(Object.keys(LARGE_FORMS) as (keyof typeof LARGE_FORMS)[])(
  'a form with %s of tens of megabytes is refused, and others are answered meanwhile',
  async (what) => {
    const part = LARGE_FORMS[what]();
    let [slowest, isOver] = [0, false];
    const others = (async () => {
      while (!isOver) {
        const begun = process.cpuUsage();
        expect((await send(server, '/health')).status).toBe(200);
        slowest = Math.max(slowest, processorMs(begun));
      }
    })();
    const body = `--b\r\ncontent-disposition: form-data; ${part}\r\n--b--\r\n`;
    const headers = { ...asAdmin, 'content-type': 'multipart/form-data; boundary=b' };
    const { status, body: said } = await send(server, '/v1/files', {
      method: 'POST',
      headers,
      body,
    });
    isOver = true;
    await others;
    expect([status, said.error.code]).toEqual(
      part.length > 65 * 2 ** 20 ? [413, 'body_too_large'] : [400, expect.any(String)],
    );
    // milliseconds of the processor; six seconds where all of it is read at once
    expect(slowest).toBeLessThan(2000);
  },
);

test.each([
  ['no name', 'form-data', 'a part without a name is not supported'],
  ['a long name', `form-data; name="${'x'.repeat(10_000)}"`, `${'x'.repeat(100)} is not supported`],
  ['a name of prototypes', 'form-data; name="__proto__"', expect.stringContaining('prototype')],
])('a part with %s is refused in few words', async (_, disposition, message) => {
  const body = `--b\r\ncontent-disposition: ${disposition}\r\n\r\nx\r\n--b--\r\n`;
  const headers = { ...asAdmin, 'content-type': 'multipart/form-data; boundary=b' };
  const { status, body: said } = await send(server, '/v1/files', { method: 'POST', headers, body });
  expect([status, said.error.message]).toEqual([400, message]);
});

describe('what is not there is refused by its name', () => {
  const rl = (grader: object, more: object = {}): object => ({
    method: { type: 'reinforcement', reinforcement: { grader, hyperparameters: more } },
  });
  const check = (more: object): object =>
    rl({
      type: 'string_check',
      name: 'x',
      operation: 'eq',
      input: '{{sample.output_text}}',
      reference: 'x',
      ...more,
    });
  const scored = (more: object): object =>
    rl({
      type: 'score_model',
      name: 'x',
      model: 'tiny',
      input: [{ role: 'user', content: '{{sample.output_text}}' }],
      ...more,
    });
  const grader = 'method.reinforcement.grader';
  test.each([
    ['another model', { model: 'gpt-4o-mini' }, 400, 'model_not_found', 'model'],
    ['no file', { training_file: 'file-0' }, 400, 'file_not_found', 'training_file'],
    [
      'a tracker',
      { integrations: [{ type: 'wandb', wandb: { project: 'x' } }] },
      403,
      'tracker_not_allowed',
      'integrations',
    ],
    [
      'a program as grader',
      rl({ type: 'python', name: 'x', source: 'import os' }),
      400,
      'unsupported_parameter',
      `${grader}.type`,
    ],
    [
      'a model that labels',
      rl({ type: 'label_model', name: 'x', model: 'tiny', input: [] }),
      400,
      'unsupported_parameter',
      `${grader}.type`,
    ],
    [
      'a grader that is not served',
      scored({ model: 'gpt-4.1' }),
      403,
      'model_not_allowed',
      `${grader}.model`,
    ],
    [
      'a grader that is a path',
      scored({ model: '/etc/passwd' }),
      403,
      'model_not_allowed',
      `${grader}.model`,
    ],
    [
      'a grader that draws',
      scored({ sampling_params: { temperature: 1 } }),
      400,
      'invalid_value',
      `${grader}.sampling_params.temperature`,
    ],
    [
      'a grader that is not shown the reply',
      scored({ input: [{ role: 'user', content: 'x' }] }),
      400,
      'invalid_value',
      `${grader}.input`,
    ],
    [
      'a grader of what the item has not',
      scored({ input: [{ role: 'user', content: '{{item.x}} {{sample.output_text}}' }] }),
      400,
      'invalid_training_file',
      'training_file',
    ],
    [
      'several graders',
      rl({ type: 'multi', name: 'x', graders: [] }),
      400,
      'unsupported_parameter',
      `${grader}.type`,
    ],
    [
      'a similarity',
      rl({ type: 'text_similarity', name: 'x' }),
      400,
      'unsupported_parameter',
      `${grader}.type`,
    ],
    [
      'a file as task',
      rl({ type: 'task', task: './task.ts' }),
      403,
      'task_not_allowed',
      `${grader}.task`,
    ],
    [
      'an operation',
      check({ operation: 'ne' }),
      400,
      'unsupported_parameter',
      `${grader}.operation`,
    ],
    [
      'a part of the reply',
      check({ input: '{{sample.output_json.x}}' }),
      400,
      'unsupported_parameter',
      `${grader}.input`,
    ],
    [
      'a member that the item has not',
      check({ reference: '{{item.constructor}}' }),
      400,
      'invalid_training_file',
      'training_file',
    ],
    [
      'an effort',
      rl({ type: 'task', task: 'sql' }, { reasoning_effort: 'high' }),
      400,
      'unsupported_parameter',
      'method.reinforcement.hyperparameters.reasoning_effort',
    ],
    ['a member beside', { weights: [] }, 400, 'unknown_parameter', 'weights'],
    ['a suffix that is a path', { suffix: '../x' }, 400, 'invalid_value', 'suffix'],
  ])('%s', async (_, more: object, status, code, param) => {
    const client = clientOf(ANN);
    const training_file =
      'method' in more && JSON.stringify(more).includes('"task"')
        ? undefined
        : (await upload(client, jsonl(examples))).id;
    const body = { model: 'tiny', training_file, ...more };
    const answer = await send(server, '/v1/fine_tuning/jobs', {
      method: 'POST',
      headers: { authorization: `Bearer ${ANN}` },
      body,
    });
    expect([answer.status, answer.body.error.code, answer.body.error.param]).toEqual([
      status,
      code,
      param,
    ]);
  });
});

test('graders of text and of a form become checks of rows; a job that waits is paused, gone on with and cancelled', async () => {
  const client = clientOf(BOB);
  const rows = jsonl(
    Array.from({ length: 3 }, (_, i) => ({
      messages: [{ role: 'user', content: `${i}?` }],
      of: { answer: `${i}!` },
    })),
  );
  const file = await upload(client, rows);
  const input = '{{ sample.output_text }}';
  const graders = [
    [
      {
        type: 'string_check',
        name: 'x',
        operation: 'like',
        input,
        reference: 'is {{item.of.answer}}',
      },
      'contains',
    ],
    [
      { type: 'json_schema', name: 'x', schema: { type: 'object' } },
      expect.stringMatching(/^json:file-[0-9a-f]{24}$/),
    ],
  ] as const;
  for (const [grader, check] of graders) {
    const method = { type: 'reinforcement', reinforcement: { grader: grader as never } } as const;
    const made = await client.fineTuning.jobs.create({
      model: 'tiny',
      training_file: file.id,
      method,
    });
    const paused = await client.fineTuning.jobs.pause(made.id);
    expect(['paused', 'queued', 'running']).toContain(paused.status);
    const { body } = await send(server, `/api/jobs/${made.id.replace('ftjob', 'job')}`, {
      headers: asAdmin,
    });
    expect(body.settings).toMatchObject({
      check,
      sampling: { style: 'plain' },
      task: expect.stringMatching(/^file-/),
    });
    const derived = await (await client.files.content(body.settings.task)).text();
    const [first] = derived.split('\n').map((line) => line && JSON.parse(line));
    expect(first).toEqual({
      messages: [{ role: 'user', content: '0?' }],
      ...(check === 'contains' && { answer: 'is 0!' }),
    });
    await client.fineTuning.jobs.cancel(made.id);
    // three rows are too few, where it came to them first
    expect(['cancelled', 'failed']).toContain((await ended(client, made)).status);
    await expect(client.fineTuning.jobs.resume(made.id)).rejects.toMatchObject({ status: 400 });
  }
  expect((await client.files.list()).data.every(({ purpose }) => purpose === 'fine-tune')).toBe(
    true,
  );
});

test('graders of text and of a form train to their end: what they accept is the reward', async () => {
  const client = clientOf(ANN);
  const rows = Array.from({ length: 30 }, (_, i) => ({
    messages: [{ role: 'user', content: `J${i} takes ${i + 1} h.` }],
  }));
  const file = await upload(client, jsonl(rows));
  const text = (operation: string, reference: string): object => ({
    ...{ type: 'string_check', name: 'x', input: '{{sample.output_text}}' },
    ...{ operation, reference },
  });
  const rewards: (number | undefined)[] = [];
  const ends: unknown[] = [];
  for (const grader of [
    text('like', 'a'),
    text('eq', 'no such reply'),
    { type: 'json_schema', name: 'x', schema: { type: 'object' } },
  ]) {
    const made = await client.fineTuning.jobs.create({
      model: 'tiny',
      training_file: file.id,
      seed: 42,
      method: {
        type: 'reinforcement',
        reinforcement: {
          grader: grader as never,
          hyperparameters: {
            n_epochs: 1,
            compute_multiplier: 0.01,
            batch_size: 1,
            eval_samples: 1,
          },
        },
      },
    });
    const job = await ended(client, made);
    const { data: events } = await client.fineTuning.jobs.listEvents(job.id);
    const models = (await client.fineTuning.jobs.checkpoints.list(job.id)).data.map(
      (each) => each.fine_tuned_model_checkpoint,
    );
    ends.push([job.status, job.error?.code ?? null, models.length]);
    expect(models).toEqual(job.fine_tuned_model === null ? [] : [job.fine_tuned_model]);
    expect(events.some(({ message }) => message.includes('successfully'))).toBe(
      job.status === 'succeeded',
    );
    const metrics = events.find(({ type }) => type === 'metrics')!.data as {
      train_mean_reward: number;
    };
    rewards.push(metrics.train_mean_reward);
  }
  // where no reply was right nothing was trained, and there is no model
  const failed = ['failed', 'nothing_trained', 0];
  expect(ends).toEqual([['succeeded', null, 1], failed, failed]);
  expect(rewards[0]).toBeGreaterThan(0.5);
  expect(rewards.slice(1)).toEqual([0, 0]);
});

test('a model that is served scores replies to rows, a judge derives the scores again, and a job of another grader is none', async () => {
  const client = clientOf(ANN);
  const rows = Array.from({ length: 30 }, (_, i) => ({
    messages: [{ role: 'user', content: `J${i} takes ${i + 1} h. When does J${i} start?` }],
    job: { name: `J${i}` },
  }));
  const file = await upload(client, jsonl(rows));
  const grader = {
    type: 'score_model',
    name: 'names the job',
    model: 'tiny',
    input: [
      { role: 'developer', content: 'You grade.' },
      { role: 'user', content: 'Does it name {{item.job.name}}?\n{{sample.output_text}}' },
    ],
    range: [1, 5],
    sampling_params: { seed: 3, temperature: 0 },
  } as const;
  const made = await client.fineTuning.jobs.create({
    model: 'tiny',
    training_file: file.id,
    seed: 42,
    method: {
      type: 'reinforcement',
      reinforcement: {
        grader: grader as never,
        hyperparameters: { n_epochs: 1, compute_multiplier: 0.01, batch_size: 1, eval_samples: 1 },
      },
    },
  });
  expect(made.method!.reinforcement!.grader).toEqual(grader);
  const { body: behind } = await send(server, `/api/jobs/${made.id.replace('ftjob', 'job')}`, {
    headers: asAdmin,
  });
  const { check, task } = behind.settings;
  expect([check, task]).toEqual([
    expect.stringMatching(/^model:file-[0-9a-f]{24}$/),
    expect.stringMatching(/^file-/),
  ]);
  const estimated = async (settings: object): Promise<number> => {
    const { body } = await send(server, '/api/jobs/estimate', {
      method: 'POST',
      headers: { authorization: `Bearer ${ANN}` },
      body: { kind: 'run', settings },
    });
    return body.memoryBytes;
  };
  expect(await estimated({ task, check })).toBeGreaterThan(
    await estimated({ task, check: 'exact' }),
  ); // two models
  expect(await ended(client, made)).toMatchObject({ status: 'succeeded', error: null });
  const run = made.id.replace('ftjob', 'job');
  const authorization = `Bearer ${ANN}`;
  const { body: judging } = await send(server, '/api/jobs', {
    method: 'POST',
    headers: { authorization },
    body: { kind: 'judge', settings: { run, task, check } },
  });
  for (let state = judging.state; ; ) {
    const { body } = await send(server, `/api/jobs/${judging.id}`, { headers: { authorization } });
    state = body.state;
    if (['succeeded', 'failed', 'cancelled'].includes(state)) {
      expect([state, body.result?.verdict]).toEqual(['succeeded', 'pass']);
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
});
