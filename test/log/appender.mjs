/**
 * The crash campaign's victim: appends until it is killed and says after each append what is
 * durable. Arguments: log, run id.
 */
import { existsSync } from 'node:fs';
import { EventLog } from '../../dist/src/log/event-log.js';
import { SingleProcessSigner } from '../../dist/src/log/signer.js';
import { WitnessClient } from '../../dist/src/log/witness-client.js';
import { RUN_STREAMS } from '../../dist/src/run-folder/streams.js';

const [path, runId, kind] = process.argv.slice(2);
const signer = kind === 'witness' ? await WitnessClient.open() : new SingleProcessSigner();
let log;
try {
  log = await EventLog.resume({
    streams: RUN_STREAMS,
    path,
    runId,
    signer,
    fromIteration: 0,
    abandonedFrom: 1,
  });
} catch (error) {
  // killed before the first record was acknowledged
  if (error.code !== 'LOG_NOT_FOUND' && error.code !== 'LOG_UNREADABLE') throw error;
  const { rmSync } = await import('node:fs');
  for (const suffix of ['', '-wal', '-shm', '-journal'])
    if (existsSync(path + suffix)) rmSync(path + suffix);
  log = await EventLog.create({
    streams: RUN_STREAMS,
    path,
    runId,
    signer,
    runConfig: null,
    digests: {},
  });
}
process.stdout.write(`${log.size}\n`);
for (let i = 0; ; i++) {
  log.append(
    Array.from({ length: 1 + (i % 7) }, (_, k) => ({
      stream: 'metrics',
      payload: { kind: 'step', i, k, text: 'x'.repeat((i * 37) % 900) },
    })),
  );
  process.stdout.write(`${log.size}\n`);
  if (i % 5 === 4) await log.checkpoint();
  else await new Promise((resolve) => setImmediate(resolve));
}
