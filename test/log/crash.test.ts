import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { EventLog } from '../../src/log/event-log.js';
import { verifyRun } from '../../src/log/local-trust.js';
import { SingleProcessSigner } from '../../src/log/signer.js';
import { WitnessClient } from '../../src/log/witness-client.js';
import { Random } from '../../src/random.js';
import { temporaryFolder } from '../models/signed-log.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const KILLS = process.env.ISOPRO_FULL === '1' ? 100 : 8;
const appender = fileURLToPath(new URL('./appender.mjs', import.meta.url));

/** Lets the appender run for a while, kills it, and says how many records it had acknowledged. */
function appendUntilKilled(home: string, args: string[], ms: number): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [appender, ...args], {
      env: { ...process.env, ISOPRO_HOME: home },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let out = '';
    let err = '';
    const killAfter = (delay: number): void => void setTimeout(() => child.kill('SIGKILL'), delay);
    let isTimed = ms % 8 === 0;
    if (isTimed) killAfter(ms * 3);
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
      // the clock starts when it is ready: start-up is not what is under test, except for one kill
      // in eight
      if (!isTimed) killAfter(ms);
      isTimed = true;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => (err += text));
    child.on('close', (_, signal) => {
      if (signal !== 'SIGKILL') return reject(new Error(`the appender ended by itself: ${err}`));
      const lines = out.split('\n');
      resolve(Number(lines.at(-2) ?? 0)); // the last complete line
    });
  });
}

describe.each(['witness', 'single-process'])('SIGKILL while appending, with %s', (kind) => {
  const folder = temporaryFolder();
  afterAll(folder.remove);

  test(`${KILLS} kills lose no acknowledged record, and every log verifies and resumes`, async () => {
    const home = join(folder.path, 'home');
    const path = join(folder.path, 'log.sqlite');
    const runId = 'c4a5'.repeat(8);
    const random = new Random(kind === 'witness' ? 1n : 2n);
    let acknowledged = 0;
    for (let kill = 0; kill < KILLS; kill++) {
      acknowledged = Math.max(
        acknowledged,
        await appendUntilKilled(home, [path, runId, kind], random.nextInteger(1, 60)),
      );
      if (acknowledged === 0) continue;
      const verification = await verifyRun(path, { streams: RUN_STREAMS, home, runId });
      expect(verification).toMatchObject({ outcome: 'unterminated', disagreement: null });
      expect(verification.records).toBeGreaterThanOrEqual(acknowledged);
    }
    expect(existsSync(path)).toBe(true);
    const signer =
      kind === 'witness' ? await WitnessClient.open(home) : new SingleProcessSigner(home);
    const log = await EventLog.resume({
      streams: RUN_STREAMS,
      path,
      runId,
      signer,
      fromIteration: 0,
      abandonedFrom: 1,
    });
    await log.reveal();
    await log.finish();
    await signer.close();
    const verification = await verifyRun(path, { streams: RUN_STREAMS, home, runId });
    expect(verification.outcome).toBe('ok');
    expect(verification.resumes).toBeGreaterThan(KILLS / 4);
  }, 900_000);
});
