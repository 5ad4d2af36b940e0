/**
 * A worker thread may be ended at any moment, in the middle of any call: the process and its other
 * threads go on.
 */
import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { full, syntheticModel } from './fixtures.js';

const file = syntheticModel({ architecture: 'llama', type: 'Q8_0', seed: 21n });
const rounds = full ? 200 : 5;

test.each([
  'step',
  'stepWithBoundary',
  'load',
  'loadScoreDispose',
  'applyTo',
  'generate',
  'reply',
  'hidden',
  'export',
  'inspect',
])(
  `worker.terminate() in the middle of %s, ${rounds} times`,
  async (call) => {
    const { stdout } = await promisify(execFile)(process.execPath, [
      path.resolve('test/engine/terminated-workers.mjs'),
      call,
      String(rounds),
      file,
    ]);
    expect(stdout.trim()).toBe(String(rounds));
  },
  600_000,
);
