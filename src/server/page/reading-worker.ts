/** The thread that reads runs for the page: logs of hundreds of megabytes hold up no reply. */
import { parentPort, workerData } from 'node:worker_threads';
import { IsoproError } from '../../errors.js';
import type { ReadingAnswer, ReadingCall } from './reading-thread.js';
import { RunShelf } from './run-shelf.js';

const shelf = new RunShelf((workerData as { readonly runs: string }).runs);

async function answer({ id, method, args }: ReadingCall): Promise<ReadingAnswer> {
  try {
    // the caller's types fit method and arguments
    const value: unknown = await (shelf[method] as (...given: readonly unknown[]) => unknown).apply(
      shelf,
      [...args],
    );
    return { id, json: JSON.stringify(value) };
  } catch (error) {
    if (!(error instanceof IsoproError))
      return {
        id,
        defect: error instanceof Error ? (error.stack ?? error.message) : String(error),
      };
    const { code, message, remedy } = error;
    return { id, failure: { code, message, remedy } };
  }
}

parentPort!.on(
  'message',
  (call: ReadingCall) => void answer(call).then((told) => parentPort!.postMessage(told)),
);
