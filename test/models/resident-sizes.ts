/** Memory of a program that does the same thing again and again, in a process of its own. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const PACKAGE = JSON.stringify(new URL('../../src/index.js', import.meta.url).href);

/**
 * One arena whose freed blocks go back at once. Otherwise the C library keeps a block of some
 * megabytes in this thread's arena or in that one, now and then, and what is resident goes up and
 * down by 7 MB without a leak. Other libraries ignore these names.
 */
const PROMPT_FREE = {
  MALLOC_ARENA_MAX: '1',
  MALLOC_TRIM_THRESHOLD_: '131072',
  MALLOC_MMAP_THRESHOLD_: '131072',
};

/**
 * @param setup statements before the first cycle; `isopro` is the package
 * @param cycle statements that are run `cycles` times
 * @returns resident bytes after each cycle, garbage collected, without what V8 keeps of its heap
 *     beside the objects that live: up to 20 MB that it gives back when it pleases
 */
export async function residentSizes(
  setup: string,
  cycle: string,
  cycles: number,
): Promise<number[]> {
  const script = `
    const isopro = await import(${PACKAGE});
    const { getHeapStatistics } = await import('node:v8');
    ${setup}
    const sizes = [];
    for (let i = 0; i < ${cycles}; i++) {
      ${cycle}
      global.gc();
      const heap = getHeapStatistics();
      sizes.push(process.memoryUsage.rss() - heap.total_physical_size + heap.used_heap_size);
    }
    console.log(JSON.stringify(sizes));`;
  const flags = ['--expose-gc', '--input-type=module', '-e', script];
  const { stdout } = await promisify(execFile)(process.execPath, flags, {
    env: { ...process.env, ...PROMPT_FREE },
  });
  return JSON.parse(stdout) as number[];
}

export const meanSize = (sizes: readonly number[], from: number, to: number): number =>
  sizes.slice(from, to).reduce((sum, size) => sum + size, 0) / (to - from);
