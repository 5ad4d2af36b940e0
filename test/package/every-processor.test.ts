/**
 * What is true on this processor is true with every CPU back end of ggml that runs here, and under
 * an emulator.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { expect, test } from '@jest/globals';

/** An hour: by `npm run test:full` alone. */
const x64: typeof test.skip =
  process.platform === 'linux' && process.arch === 'x64' && process.env.ISOPRO_FULL === '1'
    ? test
    : test.skip;

/**
 * scripts/test-processors.mjs, which runs what it is told with other CPU back ends of ggml, or
 * under an emulator.
 */
function onProcessors(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [path.resolve('scripts/test-processors.mjs'), ...args],
    {
      encoding: 'utf8',
      maxBuffer: 1 << 26,
    },
  );
  if (status !== 0) console.error(stdout.slice(-8000), stderr.slice(-8000));
  expect(status).toBe(0);
  return stdout;
}

x64(
  'the selftest holds with every back end that runs here',
  () => {
    const stdout = onProcessors();
    expect(stdout).toMatch(
      /== x64\n {2}\d+ by default \(physical cores\); CPU back end for LLAMAFILE, REPACK\n {2}ok parity llama/,
    );
    expect(stdout).toMatch(/\nall passed\n$/);
  },
  3_600_000,
);

x64(
  'the selftest holds on processors that have less than any of today',
  () => {
    onProcessors('--emulate', 'Nehalem,IvyBridge,Haswell');
  },
  3_600_000,
);

x64(
  'our own kernels have one result with every back end and on every processor that runs them',
  () => {
    const stdout = onProcessors('--bits');
    for (const name of ['x64', 'haswell', 'skylakex'])
      expect(stdout).toMatch(new RegExp(`== ${name}\n(  ok .*\n)+`));
    onProcessors('--bits', '--emulate', 'Haswell');
  },
  3_600_000,
);

x64(
  'parity, sampling and training hold in every arithmetic',
  () => {
    onProcessors(
      '--processors',
      'x64,ivybridge,haswell,skylakex,zen4',
      'test/engine/parity',
      'test/engine/generate\\.test',
      // of training what computes: kills, full disks and disturbed arrays are no question of the
      // arithmetic
      'test/training/(trainer|adapter-files|model-export|fine-tuning|limits)\\.test',
      'test/package/coexistence',
    );
  },
  7_200_000,
);
