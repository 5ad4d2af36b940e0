import { Worker, type WorkerOptions } from 'node:worker_threads';

/** A thread of this package's own script. Node's own flags, --input-type for one, are the caller's and not that file's, so none is inherited. */
export const startThread = (script: URL, options: WorkerOptions = {}): Worker => new Worker(script, { ...options, execArgv: [] });
