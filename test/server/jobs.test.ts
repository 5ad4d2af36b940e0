/**
 * Jobs over HTTP: whose they are, what they may name, streams of their events; and a real one of a
 * server that is killed under it.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request as httpRequest } from 'node:http';
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync, rmSync } from 'node:fs';
import path from 'node:path';
import { connect, type AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { JobStore } from '../../src/jobs/store.js';
import { goneWith } from '../../src/server/event-stream.js';
import { hashKey } from '../../src/server/keys.js';
import type { Server } from '../../src/server/server.js';
import { runSettings } from '../../src/training/settings.js';
import { runTruth } from '../../src/truth-seeking/run/evaluation-run.js';
import { scriptedReasoner } from '../../src/truth-seeking/scripted-reasoner.js';
import { z } from 'zod';
import { createTrainer, loadModel } from '../../src/index.js';
import { decideGate, Registry } from '../../src/registry/index.js';
import { keptLook, looksAt } from '../../src/registry/looks.js';
import { asFlags, MAIN, runCli } from '../cli/run-cli.js';
import type { Parsed } from '../models/parsed.js';
import { writeRunFolder } from '../models/run-folder.js';
import {
  ADMIN,
  asAdmin,
  closeAll,
  eventsOf,
  folder,
  reported,
  send,
  start,
  type Answer,
} from '../models/server.js';

const PROGRAM = fileURLToPath(new URL('../jobs/job-program.mjs', import.meta.url));
const [ANN, BOB, READER] = ['the-key-of-ann-1', 'the-key-of-bob-1', 'a-key-that-reads'];
const bearer = (key: string): { authorization: string } => ({ authorization: `Bearer ${key}` });
const keys = [
  hashKey('ann', ANN, ['train']),
  hashKey('bob', BOB, ['train']),
  hashKey('reader', READER, ['read', 'infer']),
  hashKey('admin', ADMIN, ['admin']),
];

const jobsIn = (runs: string) => ({
  runs,
  worker: PROGRAM,
  models: [{ name: 'other', model: 'tiny' }],
  tasks: [{ name: 'mine', task: '/somewhere/mine.ts' }],
  atOnce: 1,
  availableMemory: () => Infinity,
});
const runs = path.join(folder, 'runs');
let server: Server;
beforeAll(async () => {
  server = await start({ keys, jobs: jobsIn(runs) });
});
afterAll(closeAll);

const post = (
  target: string,
  body: unknown,
  headers: Record<string, string> = bearer(ANN),
): Promise<Answer> => send(server, target, { method: 'POST', headers, body });
const get = (target: string, headers: Record<string, string> = bearer(ANN)): Promise<Answer> =>
  send(server, target, { headers });
const codeOf = ({ status, body: { error } }: Answer): unknown[] => [status, error.code];
const evaluation = (system: string): object => ({ kind: 'eval', settings: { system } });

interface Sse {
  readonly id: number;
  readonly type: string;
  readonly data: Parsed;
}
/** Events of a stream, until one of which it is true or it ends. */
async function stream(
  url: string,
  target: string,
  headers: Record<string, string>,
  isLast = (_: Sse) => false,
): Promise<Sse[]> {
  const response = await fetch(`${url}${target}`, {
    headers: { accept: 'text/event-stream', ...headers },
  });
  expect([response.status, response.headers.get('content-type')]).toEqual([
    200,
    'text/event-stream; charset=utf-8',
  ]);
  const events: Sse[] = [];
  let text = '';
  for await (const part of response.body!.pipeThrough(
    new TextDecoderStream() as never,
  ) as unknown as AsyncIterable<string>) {
    text += part;
    const blocks = text.split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const [, id, type, data] = /^id: (\d+)\nevent: (\w+)\ndata: (.*)$/.exec(block) ?? [];
      if (id === undefined) continue;
      const event = JSON.parse(data!) as Sse;
      expect([String(event.id), event.type]).toEqual([id, type]);
      events.push(event);
      if (isLast(event)) return events;
    }
  }
  return events;
}

describe('who may', () => {
  test.each([
    ['nobody', {}, 401],
    ['a key that reads', bearer(READER), 403],
    ['a key that trains', bearer(ANN), 200],
    ['admin', asAdmin, 200],
  ])('%s asks for jobs', async (_, headers, status) => {
    for (const target of ['/api/jobs', '/api/jobs/kinds'])
      expect((await get(target, headers)).status).toBe(status);
  });

  test("another's job is not there, and admin's eyes see all", async () => {
    const { body: job } = await post('/api/jobs', evaluation('answer'));
    for (const target of [
      `/api/jobs/${job.id}`,
      `/api/jobs/${job.id}/events`,
      '/api/jobs/job-of-nobody',
    ])
      expect(codeOf(await get(target, bearer(BOB)))).toEqual([404, 'job_not_found']);
    for (const act of ['cancel', 'pause', 'resume'])
      expect(codeOf(await post(`/api/jobs/${job.id}/${act}`, undefined, bearer(BOB)))).toEqual([
        404,
        'job_not_found',
      ]);
    expect((await get('/api/jobs', bearer(BOB))).body).toEqual({ data: [], hasMore: false });
    expect((await get('/api/jobs', asAdmin)).body.data).toContainEqual(
      expect.objectContaining({ id: job.id, owner: 'ann' }),
    );
    await stream(server.url, `/api/jobs/${job.id}/events`, bearer(ANN));
  });

  test("a key that trains reads the runs of its own jobs; another's are not there, whatever is asked about them", async () => {
    const own = path.join(folder, 'own-runs');
    const at = await start({ keys, runs: own, jobs: jobsIn(own) });
    const asked = (system: string): object => ({ kind: 'run', settings: { sampling: { system } } });
    const made = [
      await send(at, '/api/jobs', { body: asked('silent'), headers: bearer(ANN) }),
      await send(at, '/api/jobs', { body: asked('hold'), headers: bearer(BOB) }),
    ];
    const [ann, bob] = made.map(({ body }) => body.id as string) as [string, string];
    for (const [i, name] of [ann, bob, 'by-command'].entries())
      await writeRunFolder({
        folder: path.join(own, name),
        home: folder,
        iterations: 1,
        runId: `${i}`.repeat(32),
        until: name === bob ? 'iterations' : 'end',
      });
    const status = async (target: string, key: string): Promise<unknown> => {
      const { status: code, body } = await send(at, target, { headers: bearer(key) });
      return code === 200 ? code : [code, body.error.code, body.error.message];
    };
    const names = async (key: string): Promise<string[]> =>
      (await send(at, '/api/runs', { headers: bearer(key) })).body
        .map(({ name }: { name: string }) => name)
        .sort();
    expect(await names(ANN)).toEqual([ann]);
    expect(await names(BOB)).toEqual([bob]);
    expect(await names(ADMIN)).toEqual([ann, bob, 'by-command'].sort());
    await send(at, `/api/jobs/${bob}/cancel`, { method: 'POST', headers: bearer(BOB) });
    await stream(at.url, `/api/jobs/${bob}/events`, bearer(BOB));
    const { body: lines } = await send(at, '/api/runs', { headers: bearer(BOB) });
    expect(lines).toMatchObject([{ name: bob, state: 'cancelled' }]);
    const problem = 'ab'.repeat(32);
    const parts = [
      '',
      '/integrity',
      '/report',
      '/rollouts',
      '/rollouts/0',
      '/rollouts/0/scores',
      '/problems',
      `/problems/${problem}`,
    ];
    for (const rest of parts)
      for (const name of [ann, 'by-command'])
        expect(await status(`/api/runs/${name}${rest}`, BOB)).toEqual([
          404,
          'run_not_found',
          `there is no run ${JSON.stringify(name)} in the runs folder`,
        ]);
    expect(await status('/api/runs/nothing', BOB)).toEqual([
      404,
      'run_not_found',
      'there is no run "nothing" in the runs folder',
    ]);
    for (const rest of ['', '/integrity', '/report', '/rollouts', '/problems'])
      expect(await status(`/api/runs/${ann}${rest}`, ANN)).toBe(200);
    expect(await status(`/api/compare?a=${bob}&b=${ann}`, BOB)).toEqual([
      404,
      'run_not_found',
      expect.stringContaining(ann),
    ]);
    expect(await status(`/api/compare?a=${ann}&b=${bob}`, BOB)).toEqual([
      404,
      'run_not_found',
      expect.stringContaining(ann),
    ]);
    expect((await send(at, '/api/truth', { headers: bearer(BOB) })).body).toEqual([]);
    for (const target of ['/api/runs', `/api/runs/${ann}`, '/api/truth', '/api/status']) {
      expect(await status(target, READER)).toEqual([403, 'insufficient_scope', expect.any(String)]);
      expect((await send(at, target)).status).toBe(401);
    }
    expect(await status('/api/adapters', ANN)).toEqual([
      403,
      'insufficient_scope',
      expect.any(String),
    ]);
    await at.close(0);
  });

  test('a server without --runs has none', async () => {
    const without = await start();
    expect(codeOf(await send(without, '/api/jobs', { headers: asAdmin }))).toEqual([
      404,
      'unknown_url',
    ]);
  });
});

describe('what settings may name', () => {
  mkdirSync(path.join(runs, 'elsewhere'), { recursive: true });
  writeFileSync(path.join(runs, 'elsewhere', 'manifest.json'), '{}');
  symlinkSync(path.join(runs, 'elsewhere'), path.join(runs, 'linked'));
  const run = (settings: object): object => ({ kind: 'run', settings });
  test.each([
    ['a path as task', run({ task: './task.ts' }), 'task', 'settings.task'],
    ['a file that is there', run({ task: '/etc/passwd' }), 'task', 'settings.task'],
    ['a Python module', run({ task: 'python:os' }), 'task', 'settings.task'],
    ['the id of a file of nobody', run({ task: 'file-0123456789abcdef' }), 'task', 'settings.task'],
    ['a path as model', run({ model: { name: '/models/x.gguf' } }), 'model', 'settings.model.name'],
    [
      'a model to download',
      run({ model: { name: 'hf:a/b/c.gguf' } }),
      'model',
      'settings.model.name',
    ],
    [
      'an alias that was not allowed',
      run({ model: { name: 'qwen2.5-3b' } }),
      'model',
      'settings.model.name',
    ],
    [
      'a teacher to download',
      run({ algorithm: { id: 'distill', teacher: 'hf:a/b/c.gguf' } }),
      'model',
      'settings.algorithm.teacher',
    ],
    [
      'a program as check',
      run({ task: 'mine', check: 'command:rm -rf .' }),
      'check',
      'settings.check',
    ],
    ['a script as check', run({ task: 'mine', check: './check.ts' }), 'check', 'settings.check'],
    [
      'a schema of a file',
      run({ task: 'mine', check: 'json:/etc/passwd' }),
      'check',
      'settings.check',
    ],
    [
      'a path in an ablation',
      { kind: 'ablate', settings: { settings: { task: '../x.js' } } },
      'task',
      'settings.task',
    ],
    [
      'a path as data',
      { kind: 'train', settings: { data: '/etc/passwd' } },
      'file',
      'settings.data',
    ],
    [
      'a path as adapter',
      { kind: 'eval', settings: { adapter: '../a.gguf' } },
      'adapter',
      'settings.adapter',
    ],
    ['a path as run', { kind: 'judge', settings: { run: '../runs' } }, 'run', 'settings.run'],
    ['the queue as run', { kind: 'judge', settings: { run: '.jobs' } }, 'run', 'settings.run'],
    [
      'a gate, with a key that trains',
      { kind: 'gate', settings: { adapter: 'ab'.repeat(32), as: 'sql' } },
      'kind',
      'kind',
    ],
    ["another's run", { kind: 'judge', settings: { run: 'elsewhere' } }, 'run', 'settings.run'],
  ])('%s is refused', async (_, body, what, param) => {
    for (const target of ['/api/jobs', '/api/jobs/estimate']) {
      const answer = await post(target, body);
      expect(codeOf(answer)).toEqual([403, `${what}_not_allowed`]);
      expect(answer.body.error.param).toBe(param);
    }
  });

  test('a link is no run, for admin neither', async () => {
    expect(
      codeOf(await post('/api/jobs', { kind: 'judge', settings: { run: 'linked' } }, asAdmin)),
    ).toEqual([403, 'run_not_allowed']);
    expect(
      (await post('/api/jobs/estimate', { kind: 'judge', settings: { run: 'elsewhere' } }, asAdmin))
        .status,
    ).toBe(200);
  });

  test('every setting of a run that is a free text is one that names nothing, or is looked up', () => {
    const texts: string[] = [];
    const walk = (schema: Parsed, at: string): void => {
      for (const [name, member] of Object.entries<Parsed>(schema.properties ?? {}))
        walk(member, at === '' ? name : `${at}.${name}`);
      const isText =
        schema.type === 'string' || (schema.type === 'array' && schema.items.type === 'string');
      if (isText && schema.enum === undefined && schema.items?.enum === undefined) texts.push(at);
    };
    walk(z.toJSONSchema(runSettings, { io: 'input' }), '');
    expect(texts.sort()).toEqual(
      [
        ...['algorithm.teacher', 'check', 'model.name', 'monitor.policy', 'task'], // looked up
        // names nothing
        ...['answerTag', 'layers.choice', 'sampling.stop', 'sampling.system', 'seed'],
      ].sort(),
    );
  });

  test.each([
    ['a kind that is not there', { kind: 'simulate' }, 'invalid_argument'],
    ['a setting that is not there', run({ logTo: ['wandb'] }), 'invalid_argument'],
    [
      'settings that contradict each other',
      run({ sampling: { rollouts: 1, samples: 4 } }),
      'invalid_argument',
    ],
    [
      'a path beside the settings',
      { kind: 'eval', settings: { out: '/tmp/x' } },
      'invalid_argument',
    ],
    ['a flag in a text', { kind: 'eval', settings: { k: '1 --out=/tmp/x' } }, 'invalid_argument'],
    ['a member beside', { ...evaluation('answer'), out: '/tmp/x' }, 'unknown_parameter'],
    ['settings that are a list', { kind: 'run', settings: [] }, 'invalid_value'],
    ['texts without end', evaluation('x'.repeat(70_000)), 'invalid_argument'],
    ['a null byte', evaluation('a\u0000b'), 'invalid_argument'],
  ])('%s: 400', async (_, body, code) => {
    expect(codeOf(await post('/api/jobs', body))).toEqual([400, code]);
  });

  test.each([
    [{ iterations: 0 }, 'settings.iterations'],
    [{ model: 'tiny' }, 'settings.model'],
    [{ rollouts: 32 }, 'settings.rollouts'],
  ])('%j: 400 with the setting as param', async (settings, param) => {
    expect((await post('/api/jobs', run(settings))).body.error).toMatchObject({
      param,
      code: 'invalid_argument',
    });
  });

  test('a body that is too large is not read', async () => {
    expect((await post('/api/jobs', evaluation('x'.repeat(5 * 2 ** 20)))).status).toBe(413);
  });

  test('a text stays one word, whatever it looks like', async () => {
    const system = `answer' --out=/tmp/x; $(id) "`;
    const { body } = await post('/api/jobs/estimate', evaluation(system));
    const model = server.models.model.path;
    const word = `'--system=${system.replaceAll("'", "'\\''")}'`;
    expect(body.command).toBe(`npx isopro-native eval --model=${model} --task=scheduling ${word}`);
  });
});

test('kinds with their forms, and estimates with the equivalent command', async () => {
  const { body } = await get('/api/jobs/kinds');
  expect(body.data.map(({ kind }: { kind: string }) => kind)).toEqual([
    'run',
    'train',
    'eval',
    'judge',
    'ablate',
    'truth',
    'truth-train',
    'truth-analyze',
  ]);
  const [run] = body.data;
  expect(run.schema.properties.sampling.properties.temperature).toMatchObject({
    type: 'number',
    description: 'sampling temperature of rollouts',
  });
  // that is served
  expect(run.schema.properties.model.properties.name).toMatchObject({ default: 'base' });
  expect(run.names).toMatchObject({
    models: ['base', 'other'],
    tasks: expect.arrayContaining(['sql', 'mine']),
  });
  // a run that no job made belongs to whoever may all, and a name that no request may have is not
  // offered
  for (const name of ['by-hand', 'by hand'])
    await writeRunFolder({
      folder: path.join(runs, name),
      home: path.join(folder, `signer of ${name}`),
      rollouts: 1,
      problems: 1,
      iterations: 1,
    });
  const namesFor = async (headers: Record<string, string>) =>
    (await get('/api/jobs/kinds', headers)).body.data[0].names.runs;
  expect(await namesFor(asAdmin)).toContain('by-hand');
  expect(await namesFor(asAdmin)).not.toContain('by hand');
  expect(await namesFor(bearer(ANN))).not.toContain('by-hand');
  const settings = {
    model: { name: 'other' },
    task: 'sql',
    evaluation: { gate: false },
    layers: { targets: ['q', 'v'] },
  };
  const { body: estimate } = await post('/api/jobs/estimate', { kind: 'run', settings });
  const flags = '--model=tiny --task=sql --targets=q --targets=v --no-gate';
  expect(estimate.command).toBe(`npx isopro-native run ${flags} --out=${path.join(runs, 'JOB')}`);
  expect(estimate.settings).toMatchObject({
    profile: 'embedded',
    sampling: { rollouts: 448 },
    evaluation: { gate: false },
  });
  expect(estimate.memoryBytes).toBeGreaterThan(estimate.settings.layers.trainerMemory);
  expect(estimate.measured).toBeNull();
});

describe('truth-seeking', () => {
  const made = path.join(folder, 'truth-runs');
  let own: Server;
  beforeAll(async () => {
    const policy = scriptedReasoner({
      name: 'of a job',
      reply: (_, seed) => `One.\n\nTwo ${seed % 7n}.`,
      answers: (text) => ({
        True: 0.3 + 0.1 * (text.length % 5),
        False: 0.7 - 0.1 * (text.length % 5),
      }),
    });
    const policies = { evaluated: { ...policy, identity: { kind: 'scripted' } }, predictor: null };
    const config = { problems: 10, seed: '7', signer: 'single-process' } as const;
    await runTruth(config, { out: path.join(made, 'truthful'), policies });
    own = await start({ keys, jobs: { ...jobsIn(made), worker: undefined } });
  });
  const estimate = (at: Server, kind: string, settings: object): Promise<Answer> =>
    send(at, '/api/jobs/estimate', { body: { kind, settings }, headers: asAdmin });

  test('a training and an analysis are the commands that they say, and name no file', async () => {
    const { body: train } = await estimate(own, 'truth-train', {
      domain: ['urns'],
      steps: 1,
      measure: 2,
    });
    expect(train.command).toMatch(
      /^npx isopro-native truth train --model=\S+ --domain=urns --steps=1 --measure=2 --out=\S+\/training$/,
    );
    expect(train.memoryBytes).toBeGreaterThan(0);
    const runs = { runs: ['truthful'] };
    const { body: best } = await estimate(own, 'truth-train', {
      ...runs,
      by: 'accuracy',
      model: 'other',
    });
    expect(best.command).toContain(
      `truth train ${path.join(made, 'truthful')} --model=tiny --by=accuracy --out=`,
    );
    const { body: said } = await estimate(own, 'truth-analyze', {
      analyzer: 'results-catalog',
      ...runs,
    });
    expect(said.command).toBe(
      `npx isopro-native truth analyze results-catalog ${path.join(made, 'truthful')}`,
    );
    for (const [kind, settings, code] of [
      ['truth-train', {}, [400, 'invalid_argument']],
      ['truth-train', { domain: ['urns'], ...runs, by: 'accuracy' }, [400, 'invalid_argument']],
      ['truth-train', runs, [400, 'invalid_argument']],
      [
        'truth-train',
        { runs: ['../truth-runs/truthful'], by: 'accuracy' },
        [403, 'run_not_allowed'],
      ],
      ['truth-analyze', { analyzer: 'results-catalog', runs: ['none'] }, [403, 'run_not_allowed']],
      ['truth-analyze', { analyzer: 'token-level-evidence', ...runs }, [400, 'invalid_argument']],
      ['truth-analyze', { analyzer: 'training-causal-effect', ...runs }, [400, 'invalid_argument']],
      [
        'truth-analyze',
        { analyzer: 'results-catalog', ...runs, model: 'other' },
        [400, 'invalid_argument'],
      ],
    ] as const)
      expect([kind, settings, codeOf(await estimate(own, kind, settings))]).toEqual([
        kind,
        settings,
        code,
      ]);
    // another's runs are nobody's
    const foreign = await send(own, '/api/jobs', {
      body: { kind: 'truth-analyze', settings: { analyzer: 'results-catalog', ...runs } },
      headers: bearer(BOB),
    });
    expect(codeOf(foreign)).toEqual([403, 'run_not_allowed']);
  });

  test('both come to a result, and the adapter of a training can be named', async () => {
    const ended = async (kind: string, settings: object): Promise<Answer['body']> => {
      const { body } = await send(own, '/api/jobs', { body: { kind, settings }, headers: asAdmin });
      await stream(own.url, `/api/jobs/${body.id}/events`, asAdmin);
      return (await send(own, `/api/jobs/${body.id}`, { headers: asAdmin })).body;
    };
    const said = await ended('truth-analyze', {
      analyzer: 'trajectory-score',
      runs: ['truthful'],
      strategy: 'accuracy:metric=brier,mode=eventual',
    });
    expect(said).toMatchObject({ state: 'succeeded', result: [{ analyzer: 'trajectory-score' }] });
    const how = { model: 'other', part: 0.5, epochs: 1, threads: 1 };
    const trained = await ended('truth-train', {
      runs: ['truthful'],
      by: 'accuracy:metric=brier,mode=eventual',
      ...how,
    });
    expect(trained).toMatchObject({ state: 'succeeded', result: { examples: 5 } });
    const { body } = await estimate(own, 'eval', { adapter: trained.id, model: 'other' });
    expect(body.command).toContain('/training/adapter.gguf');
  }, 300_000);
});

describe('a gate', () => {
  const home = path.join(folder, 'gate-home');
  const registry = new Registry({ folder: path.join(home, 'registry'), witness: false, home });
  const gateOf = (adapter: string, more: object = {}): object => ({
    kind: 'gate',
    settings: { adapter, as: 'scheduling', problems: 1, model: 'other', threads: 1, ...more },
  });

  const ids: string[] = [];
  beforeAll(async () => {
    await using model = await loadModel('tiny', { threads: 1 });
    for (const seed of [1, 2]) {
      await using trainer = await createTrainer(model, { lora: { rank: 1 }, threads: 1, seed });
      const adapter = path.join(folder, `gate-${seed}.gguf`);
      await trainer.exportAdapter(adapter);
      ids.push(
        (
          await registry.publish({
            file: adapter,
            base: { name: 'tiny', sha256: await model.hash() },
          })
        ).id,
      );
    }
  });

  test("is admin's, and of the registry, the tasks and the models of the server", async () => {
    expect(
      (await get('/api/jobs/kinds', asAdmin)).body.data.map(({ kind }: { kind: string }) => kind),
    ).toContain('gate');
    const estimate = (at: Server, body: object): Promise<Answer> =>
      send(at, '/api/jobs/estimate', { body, headers: asAdmin });
    expect(codeOf(await estimate(server, gateOf('ab'.repeat(32))))).toEqual([
      403,
      'registry_not_allowed',
    ]);
    const own = await start({ keys, registry, jobs: jobsIn(path.join(folder, 'gate-runs')) });
    const { body } = await estimate(own, gateOf('ab'.repeat(32), { reason: 'better' }));
    expect(body.command).toBe(
      `npx isopro-native adapters promote ${'ab'.repeat(32)} --as=scheduling --problems=1 --model=tiny --task=scheduling ` +
        `--registry=${registry.paths.folder} --reason=better --threads=1 --transaction=JOB`,
    );
    expect(codeOf(await estimate(own, gateOf('ab'.repeat(32), { as: 'task.mjs' })))).toEqual([
      403,
      'task_not_allowed',
    ]);
    expect((await estimate(own, gateOf('../a.gguf'))).status).toBe(400);
    await own.close(0);
  });

  test('is measured in a process of its own, and says what it came to; begun again, it is the same attempt', async () => {
    process.env.ISOPRO_HOME = home;
    const own = await start({
      keys,
      registry,
      jobs: { ...jobsIn(path.join(folder, 'gate-runs-2')), worker: undefined },
    });
    try {
      const made = await send(own, '/api/jobs', { body: gateOf(ids[1]!), headers: asAdmin });
      const events = await stream(own.url, `/api/jobs/${made.body.id}/events`, asAdmin);
      expect(events.filter(({ type }) => type === 'progress').at(-1)!.data).toMatchObject({
        stage: 'measuring',
        total: 1,
      });
      const { body: job } = await send(own, `/api/jobs/${made.body.id}`, { headers: asAdmin });
      expect(job).toMatchObject({
        state: 'succeeded',
        result: { gate: 1, decision: { decision: 'needs-more-trials' }, moved: null },
      });
      const measured = {
        as: 'scheduling',
        problems: 1,
        model: 'tiny',
        threads: 1,
        registry: registry.paths.folder,
      };
      const again = async (transaction: string): Promise<unknown[]> => {
        const { code, stdout } = await runCli([
          'adapters',
          'promote',
          ids[1]!,
          ...asFlags({ ...measured, transaction }),
          '--resume',
          '--json',
        ]);
        return [code, JSON.parse(stdout)];
      };
      expect(await again('one')).toEqual([3, job.result]);
      const { state, events: recorded } = await registry.read();
      const { gates } = state;
      expect(gates).toHaveLength(1);
      const seen = keptLook(registry, looksAt(1, recorded)[0]!)!;

      // it accepts; whoever was interrupted before the move or behind it ends with the same
      const { task, epoch, verifier } = seen.trials[0]!;
      const under = { task, epoch, verifier };
      const of = (version: string, i: number, score: number) => ({
        ...under,
        version,
        problem: `p${i}`,
        score,
      });
      const trials = Array.from({ length: 16 }, (_, i) => [
        of(ids[1]!, i, 1),
        of('base', i, 0),
      ]).flat();
      expect(
        await decideGate(registry, 1, {
          ...seen,
          seed: gates[0]!.seed!,
          trials: [...seen.trials, ...trials],
        }),
      ).toMatchObject({
        decision: 'accepted',
      });
      const moved = { alias: 'scheduling@champion', from: null, to: ids[1] };
      for (const _ of [1, 2])
        expect(await again('two')).toEqual([0, { gate: 1, decision: null, moved }]);
      // what it accepted has been used: another call begins another gate
      await registry.move({ slot: { scenario: 'scheduling' }, id: ids[0]!, force: true });
      expect(await again('three')).toMatchObject([
        3,
        { gate: 2, decision: { attempt: 2 }, moved: null },
      ]);
      // asked for on the page: a job of the same kind, which says what it came to
      const way = { adapter: ids[1]!, as: 'extract', way: 'gate', problems: 1 };
      const answer = await send(own, '/api/adapters/promote', { headers: asAdmin, body: way });
      const { events: told } = eventsOf(answer.text);
      expect(told.map(({ type }) => type)).toEqual(['job', 'gate', 'failed']);
      const begun = await send(own, `/api/jobs/${told[0]!.id}`, { headers: asAdmin });
      expect(begun.body).toMatchObject({
        kind: 'gate',
        state: 'failed',
        error: { code: 'ADAPTER_MISMATCH' }, // of another base than the model that is served
      });
    } finally {
      delete process.env.ISOPRO_HOME;
    }
  });
});

test('a job is made once by its key, watched from any event on, listed, and cancelled', async () => {
  const keyed = { ...bearer(ANN), 'idempotency-key': 'only-once' };
  const made = await post('/api/jobs', { ...evaluation('hold'), name: 'mine' }, keyed);
  expect([made.status, made.headers.location]).toEqual([201, `/api/jobs/${made.body.id}`]);
  expect(await post('/api/jobs', { ...evaluation('hold'), name: 'mine' }, keyed)).toMatchObject({
    status: 200,
    body: { id: made.body.id },
  });
  expect(codeOf(await post('/api/jobs', evaluation('answer'), keyed))).toEqual([409, 'conflict']);
  const target = `/api/jobs/${made.body.id}`;
  const seen = await stream(
    server.url,
    `${target}/events`,
    bearer(ANN),
    ({ type }) => type === 'progress',
  );
  expect(seen.map(({ id }) => id)).toEqual([1, 2, 3]);
  const rest = stream(server.url, `${target}/events`, { ...bearer(ANN), 'last-event-id': '3' });
  expect((await post(`${target}/cancel`, undefined)).status).toBe(200);
  expect((await rest).map(({ id, data: { state } }) => [id, state])).toEqual([[4, 'cancelled']]);
  expect((await get(`${target}/events?after=1&limit=2`)).body).toEqual({
    data: [seen[1], seen[2]],
    hasMore: true,
  });
  expect((await get(target)).body).toMatchObject({
    state: 'cancelled',
    name: 'mine',
    kind: 'eval',
  });
  expect(
    (await get('/api/jobs?state=cancelled&kind=eval')).body.data.map(
      ({ id }: { id: string }) => id,
    ),
  ).toEqual([made.body.id]);
  expect(codeOf(await post(`${target}/resume`, undefined))).toEqual([409, 'job_ended']);
  expect((await post(`${target}/cancel`, undefined)).status).toBe(200);
});

test('the endpoints of isopro begin jobs, and say which there are', async () => {
  for (const [target, body] of [
    ['/simulate', { type: 'adversarial', prompt: 'x' }],
    ['/simulate/reason', { prompt: 'x' }],
  ] as const) {
    const answer = await post(target, body);
    expect(codeOf(answer)).toEqual([404, 'kind_not_found']);
    expect(answer.body.error.message).toMatch(
      /use one of run, train, eval, judge, ablate, truth, truth-train, truth-analyze$/,
    );
  }
  for (const [target, body] of [
    ['/simulate', { type: 'eval', system: 'silent' }],
    ['/simulate/eval', { system: 'silent' }],
  ] as const)
    expect(await post(target, body)).toMatchObject({
      status: 202,
      body: { kind: 'eval', settings: { system: 'silent' } },
    });
  expect((await get('/healthcheck', {})).body.status).toBe('healthy');
});

test('a page of another site sends nothing in the name of a key: none is kept, none is in an address', async () => {
  const page = { origin: 'https://evil.example.com' };
  expect((await post('/api/jobs', evaluation('answer'), { ...bearer(ANN), ...page })).status).toBe(
    403,
  );
  expect(
    (await post('/api/jobs', evaluation('answer'), { cookie: `authorization=Bearer ${ANN}` }))
      .status,
  ).toBe(401);
  expect((await get(`/api/jobs?authorization=Bearer%20${ANN}`, {})).status).toBe(401);
  expect(
    (
      await post('/api/jobs', 'kind=eval', {
        ...bearer(ANN),
        'content-type': 'application/x-www-form-urlencoded',
      })
    ).status,
  ).toBe(415);
});

test('who leaves a stream leaves nothing behind, and a server that closes ends those that are open', async () => {
  const own = await start({ keys, jobs: jobsIn(path.join(folder, 'closing')) });
  const { body: job } = await send(own, '/api/jobs', {
    method: 'POST',
    headers: bearer(ANN),
    body: evaluation('hold'),
  });
  const target = `/api/jobs/${job.id}/events`;
  const { hostname, port } = new URL(own.url);
  const left = httpRequest({
    hostname,
    port,
    path: target,
    headers: { ...bearer(ANN), accept: 'text/event-stream' },
  }).end();
  const [response] = (await once(left, 'response')) as [
    NodeJS.ReadableStream & { destroy(): void },
  ];
  await once(response, 'data');
  response.destroy();
  await stream(own.url, target, bearer(ANN), ({ type }) => type === 'progress');
  const open = await fetch(`${own.url}${target}`, {
    headers: { accept: 'text/event-stream', ...bearer(ANN) },
  });
  const closed = own.close(0);
  expect(await open.text()).toContain('event: progress');
  await closed;
});

test('who does not read its stream holds up no server that closes, and who is gone is not waited for', async () => {
  const place = path.join(folder, 'unread');
  const own = await start({ keys, jobs: jobsIn(place) });
  const { body: job } = await send(own, '/api/jobs', {
    method: 'POST',
    headers: bearer(ANN),
    body: evaluation('answer'),
  });
  await stream(own.url, `/api/jobs/${job.id}/events`, bearer(ANN));
  await own.close(0);
  const store = JobStore.open(path.join(place, '.jobs', 'jobs.sqlite'));
  for (let i = 0; i < 1500; i++) store.change(job.id, {}, 'rule', { text: 'x'.repeat(8000) });
  store.close();
  const again = await start({ keys, jobs: jobsIn(place) });
  const { hostname, port } = new URL(again.url);
  const unread = connect(Number(port), hostname);
  unread.pause().on('error', () => {});
  unread.write(
    `GET /api/jobs/${job.id}/events HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${ANN}\r\naccept: text/event-stream\r\n\r\n`,
  );
  await sleep(500);
  await again.close(0);
  unread.destroy();

  let gone: AbortSignal | undefined;
  const http = createServer(
    (_, raw) => void once(raw, 'close').then(() => (gone = goneWith({ raw } as never))),
  ).listen(0, '127.0.0.1');
  await once(http, 'listening');
  const leaving = connect((http.address() as AddressInfo).port, '127.0.0.1', () => {
    leaving.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n', () => leaving.destroy());
  });
  while (gone === undefined) await sleep(10);
  expect(gone.aborted).toBe(true);
  http.close();
});

test('a stream whose events cannot be read says so, last', async () => {
  const place = path.join(folder, 'unreadable');
  const own = await start({ keys, jobs: jobsIn(place) });
  const { body: job } = await send(own, '/api/jobs', {
    method: 'POST',
    headers: bearer(ANN),
    body: evaluation('answer'),
  });
  await stream(own.url, `/api/jobs/${job.id}/events`, bearer(ANN));
  await own.close(0);
  const db = new Database(path.join(place, '.jobs', 'jobs.sqlite'));
  db.exec(`UPDATE event SET data = '{no json' WHERE id = 2`);
  db.close();
  const again = await start({ keys, jobs: jobsIn(place) });
  const response = await fetch(`${again.url}/api/jobs/${job.id}/events`, {
    headers: { accept: 'text/event-stream', ...bearer(ANN) },
  });
  expect(await response.text()).toMatch(
    /\n\nevent: error\ndata: \{"error":.*"code":"jobs_unreadable"\}\}\n\n$/,
  );
});

test('a damaged queue is the answer of its own routes, and the server answers on', async () => {
  const damaged = path.join(folder, 'damaged');
  mkdirSync(path.join(damaged, '.jobs'), { recursive: true });
  writeFileSync(
    path.join(damaged, '.jobs', 'jobs.sqlite'),
    'no database, but long enough to be read as one'.repeat(20),
  );
  const own = await start({ jobs: jobsIn(damaged) });
  expect(reported.splice(0)).toEqual([expect.objectContaining({ code: 'JOBS_UNREADABLE' })]);
  expect(codeOf(await send(own, '/api/jobs', { headers: asAdmin }))).toEqual([
    503,
    'jobs_unreadable',
  ]);
  expect(
    codeOf(
      await send(own, '/api/jobs', {
        method: 'POST',
        headers: asAdmin,
        body: evaluation('answer'),
      }),
    ),
  ).toEqual([503, 'jobs_unreadable']);
  expect((await send(own, '/v1/models')).status).toBe(200);
});

test('where the runs folder is removed under it, nothing is acknowledged that would be lost, and the server answers on', async () => {
  const gone = path.join(folder, 'gone');
  const own = await start({ keys, jobs: jobsIn(gone) });
  const create = (): Promise<Answer> =>
    send(own, '/api/jobs', { method: 'POST', headers: asAdmin, body: evaluation('answer') });
  expect((await create()).status).toBe(201);
  rmSync(gone, { recursive: true });
  expect(codeOf(await create())).toEqual([503, 'write_failed']);
  mkdirSync(path.join(gone, '.jobs'), { recursive: true });
  writeFileSync(path.join(gone, '.jobs', 'jobs.sqlite'), '');
  expect(codeOf(await create())).toEqual([503, 'write_failed']);
  expect((await send(own, '/api/jobs', { headers: asAdmin })).body.data).toHaveLength(1);
  expect((await send(own, '/v1/models', { headers: asAdmin })).status).toBe(200);
});

(process.platform === 'win32' ? test.skip : test)(
  'on a full disk a job is refused, and the server answers on',
  async () => {
    const own = path.join(folder, 'full');
    const flags = ['--model', 'tiny', '--port', '0', '--threads', '1', '--runs', own, '--json'];
    const command = `trap '' XFSZ; ulimit -f 600; exec "$0" "$@"`;
    const child = spawn('sh', ['-c', command, process.execPath, MAIN, 'serve', ...flags], {
      env: { ...process.env, ISOPRO_ADMIN_KEY: ADMIN },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    const full = JSON.parse(line) as { url: string };
    const chat = { model: 'tiny', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 2 };
    let kept = 0;
    let last: Answer;
    do {
      last = await send(full, '/api/jobs', {
        method: 'POST',
        headers: asAdmin,
        body: evaluation('x'.repeat(5000)),
      });
      if (last.status === 201) kept++;
    } while (last.status === 201 && kept < 1000);
    expect(codeOf(last)).toEqual([503, 'write_failed']);
    expect(kept).toBeGreaterThan(0);
    expect((await send(full, '/v1/chat/completions', { method: 'POST', body: chat })).status).toBe(
      200,
    );
    expect((await send(full, '/api/jobs?limit=1', { headers: asAdmin })).body).toMatchObject({
      hasMore: true,
    });
    const ended = once(child, 'close');
    child.kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    // what a job would have said of itself is reported once, not at each try
    expect(stderr.match(/^IsoproError/gm)?.length ?? 0).toBeLessThanOrEqual(2);
  },
);

test('SIGKILL and restart lose no job: the run goes on where it was', async () => {
  const own = path.join(folder, 'killed');
  const env = { ...process.env, ISOPRO_ADMIN_KEY: ADMIN };
  const begin = async (): Promise<{ server: ChildProcess; url: string }> => {
    const child = spawn(
      process.execPath,
      [MAIN, 'serve', '--model', 'tiny', '--port', '0', '--threads', '1', '--runs', own, '--json'],
      {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    return { server: child, url: (JSON.parse(line) as { url: string }).url };
  };
  const first = await begin();
  const settings = {
    iterations: 1,
    signer: 'single-process',
    model: { threads: 1 },
    sampling: { rollouts: 8 },
    optimiser: { stepsPerIteration: 1 },
    evaluation: { devSize: 1, testSize: 1 },
  };
  const { body: job } = await send(first, '/api/jobs', {
    method: 'POST',
    headers: asAdmin,
    body: { kind: 'run', settings },
  });
  const { body: next } = await send(first, '/api/jobs', {
    method: 'POST',
    headers: asAdmin,
    body: { kind: 'judge', settings: { run: 'none' } },
  });
  expect(next.error.code).toBe('run_not_allowed');
  const target = `/api/jobs/${job.id}/events`;
  const seen = await stream(first.url, target, asAdmin, ({ type }) => type === 'progress');
  first.server.kill('SIGKILL');
  await once(first.server, 'close');

  const second = await begin();
  const rest = await stream(second.url, target, {
    ...asAdmin,
    'last-event-id': String(seen.length),
  });
  expect(rest.map(({ id }) => id)).toEqual(rest.map((_, i) => seen.length + 1 + i));
  const { body: ended } = await send(second, `/api/jobs/${job.id}`, { headers: asAdmin });
  expect(ended).toMatchObject({ state: 'succeeded', attempts: 2, error: null, run: job.id });
  expect(readdirSync(path.join(own, job.id))).toContain('report.html');
  expect(existsSync(ended.result.adapter.file)).toBe(true);
  second.server.kill('SIGTERM');
  expect(await once(second.server, 'close')).toEqual([0, null]);
});
