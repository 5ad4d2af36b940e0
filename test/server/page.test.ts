/**
 * What the page is told of runs, rollouts and adapters; who may ask; and that whatever a log holds
 * stays a text.
 */
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Registry } from '../../src/registry/index.js';
import { listRuns, compareRuns } from '../../src/lookup/run-list.js';
import { readRun, testEvaluation } from '../../src/run-folder/read-run.js';
import { runPaths } from '../../src/run-folder/paths.js';
import { readPage } from '../../src/server/page/files.js';
import { ReadingThread } from '../../src/server/page/reading-thread.js';
import { registryView } from '../../src/server/page/registry-view.js';
import type { RolloutPage, RunDetail, RunLine } from '../../src/server/page/shapes.js';
import type { Server } from '../../src/server/server.js';
import { visible } from '../../src/visible-text.js';
import { HOSTILE } from '../models/hostile.js';
import { writeRunFolder } from '../models/run-folder.js';
import {
  adapterFile,
  asAdmin,
  closeAll,
  eventsOf,
  longModel,
  reported,
  send,
  start,
  type Answer,
} from '../models/server.js';

const root = mkdtempSync(path.join(tmpdir(), 'isopro-page-'));
const runs = path.join(root, 'runs');
const registry = new Registry({
  folder: path.join(root, 'registry'),
  witness: false,
  home: path.join(root, 'home'),
});
let server: Server;
let first: string;
let second: string;
beforeAll(async () => {
  const small = {
    iterations: 2,
    rollouts: 3,
    problems: 2,
    tiers: [{ id: 'T0', title: 'warm-up' }, { id: 'T1' }],
  };
  const home = path.join(root, 'home');
  process.env.ISOPRO_HOME = home;
  await writeRunFolder({
    folder: path.join(runs, 'one'),
    home,
    ...small,
    reply: (i) => (i === 2 ? 'a Needle in hay' : `reply ${i}`),
  });
  await writeRunFolder({
    folder: path.join(runs, 'two'),
    home,
    ...small,
    runId: 'cd'.repeat(16),
    seed: 7n,
    skill: 0.9,
  });
  await writeRunFolder({
    folder: path.join(runs, 'hostile'),
    home,
    ...small,
    runId: 'ef'.repeat(16),
    until: 'iterations',
    reply: () => HOSTILE.join('\n'),
    prompt: HOSTILE.join('\n'),
    names: { model: HOSTILE[0]!, task: HOSTILE[1]! },
  });
  mkdirSync(path.join(root, 'outside'));
  cpSync(path.join(runs, 'one'), path.join(root, 'outside', 'secret'), { recursive: true });
  symlinkSync(path.join(root, 'outside', 'secret'), path.join(runs, 'link'), 'dir');
  // runs of an ablation, and a link among them; a link to a folder of runs
  cpSync(path.join(runs, 'two'), path.join(runs, 'abl', 'full-7'), { recursive: true });
  cpSync(path.join(runs, 'two'), path.join(runs, 'abl', 'deeper', 'full-7'), { recursive: true });
  symlinkSync(path.join(root, 'outside', 'secret'), path.join(runs, 'abl', 'link'), 'dir');
  symlinkSync(path.join(root, 'outside'), path.join(runs, 'linked'), 'dir');
  const base = { name: 'base', sha256: 'ba'.repeat(32) };
  ({ id: first } = await registry.publish({ file: adapterFile('page-1', 8n), base }));
  ({ id: second } = await registry.publish({ file: adapterFile('page-2', 9n), base }));
  server = await start({ runs, registry });
}, 120_000);
afterAll(async () => {
  await closeAll();
  delete process.env.ISOPRO_HOME;
  rmSync(root, { recursive: true, force: true });
  expect(reported).toEqual([]);
});

const get = (target: string): Promise<Answer> => send(server, target, { headers: asAdmin });
const post = (target: string, body: unknown): Promise<Answer> =>
  send(server, target, { headers: asAdmin, body });

describe('who may ask', () => {
  const PATHS = [
    'status',
    'runs',
    'runs/one',
    'runs/one/rollouts',
    'runs/one/report',
    'runs/one/integrity',
    'compare?a=one&b=two',
    'adapters',
  ];
  test.each(PATHS)('/api/%s is refused without a key, on this machine too', async (target) => {
    expect((await send(server, `/api/${target}`)).status).toBe(401);
    expect((await get(`/api/${target}`)).status).toBe(200);
  });

  test('moves are refused without a key, to other origins, and as a form', async () => {
    const body = { alias: 'sql', reason: '' };
    expect((await send(server, '/api/adapters/rollback', { body })).status).toBe(401);
    const foreign = { ...asAdmin, origin: 'http://example.invalid' };
    expect((await send(server, '/api/adapters/rollback', { body, headers: foreign })).status).toBe(
      403,
    );
    const form = { ...asAdmin, 'content-type': 'application/x-www-form-urlencoded' };
    expect(
      (await send(server, '/api/adapters/rollback', { body: 'alias=sql', headers: form })).status,
    ).toBe(415);
  });

  test.each([
    '..',
    '%2e%2e',
    '..%2foutside%2fsecret',
    'one%2f..%2ftwo',
    '%2fetc',
    'link',
    'abl',
    'abl%2flink',
    'linked%2fsecret',
    'abl%2f..%2fone',
    'abl%2f..%2f..%2foutside%2fsecret',
    'abl%2fdeeper%2ffull-7',
    'abl%5cfull-7',
    'abl%2f%2ffull-7',
    encodeURIComponent(path.join(runs, 'one')),
    '__proto__',
    'constructor',
    'one%00',
    'x'.repeat(300),
  ])('a run named %s is none', async (name) => {
    for (const target of [
      `/api/runs/${name}`,
      `/api/runs/${name}/rollouts`,
      `/api/runs/${name}/report`,
    ])
      expect((await get(target)).status).toBeGreaterThanOrEqual(400);
    expect((await get(`/api/compare?a=one&b=${name}`)).status).toBeGreaterThanOrEqual(400);
  });
});

describe('runs', () => {
  test('are listed with what the library says of them', async () => {
    const { body } = await get('/api/runs');
    expect(body.map(({ name }: RunLine) => name).sort()).toEqual([
      'abl/full-7',
      'hostile',
      'one',
      'two',
    ]);
    const two = body.find(({ name }: RunLine) => name === 'two') as RunLine;
    const known = listRuns(runs).find(({ folder }) => path.basename(folder) === 'two')!;
    expect(two).toMatchObject({
      state: 'ended',
      before: known.before,
      after: known.after,
      pairedP: known.pairedP,
      n: known.n,
    });
  });

  test('have the figures of the library, and nothing new is said of one that has not changed', async () => {
    const { body } = (await get('/api/runs/two')) as { body: RunDetail };
    const run = readRun(path.join(runs, 'two'));
    const { mean, low, high, n } = testEvaluation(run, 'after')!.summary;
    expect(body.after).toEqual({ mean, low, high, n });
    expect(body.dev.map(({ iteration }) => iteration)).toEqual([0, 1, 2]);
    expect(body.hits.map(({ all }) => all.n)).toEqual([6, 6]);
    expect(body.rollouts).toBe(run.rolloutCount);
    expect((await get(`/api/runs/two?since=${body.stamp}`)).body).toBeNull();
    expect((await get('/api/runs/two?since=another')).body).toEqual(body);
    expect((await get('/api/runs/hostile')).body.state).toBe('unfinished');
  });

  test('one of an ablation is named by both of its folders', async () => {
    const [two, nested] = [
      (await get('/api/runs/two')).body,
      (await get('/api/runs/abl%2Ffull-7')).body,
    ] as RunDetail[];
    expect(nested).toEqual({ ...two, name: 'abl/full-7', stamp: expect.any(String) });
    expect((await get('/api/runs/abl%2Ffull-7/rollouts')).body.total).toBe(
      (await get('/api/runs/two/rollouts')).body.total,
    );
    expect((await get('/api/compare?a=one&b=abl%2Ffull-7')).body.b.name).toBe('abl/full-7');
  });

  test('two are compared as `runs compare` does it', async () => {
    const { body } = await get('/api/compare?a=one&b=two');
    const { comparison, differences } = compareRuns(path.join(runs, 'one'), path.join(runs, 'two'));
    const { n, gained, lost, p } = comparison;
    expect(body.test).toMatchObject({ n, gained, lost, p });
    expect(body.differences.map(({ member }: { member: string }) => member)).toEqual(differences);
  });

  test('the log of one is checked, and a report is handed out for a frame without key or origin', async () => {
    expect((await get('/api/runs/one/integrity')).body.badge).toEqual({
      text: 'log complete, signed by the run itself',
      tone: 'fair',
    });
    const { url } = (await get('/api/runs/one/report')).body as { url: string };
    const report = await send(server, url);
    expect(report.text).toMatch(/^<!doctype html>/);
    expect(report.headers['content-security-policy']).toBe(
      "sandbox allow-scripts; frame-ancestors 'self'",
    );
    expect(report.headers['cache-control']).toBe('no-store');
    expect((await send(server, '/reports/guessed')).status).toBe(404);
  });
});

describe('rollouts', () => {
  const find = async (query: string): Promise<RolloutPage> =>
    (await get(`/api/runs/one/rollouts${query}`)).body as RolloutPage;

  test('are found by tier, iteration, verdict and words, page by page', async () => {
    const all = await find('');
    expect([all.total, all.tiers, all.iterations]).toEqual([12, ['T0', 'T1'], [1, 2]]);
    const some = await find('?tier=T1&iteration=2');
    expect([
      some.total,
      new Set(some.data.map(({ tier, iteration }) => `${tier} ${iteration}`)),
    ]).toEqual([3, new Set(['T1 2'])]);
    const verdicts = await Promise.all(
      ['pass', 'fail', 'none'].map((verdict) => find(`?verdict=${verdict}`)),
    );
    expect(verdicts.reduce((sum, { total }) => sum + total, 0)).toBe(12);
    expect((await find('?text=needle%20HAY')).data.map(({ text }) => text)).toEqual([
      'a Needle in hay',
    ]);
    const pages = await Promise.all([0, 5, 10].map((offset) => find(`?limit=5&offset=${offset}`)));
    expect(pages.flatMap(({ data }) => data)).toEqual(all.data);
    expect((await get('/api/runs/one/rollouts?limit=100000')).status).toBe(400);
    expect((await get('/api/runs/one/rollouts?verdict=maybe')).status).toBe(400);
  });

  test('each has its prompt, its verdict and the other samples of its problem', async () => {
    const [{ id, verdict, problem }] = (await find('')).data as [RolloutPage['data'][number]];
    const { body } = await get(`/api/runs/one/rollouts/${id}`);
    expect(body).toMatchObject({ id, verdict });
    expect(body.siblings.map((each: { id: number }) => each.id)).toContain(id);
    expect((await find(`?problem=${problem}`)).total).toBe(body.siblings.length);
    expect((await get('/api/runs/one/rollouts/999999')).status).toBe(404);
    // the run is of another model: nothing is scored with this one
    expect((await get(`/api/runs/one/rollouts/${id}/scores`)).body.error.code).toBe('other_model');
  });

  test('dev problems have a verdict for each iteration', async () => {
    const { body } = await get('/api/runs/one/problems');
    expect(body).toHaveLength(4);
    expect(body[0].verdicts.map(({ iteration }: { iteration: number }) => iteration)).toEqual([
      0, 1, 2,
    ]);
  });

  test('hostile texts come as JSON of texts, with nothing in them that steers', async () => {
    const list = await get('/api/runs/hostile/rollouts');
    const rollout = await get(`/api/runs/hostile/rollouts/${list.body.data[0].id}`);
    for (const { headers, text } of [
      list,
      rollout,
      await get('/api/runs'),
      await get('/api/runs/hostile'),
    ]) {
      expect(headers['content-type']).toMatch(/^application\/json/);
      expect(headers['x-content-type-options']).toBe('nosniff');
      expect(text).not.toMatch(/[\u0080-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/);
    }
    expect(rollout.body.text).toContain('</script><script>globalThis.broken = true</script>');
  });
});

describe('adapters', () => {
  const told = async (body: object): Promise<string[]> => {
    const { text } = await post('/api/adapters/promote', {
      adapter: second,
      as: 'ladder@champion',
      reason: 'a test',
      ...body,
    });
    return eventsOf(text).events.map(({ type }) => type);
  };

  test('are promoted and rolled back, and the record says how', async () => {
    expect(await told({ adapter: first, way: 'force' })).toEqual(['moved']);
    expect(await told({ way: 'force' })).toEqual(['moved']);
    const { body } = await get('/api/adapters');
    expect(body.aliases).toMatchObject([
      { name: 'ladder@champion', current: second, before: first, by: 'promotion, by force' },
    ]);
    expect(body.adapters.map(({ id }: { id: string }) => id)).toEqual([second, first]);
    expect(
      (await post('/api/adapters/rollback', { alias: 'ladder', reason: 'worse' })).body,
    ).toMatchObject({ from: second, to: first });
    expect((await registry.read()).state.aliases[0]!.current).toBe(first);
  });

  test('what the registry refuses is an answer, not a failure of the server', async () => {
    const refused = await post('/api/adapters/promote', {
      adapter: second,
      as: 'ladder@champion',
      way: 'assign',
    });
    expect([refused.status, refused.body.error.code]).toEqual([409, 'registry_refused']);
    expect(
      (await post('/api/adapters/promote', { adapter: 'first', as: 'ladder', way: 'force' }))
        .status,
    ).toBe(400);
    expect((await post('/api/adapters/rollback', { alias: 'nobody' })).status).toBe(409);
  });

  test('a gate asks problems of tasks of the package alone: no scenario leads to a file', async () => {
    const before = (await registry.read()).state.gates.length;
    const { status, body } = await post('/api/adapters/promote', {
      adapter: second,
      as: 'task.mjs@champion',
      way: 'gate',
    });
    expect([status, body.error.code]).toEqual([403, 'task_not_allowed']);
    expect((await registry.read()).state.gates).toHaveLength(before);
  });

  test('a gate is measured on the model that is served, and tells each step; what does not win stays where it was', async () => {
    const model = longModel();
    const base = {
      name: 'base',
      sha256: createHash('sha256').update(readFileSync(model)).digest('hex'),
    };
    const settings = { sampling: { style: 'plain', maxTokens: 32 } };
    const [a, b] = [
      await registry.publish({ file: adapterFile('page-3', 10n), base, settings }),
      await registry.publish({ file: adapterFile('page-4', 11n), base, settings }),
    ];
    const as = 'extract@champion';
    expect(await told({ adapter: a.id, as, way: 'force' })).toEqual(['moved']);
    const other = await start({ model, registry });
    const body = { adapter: b.id, as, way: 'gate', problems: 1 };
    const { events } = eventsOf(
      (await send(other, '/api/adapters/promote', { headers: asAdmin, body })).text,
    );
    await other.close(0);
    expect(events.filter(({ type }) => type !== 'progress')).toEqual([
      {
        type: 'gate',
        gate: expect.any(Number),
        attempt: 1,
        alpha: expect.any(Number),
        incumbent: a.id,
      },
      {
        type: 'decision',
        gate: expect.any(Number),
        decision: 'needs-more-trials',
        problems: 1,
        reasons: expect.any(Array),
      },
      { type: 'kept', name: as },
    ]);
    expect(events.some(({ type }) => type === 'progress')).toBe(true);
    expect(
      (await registry.read()).state.aliases.find(({ slot }) => slot.scenario === 'extract')!
        .current,
    ).toBe(a.id);
  });

  test('a gate that cannot be measured says why, and nothing is moved', async () => {
    // the records name another base than the model that is served
    expect(await told({ way: 'gate', problems: 1 })).toEqual(['gate', 'failed']);
    expect((await registry.read()).state.aliases[0]!.current).toBe(first);
  });
});

describe('a run of the model that is served', () => {
  const [own, none] = [path.join(root, 'own'), path.join(root, 'none')];
  const file = adapterFile('page-own', 12n);
  const adapterSha256 = createHash('sha256').update(readFileSync(file)).digest('hex');
  let serving: Server;
  let direct: Server['models']['model'];
  const ask = (target: string): Promise<Answer> => send(serving, target, { headers: asAdmin });
  beforeAll(async () => {
    serving = await start({ runs: own });
    direct = serving.models.model;
    const more = {
      ...{
        home: path.join(root, 'home'),
        runId: '12'.repeat(16),
        iterations: 2,
        rollouts: 2,
        problems: 2,
        tiers: [{ id: 'T0' }],
        modelSha256: await direct.hash(),
      },
      ...{
        promptIds: [5, 6, 7],
        tokenIds: [8, 9, 10],
        adapterSha256,
        devReply: (iteration: number) => [11, 12 + iteration],
      },
    };
    const { folder } = await writeRunFolder({ ...more, folder: path.join(own, 'mine') });
    const to = runPaths(folder).adapter(adapterSha256);
    mkdirSync(path.dirname(to), { recursive: true });
    cpSync(file, to);
    await writeRunFolder({
      ...more,
      folder: path.join(own, 'half'),
      runId: '34'.repeat(16),
      until: 'iterations',
      promptIds: [],
    });
  });

  test('its rollouts are scored token by token, under the model and under its adapter, which goes again', async () => {
    const [{ id }] = (await ask('/api/runs/mine/rollouts')).body.data;
    const text = (token: number): string => direct.detokenize([token], { withControl: true });
    const adapter = await direct.loadAdapter(file);
    for (const [under, model, of] of [
      ['', 'base', null],
      ['?under=base', 'base', null],
      ['?under=adapter', "base with the run's adapter", adapter],
    ] as const) {
      const [scores] = await direct.score([5, 6, 7], [[8, 9, 10]], { adapter: of });
      const { status, body } = await ask(`/api/runs/mine/rollouts/${id}/scores${under}`);
      expect([status, body]).toEqual([
        200,
        {
          model,
          tokens: [8, 9, 10].map((token, i) => ({
            text: visible(text(token)),
            logprob: scores![i],
          })),
        },
      ]);
    }
    await adapter.dispose();
    expect(serving.usage().models[0]!.adapters).toEqual([]);
    const refused = async (target: string): Promise<unknown[]> => {
      const { status, body } = await ask(target);
      return [status, body.error.type, body.error.code, body.error.message];
    };
    const [{ id: other }] = (await ask('/api/runs/half/rollouts')).body.data;
    expect(await refused(`/api/runs/half/rollouts/${other}/scores`)).toEqual([
      ...[404, 'not_found_error', 'not_found'],
      'the log lacks the token ids of this prompt, or the rollout has several turns',
    ]);
    expect(await refused('/api/runs/mine/rollouts/0/scores')).toEqual([
      404,
      'not_found_error',
      'run_not_found',
      'the run has no rollout 0',
    ]);
    expect((await ask(`/api/runs/mine/rollouts/${id}/scores?under=other`)).status).toBe(400);
  });

  test('its dev problems have their replies, iteration by iteration', async () => {
    const { body: problems } = await ask('/api/runs/mine/problems');
    for (const { problem, tier, verdicts } of problems) {
      const { body } = await ask(`/api/runs/mine/problems/${problem}`);
      expect(body).toEqual({
        problem,
        tier,
        replies: [1, 2].map((iteration) => ({
          iteration,
          verdict: verdicts.find((each: { iteration: number }) => each.iteration === iteration)
            .verdict,
          finish: 'stop',
          text: visible(direct.detokenize([11, 12 + iteration])),
        })),
      });
    }
    const { status, body } = await ask(`/api/runs/mine/problems/${'00'.repeat(32)}`);
    expect([status, body.error.code, body.error.message]).toEqual([
      404,
      'run_not_found',
      'the run has no such dev problem',
    ]);
    expect((await ask('/api/runs/mine/problems/x')).status).toBe(400);
    expect((await get(`/api/runs/one/problems/${problems[0].problem}`)).body.error).toMatchObject({
      code: 'other_model',
      message: 'the run used a model other than base, which this server serves',
    });
  });

  test('what is served is told, and what there is none of', async () => {
    const { body } = await ask('/api/status');
    expect(body).toEqual({
      version: JSON.parse(readFileSync('package.json', 'utf8')).version,
      model: 'base',
      modelSha256: await direct.hash(),
      registry: false,
      rssBytes: expect.any(Number),
      modelBytes: serving.usage().usedBytes,
      running: 0,
      waiting: 0,
    });
    const { status, body: refused } = await ask('/api/adapters');
    expect([status, refused.error.message]).toEqual([
      404,
      'this server has no registry; start it with --registry',
    ]);
    expect((await ask('/api/truth')).body).toEqual([]);
    expect((await ask('/api/truth/x')).body.error.code).toBe('run_not_found');
    expect((await ask('/api/compare?a=mine&b=half')).body.error).toMatchObject({
      code: 'runs_not_comparable',
      type: 'invalid_request_error',
    });
    expect((await ask('/api/compare?a=mine&b=half')).status).toBe(409);
    const bare = await start();
    expect((await send(bare, '/api/runs', { headers: asAdmin })).body.error.code).toBe(
      'unknown_url',
    );
    await bare.close(0);
  });

  test('its registry is told as its log has it', async () => {
    const kept = new Registry({
      folder: path.join(none, 'registry'),
      witness: false,
      home: path.join(root, 'home'),
    });
    const base = { name: 'b'.repeat(200), sha256: 'ba'.repeat(32) };
    const evidence = [{ description: 'e'.repeat(400), sha256: 'ee'.repeat(32) }];
    const { id, record } = await kept.publish({ file, base, evidence });
    const other = (await kept.publish({ file: adapterFile('page-own-2', 13n), base })).id;
    const slot = { scenario: 'sql' };
    await kept.move({ slot, alias: 'shadow', id, reason: 'r'.repeat(400) });
    await kept.move({ slot, alias: 'shadow', id: other, reason: 'second' });
    const view = registryView(await kept.read());
    expect(view.adapters.map((each) => each.id)).toEqual([other, id]);
    expect(view.adapters[1]).toEqual({
      id,
      name: expect.any(String),
      publishedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
      withdrawn: null,
      collected: false,
      base: `${'b'.repeat(79)}…`,
      baseSha256: base.sha256,
      sha256: adapterSha256,
      bytes: readFileSync(file).length,
      rank: record.adapter.rank,
      layers: record.adapter.layers,
      dataset: null,
      evidence: [{ description: `${'e'.repeat(299)}…`, sha256: 'ee'.repeat(32) }],
      parent: null,
      producedBy: [],
    });
    expect(Math.abs(Date.parse(view.adapters[1]!.publishedAt) - Date.now())).toBeLessThan(100_000);
    const name = 'sql@shadow';
    expect(view.moves).toMatchObject([
      { name, from: id, to: other, reason: 'second', by: 'assignment' },
      { name, from: null, to: id, reason: `${'r'.repeat(299)}…`, by: 'assignment' },
    ]);
    expect(view.aliases).toMatchObject([
      {
        name,
        current: other,
        before: id,
        reason: 'second',
        movedAt: view.moves[0]!.at,
        by: view.moves[0]!.by,
      },
    ]);
    expect(view.gates).toEqual([]);
    expect(view.tasks).toContain('sql');
  });
});

test('a thread that was lost is begun again, and whoever waited for it is told', async () => {
  const reading = new ReadingThread(runs);
  const [first, second] = await Promise.all([
    reading.value('list'),
    reading.value('rollouts', 'one', { offset: 0, limit: 1 }),
  ]);
  expect([first.map(({ name }) => name).sort(), second.total]).toEqual([
    ['abl/full-7', 'hostile', 'one', 'two'],
    12,
  ]);
  await expect(reading.value('rollout', 'one', 999_999)).rejects.toMatchObject({
    code: 'RUN_NOT_FOUND',
    message: 'the run has no rollout 999999',
    remedy: expect.stringMatching(/./),
  });
  const waiting = reading.json('list');
  const lost = expect(waiting).rejects.toThrow('the thread that reads runs ended');
  await reading.close();
  await lost;
  expect((await reading.value('list')).length).toBe(4);
  await reading.close();
});

const built = existsSync('dist/web/index.html');
if (!built) console.warn('the page is not built: npm run build:web');
(built ? describe : describe.skip)('the built page', () => {
  test('has under 400 kB compressed, no inline script or style, and asks for nothing from elsewhere', () => {
    const files = readPage();
    expect(
      [...files.values()].reduce((sum, bytes) => sum + gzipSync(bytes).length, 0),
    ).toBeLessThan(400_000);
    const html = files.get('index.html')!.toString();
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=/i);
    expect(
      [...html.matchAll(/(?:src|href)="([^"]*)"/g)].filter(
        ([, target]) => !/^\.\/[\w./-]+$/.test(target!),
      ),
    ).toEqual([]);
  });

  test('is served without a key under a strict policy; other paths are none', async () => {
    const { status, headers, text } = await send(server, '/ui/');
    expect([status, text]).toEqual([200, readFileSync('dist/web/index.html', 'utf8')]);
    const policy = String(headers['content-security-policy']);
    expect(policy).toMatch(/default-src 'none'; script-src 'self'; style-src 'self'/);
    expect(policy).not.toMatch(/unsafe|\*|http/);
    for (const target of [
      '/ui/../package.json',
      '/ui/%2e%2e/package.json',
      '/ui/..%2f..%2fpackage.json',
      '/ui/nothing.js',
    ])
      expect((await send(server, target)).status).toBe(404);
    expect((await send(server, '/')).headers.location).toBe('/ui/');
  });
});
