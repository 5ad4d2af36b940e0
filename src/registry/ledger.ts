/**
 * The registry's log: read with everything checked that can be, written by one process at a time.
 */
import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import type { SignedCheckpoint } from '../log/checkpoint.js';
import { EventLog } from '../log/event-log.js';
import { isoproHome } from '../log/home.js';
import { verifyRun } from '../log/local-trust.js';
import type { LogPayload } from '../log/payload.js';
import { isUnbegun, LogReader } from '../log/read.js';
import { SingleProcessSigner, type LogSigner } from '../log/signer.js';
import type { TrustedKey } from '../log/trusted-key.js';
import { verifyLogFile, type Verification } from '../log/verify.js';
import { publicKeyFile, readTrustedKey } from '../log/witness-key.js';
import { WitnessClient } from '../log/witness-client.js';
import { readEvent, REGISTRY_STREAMS, type RegistryEvent } from './events.js';
import {
  makeRegistryFolder,
  tracesOf,
  withLock,
  writePointer,
  type RegistryPaths,
} from './folder.js';
import { RegistryState } from './state.js';

export interface LedgerOptions {
  /** Folder of keys; default `$ISOPRO_HOME`. */
  readonly home?: string;
  /** Signer of the heads; default: this home's witness, a separate process. */
  readonly signer?: LogSigner;
  /** Public key of the witness that has to have signed; default: this home's own. */
  readonly keyFile?: string;
  /** False: a new registry has no witness process, and its history proves nothing to others. */
  readonly witness?: boolean;
  /** Write even if the clock is behind the last event. */
  readonly acceptClock?: boolean;
}

/** An event with its place in the log. */
export interface Placed {
  readonly event: RegistryEvent;
  readonly gseq: number;
  readonly timeUs: number;
}

export interface Reading {
  readonly runId: string;
  readonly state: RegistryState;
  readonly events: readonly Placed[];
  readonly heads: readonly SignedCheckpoint[];
  /** Records that were read, the session's start among them. */
  readonly records: number;
  readonly lastTimeUs: number;
}

/** Largest correction of the system's clock, in microseconds. */
const CLOCK_SLACK_US = 10 * 60 * 1e6;

/**
 * Folds the log up to `records` and compares every head's state with the fold.
 * @throws IsoproError REGISTRY_INVALID if the log has an impossible event
 */
function fold(path: string, records = Infinity): Reading {
  using reader = new LogReader(path, REGISTRY_STREAMS);
  const refuse = (what: string, cause?: unknown): never => {
    throw new IsoproError('REGISTRY_INVALID', what, { cause });
  };
  const state = new RegistryState();
  const events: Placed[] = [];
  const heads = reader.checkpoints();
  const stated = new Map(heads.map((head) => [head.size, head.stated?.state]));
  let read = 0;
  let lastTimeUs = 0;
  for (const { gseq, stream, timeUs, payload } of reader.records()) {
    if (gseq >= records) break;
    if (stream === 'registry') {
      const event = readEvent(payload, gseq);
      try {
        state.apply(event, timeUs);
      } catch (cause) {
        refuse(`record ${gseq} cannot have happened: ${(cause as Error).message}`, cause);
      }
      events.push({ event, gseq, timeUs });
    }
    read = gseq + 1;
    lastTimeUs = timeUs;
    const claimed = stated.get(read);
    if (claimed !== undefined && claimed !== state.root())
      refuse(`the head of ${read} records does not match the aliases that follow from the records`);
  }
  return { runId: reader.runId ?? '', state, events, heads, records: read, lastTimeUs };
}

function requireSound({ outcome, disagreement }: Verification, path: string): void {
  if (outcome === 'ok' || outcome === 'unterminated') return;
  throw new IsoproError(
    'LOG_TAMPERED',
    `${path} is ${outcome} at record ${disagreement?.at ?? 0}: ${disagreement?.reason ?? ''}`,
  );
}

/** Runs work and gives log errors a remedy for registries. */
async function ofRegistry<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof IsoproError) || !['LOG_TAMPERED', 'LOG_UNREADABLE'].includes(error.code))
      throw error;
    throw new IsoproError(error.code, error.message, {
      cause: error,
      remedy:
        'Do not use this registry. Restore an unchanged copy of its folder. `isopro-native adapters validate` shows what is wrong.',
    });
  }
}

/**
 * Returns true if the folder has a log.
 * @throws IsoproError LOG_TAMPERED if there was one and it is empty or missing
 */
export function isThere(paths: RegistryPaths): boolean {
  if (existsSync(paths.log) && !isUnbegun(paths.log, REGISTRY_STREAMS)) return true;
  const traces = tracesOf(paths);
  if (traces === null) return false;
  throw new IsoproError(
    'LOG_TAMPERED',
    `${paths.log} is empty or missing, but ${traces} next to it shows that there was a registry`,
  );
}

/** Requires that the registry exists. @throws IsoproError REGISTRY_NOT_FOUND */
export function requireThere(paths: RegistryPaths): void {
  if (!isThere(paths))
    throw new IsoproError('REGISTRY_NOT_FOUND', `there is no registry in ${paths.folder}`);
}

/**
 * Returns the key that a registry is verified with.
 * @throws IsoproError WITNESS_KEY_MISSING, WITNESS_KEY_INVALID
 */
export async function keyOf(
  runId: string,
  { home = isoproHome(), signer, keyFile }: LedgerOptions,
): Promise<TrustedKey | null> {
  if (signer !== undefined) return signer.key(runId);
  const file = keyFile ?? publicKeyFile(home);
  return existsSync(file) ? readTrustedKey(file) : null;
}

/**
 * Verifies the whole log.
 * @throws IsoproError REGISTRY_NOT_FOUND, WITNESS_KEY_MISSING, LOG_UNREADABLE
 */
export async function verifyLedger(
  paths: RegistryPaths,
  { home = isoproHome(), signer, keyFile }: LedgerOptions,
): Promise<Verification> {
  requireThere(paths);
  const options = { streams: REGISTRY_STREAMS };
  if (signer === undefined)
    return verifyRun(paths.log, { ...options, home, ...given({ keyFile }) });
  const runId = withReader(paths, (reader) => reader.runId ?? '');
  const [key, heads] = [await signer.key(runId), await signer.heads(runId)];
  return verifyLogFile(paths.log, { ...options, key, heads });
}

function withReader<T>(paths: RegistryPaths, read: (reader: LogReader<'registry'>) => T): T {
  using reader = new LogReader(paths.log, REGISTRY_STREAMS);
  return read(reader);
}

/**
 * Reads the records under a signed head; records that a crash left after it count once someone
 * writes again.
 * @throws IsoproError REGISTRY_NOT_FOUND, REGISTRY_INVALID, LOG_TAMPERED, LOG_UNREADABLE,
 *   WITNESS_KEY_MISSING
 */
export async function readLedger(paths: RegistryPaths, options: LedgerOptions): Promise<Reading> {
  return ofRegistry(async () => {
    const verification = await verifyLedger(paths, options);
    requireSound(verification, paths.log);
    return fold(paths.log, verification.signedRecords);
  });
}

/** Ledger that is open for writing by this process only. */
export interface Ledger {
  readonly reading: Reading;
  readonly log: EventLog<'registry'>;
  /**
   * Makes events durable, with a signed head over them.
   * @throws IsoproError what state.ts refuses, before anything is written
   */
  write(events: readonly RegistryEvent[]): Promise<SignedCheckpoint>;
}

async function signerOf(
  { home = isoproHome(), witness = true }: LedgerOptions,
  paths: RegistryPaths,
): Promise<LogSigner> {
  const kind = isThere(paths)
    ? withReader(paths, (reader) => {
        const [first] = reader.records();
        return first?.payload.signer;
      })
    : witness && 'witness';
  return kind === 'witness' ? await WitnessClient.open(home) : new SingleProcessSigner(home);
}

async function openLog(paths: RegistryPaths, signer: LogSigner): Promise<EventLog<'registry'>> {
  const common = { path: paths.log, streams: REGISTRY_STREAMS, signer };
  if (isThere(paths))
    return EventLog.resume({ ...common, fromIteration: null, abandonedFrom: null });
  for (const ending of ['', '-wal', '-shm', '-journal'])
    rmSync(paths.log + ending, { force: true }); // nothing was acknowledged
  return EventLog.create({
    ...common,
    runId: randomBytes(16).toString('hex'),
    runConfig: { kind: 'registry' },
    digests: {},
  });
}

/**
 * Runs one piece of work as the only writer, on the state of the whole log.
 * @param create true to start a registry that does not exist
 * @throws IsoproError REGISTRY_NOT_FOUND, CONFLICT, REGISTRY_CLOCK, LOG_WRITE_FAILED,
 *   WITNESS_UNAVAILABLE, and as readLedger
 */
export async function writeLedger<T>(
  paths: RegistryPaths,
  options: LedgerOptions,
  work: (ledger: Ledger) => Promise<T>,
  create: boolean,
): Promise<T> {
  if (!create) await ofRegistry(async () => requireThere(paths));
  makeRegistryFolder(paths);
  const alone = async (): Promise<T> => {
    const signer = options.signer ?? (await signerOf(options, paths));
    try {
      const log = await openLog(paths, signer);
      try {
        return await work(ledgerOf(log, paths, options));
      } finally {
        log.close();
      }
    } finally {
      if (options.signer === undefined) await signer.close();
    }
  };
  return ofRegistry(() => withLock(paths.lock, alone));
}

function ledgerOf(
  log: EventLog<'registry'>,
  paths: RegistryPaths,
  { acceptClock = false }: LedgerOptions,
): Ledger {
  const reading = fold(paths.log);
  const { state, lastTimeUs } = reading;
  return {
    reading,
    log,
    async write(events) {
      const nowUs = Date.now() * 1000;
      if (!acceptClock && nowUs < lastTimeUs - CLOCK_SLACK_US) {
        const [now, last] = [nowUs, lastTimeUs].map((us) => new Date(us / 1000).toISOString());
        throw new IsoproError(
          'REGISTRY_CLOCK',
          `the clock says ${now}, and the last event was at ${last}`,
        );
      }
      for (const event of events) state.apply(event, Math.max(nowUs, lastTimeUs));
      if (events.length > 0)
        log.append(
          events.map((event) => ({ stream: 'registry', payload: event as unknown as LogPayload })),
        );
      const head = await log.checkpoint(state.root());
      // it has happened by now: other programs may read an older pointer until `repair` writes it
      // again, but nobody is told that it has not
      await writePointer(paths.pointer, log.size, state.map()).catch((error: unknown) => {
        if (!(error instanceof IsoproError)) throw error;
      });
      return head;
    },
  };
}
