import { parentPort, workerData } from 'node:worker_threads';
import { isCanonicalPayload } from './payload.js';

/** The thread of CanonicalCheck: batches of payloads, then null, which is answered with whether all were canonical. */
const finished = workerData as Int32Array;
let passed = true;
parentPort?.on('message', (batch: readonly string[] | null) => {
  if (batch === null) parentPort?.postMessage(passed);
  else {
    passed = passed && batch.every(isCanonicalPayload);
    Atomics.add(finished, 0, 1);
  }
});
