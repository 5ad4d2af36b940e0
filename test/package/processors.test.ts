/** What is true on this processor is true with the other CPU back ends of ggml; every-processor.test.ts has the rest of them. */
import { expect } from '@jest/globals';
import { onProcessors, x64 } from './on-processors.js';

x64(
  'the selftest holds with the back ends for SSE2 and for AVX2',
  () => {
    const stdout = onProcessors('--processors', 'x64,haswell');
    expect(stdout).toMatch(/== x64\n {2}\d+ by default \(physical cores\); CPU back end for LLAMAFILE, REPACK\n {2}ok parity llama/);
    expect(stdout).toMatch(/\nall passed\n$/);
  },
  300_000,
);
