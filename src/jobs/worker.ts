/**
 * The process of one job (job-process.ts): it gets an operation's id and its settings over the
 * channel to the queue, and answers over it. Nothing is read from a command line, and nothing that
 * it prints is read.
 */
import { IsoproError } from '../errors.js';
import { asFileError } from '../files.js';
import { asImportError } from '../import-error.js';
import { passEnvironment, receiveKeys } from '../keys.js';
import type { Told } from '../operations/operation.js';

/** Message of the queue, sent once it is on record which process this is. */
export interface Work {
  readonly operation: string;
  readonly settings: unknown;
  /** Keys of the back end and the hub that the settings name, by the name of their variable. */
  readonly keys?: Readonly<Record<string, string>>;
  /** Variables that its programs get, although they may hold keys. */
  readonly passed?: readonly string[];
}

/** The last message of a process. */
export type Answer =
  | { readonly type: 'result'; readonly result: unknown }
  | { readonly type: 'error'; readonly error: unknown };

const PROGRESS_MS = 1000;

/** The files are complete at any moment, and a restarted job needs them. */
const end = (): boolean => process.kill(process.pid, 'SIGKILL');

/** Whom a message does not reach is gone. */
const send = (message: Told | Answer): Promise<void> =>
  new Promise((resolve) => {
    if (!process.connected) resolve();
    else process.send!(message, undefined, undefined, () => resolve());
  });

/** Progress once a second and at each new stage; everything else at once. */
function limited(): (told: Told) => void {
  let last = { stage: '', at: -Infinity };
  return (told) => {
    if (told.type === 'progress') {
      const { stage } = told.data as { readonly stage: string };
      const at = performance.now();
      if (stage === last.stage && at - last.at < PROGRESS_MS) return;
      last = { stage, at };
    }
    void send(told);
  };
}

process.on('disconnect', end);
if (!process.connected) end(); // the queue was gone before this process listened
const work = await new Promise<Work>((resolve) => process.once('message', resolve));
receiveKeys(work.keys ?? {});
const interruption = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => interruption.abort());
try {
  passEnvironment(...(work.passed ?? []));
  const { OPERATIONS } = await import('../operations/index.js');
  const operation = OPERATIONS.find(({ id }) => id === work.operation)!;
  const result = await operation.run(work.settings as never, {
    signal: interruption.signal,
    tell: limited(),
  });
  await send({ type: 'result', result });
} catch (error) {
  const known = asFileError(asImportError(error));
  if (!(known instanceof IsoproError)) throw error; // the trace on stderr is for the server's owner
  await send({ type: 'error', error: known.toJSON() });
}
process.off('disconnect', end);
process.disconnect();
