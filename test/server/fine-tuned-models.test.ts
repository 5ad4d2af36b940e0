/**
 * What becomes of a fine-tuning job when it has ended: a model with a name, or why there is none.
 */
import { expect, test } from '@jest/globals';
import { IsoproError } from '../../src/errors.js';
import type { Job } from '../../src/jobs/job.js';
import { FineTunedModels } from '../../src/server/fine-tuning/fine-tuned-models.js';

const note = (suffix: string | null) => ({
  fineTuning: {
    model: 'base',
    training_file: 'file-1',
    validation_file: null,
    method: {},
    hyperparameters: {},
    seed: 1,
    suffix,
    metadata: null,
  },
});

interface Ended {
  readonly job: Pick<Job, 'id' | 'owner' | 'state' | 'result'>;
  readonly note: unknown;
  readonly file: string | null;
}
type Other = Partial<Omit<Ended, 'job'>> & { readonly job?: Partial<Ended['job']> };
const ended = (id: string, { job, ...more }: Other = {}): Ended => ({
  job: { id, owner: 'ann', state: 'succeeded', result: {}, ...job },
  note: note(null),
  file: `${id}.gguf`,
  ...more,
});

/** A queue of jobs that have ended, page by page, and models that take what is added. */
function setting(all: readonly Ended[], add = async (_name: string, _file: string) => {}) {
  const served: [name: string, file: string][] = [];
  const reported: unknown[] = [];
  const asked: unknown[] = [];
  const of = (id: string): Ended | undefined => all.find(({ job }) => job.id === id);
  const queue = {
    get: (id: string) => of(id)?.job,
    note: (id: string) => of(id)?.note,
    adapterOf: ({ id }: Job) => of(id)!.file,
    list({ after, limit, ...query }: { after?: string; limit: number }) {
      asked.push(query);
      const from = after === undefined ? 0 : all.findIndex(({ job }) => job.id === after) + 1;
      const jobs = all.slice(from, from + limit).map(({ job }) => job);
      return { jobs, hasMore: from + limit < all.length };
    },
  };
  const models = {
    base: 'base',
    async add(name: string, file: string) {
      await add(name, file);
      served.push([name, file]);
    },
  };
  const fineTuned = new FineTunedModels(models as never, queue as never, (error) =>
    reported.push(error),
  );
  return {
    fineTuned,
    served,
    reported,
    asked,
    outcome: (id: string) => fineTuned.outcomeOf({ id } as Job),
  };
}

test('a model is named as OpenAI names one: base, owner, suffix and eight letters of the id', () => {
  const { fineTuned } = setting([
    ended('job-0123456789ab', { note: note('mine'), job: { owner: 'a b/ü:c_.-1' } }),
    ended('job-abcdefghij'),
  ]);
  const nameOf = (id: string, owner: string) => fineTuned.nameOf({ id, owner } as Job);
  expect(nameOf('job-0123456789ab', 'a b/ü:c_.-1')).toBe('ft:base:a-b---c_.-1:mine:01234567');
  expect(nameOf('job-abcdefghij', 'ann')).toBe('ft:base:ann::abcdefgh');
});

test.each([0, 1, 99, 100, 101, 250])(
  'of %i jobs that had ended all are served, once, in order',
  async (count) => {
    const ids = Array.from({ length: count }, (_, i) => `job-${String(i).padStart(8, '0')}`);
    const { fineTuned, served, asked } = setting(ids.map((id) => ended(id)));
    await fineTuned.serveAll();
    expect(served.map(([, file]) => file)).toEqual(ids.map((id) => `${id}.gguf`));
    expect(asked).toHaveLength(Math.max(1, Math.ceil(count / 100)));
    expect(asked[0]).toEqual({ isNoted: true, state: 'succeeded' });
    await fineTuned.serveAll();
    expect(served).toHaveLength(count);
  },
);

test('one that is asked for while it is loaded, or again, is loaded once', async () => {
  let loaded = (): void => {};
  const { fineTuned, served, outcome } = setting(
    [ended('job-a')],
    () => new Promise((resolve) => (loaded = resolve)),
  );
  const both = [fineTuned.serve('job-a'), fineTuned.serve('job-a')];
  expect(outcome('job-a')).toBeNull();
  loaded();
  await Promise.all(both);
  await fineTuned.serve('job-a');
  expect([served.length, outcome('job-a')]).toEqual([1, 'served']);
});

test('jobs that are none of these are left alone', async () => {
  const { fineTuned, served, reported, outcome } = setting([
    ended('job-failed', { job: { state: 'failed' } }),
    ended('job-plain', { note: null }),
    ended('job-strange', { note: { fineTuning: { model: 'base' } } }),
  ]);
  for (const id of ['job-failed', 'job-plain', 'job-strange', 'job-absent']) {
    await fineTuned.serve(id);
    expect(outcome(id)).toBeNull();
  }
  expect([served, reported]).toEqual([[], []]);
});

test('one that cannot be served says why, is reported, and is not tried again', async () => {
  const mismatch = new IsoproError('ADAPTER_MISMATCH', 'of another model');
  const { fineTuned, served, reported, outcome } = setting(
    [ended('job-gone', { file: null }), ended('job-other'), ended('job-broken')],
    async (_, file) => {
      throw file === 'job-other.gguf' ? mismatch : new Error('broken');
    },
  );
  await fineTuned.serveAll();
  expect(outcome('job-gone')).toMatchObject({
    code: 'FILE_UNREADABLE',
    message: 'the adapter of job-gone no longer exists',
  });
  expect(outcome('job-other')).toBe(mismatch);
  expect(outcome('job-broken')).toMatchObject({ code: 'ADAPTER_CORRUPT', message: 'broken' });
  expect([served.length, reported.length]).toEqual([0, 3]);
  await fineTuned.serveAll();
  expect(reported).toHaveLength(3);
});

test('a run that trained on nothing is no model, and says what most replies failed of', async () => {
  const failures = {
    replies: 12,
    passed: 0,
    rows: [
      { kind: 'wrong', why: 'not the sum', count: 5, example: null },
      { kind: 'format', why: '', count: 4, example: null },
      { kind: 'format', why: 'format', count: 3, example: null },
    ],
  };
  const untrained = 'nothing was trained, because no correct reply could be trained on';
  const results: [string, object | null, string | null][] = [
    ['job-trained', { accepted: 1, failures: { rollouts: failures } }, null],
    ['job-no-count', { failures: { rollouts: failures } }, null],
    ['job-no-result', null, null],
    ['job-untold', { accepted: 0 }, untrained],
    [
      'job-all-passed',
      { accepted: 0, failures: { rollouts: { ...failures, rows: [] } } },
      untrained,
    ],
    [
      'job-told',
      { accepted: 0, failures: { rollouts: failures } },
      `${untrained}; most replies (7 of 12): format, no answer could be read`,
    ],
  ];
  const { fineTuned, served, reported, outcome } = setting(
    results.map(([id, result]) => ended(id, { job: { result } })),
  );
  await fineTuned.serveAll();
  for (const [id, , message] of results)
    if (message === null) expect(outcome(id)).toBe('served');
    else expect(outcome(id)).toMatchObject({ code: 'NOTHING_TRAINED', message });
  expect([served.length, reported]).toEqual([3, []]);
});
