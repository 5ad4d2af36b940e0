/** What is true on this processor is true on others: with the other CPU back ends of ggml, and (test:full) under an emulator. */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from '@jest/globals';

const FULL = process.env.ISOPRO_FULL === '1';
const x64 = process.platform === 'linux' && process.arch === 'x64' ? test : test.skip;

function onProcessors(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [path.resolve('scripts/test-processors.mjs'), ...args], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  if (status !== 0) console.error(stdout.slice(-8000), stderr.slice(-8000));
  expect(status).toBe(0);
  return stdout;
}

x64(
  'the selftest holds with the back ends for SSE2 and for AVX2',
  () => {
    const stdout = onProcessors('--processors', 'x64,haswell');
    expect(stdout).toMatch(/== x64\n {2}\d+ by default \(physical cores\); CPU back end for LLAMAFILE, REPACK\n {2}ok parity llama/);
    expect(stdout).toMatch(/\nall passed\n$/);
  },
  300_000,
);

(FULL ? x64 : test.skip)('the selftest holds with every back end that runs here', () => void onProcessors(), 3_600_000);

(FULL ? x64 : test.skip)(
  'the selftest holds on processors that have less than any of today',
  () => {
    onProcessors('--emulate', 'Nehalem,IvyBridge,Haswell');
  },
  3_600_000,
);

(FULL ? x64 : test.skip)(
  'parity, sampling and training hold in every arithmetic',
  () => {
    onProcessors(
      '--processors',
      'x64,ivybridge,haswell,skylakex,zen4',
      'test/engine/parity',
      'test/engine/generate',
      'test/training',
      'test/package/coexistence',
    );
  },
  7_200_000,
);
