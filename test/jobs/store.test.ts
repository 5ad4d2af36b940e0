/**
 * What a queue keeps on the disk: jobs, their events, and files of callers, each as it was given.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { JobStore, MARK, type NewJob } from '../../src/jobs/store.js';
import { Uploads } from '../../src/jobs/uploads.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-store-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let place: string;
let file: string;
let store: JobStore;
beforeEach(() => {
  place = mkdtempSync(path.join(folder, 'case-'));
  file = path.join(place, 'jobs.sqlite');
  store = JobStore.open(file);
});
afterEach(() => store.close());

const AT = '2026-01-02T03:04:05.678Z';
const newJob = (id: string, more: Partial<NewJob> = {}): NewJob => ({
  id,
  kind: 'eval',
  name: `name of ${id}`,
  owner: 'ann',
  settings: { of: id },
  command: `command of ${id}`,
  run: `run of ${id}`,
  memoryBytes: 12345,
  isOfAdmin: false,
  idempotencyKey: null,
  asked: 'digest',
  note: null,
  ...more,
});
const add = (id: string, more: Partial<NewJob> = {}): void => void store.add(newJob(id, more), AT);
const reopen = (): void => {
  store.close();
  store = JobStore.open(file);
};

describe('jobs', () => {
  test('each member is kept as it was given, over a restart', () => {
    add('job-1', { note: { for: 'me' }, isOfAdmin: true });
    add('job-2', { name: null, run: null, owner: 'bob', kind: 'run' });
    for (let i = 0; i < 2; i++, reopen()) {
      expect(store.get('job-1')).toEqual({
        id: 'job-1',
        kind: 'eval',
        name: 'name of job-1',
        owner: 'ann',
        settings: { of: 'job-1' },
        state: 'queued',
        waitingFor: 'turn',
        progress: null,
        command: 'command of job-1',
        run: 'run of job-1',
        memoryBytes: 12345,
        attempts: 0,
        createdAt: AT,
        startedAt: null,
        endedAt: null,
        result: null,
        error: null,
      });
      expect(store.get('job-2')).toMatchObject({
        id: 'job-2',
        kind: 'run',
        name: null,
        run: null,
        owner: 'bob',
      });
      expect(store.get('job-3')).toBeUndefined();
      expect(['job-1', 'job-2', 'job-3'].map((id) => store.isOfAdmin(id))).toEqual([
        true,
        false,
        false,
      ]);
      expect(['job-1', 'job-2', 'job-3'].map((id) => store.note(id))).toEqual([
        { for: 'me' },
        null,
        null,
      ]);
      expect(store.events('job-1', 0, 9)).toEqual({
        events: [
          {
            id: 1,
            at: AT,
            type: 'state',
            data: { state: 'queued', waitingFor: 'turn', error: null },
          },
        ],
        hasMore: false,
      });
    }
  });

  test('each change is kept, and only of that job', () => {
    add('job-1');
    add('job-2');
    const before = store.get('job-2');
    const change = {
      state: 'failed',
      waitingFor: 'memory',
      progress: { done: 1 },
      attempts: 3,
      startedAt: 'begun',
      endedAt: 'ended',
      result: [1, 'two'],
      error: { code: 'USAGE', message: 'said' },
    } as const;
    expect(store.change('job-1', { ...change, pid: 77 })).toBeNull(); // no event was asked for
    reopen();
    expect(store.get('job-1')).toMatchObject(change);
    expect(store.get('job-2')).toEqual(before);
    expect(store.events('job-1', 0, 9).events).toHaveLength(1);
    store.change('job-1', { waitingFor: null, progress: undefined, error: null, startedAt: null });
    expect(store.get('job-1')).toMatchObject({
      waitingFor: null,
      progress: null,
      error: null,
      startedAt: null,
      endedAt: 'ended',
    });
    expect(store.change('job-9', { state: 'failed' }, 'state', {})).toBeNull();
    expect(store.events('job-9', 0, 9)).toEqual({ events: [], hasMore: false });
  });

  test('of two changes one that cannot be written leaves nothing of itself', () => {
    add('job-1');
    const circle: Record<string, unknown> = {};
    circle.of = circle;
    expect(() => store.change('job-1', { state: 'running' }, 'progress', circle)).toThrow(
      TypeError,
    );
    expect(store.get('job-1')!.state).toBe('queued');
    expect(() => store.add(newJob('job-2', { note: circle }), AT)).toThrow(TypeError);
    expect(store.get('job-2')).toBeUndefined();
  });

  test('newest first, by owner, kind, state and note, from the one after another on, as many as asked for', () => {
    const made = Array.from({ length: 7 }, (_, i) => ({
      id: `job-${i}`,
      owner: i % 2 === 0 ? 'ann' : 'bob',
      kind: i % 3 === 0 ? 'run' : 'eval',
      note: i > 4 ? 'a note' : null,
    }));
    for (const each of made) add(each.id, each);
    for (const id of ['job-1', 'job-2']) store.change(id, { state: 'running' });
    const newest = made.toReversed();
    const ids = (filter: Omit<Parameters<JobStore['list']>[0], 'limit'>, limit = 100): string[] =>
      store.list({ ...filter, limit }).jobs.map(({ id }) => id);
    const where = (isIt: (each: (typeof made)[number]) => boolean): string[] =>
      newest.filter(isIt).map(({ id }) => id);
    expect(ids({})).toEqual(where(() => true));
    expect(ids({ owner: 'ann' })).toEqual(where(({ owner }) => owner === 'ann'));
    expect(ids({ kind: 'run' })).toEqual(where(({ kind }) => kind === 'run'));
    expect(ids({ state: 'running' })).toEqual(['job-2', 'job-1']);
    expect(ids({ isNoted: true })).toEqual(where(({ note }) => note !== null));
    expect(ids({ isNoted: false })).toEqual(where(({ note }) => note === null));
    expect(
      ids({ owner: 'bob', kind: 'eval', state: 'running', isNoted: false, after: 'job-6' }),
    ).toEqual(['job-1']);
    expect(ids({ after: 'job-3' })).toEqual(['job-2', 'job-1', 'job-0']);
    expect(ids({ after: 'job-99' })).toEqual([]);
    for (const limit of [1, 6, 7, 8]) {
      const { jobs, hasMore } = store.list({ limit });
      expect([jobs.length, hasMore]).toEqual([Math.min(limit, 7), limit < 7]);
    }
  });

  test('what has not ended is told oldest first, with the process that it ran in', () => {
    const states = ['queued', 'running', 'paused', 'succeeded', 'failed', 'cancelled'] as const;
    states.forEach((state, i) => {
      add(`job-${i}`);
      store.change(`job-${i}`, { state, pid: state === 'running' ? 77 : null });
    });
    expect(store.unended().map(({ job, pid }) => [job.id, job.state, pid])).toEqual([
      ['job-0', 'queued', null],
      ['job-1', 'running', 77],
      ['job-2', 'paused', null],
    ]);
    add('file-user', { settings: { data: 'file-ab' } });
    const inUse = states.map((state) => {
      store.change('file-user', { state });
      return store.isInUse('file-ab');
    });
    expect(inUse).toEqual([true, true, true, true, false, false]);
    store.change('file-user', { state: 'queued' });
    expect(store.isInUse('file-cd')).toBe(false);
  });

  test('a key stands for one request of one owner', () => {
    const keyed = { idempotencyKey: 'key', asked: 'one' };
    expect(store.add(newJob('job-1', keyed), AT)).toMatchObject({
      job: { id: 'job-1' },
      isNew: true,
    });
    expect(store.add(newJob('job-2', keyed), AT)).toMatchObject({
      job: { id: 'job-1', state: 'queued' },
      isNew: false,
    });
    expect(store.get('job-2')).toBeUndefined();
    expect(store.add(newJob('job-3', { ...keyed, owner: 'bob' }), AT)).toMatchObject({
      job: { id: 'job-3' },
      isNew: true,
    });
    expect(() => store.add(newJob('job-4', { ...keyed, asked: 'other' }), AT)).toThrow(
      expect.objectContaining({
        code: 'CONFLICT',
        message: 'the key key was already used for a different request',
        remedy: 'Use a new Idempotency-Key for a new request.',
      }) as never,
    );
    // none is no key
    for (const id of ['job-5', 'job-6']) expect(store.add(newJob(id), AT).isNew).toBe(true);
  });
});

describe('events', () => {
  beforeEach(() => {
    for (const id of ['job-0', 'job-1', 'job-2']) add(id);
    for (let i = 2; i <= 6; i++) {
      const type = i % 2 === 0 ? 'notice' : 'progress';
      expect(
        store.change('job-1', type === 'progress' ? { progress: i } : {}, type, { i }, `at ${i}`),
      ).toEqual({ id: i, at: `at ${i}` });
    }
  });
  const ids = ({ events, hasMore }: ReturnType<JobStore['events']>): unknown => [
    events.map(({ id }) => id),
    hasMore,
  ];

  test('each job has its own, from 1 without gaps, in their order, as many as asked for', () => {
    expect(ids(store.events('job-1', 0, 100))).toEqual([[1, 2, 3, 4, 5, 6], false]);
    expect(ids(store.events('job-1', 3, 100))).toEqual([[4, 5, 6], false]);
    expect(ids(store.events('job-1', 0, 6))).toEqual([[1, 2, 3, 4, 5, 6], false]);
    expect(ids(store.events('job-1', 0, 5))).toEqual([[1, 2, 3, 4, 5], true]);
    expect(ids(store.events('job-2', 0, 5))).toEqual([[1], false]);
    expect(store.events('job-1', 4, 1).events).toEqual([
      { id: 5, at: 'at 5', type: 'progress', data: { i: 5 } },
    ]);
    expect(store.get('job-1')!.progress).toBe(5);
    store.change('job-1', {}, 'notice');
    expect(store.events('job-1', 6, 1).events).toMatchObject([{ id: 7, data: null }]);
  });

  test('the newest of some types come first, before one that is named', () => {
    expect(ids(store.latest('job-1', ['notice'], 100, 10))).toEqual([[6, 4, 2], false]);
    expect(ids(store.latest('job-1', ['notice', 'state'], 6, 10))).toEqual([[4, 2, 1], false]);
    expect(ids(store.latest('job-1', ['notice', 'progress'], 7, 2))).toEqual([[6, 5], true]);
    expect(ids(store.latest('job-1', ['notice', 'progress'], 7, 5))).toEqual([
      [6, 5, 4, 3, 2],
      false,
    ]);
    expect(ids(store.latest('job-1', [], 7, 2))).toEqual([[], false]);
    expect(ids(store.latest('job-2', ['state'], 9, 2))).toEqual([[1], false]);
  });
});

describe('its file', () => {
  const refused = (work: () => unknown, code: string, message: string, more = {}): void => {
    expect(work).toThrow(
      expect.objectContaining({
        code,
        message: expect.stringContaining(message),
        ...more,
      }) as never,
    );
  };

  test('what is written survives a power cut: the log is written ahead and synchronised', () => {
    expect(existsSync(`${file}-wal`)).toBe(true);
    expect(existsSync(`${file}-shm`)).toBe(false); // held by this process alone
    refused(
      () => JobStore.open(file, { busyMs: 0 }),
      'JOBS_BUSY',
      `${file} is in use by another process`,
    );
  });

  test('a mark lies beside it from its first job or upload on, readable by its owner alone', () => {
    const mark = path.join(place, MARK);
    expect(existsSync(mark)).toBe(false);
    add('job-1');
    expect(existsSync(mark)).toBe(true);
    if (process.platform !== 'win32') expect(statSync(mark).mode & 0o777).toBe(0o600);
    rmSync(mark);
    add('job-2'); // it was written once
    expect(existsSync(mark)).toBe(false);
    reopen();
    store.addUpload({
      id: 'file-1',
      owner: 'a',
      filename: 'f',
      purpose: 'p',
      bytes: 1,
      createdAt: AT,
      file: 'file-1.txt',
    });
    expect(existsSync(mark)).toBe(true);
    reopen();
    rmSync(mark);
    mkdirSync(mark);
    refused(() => add('job-3'), 'WRITE_FAILED', mark);
    expect(store.get('job-3')).toBeUndefined();
  });

  test('nothing is acknowledged once it was removed or replaced, until it is there again', () => {
    const away = path.join(place, 'away');
    const said = {
      code: 'WRITE_FAILED',
      message: `${file} was removed or replaced while it was in use`,
      remedy: 'Move the folder back, or restart the server.',
    };
    renameSync(file, away);
    const upload = {
      id: 'file-1',
      owner: 'a',
      filename: 'f',
      purpose: 'p',
      bytes: 1,
      createdAt: AT,
      file: 'file-1.txt',
    };
    for (const other of [false, true]) {
      if (other) writeFileSync(file, '');
      expect(() => add('job-1')).toThrow(expect.objectContaining(said) as never);
      expect(() => store.addUpload(upload)).toThrow(expect.objectContaining(said) as never);
    }
    renameSync(away, file);
    add('job-1');
    store.addUpload(upload);
    expect([store.list({ limit: 5 }).jobs.length, store.uploads('a').length]).toEqual([1, 1]);
  });

  test('one that holds what is no job is refused, and says where', () => {
    add('job-1');
    const change = (sql: string): void => {
      store.close();
      new Database(file).exec(sql).close();
    };
    change("UPDATE job SET settings = '{'");
    refused(
      () => JobStore.open(file),
      'JOBS_UNREADABLE',
      `${file} contains a record that is not a job: ✖ not JSON`,
    );
    change("UPDATE job SET settings = '{}', state = 'asleep'");
    store = JobStore.open(file); // it is none that goes on
    refused(() => store.get('job-1'), 'JOBS_UNREADABLE', 'at state');
    change(
      "UPDATE job SET state = 'queued'; INSERT INTO upload VALUES (1, 'file-1', 'a', 'f', 'p', 1, 'now', '../x')",
    );
    store = JobStore.open(file);
    refused(() => store.upload('file-1'), 'JOBS_UNREADABLE', 'at file');
  });

  test('one of another version is refused', () => {
    store.close();
    new Database(file).exec('PRAGMA user_version = 2').close();
    refused(() => JobStore.open(file), 'JOBS_UNREADABLE', `${file} has version 2, expected 1`);
    new Database(file).exec('PRAGMA user_version = 1').close();
    store = JobStore.open(file);
  });

  test('an empty one beside traces of jobs is refused; one that holds them is not', () => {
    add('job-1');
    store.close();
    JobStore.open(file, { traces: MARK }).close();
    const remedy =
      'Restore the file from a copy. To start without those jobs and files, move the whole folder away.';
    for (const content of ['gone', 'of no bytes', 'of no tables']) {
      for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true });
      if (content === 'of no bytes') writeFileSync(file, '');
      if (content === 'of no tables') new Database(file).exec('VACUUM').close();
      const message = `${file} is empty or missing, but traces.of next to it shows that there were jobs`;
      refused(() => JobStore.open(file, { traces: 'traces.of' }), 'JOBS_UNREADABLE', message, {
        remedy,
      });
    }
    store = JobStore.open(file); // there were none
  });
});

describe('uploads', () => {
  const bytes = (n: number): Uint8Array => Buffer.alloc(n, 97);
  const send = { filename: 'rows.jsonl', purpose: 'fine-tune' };

  test('a file is kept under an id of its own, with the ending of its kind, and is its owner’s alone', async () => {
    const uploads = new Uploads(path.join(place, 'files'), store);
    const names = ['a.JSONL', 'b.ndjson', '../c.csv', 'd.json', 'e.py', 'f', 'g.jsonl.exe'];
    const made = [];
    for (const [i, filename] of names.entries())
      made.push(
        await uploads.add('ann', { filename, purpose: i === 0 ? 'p' : 'q', bytes: bytes(i + 1) }),
      );
    expect(made.map(({ id, file: at }) => at.replaceAll(id, 'ID'))).toEqual(
      ['.jsonl', '.ndjson', '.csv', '.json', '.txt', '.txt', '.txt'].map(
        (ending) => `ID/ID${ending}`,
      ),
    );
    expect(new Set(made.map(({ id }) => id)).size).toBe(7);
    for (const { id } of made) expect(id).toMatch(/^file-[0-9a-f]{24}$/);
    const [first, second] = [made[0]!, made[1]!];
    expect(first).toMatchObject({ owner: 'ann', filename: 'a.JSONL', purpose: 'p', bytes: 1 });
    expect(uploads.list('ann')).toEqual(made.toReversed());
    expect(uploads.list('bob')).toEqual([]);
    expect(uploads.ofPurpose('p')).toEqual([first]);
    expect(store.uploadedBytes('ann')).toBe(28);
    expect(store.uploadedBytes('bob')).toBe(0);
    const at = path.join(place, 'files', first.id, `${first.id}.jsonl`);
    expect(uploads.pathOf('ann', first.id)).toBe(at);
    expect(readFileSync(at, 'utf8')).toBe('a');
    if (process.platform !== 'win32') expect(statSync(path.dirname(at)).mode & 0o777).toBe(0o700);
    for (const [owner, id] of [
      ['bob', first.id],
      ['ann', 'file-00'],
    ] as const) {
      expect([
        uploads.get(owner, id),
        uploads.pathOf(owner, id),
        uploads.remove(owner, id),
      ]).toEqual([undefined, null, false]);
    }
    // another size is another file
    writeFileSync(at, 'aa');
    expect([uploads.get('ann', first.id), uploads.list('ann').length]).toEqual([undefined, 6]);
    expect(uploads.remove('ann', first.id)).toBe(true);
    expect([
      existsSync(path.dirname(at)),
      store.upload(first.id),
      uploads.remove('ann', first.id),
    ]).toEqual([false, undefined, false]);
    expect(uploads.get('ann', second.id)).toEqual(second);
  });

  test('of an earlier version, which had no folder of its own: it is read and removed alone', () => {
    const uploads = new Uploads(path.join(place, 'files'), store);
    mkdirSync(path.join(place, 'files'));
    for (const id of ['file-1', 'file-2']) {
      writeFileSync(path.join(place, 'files', `${id}.txt`), 'x');
      store.addUpload({ id, owner: 'ann', ...send, bytes: 1, createdAt: AT, file: `${id}.txt` });
    }
    expect(uploads.pathOf('ann', 'file-1')).toBe(path.join(place, 'files', 'file-1.txt'));
    expect(uploads.remove('ann', 'file-1')).toBe(true);
    expect(existsSync(path.join(place, 'files', 'file-1.txt'))).toBe(false);
    expect(uploads.list('ann').map(({ id }) => id)).toEqual(['file-2']);
  });

  test('an owner has as many bytes as are allowed and not one more, counting what is being written', async () => {
    const uploads = new Uploads(path.join(place, 'files'), store, 100);
    const add = (n: number, owner = 'ann'): Promise<unknown> =>
      uploads.add(owner, { ...send, bytes: bytes(n) });
    const tooMuch = {
      code: 'WRITE_FAILED',
      message: 'the files of ann would exceed 100 bytes',
      remedy: 'Delete files that you no longer need.',
    };
    await expect(add(101)).rejects.toMatchObject(tooMuch);
    await add(60);
    await expect(add(41)).rejects.toMatchObject(tooMuch);
    await add(100, 'bob');
    const room: number[] = [];
    const derived = uploads.derive('ann', send, 30, async (at, most) => {
      room.push(most);
      await expect(add(11)).rejects.toMatchObject(tooMuch); // 60, and 30 that are coming
      await uploads.derive('ann', send, 30, async (inner, left) => {
        room.push(left);
        writeFileSync(inner, bytes(4));
      });
      writeFileSync(at, bytes(7));
    });
    expect(await derived).toMatchObject({ bytes: 7, owner: 'ann', ...send });
    expect(room).toEqual([30, 10]);
    expect(store.uploadedBytes('ann')).toBe(71);
    await expect(
      uploads.derive('ann', send, 9, () => Promise.reject(new Error('broken'))),
    ).rejects.toThrow('broken');
    await expect(add(30)).rejects.toMatchObject(tooMuch);
    await add(29); // what broke counts no more, and of what came only what came
    expect(uploads.list('ann')).toHaveLength(4);
  });

  test('by default a gibibyte', async () => {
    const uploads = new Uploads(path.join(place, 'files'), store);
    const room: number[] = [];
    for (const most of [2 ** 31, 5])
      await uploads.derive('ann', send, most, async (at, left) => {
        room.push(left);
        writeFileSync(at, 'x');
      });
    expect(room).toEqual([2 ** 30, 5]);
  });

  test('what could not be written or written down leaves nothing', async () => {
    const uploads = new Uploads(path.join(place, 'files'), store);
    let left = '';
    await expect(
      uploads.derive('ann', send, 10, async (at) => {
        left = path.dirname(at);
        writeFileSync(at, 'x');
        renameSync(file, path.join(place, 'away'));
      }),
    ).rejects.toMatchObject({ code: 'WRITE_FAILED' });
    expect(existsSync(left)).toBe(false);
    renameSync(path.join(place, 'away'), file);
    expect(uploads.list('ann')).toEqual([]);
  });
});
