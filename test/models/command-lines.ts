/**
 * Command lines one after the other in one process, without a start for each: a line of input is
 * one as JSON, and a line of output what became of it. Ended with the input.
 */
import { createInterface } from 'node:readline';
import { commandLine } from '../../src/cli/command-line.js';

const said = { stdout: '', stderr: '' };
const write = process.stdout.write.bind(process.stdout);
for (const name of ['stdout', 'stderr'] as const)
  process[name].write = ((chunk: string | Uint8Array): boolean => {
    said[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('utf8');
    return true;
  }) as typeof process.stdout.write;

for await (const line of createInterface({ input: process.stdin })) {
  Object.assign(said, { stdout: '', stderr: '' });
  process.exitCode = 0;
  await commandLine(JSON.parse(line) as string[]);
  write(`${JSON.stringify({ code: process.exitCode, ...said })}\n`);
}
process.exit(0); // whatever a command has left open
