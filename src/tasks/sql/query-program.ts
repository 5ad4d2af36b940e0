/**
 * A process that runs the statements of replies, one at a time: requests are lines of JSON on
 * standard input, replies on standard output. The statement runs in a thread, so that this one can
 * see how much time and memory it takes: neither a statement nor its thread can be stopped, so the
 * process that started this one ends it then. It ends itself when that one is gone.
 */
import { createInterface } from 'node:readline';
import { startThread } from '../../thread.js';
import type { QueryReply, QueryRequest, Stage } from './query-thread.js';
import { TOO_MUCH } from './results.js';

/**
 * Of the processor, which a busy machine does not change; a query on tables of 30 rows takes
 * thousandths of it.
 */
const MAX_CPU_SECONDS = 0.5;
const MAX_MEMORY_BYTES = 256 * 2 ** 20;
const LOOK_EVERY_MS = 20;

/** What this process says of a request beside what the thread says. */
export type ProgramReply = { readonly request: number } & (
  | QueryReply
  | { readonly limit: 'time' | 'memory' }
);

const say = (reply: ProgramReply): void => void process.stdout.write(`${JSON.stringify(reply)}\n`);
const cpuSeconds = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

let current = 0;
let watch: NodeJS.Timeout | undefined;

const thread = startThread(new URL('./query-thread.js', import.meta.url));
thread.on('message', (message: QueryReply | Stage) => {
  clearInterval(watch);
  if (typeof message !== 'string') return say({ request: current, ...message });
  const [cpu, memory] = [cpuSeconds(), process.memoryUsage.rss()];
  watch = setInterval(() => {
    const limit =
      cpuSeconds() - cpu > MAX_CPU_SECONDS
        ? 'time'
        : process.memoryUsage.rss() - memory > MAX_MEMORY_BYTES
          ? 'memory'
          : null;
    if (limit === null) return;
    clearInterval(watch);
    say({ request: current, ...(message === 'running' ? { limit } : { broken: TOO_MUCH[limit] }) });
  }, LOOK_EVERY_MS);
});
// an exit would wait for the thread
const end = (): boolean => process.kill(process.pid, 'SIGKILL');
thread.on('error', end).on('exit', end);

createInterface({ input: process.stdin })
  .on('line', (line) => {
    const { request, ...asked } = JSON.parse(line) as { request: number } & QueryRequest;
    current = request;
    thread.postMessage(asked);
  })
  .on('close', end);
