import { parentPort, workerData } from 'node:worker_threads';
import type { CanonicalThreadData, CanonicalThreadResult } from './canonical-check.js';
import { isCanonicalPayload } from './payload.js';
import { checkPages, openLogFile } from './schema.js';

/**
 * The thread of CanonicalCheck: the file's pages, batches of payloads, then null, which is answered
 * with what was found.
 */
const { finished, file } = workerData as CanonicalThreadData;

function pagesOf(path: string): CanonicalThreadResult['pages'] {
  try {
    const db = openLogFile(path, 'read');
    try {
      return checkPages(db);
    } finally {
      db.close();
    }
  } catch (error) {
    return (error as Error).message;
  }
}

const pages = file === null ? null : pagesOf(file);
let canonical = true;
parentPort?.on('message', (batch: readonly string[] | null) => {
  if (batch === null) parentPort?.postMessage({ canonical, pages } satisfies CanonicalThreadResult);
  else {
    canonical = canonical && batch.every(isCanonicalPayload);
    Atomics.add(finished, 0, 1);
  }
});
