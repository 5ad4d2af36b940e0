/**
 * Files that are made for a job go when nothing needs them, and not before. A small program stands
 * for the command line.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, expect, test } from '@jest/globals';
import { hasEndedAs } from '../../src/jobs/job.js';
import { JobQueue } from '../../src/jobs/queue.js';
import { DerivedFiles, removeUnusedFiles } from '../../src/server/fine-tuning/derived-files.js';

const PROGRAM = fileURLToPath(new URL('../jobs/job-program.mjs', import.meta.url));
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-derived-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const ANN = { name: 'ann', isAdmin: false };

test.each([
  ['fails', 'names the file', false],
  ['is cancelled', 'names the file', true],
  ['is cancelled', 'names none', true],
])(
  'a job that %s and %s takes no file from a request that is under way',
  async (_, names, isCancelled) => {
    const runs = mkdtempSync(path.join(folder, 'runs-'));
    const queue: JobQueue = JobQueue.open({
      ...{
        allowed: {
          model: 'base',
          models: new Map([['base', 'tiny']]),
          tasks: new Map(),
          adapters: new Map(),
          runs,
        },
        worker: PROGRAM,
      },
      ...{ availableMemory: () => Infinity, report: (error) => expect(error).toBeUndefined() },
      onEnded: (id) => removeUnusedFiles(queue, id),
    });
    const ids = (): string[] => queue.uploads.ofPurpose('derived').map(({ id }) => id);
    try {
      const underWay = new DerivedFiles(queue, ANN);
      const kept = await underWay.json('schema.json', { type: 'object' });
      const taken = await new DerivedFiles(queue, ANN).json('grader.json', {});
      if (isCancelled) await queue.create(ANN, { kind: 'eval', settings: { system: 'hold' } });
      // the program knows neither, and fails
      const system = names === 'names none' ? 'of no file' : taken;
      const { job } = await queue.create(ANN, { kind: 'eval', settings: { system } });
      expect(ids().sort()).toEqual([kept, taken].sort());
      if (isCancelled) queue.cancel(job.id);
      for await (const { type, data } of queue.follow(job.id, 0, new AbortController().signal))
        if (type === 'state' && hasEndedAs((data as typeof job).state)) break;
      expect(queue.get(job.id)!.state).toBe(isCancelled ? 'cancelled' : 'failed');
      await new Promise(setImmediate);
      expect(ids().sort()).toEqual((names === 'names none' ? [kept, taken] : [kept]).sort());
      underWay[Symbol.dispose](); // no job took it
      expect(ids()).toEqual(names === 'names none' ? [taken] : []);
      removeUnusedFiles(queue);
      expect(ids()).toEqual([]);
    } finally {
      await queue.close();
    }
  },
);
