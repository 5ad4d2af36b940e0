/**
 * The witness as a process of its own, which a run starts: this module and what it imports, none of
 * the command line.
 */
import { runWitness } from './witness-server.js';

const stop = new AbortController();
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop.abort());
await runWitness({ signal: stop.signal });
