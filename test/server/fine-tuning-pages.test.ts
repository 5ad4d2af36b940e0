/**
 * Lists as OpenAI's clients page through them: each member once, in its order, and the end is told.
 */
import { expect, test } from '@jest/globals';
import { pageOf, pageQuery } from '../../src/server/fine-tuning/pages.js';
import { eventNumber, fineTuningId, jobIdOf } from '../../src/server/fine-tuning/shapes.js';
import { figuresOf, resultsId } from '../../src/server/fine-tuning/results.js';

const all = Array.from({ length: 7 }, (_, i) => ({ id: `id-${i}` }));

test.each([1, 2, 3, 6, 7, 8])('pages of %i', (limit) => {
  const seen: string[] = [];
  let pages = 0;
  for (let after: string | undefined, hasMore = true; hasMore; pages++) {
    const {
      object,
      data,
      first_id: first,
      last_id: last,
      has_more: more,
    } = pageOf(all, { after, limit });
    expect([object, first, last]).toEqual(['list', data[0]!.id, data.at(-1)!.id]);
    expect(data.length).toBeLessThanOrEqual(limit);
    seen.push(...data.map(({ id }) => id));
    [after, hasMore] = [last!, more];
  }
  expect(seen).toEqual(all.map(({ id }) => id));
  expect(pages).toBe(Math.ceil(7 / limit));
});

test('behind the last there is nothing, and behind one that is not there everything', () => {
  const nothing = { object: 'list', data: [], first_id: null, last_id: null, has_more: false };
  expect(pageOf(all, { after: 'id-6', limit: 3 })).toEqual(nothing);
  expect(pageOf([], { limit: 3 })).toEqual(nothing);
  expect(pageOf(all, { after: 'id-of-nobody', limit: 1 }).first_id).toBe('id-0');
});

test('a page has 20 where nobody says, and at most 100', () => {
  expect(pageQuery.parse({})).toEqual({ limit: 20 });
  expect(
    [1, '100', 0, 101, 'x', 1.5].map((limit) => pageQuery.safeParse({ limit }).data?.limit),
  ).toEqual([1, 100, undefined, undefined, undefined, undefined]);
});

test('ids of a job and of what is its own lead back to it', () => {
  const job = { id: 'job-0123456789abcdef01234567' };
  expect([fineTuningId(job), resultsId(job)]).toEqual([
    'ftjob-0123456789abcdef01234567',
    'file-results-0123456789abcdef01234567',
  ]);
  expect(jobIdOf(fineTuningId(job))).toBe(job.id);
  expect(
    [
      'ftevent-0123456789abcdef01234567-17',
      'ftevent-0-0',
      'ftevent-xyz-1',
      'event-0-1',
      'ftevent-0-1x',
    ].map(eventNumber),
  ).toEqual([17, 0, undefined, undefined, undefined]);
});

test.each<[string, unknown, object | undefined]>([
  [
    'step',
    { step: 3, loss: 0.5, validationLoss: 0.25 },
    { step: 3, train_loss: 0.5, valid_loss: 0.25 },
  ],
  ['step', { step: 0, loss: null }, { step: 0 }],
  [
    'iteration',
    { iteration: 2, loss: 1, hitRate: 0.5, dev: { mean: 0.75 } },
    { step: 2, train_loss: 1, train_mean_reward: 0.5, valid_mean_reward: 0.75 },
  ],
  ['iteration', { iteration: 2, dev: null }, { step: 2 }],
  ['iteration', { hitRate: 1 }, undefined],
  ['step', null, undefined],
  ['step', 'x', undefined],
  ['notice', { step: 1, loss: 1 }, undefined],
  ['state', { step: 1, loss: 1 }, undefined],
])('figures of an event %s of %j', (type, data, figures) => {
  expect(figuresOf(type, data)).toEqual(figures);
});
