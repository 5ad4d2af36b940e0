/** Every source file is as the formatters write it. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

const inGit = existsSync('.git');
if (!inGit) console.warn('skipping the format: it is checked in a git checkout');

(inGit ? test : test.skip)(
  'npm run format changes nothing',
  () => {
    const { status, stderr } = spawnSync(process.execPath, [path.resolve('scripts/format.mjs'), '--check'], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
  },
  60_000,
);
