/** Files of callers, read line by line in a thread of its own, one file at a time. */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { IsoproError, type ErrorCode } from '../../errors.js';
import { startThread } from '../../thread.js';
import { invalid } from '../failures.js';
import type { RowForm } from './row-forms.js';

export interface RowsTask {
  readonly file: string;
  readonly form: RowForm;
  /** File for the converted rows; null: the rows are only checked. */
  readonly out: string | null;
  /** Bytes that may be written. */
  readonly mostBytes: number;
}

export interface RowsAnswer {
  /** Error in the first bad line. */
  readonly wrong?: string;
  readonly failure?: { readonly code: ErrorCode; readonly message: string };
  readonly defect?: string;
}

/** Heap of the thread in MiB; a line that needs more ends the thread. */
const HEAP_MIB = 512;
/** Characters of an error, which may quote the line. */
const LONGEST_WORDS = 1000;

let last: Promise<unknown> = Promise.resolve();

/**
 * @param what the file is called to its owner
 * @throws RequestFailure 400 naming the first bad line; IsoproError WRITE_FAILED, FILE_UNREADABLE,
 *   SYSTEM_LIMIT
 */
export function readRows(task: RowsTask, what: string): Promise<void> {
  const turn = last.then(() => readInThread(task, what));
  last = turn.catch(() => undefined);
  return turn;
}

async function readInThread(task: RowsTask, what: string): Promise<void> {
  const worker = startThread(new URL('./rows-worker.js', import.meta.url), {
    workerData: task,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
  });
  const wrong = (words: string): Error =>
    invalid('training_file', `${what}: ${words.slice(0, LONGEST_WORDS)}`, 'invalid_training_file');
  let answer: RowsAnswer;
  try {
    [answer] = (await once(worker, 'message')) as [RowsAnswer]; // rejects where the thread fails
  } catch (cause) {
    if (task.out !== null) rmSync(task.out, { force: true });
    if ((cause as NodeJS.ErrnoException).code !== 'ERR_WORKER_OUT_OF_MEMORY') throw cause;
    throw wrong(`one of its lines takes more than ${HEAP_MIB} MiB to read`);
  }
  await worker.terminate();
  if (answer.wrong !== undefined) throw wrong(answer.wrong);
  if (answer.failure !== undefined)
    throw new IsoproError(answer.failure.code, answer.failure.message);
  if (answer.defect !== undefined) throw new Error(answer.defect);
}
