/**
 * Command lines one after the other in one process: what is said of wrong usage, without a start
 * for each. Ended with their last one.
 */
import { text } from 'node:stream/consumers';
import { commandLine } from '../../src/cli/command-line.js';

const said = { stdout: '', stderr: '' };
const write = process.stdout.write.bind(process.stdout);
for (const name of ['stdout', 'stderr'] as const)
  process[name].write = ((chunk: string | Uint8Array): boolean => {
    said[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    return true;
  }) as typeof process.stdout.write;

const results: unknown[] = [];
for (const args of JSON.parse(await text(process.stdin)) as string[][]) {
  Object.assign(said, { stdout: '', stderr: '' });
  process.exitCode = 0;
  await commandLine(args);
  results.push({ code: process.exitCode, ...said });
}
process.exitCode = 0;
write(JSON.stringify(results));
