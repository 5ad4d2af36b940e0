/**
 * What a command tells the queue that it is a job of (src/jobs/job-process.ts): events over
 * the channel that it was started with. Elsewhere nothing is told. The command line waits for
 * `admitted` before it does anything.
 */
import { JOB_VARIABLE } from '../jobs/job-variable.js';
import type { EventType } from '../jobs/job.js';

const PROGRESS_MS = 1000;

const send = process.env[JOB_VARIABLE] === undefined ? undefined : process.send?.bind(process);
delete process.env[JOB_VARIABLE]; // a process that this one starts is no job

/**
 * Nobody wants the work any more, and whoever begins it again needs its files: what was kept is
 * complete at any moment.
 */
const end = (): boolean => process.kill(process.pid, 'SIGKILL');

/**
 * Resolves when the queue has written down which process this is, and at once where there is no
 * queue. Before, a queue that begins again would not know whom to wait for; so nothing is begun,
 * and where the queue is gone this process ends.
 */
export async function admitted(): Promise<void> {
  if (send === undefined) return;
  process.on('disconnect', end);
  if (!process.connected) end(); // it was gone before anybody heard
  await new Promise<void>((resolve) => process.once('message', () => resolve()));
  process.channel?.unref();
}

export function tell(type: EventType, data: unknown): void {
  // whom it does not reach is gone
  if (send !== undefined && process.connected) send({ type, data }, undefined, undefined, () => {});
}

let shown = { stage: '', at: -Infinity };

/** Where the work is, once a second and at each new stage. */
export function tellProgress<Data extends { readonly stage: string }>(data: Data): void {
  if (send === undefined) return;
  const at = performance.now();
  if (data.stage === shown.stage && at - shown.at < PROGRESS_MS) return;
  shown = { stage: data.stage, at };
  tell('progress', data);
}
