/**
 * The witness as a separate process that a run starts: this module and its imports, without the
 * command line.
 */
import { runWitness } from './witness-server.js';

const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
await runWitness({ signal: stop.signal });
