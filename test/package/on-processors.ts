/** scripts/test-processors.mjs, which runs what it is told with other CPU back ends of ggml, or under an emulator. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from '@jest/globals';

export const x64: typeof test.skip = process.platform === 'linux' && process.arch === 'x64' ? test : test.skip;

export function onProcessors(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.resolve('scripts/test-processors.mjs'), ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0) console.error(stdout.slice(-8000), stderr.slice(-8000));
  expect(status).toBe(0);
  return stdout;
}
