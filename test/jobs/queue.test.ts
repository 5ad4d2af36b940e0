/**
 * The queue of jobs: order, ends, what outlives it, and what is wrong with its file. A small
 * program stands for the command line.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, describe, expect, jest, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { hasEndedAs, type Job, type JobEvent } from '../../src/jobs/job.js';
import { JobProcess } from '../../src/jobs/job-process.js';
import { JobQueue, type JobQueueOptions } from '../../src/jobs/queue.js';
import { JobStore, MARK } from '../../src/jobs/store.js';
import { Uploads } from '../../src/jobs/uploads.js';

const PROGRAM = fileURLToPath(new URL('job-program.mjs', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-jobs-'));
let made = 0;
const newFolder = (): string => path.join(folder, `runs-${made++}`);

const open: JobQueue[] = [];
const reported: unknown[] = [];
function queueOf(runs = newFolder(), options: Partial<JobQueueOptions> = {}): JobQueue {
  const allowed = {
    model: 'base',
    models: new Map([['base', 'tiny']]),
    tasks: new Map(),
    adapters: new Map(),
    runs,
  };
  const report = (error: unknown): void => void reported.push(error);
  const queue = JobQueue.open({
    allowed,
    worker: PROGRAM,
    availableMemory: () => Infinity,
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

const [ANN, BOB] = [
  { name: 'ann', isAdmin: false },
  { name: 'bob', isAdmin: false },
];
const evaluation = (system: string, more = {}): { kind: string; settings: unknown } => ({
  kind: 'eval',
  settings: { system, ...more },
});
const add = async (queue: JobQueue, system: string): Promise<Job> =>
  (await queue.create(ANN, evaluation(system))).job;

/** Events until one of which it is true; all that there will be, where none is. */
async function until(
  queue: JobQueue,
  id: string,
  isIt: (event: JobEvent) => boolean,
  after = 0,
): Promise<JobEvent[]> {
  const events: JobEvent[] = [];
  for await (const event of queue.follow(id, after, new AbortController().signal)) {
    events.push(event);
    if (isIt(event)) break;
  }
  return events;
}
const isState =
  (...states: string[]) =>
  ({ type, data }: JobEvent): boolean =>
    type === 'state' && states.includes((data as { state: string }).state);
const ended = async (queue: JobQueue, id: string): Promise<Job> => {
  await until(queue, id, ({ type, data }) => type === 'state' && hasEndedAs((data as Job).state));
  return queue.get(id)!;
};

test('a job runs its operation, tells what goes on, and has what that returns as its result', async () => {
  process.env.ISOPRO_ADMIN_KEY = 'a-secret-of-the-server';
  const queue = queueOf();
  const job = await add(queue, 'answer');
  delete process.env.ISOPRO_ADMIN_KEY;
  const events = await until(queue, job.id, () => false);
  expect(events.map(({ id, type }) => [id, type])).toEqual([
    [1, 'state'],
    [2, 'state'],
    [3, 'progress'],
    [4, 'notice'],
    [5, 'state'],
  ]);
  expect(
    events.filter(({ type }) => type === 'state').map(({ data }) => (data as Job).state),
  ).toEqual(['queued', 'running', 'succeeded']);
  const done = queue.get(job.id)!;
  expect(done).toMatchObject({
    state: 'succeeded',
    attempts: 1,
    owner: 'ann',
    progress: null,
    error: null,
  });
  expect(done.result).toEqual({
    words: [],
    work: {
      operation: 'eval',
      settings: { model: 'tiny', task: 'scheduling', system: 'answer' },
    },
    secrets: {},
  });
  expect(done.command).toBe(
    'npx isopro-native eval --model=tiny --task=scheduling --system=answer',
  );
  // from any place, and past the last one
  expect(await until(queue, job.id, () => false, 3)).toEqual(events.slice(3));
  expect(await until(queue, job.id, () => false, 99)).toEqual([]);
  expect(queue.events(job.id, 1, 2)).toEqual({ events: events.slice(1, 3), hasMore: true });
});

test.each([
  ['fail', { code: 'CONTEXT_OVERFLOW', message: 'it is too long' }],
  [
    'die',
    {
      code: 'JOB_ENDED',
      message: "the job's process ended on signal SIGKILL with no message",
    },
  ],
  ['silent', { code: 'JOB_ENDED', message: "the job's process ended without a result" }],
])('one that does %s has failed, and the next one runs', async (system, error) => {
  const queue = queueOf();
  const [bad, good] = [await add(queue, system), await add(queue, 'answer')];
  expect(await ended(queue, bad.id)).toMatchObject({ state: 'failed', error, result: null });
  expect((await ended(queue, good.id)).state).toBe('succeeded');
});

test('a training tells its steps and then its result; without a state it begins again', async () => {
  const queue = queueOf();
  const { id: data } = await queue.uploads.add('ann', {
    filename: 'x/../a.jsonl',
    purpose: 'fine-tune',
    bytes: Buffer.from('{}'),
  });
  await expect(queue.create(BOB, { kind: 'train', settings: { data } })).rejects.toMatchObject({
    code: 'file_not_allowed',
  });
  const { job } = await queue.create(ANN, { kind: 'train', settings: { data, rank: 4 } });
  const events = await until(queue, job.id, () => false);
  expect(events.filter(({ type }) => type === 'step').map(({ data }) => data)).toEqual([
    { step: 1, loss: 2 },
    { step: 2, loss: 1 },
  ]);
  const out = path.join(queue.folderOf(job.id), 'adapter.gguf');
  expect(queue.get(job.id)!.result).toEqual({
    operation: 'train',
    settings: {
      model: 'tiny',
      data: path.join(queue.folder, 'files', data, `${data}.jsonl`),
      rank: 4,
      out,
      force: true,
    },
    adapter: out,
  });
});

test('one at a time, in the order in which they were asked for; what waits can be ended, paused and gone on with', async () => {
  const queue = queueOf();
  const first = await add(queue, 'hold');
  await until(queue, first.id, ({ type }) => type === 'progress');
  const [second, third, fourth] = [
    await add(queue, 'hold'),
    await add(queue, 'answer'),
    await add(queue, 'answer'),
  ];
  expect([second, third].map(({ state, waitingFor }) => [state, waitingFor])).toEqual([
    ['queued', 'turn'],
    ['queued', 'turn'],
  ]);
  expect(queue.cancel(second.id)).toMatchObject({ state: 'cancelled', attempts: 0 });
  expect(queue.pause(third.id)!.state).toBe('paused');
  queue.cancel(first.id);
  expect((await ended(queue, fourth.id)).state).toBe('succeeded');
  expect(queue.get(first.id)).toMatchObject({ state: 'cancelled', error: null });
  expect(queue.get(third.id)!.state).toBe('paused');
  expect(queue.resume(third.id)!.state).not.toBe('paused');
  expect(await ended(queue, third.id)).toMatchObject({ state: 'succeeded', attempts: 1 });
  expect(queue.cancel(third.id)!.state).toBe('succeeded');
  expect(() => queue.pause(third.id)).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
  );
  expect(queue.cancel('job-of-nobody')).toBeUndefined();
});

test('a running one is paused and begun again', async () => {
  const queue = queueOf();
  const { id } = await add(queue, 'hold');
  await until(queue, id, ({ type }) => type === 'progress');
  queue.pause(id);
  await until(queue, id, isState('paused'));
  queue.resume(id);
  await until(queue, id, ({ type, id: at }) => type === 'progress' && at > 4);
  expect(queue.get(id)).toMatchObject({ state: 'running', attempts: 2 });
  queue.cancel(id);
  expect((await ended(queue, id)).state).toBe('cancelled');
});

test('a job waits until there is memory for it, and is refused where there never is', async () => {
  let free = 0;
  const queue = queueOf(undefined, {
    againMs: 5,
    availableMemory: () => free,
    totalMemory: () => 2 ** 40,
  });
  const { id } = await add(queue, 'answer');
  await until(queue, id, ({ data }) => (data as Job).waitingFor === 'memory');
  expect(queue.get(id)).toMatchObject({ state: 'queued', waitingFor: 'memory' });
  free = Infinity;
  expect((await ended(queue, id)).state).toBe('succeeded');
  const small = queueOf(undefined, { totalMemory: () => 1000 });
  await expect(small.create(ANN, evaluation('answer'))).rejects.toMatchObject({
    code: 'OUT_OF_MEMORY',
  });
});

test('what running jobs were promised is not promised again', async () => {
  const all = 2 ** 40;
  const one = queueOf(undefined, { totalMemory: () => all });
  const { memoryBytes } = await one.estimate(ANN, 'eval', {});
  let free = 1.5 * memoryBytes;
  const queue = queueOf(undefined, {
    atOnce: 3,
    againMs: 5,
    availableMemory: () => free,
    totalMemory: () => all,
  });
  const [first, second] = [await add(queue, 'hold'), await add(queue, 'hold')];
  await until(queue, first.id, ({ type }) => type === 'progress');
  await until(queue, second.id, ({ data }) => (data as Job).waitingFor === 'memory');
  await sleep(30); // several looks
  expect([queue.get(first.id)!.state, queue.get(second.id)!.state]).toEqual(['running', 'queued']);
  free = 2 * memoryBytes;
  await until(queue, second.id, isState('running'));
  for (const { id } of [first, second]) queue.cancel(id);
});

test('what was cancelled stays so, whatever else it is told while it ends', async () => {
  const queue = queueOf();
  const { id } = await add(queue, 'hold');
  await until(queue, id, ({ type }) => type === 'progress');
  queue.cancel(id);
  queue.pause(id);
  queue.resume(id);
  queue.pause(id);
  expect((await ended(queue, id)).state).toBe('cancelled');
  expect(() => queue.resume(id)).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
  );
});

test.each([
  ['gone', (file: string) => rmSync(file)],
  ['of no bytes', (file: string) => writeFileSync(file, '')],
  ['that of another queue, which held nothing', (file: string) => rmSync(file)],
])('a file that is %s, beside what its jobs have left, is no new queue', async (what, damage) => {
  for (const trace of [
    'a job that had no time to begin',
    'a folder of a job of an earlier version',
    'a file of a caller',
  ]) {
    const runs = newFolder();
    const queue = queueOf(runs);
    const file = path.join(queue.folder, 'jobs.sqlite');
    if (trace.startsWith('a job')) await add(queue, 'answer');
    else if (trace.startsWith('a folder')) await ended(queue, (await add(queue, 'answer')).id);
    else
      await queue.uploads.add('ann', {
        filename: 'rows.jsonl',
        purpose: 'fine-tune',
        bytes: Buffer.from('{}'),
      });
    await queue.close();
    if (trace.startsWith('a folder')) rmSync(path.join(queue.folder, MARK));
    for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true });
    damage(file);
    if (what.startsWith('that of')) new Database(file).exec('VACUUM').close();
    for (let i = 0; i < 2; i++)
      expect(() => queueOf(runs)).toThrow(
        expect.objectContaining({
          code: 'JOBS_UNREADABLE',
          message: expect.stringMatching(/empty or missing/),
        }) as never,
      );
  }
  const fresh = newFolder();
  await queueOf(fresh).close();
  rmSync(path.join(fresh, '.jobs', 'jobs.sqlite'));
  expect(() => queueOf(fresh)).not.toThrow(); // nothing was lost
});

test('a process is admitted once it is written down which one it is, and not before', async () => {
  const order: string[] = [];
  const { change } = JobStore.prototype;
  const { admit } = JobProcess.prototype;
  const [written, admitted] = [
    jest.spyOn(JobStore.prototype, 'change'),
    jest.spyOn(JobProcess.prototype, 'admit'),
  ];
  written.mockImplementation(function (this: JobStore, ...of) {
    if (typeof of[1].pid === 'number') order.push('written');
    return change.apply(this, of);
  });
  admitted.mockImplementation(function (this: JobProcess) {
    order.push('admitted');
    admit.call(this);
  });
  try {
    const queue = queueOf();
    await ended(queue, (await add(queue, 'answer')).id);
    expect(order).toEqual(['written', 'admitted']);
  } finally {
    written.mockRestore();
    admitted.mockRestore();
  }
});

describe('the process of a job', () => {
  const begun = () => {
    const env = { ...process.env, ISOPRO_HOME: path.join(folder, 'home') };
    const child = spawn(process.execPath, [path.resolve('dist/src/jobs/worker.js')], {
      env,
      stdio: ['ignore', 'pipe', 'ignore', 'ipc'],
    });
    const messages: unknown[] = [];
    child.on('message', (message) => messages.push(message));
    // of a process whose channel this side has closed, Node tells no `close`
    const ended = (event: 'close' | 'exit') =>
      once(child, event) as Promise<[number | null, string | null]>;
    return { child, ended, messages };
  };

  test.each([0, 20, 60, 150, 400])(
    'ends where its channel closes %i ms after its start, and has done nothing',
    async (ms) => {
      const { child, ended, messages } = begun();
      if (ms > 0) await sleep(ms);
      const end = ended('exit');
      child.disconnect();
      expect(await end).toEqual([null, 'SIGKILL']);
      expect(messages).toEqual([]);
    },
  );

  test('ends where its channel closes while it works', async () => {
    const { child, ended } = begun();
    const out = path.join(folder, 'orphan');
    child.send({ operation: 'run', settings: { iterations: 1, out } });
    await once(child, 'message');
    const end = ended('exit');
    child.disconnect();
    expect(await end).toEqual([null, 'SIGKILL']);
  });

  test('does nothing before it is given its work, and that then', async () => {
    const { child, ended, messages } = begun();
    await sleep(1000);
    expect([messages, child.exitCode]).toEqual([[], null]);
    const end = ended('close');
    child.send({ operation: 'judge', settings: { run: path.join(folder, 'none') } });
    expect(await end).toEqual([0, null]);
    expect(messages).toEqual([
      { type: 'error', error: expect.objectContaining({ code: 'RUN_NOT_FOUND' }) },
    ]);
  });
});

test('what can be tried beforehand is, where nothing else computes', async () => {
  const queue = queueOf();
  const signal = new AbortController().signal;
  const measured = await queue.measure(ANN, 'run', { seed: '7' }, signal);
  expect(measured).toMatchObject({
    work: { operation: 'run', settings: { seed: '7', dryRun: true } },
  });
  await expect(queue.measure(ANN, 'judge', { run: 'x' }, signal)).rejects.toMatchObject({
    code: 'run_not_allowed',
  });
  await expect(queue.measure(ANN, 'eval', {}, signal)).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
  });
  const { id } = await add(queue, 'hold');
  await until(queue, id, ({ type }) => type === 'progress');
  await expect(queue.measure(ANN, 'run', {}, signal)).rejects.toMatchObject({ code: 'JOBS_BUSY' });
});

test('the same key gives the same job, to its owner, for the same request', async () => {
  const queue = queueOf();
  const asked = { ...evaluation('answer'), idempotencyKey: 'once' };
  const [one, two] = await Promise.all([queue.create(ANN, asked), queue.create(ANN, asked)]);
  expect([one.isNew, two.isNew].sort()).toEqual([false, true]);
  expect(two.job.id).toBe(one.job.id);
  expect((await queue.create(BOB, asked)).isNew).toBe(true);
  await expect(queue.create(ANN, { ...asked, ...evaluation('hold') })).rejects.toMatchObject({
    code: 'CONFLICT',
  });
  expect(queue.list({ owner: 'ann', limit: 10 }).jobs).toHaveLength(1);
});

test('a queue that is closed goes on where it was when it is opened again', async () => {
  const runs = newFolder();
  const before = queueOf(runs);
  const [running, waiting, paused] = [
    await add(before, 'hold'),
    await add(before, 'answer'),
    await add(before, 'answer'),
  ];
  await until(before, running.id, ({ type }) => type === 'progress');
  before.pause(paused.id);
  await before.close();
  const after = queueOf(runs);
  await until(after, running.id, ({ type, id }) => type === 'progress' && id > 4);
  expect([running, waiting, paused].map(({ id }) => after.get(id)!.state)).toEqual([
    'running',
    'queued',
    'paused',
  ]);
  after.cancel(running.id);
  expect((await ended(after, waiting.id)).state).toBe('succeeded');
  expect(after.get(running.id)).toMatchObject({ state: 'cancelled', attempts: 2 });
});

test('one that ran when its queue was killed is begun again', async () => {
  const runs = newFolder();
  const queue = queueOf(runs);
  const { id } = await add(queue, 'answer');
  await ended(queue, id);
  await queue.close();
  // as a killed server leaves it
  const store = JobStore.open(path.join(runs, '.jobs', 'jobs.sqlite'));
  const gone = spawnSync(process.execPath, ['-e', '']).pid;
  store.change(id, { state: 'running', pid: gone, endedAt: null, result: null });
  store.close();
  const again = queueOf(runs);
  await until(again, id, isState('succeeded'), 5);
  expect(again.get(id)).toMatchObject({ state: 'succeeded', attempts: 2 });
});

test('what is cancelled or paused while a killed queue’s job still ends stays so', async () => {
  const runs = newFolder();
  const queue = queueOf(runs, { availableMemory: () => 0 });
  const [ran, waiting, paused, last] = [
    await add(queue, 'answer'),
    await add(queue, 'answer'),
    await add(queue, 'answer'),
    await add(queue, 'answer'),
  ];
  await queue.close();
  const old = spawn('sleep', ['1']);
  const store = JobStore.open(path.join(runs, '.jobs', 'jobs.sqlite'));
  store.change(ran.id, { state: 'running', pid: old.pid! });
  store.close();
  const again = queueOf(runs);
  again.cancel(ran.id);
  again.cancel(waiting.id);
  again.pause(paused.id);
  await ended(again, last.id);
  expect(old.exitCode).toBe(0);
  const states = [ran, waiting, paused]
    .map(({ id }) => again.get(id))
    .map((job) => [job!.state, job!.attempts]);
  expect(states).toEqual([
    ['cancelled', 0],
    ['cancelled', 0],
    ['paused', 0],
  ]);
});

test('a process that a job leaves behind holds nothing up', async () => {
  const queue = queueOf();
  const { id } = await add(queue, 'leaver');
  expect(await ended(queue, id)).toMatchObject({ state: 'succeeded', result: 'left' });
  expect(queue.events(id, 2, 1).events).toMatchObject([{ type: 'progress', data: null }]);
});

test('while nothing can be written a job is what it has become, and is begun once', async () => {
  const told: unknown[] = [];
  const queue = queueOf(newFolder(), { againMs: 50, report: (error) => void told.push(error) });
  const fill = (): void =>
    void jest.spyOn(JobStore.prototype, 'change').mockImplementation(() => {
      throw new Error('the disk is full');
    });
  try {
    const done = await add(queue, 'answer');
    await until(queue, done.id, isState('running'));
    fill();
    while (queue.get(done.id)!.state !== 'succeeded') await sleep(20);
    expect(queue.cancel(done.id)).toMatchObject({ state: 'succeeded', result: { secrets: {} } });
    expect(queue.list({ limit: 1 }).jobs).toMatchObject([{ state: 'succeeded' }]);
    expect(queue.list({ limit: 1, state: 'running' }).jobs).toEqual([]);
    expect(() => queue.pause(done.id)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
    jest.restoreAllMocks();
    const states = await until(queue, done.id, isState('succeeded'));
    expect(states.filter(isState('succeeded', 'cancelled', 'paused'))).toHaveLength(1);

    const first = await add(queue, 'hold');
    const twice = await add(queue, 'hold');
    queue.pause(twice.id);
    fill();
    queue.resume(twice.id);
    queue.resume(twice.id);
    jest.restoreAllMocks();
    queue.cancel(first.id);
    await until(queue, twice.id, isState('running'));
    queue.cancel(twice.id);
    expect(await ended(queue, twice.id)).toMatchObject({ state: 'cancelled', attempts: 1 });
  } finally {
    jest.restoreAllMocks();
  }
  expect(told.map(String)).toEqual(['Error: the disk is full', 'Error: the disk is full']);
});

test('two servers do not share a folder; a damaged file and one of another kind are refused, typed', async () => {
  const runs = newFolder();
  const queue = queueOf(runs);
  const file = path.join(runs, '.jobs', 'jobs.sqlite');
  expect(() => JobStore.open(file, { busyMs: 0 })).toThrow(
    expect.objectContaining({ code: 'JOBS_BUSY' }) as never,
  );
  await add(queue, 'answer');
  await queue.close();
  const whole = readFileSync(file);
  const refused = (bytes: Buffer): void => {
    writeFileSync(file, bytes);
    expect(() => queueOf(runs)).toThrow(
      expect.objectContaining({ code: 'JOBS_UNREADABLE' }) as never,
    );
  };
  refused(Buffer.from('no database, but long enough to be read as one'.repeat(20)));
  refused(Buffer.concat([whole.subarray(0, 100), Buffer.alloc(whole.length - 100, 0xa5)]));
  writeFileSync(file, whole);
  expect(queueOf(runs).list({ limit: 10 }).jobs).toHaveLength(1);
});

(process.platform === 'win32' ? test.skip : test)(
  'on a full disk nothing is acknowledged that is not kept, and reading goes on',
  () => {
    const script = `
    const [queueModule, runs] = process.argv.slice(1);
    const { JobQueue } = await import(queueModule);
    const allowed = { model: 'base', models: new Map([['base', 'tiny']]), tasks: new Map(), adapters: new Map(), runs };
    const queue = JobQueue.open({ allowed, availableMemory: () => 0, report: () => {} });
    let kept = 0;
    let code;
    try {
      const asked = { kind: 'eval', settings: { system: 'x'.repeat(5000) } };
      for (; kept < 1000; kept++) await queue.create({ name: 'ann', isAdmin: false }, asked);
    } catch (error) {
      code = error.code;
    }
    process.stdout.write(JSON.stringify([code, kept, queue.list({ limit: 2000 }).jobs.length]));
    process.exit();`;
    const { stdout, stderr } = spawnSync(
      'sh',
      [
        '-c',
        `trap '' XFSZ; ulimit -f 1000; exec "$0" "$@"`,
        process.execPath,
        '--input-type=module',
        '-e',
        script,
        '--',
        pathToFileURL('dist/src/jobs/queue.js').href,
        newFolder(),
      ],
      { encoding: 'utf8' },
    );
    expect(stderr).toBe('');
    const [code, kept, listed] = JSON.parse(stdout) as [string, number, number];
    expect(code).toBe('WRITE_FAILED');
    expect(kept).toBeGreaterThan(0);
    expect(listed).toBe(kept);
  },
);

test('nothing went wrong beside', () => {
  expect(reported).toEqual([]);
  expect(readdirSync(folder).length).toBe(made);
});

test('files that are sent at once have no more bytes together than an owner may have', async () => {
  const runs = newFolder();
  mkdirSync(runs);
  const store = JobStore.open(path.join(runs, 'jobs.sqlite'));
  try {
    const uploads = new Uploads(path.join(runs, 'files'), store, 100);
    const send = (owner: string, bytes: number): Promise<{ id: string }> =>
      uploads.add(owner, {
        filename: 'rows.jsonl',
        purpose: 'fine-tune',
        bytes: Buffer.alloc(bytes, 32),
      });
    const sent = await Promise.allSettled([
      ...Array.from({ length: 4 }, () => send('ann', 40)),
      send('bob', 100),
    ]);
    expect(sent.map(({ status }) => status)).toEqual([
      'fulfilled',
      'fulfilled',
      'rejected',
      'rejected',
      'fulfilled',
    ]);
    await expect(send('ann', 21)).rejects.toMatchObject({ code: 'WRITE_FAILED' });
    await send('ann', 20);
    expect(uploads.list('ann')).toHaveLength(3);
  } finally {
    store.close();
  }
});
