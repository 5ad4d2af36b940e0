/** Builds and runs the C++ tests, so that `npm test` is all of them. */
import { expect, test } from '@jest/globals';
import { spawnSync } from 'node:child_process';
import path from 'node:path';

test(
  'the native tests',
  () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [path.resolve('scripts/test-native.mjs')], {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    });
    if (status !== 0) console.error(stdout.slice(-8000), stderr.slice(-8000));
    expect(status).toBe(0);
    expect(stdout).toMatch(/\n\d+ tests, 0 failed checks\n/);
  },
  process.env.ISOPRO_FULL === '1' ? 2_700_000 : 900_000,
);
