/** Memory of a program that does the same thing again and again, in a process of its own. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const PACKAGE = JSON.stringify(new URL('../../src/index.js', import.meta.url).href);

/**
 * @param setup statements before the first cycle; `isopro` is the package
 * @param cycle statements that are run `cycles` times
 * @returns resident bytes after each cycle, garbage collected
 */
export async function residentSizes(setup: string, cycle: string, cycles: number): Promise<number[]> {
  const script = `
    const isopro = await import(${PACKAGE});
    ${setup}
    const sizes = [];
    for (let i = 0; i < ${cycles}; i++) {
      ${cycle}
      global.gc();
      sizes.push(process.memoryUsage.rss());
    }
    console.log(JSON.stringify(sizes));`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--expose-gc', '--input-type=module', '-e', script]);
  return JSON.parse(stdout) as number[];
}

export const meanSize = (sizes: readonly number[], from: number, to: number): number =>
  sizes.slice(from, to).reduce((sum, size) => sum + size, 0) / (to - from);
