/** What a caller may ask of the queue of jobs, what it is told, and what a job's process says. */
import { getEventListeners } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, test } from '@jest/globals';
import { JobProcess, type Outcome, type Told } from '../../src/jobs/job-process.js';
import { hasEndedAs, type Job, type JobEvent } from '../../src/jobs/job.js';
import { JobQueue, type Asker, type JobQueueOptions } from '../../src/jobs/queue.js';

const PROGRAM = fileURLToPath(new URL('job-program.mjs', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-states-'));
let made = 0;
const open: JobQueue[] = [];
function queueOf(
  options: Partial<JobQueueOptions> = {},
  runs = path.join(folder, `runs-${made++}`),
): JobQueue {
  const allowed = {
    model: 'base',
    models: new Map([['base', 'tiny']]),
    tasks: new Map(),
    adapters: new Map([['own', '/own.gguf']]),
    runs,
  };
  const report = (error: unknown): never => {
    throw error;
  };
  const queue = JobQueue.open({
    allowed,
    worker: PROGRAM,
    availableMemory: () => Infinity,
    totalMemory: () => Infinity,
    report,
    ...options,
  });
  open.push(queue);
  return queue;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((queue) => queue.close()));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const [ANN, BOB, ROOT]: Asker[] = ['ann', 'bob', 'root'].map((name) => ({
  name,
  isAdmin: name === 'root',
})) as never;
const add = async (queue: JobQueue, system: string, asker = ANN): Promise<Job> =>
  (await queue.create(asker!, { kind: 'eval', settings: { system } })).job;
async function until(
  queue: JobQueue,
  id: string,
  isIt: (event: JobEvent) => boolean,
): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  for await (const event of queue.follow(id, 0, new AbortController().signal)) {
    events.push(event);
    if (isIt(event)) break;
  }
  return events;
}
const ended = async (queue: JobQueue, id: string): Promise<Job> => {
  await until(queue, id, ({ type, data }) => type === 'state' && hasEndedAs((data as Job).state));
  return queue.get(id)!;
};
const holding = (queue: JobQueue, id: string): Promise<unknown> =>
  until(queue, id, ({ type }) => type === 'progress');
/** Of a queue that begins nothing. */
const idle = (options: Partial<JobQueueOptions> = {}): JobQueue =>
  queueOf({ availableMemory: () => 0, ...options });

describe('what is asked for', () => {
  test('a job has what it was asked with, its command as a person would type it, and waits', async () => {
    const queue = idle();
    const settings = { system: "it's", perTier: 2 };
    const { job, isNew } = await queue.create(ANN!, {
      kind: 'eval',
      settings,
      name: 'mine',
      note: { of: 'me' },
    });
    expect(isNew).toBe(true);
    expect(job).toMatchObject({
      kind: 'eval',
      settings,
      name: 'mine',
      owner: 'ann',
      state: 'queued',
      attempts: 0,
      run: null,
    });
    expect(job.id).toMatch(/^job-[0-9a-f]{24}$/);
    expect([job.startedAt, job.endedAt, queue.note(job.id)]).toEqual([null, null, { of: 'me' }]);
    const estimate = await queue.estimate(ANN!, 'eval', settings);
    expect(estimate).toEqual({
      settings: { ...settings, model: 'base', task: 'scheduling' },
      command: job.command,
      memoryBytes: job.memoryBytes,
    });
    expect(job.command).toBe(
      `npx isopro-native eval --model=tiny --task=scheduling '--system=it'\\''s' --per-tier=2`,
    );
    const { job: bare } = await queue.create(ANN!, { kind: 'run', settings: {} });
    expect([bare.name, bare.run, queue.note(bare.id)]).toEqual([null, bare.id, null]);
    expect(bare.command).toContain(`--out=${path.join(path.dirname(queue.folder), bare.id)}`);
    expect(queue.folderOf(bare.id)).toBe(path.join(queue.folder, bare.id));
    expect((await queue.estimate(ANN!, 'run', {})).command).toContain(`${path.sep}JOB`);
    expect(path.basename(queue.folder)).toBe('.jobs');
  });

  test('who asks for no kind, for another’s kind, or with too much is told so', async () => {
    const queue = idle();
    const all = 'run, train, eval, judge, ablate, truth, truth-train, truth-analyze, gate';
    await expect(queue.create(ANN!, { kind: 'cook', settings: {} })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: `kind: there is no "cook"; use one of ${all}`,
    });
    const settings = { adapter: 'ab'.repeat(32), as: 'sql' };
    await expect(queue.estimate(ANN!, 'gate', settings)).rejects.toMatchObject({
      code: 'kind_not_allowed',
      param: 'kind',
      message: 'gate: it affects other users and needs a key with full access',
    });
    await expect(queue.estimate(ROOT!, 'gate', settings)).rejects.toMatchObject({
      code: 'registry_not_allowed',
    });
    expect(queue.kinds(ROOT!).map(({ id }) => id)).toEqual(all.split(', '));
    expect(queue.kinds(ANN!).map(({ id }) => id)).toEqual(all.split(', ').slice(0, -1));

    // 64 KiB of text and not one character more: the next check is the next refusal
    const long = (more: number): object => {
      const of = { analyzer: 'causal-attribution', runs: ['none'], features: [] as string[] };
      while (JSON.stringify(of).length < 65_000) of.features.push('x'.repeat(400));
      of.features.push('');
      of.features[of.features.length - 1] = 'y'.repeat(65_536 + more - JSON.stringify(of).length);
      return of;
    };
    expect(JSON.stringify(long(0))).toHaveLength(65_536);
    await expect(queue.estimate(ANN!, 'truth-analyze', long(0))).rejects.toMatchObject({
      code: 'run_not_allowed',
    });
    const refused = {
      code: 'INVALID_ARGUMENT',
      message: 'settings: they are longer than 65536 characters or contain a NUL',
    };
    await expect(queue.estimate(ANN!, 'truth-analyze', long(1))).rejects.toMatchObject(refused);
    await expect(queue.estimate(ANN!, 'eval', { system: 'a\0b' })).rejects.toMatchObject(refused);
    expect(queue.list({ limit: 1 }).jobs).toEqual([]);
  });

  test('a job that needs all the memory there is is taken, and one byte more is not', async () => {
    const { memoryBytes } = await idle().estimate(ANN!, 'eval', {});
    let total = memoryBytes;
    const queue = queueOf({ totalMemory: () => total, availableMemory: () => memoryBytes });
    expect((await ended(queue, (await add(queue, 'answer')).id)).state).toBe('succeeded');
    total = memoryBytes - 1;
    await expect(add(queue, 'answer')).rejects.toMatchObject({
      code: 'OUT_OF_MEMORY',
      message: `the job may need ${memoryBytes} bytes of memory, but this machine has ${total}`,
    });
    const short = queueOf({ availableMemory: () => memoryBytes - 1 });
    const { id } = await add(short, 'answer');
    await until(short, id, ({ data }) => (data as Job).waitingFor === 'memory');
    await short.close();
  });

  test('a key stands for kind, settings and name, or for what it is given with', async () => {
    const queue = idle();
    const asked = { kind: 'eval', settings: { system: 'x' }, name: 'n', idempotencyKey: 'k' };
    const { job } = await queue.create(ANN!, asked);
    expect(await queue.create(ANN!, { ...asked, settings: { system: 'x' }, note: 1 })).toEqual({
      job,
      isNew: false,
    });
    for (const other of [
      { kind: 'run', settings: {} },
      { settings: {} },
      { name: 'o' },
      { name: null },
      { request: 'r' },
    ])
      await expect(queue.create(ANN!, { ...asked, ...other })).rejects.toMatchObject({
        code: 'CONFLICT',
      });
    const stated = { ...asked, idempotencyKey: 'l', request: { same: true } };
    const first = await queue.create(ANN!, stated);
    expect(await queue.create(ANN!, { ...stated, settings: {}, name: null })).toMatchObject({
      job: { id: first.job.id },
      isNew: false,
    });
  });
});

describe('states', () => {
  test('who is told of ends is told of each once, and of nothing that goes on', async () => {
    const told: string[] = [];
    const queue = queueOf({ onEnded: (id) => told.push(id) });
    const first = await add(queue, 'hold');
    await holding(queue, first.id);
    const [second, third, fourth] = [
      await add(queue, 'answer'),
      await add(queue, 'answer'),
      await add(queue, 'fail'),
    ];
    expect(queue.cancel(second.id)).toMatchObject({
      state: 'cancelled',
      waitingFor: null,
      endedAt: expect.any(String),
    });
    expect(queue.pause(third.id)).toMatchObject({
      state: 'paused',
      waitingFor: null,
      endedAt: null,
    });
    expect(queue.pause(third.id)!.state).toBe('paused'); // harmless when repeated
    expect(queue.events(third.id, 0, 9).events.map(({ data }) => (data as Job).state)).toEqual([
      'queued',
      'paused',
    ]);
    expect(told).toEqual([second.id]);
    expect(queue.pause(first.id)!.state).toBe('running'); // until it has ended
    await until(queue, first.id, ({ data }) => (data as Job)?.state === 'paused');
    expect(queue.get(first.id)).toMatchObject({
      state: 'paused',
      endedAt: null,
      startedAt: expect.any(String),
      attempts: 1,
    });
    expect(await ended(queue, fourth.id)).toMatchObject({
      state: 'failed',
      waitingFor: null,
      endedAt: expect.any(String),
    });
    expect(queue.cancel(first.id)!.state).toBe('cancelled'); // a paused one
    expect(told).toEqual([second.id, fourth.id, first.id]);
    expect(
      queue
        .events(first.id, 0, 99)
        .events.map(({ type, data }) => [type, (data as Job).state ?? null]),
    ).toEqual([
      ['state', 'queued'],
      ['state', 'running'],
      ['progress', null],
      ['state', 'paused'],
      ['state', 'cancelled'],
    ]);
  });

  test('what has ended can neither be paused nor gone on with, and where there is none nothing is said', async () => {
    const queue = queueOf();
    const { id } = await add(queue, 'answer');
    await ended(queue, id);
    const refused = (what: string): never =>
      expect.objectContaining({
        code: 'INVALID_ARGUMENT',
        message: `${id} is succeeded and cannot be ${what}`,
      }) as never;
    expect(() => queue.pause(id)).toThrow(refused('paused'));
    expect(() => queue.resume(id)).toThrow(refused('resumed'));
    expect(queue.cancel(id)!.state).toBe('succeeded');
    for (const ask of [queue.pause, queue.resume, queue.cancel, queue.get])
      expect(ask.call(queue, 'job-none')).toBeUndefined();
    expect(queue.note('job-none')).toBeNull();
  });

  test('one that is ended before its process is there was never begun', async () => {
    const queue = queueOf();
    await ended(queue, (await add(queue, 'answer')).id);
    const { id } = await add(queue, 'hold');
    queue.cancel(id); // its settings are being read
    expect(await ended(queue, id)).toMatchObject({
      state: 'cancelled',
      attempts: 0,
      startedAt: null,
    });
  });

  test('one that is gone on with while it is being paused comes back by itself, and keeps when it was first begun', async () => {
    const queue = queueOf();
    const { id } = await add(queue, 'hold');
    await holding(queue, id);
    const { startedAt } = queue.get(id)!;
    expect(queue.resume(id)!.state).toBe('running'); // it goes on
    queue.pause(id);
    queue.resume(id);
    await until(queue, id, ({ type, id: at }) => type === 'progress' && at > 4);
    expect(queue.get(id)).toMatchObject({ state: 'running', attempts: 2, startedAt });
    expect(queue.events(id, 3, 2).events.map(({ data }) => data)).toEqual([
      { state: 'queued', waitingFor: 'turn', error: null },
      { state: 'running', waitingFor: null, error: null },
    ]);
  });

  test('so many at once as are allowed, and the next in their order', async () => {
    const queue = queueOf({ atOnce: 2 });
    const jobs = [];
    for (const act of ['hold', 'hold', 'answer', 'hold']) jobs.push(await add(queue, act));
    const [first, second, third, fourth] = jobs as [Job, Job, Job, Job];
    await holding(queue, first.id);
    await holding(queue, second.id);
    expect(jobs.map(({ id }) => queue.get(id)!.state)).toEqual([
      'running',
      'running',
      'queued',
      'queued',
    ]);
    const { signal } = new AbortController();
    await expect(queue.measure(ANN!, 'run', {}, signal)).rejects.toMatchObject({
      code: 'JOBS_BUSY',
      message: 'cannot measure while a job is running',
      remedy: 'Repeat the request when the job has ended.',
    });
    queue.cancel(second.id);
    await holding(queue, fourth.id);
    expect([first, third, fourth].map(({ id }) => queue.get(id)!.state)).toEqual([
      'running',
      'succeeded',
      'running',
    ]);
    expect(queue.list({ limit: 9, state: 'running' }).jobs.map(({ id }) => id)).toEqual([
      fourth.id,
      first.id,
    ]);
    expect(queue.list({ limit: 1 })).toMatchObject({ jobs: [{ id: fourth.id }], hasMore: true });
    expect(queue.latest(third.id, ['state'], 99, 1).events).toMatchObject([
      { data: { state: 'succeeded' } },
    ]);
  });

  test('a job whose names are not allowed any more, or whose folder cannot be made, fails and says why', async () => {
    const before = idle();
    const lost = await add(before, 'answer');
    const runs = path.dirname(before.folder);
    await before.close();
    const allowed = {
      model: 'base',
      models: new Map([['other', 'tiny']]),
      tasks: new Map(),
      adapters: new Map(),
      runs,
    };
    const after = queueOf({ allowed }, runs);
    const message =
      '"base" is not a model of this server (other); start the server with --allow-model to add it';
    expect(await ended(after, lost.id)).toMatchObject({
      state: 'failed',
      attempts: 0,
      error: { code: 'INVALID_ARGUMENT', message },
    });

    let free = 0;
    const queue = queueOf({ againMs: 5, availableMemory: () => free });
    const blocked = await add(queue, 'answer');
    const place = queue.folderOf(blocked.id);
    writeFileSync(place, '');
    free = Infinity;
    expect(await ended(queue, blocked.id)).toMatchObject({
      state: 'failed',
      error: { code: 'WRITE_FAILED', message: expect.stringContaining(place) },
    });
  });

  test('after its close nothing is taken, and whoever follows is let go', async () => {
    const queue = idle();
    const { id } = await add(queue, 'answer');
    const following = until(queue, id, () => false);
    await sleep(10);
    const closing = queue.close();
    expect(queue.close()).toBe(closing);
    await expect(add(queue, 'answer')).rejects.toMatchObject({
      code: 'OBJECT_DISPOSED',
      message: 'the queue of jobs has been closed',
    });
    await expect(
      queue.measure(ANN!, 'run', {}, new AbortController().signal),
    ).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
    await closing;
    expect((await following).map(({ id: at }) => at)).toEqual([1, 2]);
  });

  test('whoever follows no more is let go, and leaves no listener', async () => {
    const queue = idle();
    const { id } = await add(queue, 'answer');
    const [one, two] = [new AbortController(), new AbortController()];
    const seen: number[] = [];
    const follow = async ({ signal }: AbortController, after: number): Promise<void> => {
      for await (const event of queue.follow(id, after, signal)) seen.push(event.id);
    };
    const following = follow(one, 0);
    const other = follow(two, 2);
    await sleep(20);
    expect(seen).toEqual([1, 2]);
    one.abort();
    await following;
    queue.pause(id); // the other one hears of it
    await sleep(5);
    expect(seen).toEqual([1, 2, 3]);
    queue.cancel(id);
    await other;
    expect(seen).toEqual([1, 2, 3, 4]);
    expect([one, two].flatMap(({ signal }) => getEventListeners(signal, 'abort'))).toEqual([]);
    await follow(one, 0); // aborted before
    expect(seen).toHaveLength(4);
    await follow(two, 99); // it has ended
  });
});

describe('whose it is', () => {
  test('runs, adapters and files of others are not named; who may all sees all', async () => {
    const queue = queueOf();
    const runs = path.dirname(queue.folder);
    const [mine, theirs] = [await add(queue, 'answer'), await add(queue, 'answer', BOB)];
    const { id: data } = await queue.uploads.add('ann', {
      filename: 'a.jsonl',
      purpose: 'p',
      bytes: Buffer.from('{}'),
    });
    const { job: trained } = await queue.create(ANN!, { kind: 'train', settings: { data } });
    for (const { id } of [mine, theirs, trained]) await ended(queue, id);
    const result = queue.get(trained.id)!.result as { adapter: string };
    expect(queue.adapterOf(queue.get(trained.id)!)).toBeNull(); // its file is not there
    writeFileSync(result.adapter, '');
    expect(queue.adapterOf(queue.get(trained.id)!)).toBe(result.adapter);
    expect(queue.adapterOf({ ...queue.get(trained.id)!, state: 'failed' })).toBeNull();
    expect(queue.adapterOf(queue.get(mine.id)!)).toBeNull();
    for (const name of [mine.id, `${theirs.id}/full-42`, 'hers', '.jobs']) {
      mkdirSync(path.join(runs, name), { recursive: true });
      writeFileSync(path.join(runs, name, 'manifest.json'), '{}');
    }
    const names = (asker: Asker): unknown => queue.catalogue(asker).names;
    expect(names(ANN!)).toMatchObject({
      models: ['base'],
      adapters: ['own', trained.id],
      runs: [mine.id],
    });
    expect(names(BOB!)).toMatchObject({ adapters: ['own'], runs: [`${theirs.id}/full-42`] });
    const everything = queue.catalogue(ROOT!).names;
    expect(everything.adapters).toEqual(['own', trained.id]);
    expect([...everything.runs].sort()).toEqual([mine.id, `${theirs.id}/full-42`, 'hers'].sort());
    expect(everything.tasks).toContain('scheduling');
    for (const [asker, run, may] of [
      [ANN, mine.id, true],
      [ANN, theirs.id, false],
      [ANN, `${mine.id}/x`, true],
      [BOB, `${theirs.id}/x`, true],
      [ANN, 'hers', false],
      [ROOT, 'hers', true],
    ] as const)
      expect([asker!.name, run, queue.mayRead(asker!, run)]).toEqual([asker!.name, run, may]);
    expect(queue.names(ANN!).adapter(trained.id, 'p')).toBe(result.adapter);
    expect(queue.names(ROOT!).adapter(trained.id, 'p')).toBe(result.adapter);
    expect(() => queue.names(BOB!).adapter(trained.id, 'p')).toThrow('neither an adapter');
    expect(() => queue.names(BOB!).file(data, 'p')).toThrow(
      'not a file that was uploaded with this key',
    );
    expect(queue.isInUse(data)).toBe(true);
    expect(queue.isInUse('file-none')).toBe(false);
  });
});

test('what is tried beforehand can be ended, holds the next job up, and then lets it begin', async () => {
  const program = path.join(folder, 'waits.mjs');
  const go = path.join(folder, 'go');
  const begins = mkdtempSync(path.join(folder, 'begins-'));
  writeFileSync(
    program,
    `import { existsSync, writeFileSync } from 'node:fs';
     process.on('disconnect', () => process.exit());
     process.on('SIGINT', () => process.exit(130));
     const answer = (message) => process.send(message, undefined, undefined, () => process.exit());
     const isWorker = process.argv.length === 2;
     const refusal = { code: 'USAGE', message: 'no', remedy: 'ask' };
     const work = await new Promise((resolve) => process.once('message', resolve));
     if (work.settings?.rank === 3) await answer({ type: 'error', error: refusal });
     else writeFileSync(${JSON.stringify(begins)} + '/' + process.pid, '');
     setInterval(() => {
       if (!existsSync(${JSON.stringify(go)})) return;
       if (isWorker) answer({ type: 'result', result: { ok: 1 } });
       else process.stdout.write('{"ok":1}'), process.exit();
     }, 10);`,
  );
  const queue = queueOf({ worker: program });
  const { id: data } = await queue.uploads.add('ann', {
    filename: 'a.jsonl',
    purpose: 'p',
    bytes: Buffer.from('{}'),
  });
  const end = new AbortController();
  let seen = 0;
  const begun = async (): Promise<void> => {
    while (readdirSync(begins).length === seen) await sleep(5);
    seen++;
  };
  const wrong = queue.measure(ANN!, 'train', { data, rank: 3 }, end.signal);
  await expect(wrong).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'no',
    remedy: 'ask',
  });
  await expect(queue.measure(ANN!, 'eval', {}, end.signal)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: 'jobs of the kind eval cannot be measured',
  });
  const first = queue.measure(ANN!, 'train', { data }, end.signal).catch((error: unknown) => error);
  await begun();
  end.abort();
  expect(await first).toMatchObject({ code: 'ABORTED', message: 'the measurement was cancelled' });
  const before = queue.measure(ANN!, 'train', { data }, end.signal); // aborted before it begins
  await expect(before).rejects.toMatchObject({ code: 'ABORTED' });
  seen = readdirSync(begins).length;
  const signal = new AbortController().signal;
  const second = queue.measure(ANN!, 'train', { data }, signal);
  await begun();
  const { id } = await add(queue, 'x');
  expect(queue.get(id)!.state).toBe('queued');
  writeFileSync(go, '');
  expect(await second).toEqual({ ok: 1 });
  expect(await ended(queue, id)).toMatchObject({ state: 'succeeded', result: { ok: 1 } });
  expect([
    ...getEventListeners(signal, 'abort'),
    ...getEventListeners(end.signal, 'abort'),
  ]).toEqual([]);
});

describe('the process of a job', () => {
  const worker = path.join(folder, 'says.mjs');
  const work = { operation: 'eval', settings: { samples: 3 } };
  const said = async (code: string): Promise<{ outcome: Outcome; told: Told[] }> => {
    writeFileSync(worker, code);
    const told: Told[] = [];
    const process = new JobProcess({ work, worker, onEvent: (event) => told.push(event) });
    process.admit();
    return { outcome: await process.outcome, told };
  };
  const failed = (message: string): Outcome => ({
    kind: 'failed',
    error: expect.objectContaining({ code: 'JOB_ENDED', message }) as never,
  });
  const leave = 'process.disconnect();';
  const answer = (message: object): string =>
    `process.send(${JSON.stringify(message)}, () => process.disconnect());`;
  const silent = (how: string): string => `the job's process ended ${how}`;
  const error = { code: 'Y', message: 'said', remedy: 'r' };

  test.each<[code: string, outcome: Outcome]>([
    [answer({ type: 'result', result: { a: 1 } }), { kind: 'result', result: { a: 1 } }],
    [answer({ type: 'result', result: null }), { kind: 'result', result: null }],
    [answer({ type: 'error', error }), { kind: 'failed', error: error as never }],
    [
      `process.exitCode = 3; ${answer({ type: 'result', result: [3] })}`,
      { kind: 'result', result: [3] },
    ],
    [leave, failed("the job's process ended without a result")],
    [`process.exitCode = 4; ${leave}`, failed(silent('with exit code 4 and no message'))],
    [
      "process.kill(process.pid, 'SIGTERM'); setInterval(() => {}, 1e4)",
      failed(silent('on signal SIGTERM with no message')),
    ],
    [
      `process.stdout.write('{"a":1}'); ${leave}`,
      failed("the job's process ended without a result"),
    ],
  ])('%s', async (code, outcome) => {
    expect((await said(code)).outcome).toEqual(outcome);
  });

  test('it is given its work and no secret; what it tells is passed on where it is an event', async () => {
    const secrets = ['ISOPRO_API_KEY', 'ISOPRO_ADMIN_KEY'];
    for (const name of secrets) process.env[name] = 'secret';
    const { outcome, told } = await said(
      `process.send({ type: 'notice', data: 1 }); process.send({ type: 'other', data: 2 }); process.send(null); process.send('text');
       process.send({ type: 'rule', data: 3 });
       process.once('message', (work) => {
         const { NO_COLOR, ISOPRO_API_KEY, ISOPRO_ADMIN_KEY, HOME } = process.env;
         const told = [NO_COLOR, ISOPRO_API_KEY ?? 0, ISOPRO_ADMIN_KEY ?? 0, HOME];
         const result = [work, process.argv.slice(2), ...told];
         process.send({ type: 'result', result }, () => process.disconnect());
       });`,
    );
    for (const name of secrets) delete process.env[name];
    expect(outcome).toEqual({
      kind: 'result',
      result: [work, [], '1', 0, 0, process.env.HOME ?? null],
    });
    expect(told).toEqual([
      { type: 'notice', data: 1 },
      { type: 'rule', data: 3 },
    ]);
  });

  test('what was told to end has been interrupted, also where it does not hear; a result that was whole before stands', async () => {
    const begin = (code: string): JobProcess => {
      writeFileSync(worker, code);
      return new JobProcess({ work, worker, onEvent: () => begun() });
    };
    let begun = (): void => {};
    const told = (code: string, graceMs?: number): Promise<Outcome> =>
      new Promise((resolve) => {
        const process = begin(code);
        begun = () => {
          process.interrupt(graceMs);
          process.interrupt(0); // harmless when repeated
          resolve(process.outcome);
        };
      });
    const ready = "process.send({ type: 'notice', data: 1 }); setInterval(() => {}, 1e4);";
    expect(await told(`process.on('SIGINT', () => process.exit(130)); ${ready}`)).toEqual({
      kind: 'interrupted',
    });
    expect(await told(`process.on('SIGINT', () => {}); ${ready}`, 20)).toEqual({
      kind: 'interrupted',
    });
    const then = (message: object): string =>
      `process.on('SIGINT', () => process.send(${JSON.stringify(message)}, () => process.exit(0))); ${ready}`;
    const ended = then({ type: 'error', error: { code: 'ABORTED', message: 'ended' } });
    expect(await told(ended, 60_000)).toEqual({ kind: 'interrupted' });
    const whole = then({ type: 'result', result: { a: 1 } });
    expect(await told(whole, 60_000)).toEqual({ kind: 'result', result: { a: 1 } });
  });
});
