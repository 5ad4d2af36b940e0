import { mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Random } from '../src/random.js';
import { EventLog } from '../src/log/event-log.js';
import { SingleProcessSigner } from '../src/log/signer.js';
import { Ed25519Signer } from '../src/log/signed-note.js';
import type { LogSigner } from '../src/log/signer.js';
import { verifyLogFile } from '../src/log/verify.js';
import { WitnessStore } from '../src/log/witness-store.js';
import { RUN_STREAMS, type NewRunRecord } from '../src/run-folder/streams.js';

export interface LogBench {
  /** Records a second, each batch of 100 durable before the next one begins. */
  readonly appendedPerSecond: number;
  /** Records a second, best of three passes over the file. */
  readonly verifiedPerSecond: number;
  readonly records: number;
  readonly bytesPerRecord: number;
  /**
   * Growth of resident memory while the second half of the log was appended, and while all of it
   * was verified.
   */
  readonly appendGrowthBytes: number;
  readonly verifyGrowthBytes: number;
  readonly singleProcess: {
    readonly appendedPerSecond: number;
    readonly verifiedPerSecond: number;
  };
}

const BATCH = 100;

/**
 * A witness without its process: the same rules and signatures, so that what is timed (and tested)
 * is the log.
 */
export function witnessInProcess(folder: string, seed = Buffer.alloc(32, 7)): LogSigner {
  const signer = new Ed25519Signer(seed);
  const store = new WitnessStore(join(folder, 'witness.sqlite'), (text, name) =>
    signer.sign(text, name),
  );
  return {
    kind: 'witness',
    key: async () => ({ signer: 'witness', publicKey: signer.publicKey }),
    ticket: async (runId) => store.issueTicket(runId),
    signHead: async (request) => store.signHead(request),
    reveal: async (runId, size) => store.reveal(runId, size),
    draw: async (runId, size) => store.draw(runId, size),
    heads: async (runId) => store.heads(runId),
    close: async () => store.close(),
  };
}

/** A step's statistics, one module's of them. */
function stepRecord(random: Random, step: number): NewRunRecord {
  const module = (): {
    pairGradNorm: number;
    updateRatio: number;
    dormantFraction: number;
    rankUse: number;
  } => ({
    pairGradNorm: random.nextDouble(),
    updateRatio: random.nextDouble() / 1000,
    dormantFraction: 0,
    rankUse: random.nextDouble(),
  });
  return {
    stream: 'metrics',
    payload: {
      kind: 'step',
      step,
      learningRate: 2e-4,
      tokens: 512,
      loss: random.nextDouble(),
      gradNorm: random.nextDouble(),
      clipped: false,
      modules: { 'blk.0.attn_q': module() },
    },
  };
}

async function measure(
  folder: string,
  records: number,
  signer: LogSigner,
): Promise<Omit<LogBench, 'singleProcess'>> {
  const path = join(folder, `${signer.kind}-log.sqlite`);
  const runId = 'b'.repeat(32);
  const log = await EventLog.create({
    streams: RUN_STREAMS,
    path,
    runId,
    signer,
    runConfig: null,
    digests: {},
  });
  const random = new Random(1n);
  const batches = Array.from({ length: 50 }, () =>
    Array.from({ length: BATCH }, (_, i) => stepRecord(random, i)),
  );
  let appendNs = 0n;
  let halfway = 0;
  for (let done = 0; done < records; done += BATCH) {
    const batch = batches[(done / BATCH) % batches.length] as NewRunRecord[];
    const start = process.hrtime.bigint();
    log.append(batch);
    appendNs += process.hrtime.bigint() - start;
    if (done === Math.floor(records / 2 / BATCH) * BATCH) halfway = process.memoryUsage.rss();
    if (done % 10_000 === 0) await log.checkpoint();
  }
  const appendGrowthBytes = process.memoryUsage.rss() - halfway;
  await log.finish();
  const key = await signer.key(runId);
  let best = Infinity;
  await verifyLogFile(path, { streams: RUN_STREAMS, key });
  const before = process.memoryUsage.rss();
  for (let pass = 0; pass < 3; pass++) {
    const start = process.hrtime.bigint();
    const { outcome } = await verifyLogFile(path, { streams: RUN_STREAMS, key });
    best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e9);
    if (outcome !== 'ok') throw new Error(`the log of the benchmark is ${outcome}`);
  }
  return {
    appendedPerSecond: Math.round(records / (Number(appendNs) / 1e9)),
    verifiedPerSecond: Math.round(log.size / best),
    records: log.size,
    bytesPerRecord: Math.round(statSync(path).size / log.size),
    appendGrowthBytes,
    verifyGrowthBytes: process.memoryUsage.rss() - before,
  };
}

/** Appends and verifies on this machine's own disk, in a temporary folder. */
export async function benchLog(records = 200_000): Promise<LogBench> {
  const folder = mkdtempSync(join(tmpdir(), 'isopro-bench-log-'));
  try {
    const witness = witnessInProcess(folder);
    const result = await measure(folder, records, witness);
    await witness.close();
    const single = new SingleProcessSigner(folder);
    const { appendedPerSecond, verifiedPerSecond } = await measure(
      folder,
      Math.min(records, 50_000),
      single,
    );
    await single.close();
    return { ...result, singleProcess: { appendedPerSecond, verifiedPerSecond } };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
