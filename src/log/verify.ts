import { setImmediate as nextTurn } from 'node:timers/promises';
import { abortError, IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import { CanonicalCheck } from './canonical-check.js';
import { originOf, parseCheckpoint, type SignedCheckpoint } from './checkpoint.js';
import { ForwardMac, forwardMacKeyId } from './forward-mac.js';
import { LeafHasher } from './leaf.js';
import { MerkleFrontier } from './merkle.js';
import { isCanonicalPayload, MAX_PAYLOAD_BYTES, type LogPayload } from './payload.js';
import {
  asLogError,
  checkPages,
  hasExpectedSchema,
  openLogFile,
  type Db,
  type PageCheck,
} from './schema.js';
import { parseSessionStart, type SessionStart } from './session.js';
import { isSignedBy } from './signed-note.js';
import { streamNames, type LogStreams } from './streams.js';
import { commitToNonce } from './ticket.js';
import { WITNESS_KEY_NAME, type SignerKind, type TrustedKey } from './trusted-key.js';

/**
 * `ok`: complete, and all of it under a final head of the trusted key. `unterminated`: nothing
 * disagrees, but no final head is known (a crash, or a file cut back to before every head that the
 * verifier was shown). `truncated`: fewer records than a signed head counts. `equivocation`: the
 * key signed two different heads of one size. `tampered`: anything else that disagrees.
 */
export type Outcome = 'ok' | 'tampered' | 'truncated' | 'unterminated' | 'equivocation';

/**
 * First disagreement of the file with itself or with a head. With `until` only a range is known:
 * [at, until).
 */
export interface Disagreement {
  readonly table: 'file' | 'log' | 'checkpoint';
  readonly at: number;
  readonly until?: number;
  readonly reason: string;
}

interface Verdict {
  readonly outcome: Outcome;
  readonly disagreement: Disagreement | null;
}

export interface Verification extends Verdict {
  readonly runId: string | null;
  readonly signer: SignerKind | null;
  /** Records in the file. */
  readonly records: number;
  /**
   * Records under the largest head in agreement; later ones are chained but no one has vouched for
   * them.
   */
  readonly signedRecords: number;
  readonly heads: number;
  readonly resumes: number;
  /** Merkle root over all records, hex. */
  readonly root: string;
}

export interface VerifyOptions {
  /** Streams of this kind of log. */
  readonly streams: LogStreams;
  readonly key: TrustedKey;
  /**
   * Heads from elsewhere (the witness's own list, a mailed copy), as note texts. They must be this
   * key's.
   */
  readonly heads?: readonly string[];
  /** The run that this log has to be of. */
  readonly runId?: string;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

/** State at the end of a scan, from which a writer continues. */
export interface LogState {
  readonly session: SessionStart | null;
  readonly frontier: MerkleFrontier;
  /** The frontier at the largest head that the log agrees with. */
  readonly headFrontier: MerkleFrontier;
  readonly lastLeaf: string;
  readonly lastTimeUs: number;
  readonly streamSizes: ReadonlyMap<number, number>;
  readonly ended: boolean;
}

class Disagrees extends Error {
  constructor(
    readonly outcome: Outcome,
    readonly disagreement: Disagreement,
  ) {
    super(disagreement.reason);
  }
}

const tampered = (
  table: Disagreement['table'],
  at: number,
  reason: string,
  until?: number,
): Disagrees => new Disagrees('tampered', { table, at, reason, ...stated({ until }) });

const equivocation = (at: number, reason: string): Disagrees =>
  new Disagrees('equivocation', { table: 'checkpoint', at, reason });

type Refuse = (reason: string) => never;

/** Returns a function that throws a disagreement at one place. */
const refusing =
  (table: Disagreement['table'], at: number): Refuse =>
  (reason) => {
    throw tampered(table, at, reason);
  };

/** Row by the schema; in damaged pages any column may hold anything. */
type Row = [
  gseq: number,
  stream: number,
  sseq: number,
  timeUs: number,
  link: string,
  tag: Buffer | null,
  payload: string | null,
];

// Strings, because a Buffer object costs more than its content here. Text that SQLite's bytes do
// not decode to without loss is read again as bytes.
const ROWS = `SELECT gseq, stream, sseq, ts_us, lower(hex(prev) || '.' || hex(leaf)), tag,
  CASE WHEN octet_length(payload) <= ${MAX_PAYLOAD_BYTES} THEN payload END FROM log ORDER BY gseq`;
const PAYLOAD_BYTES = 'SELECT CAST(payload AS BLOB) FROM log WHERE gseq = ?';
const RECORDS_PER_TURN = 4096;

/** Checks one log. One use. */
class Scan {
  readonly frontier = new MerkleFrontier();
  headFrontier = new MerkleFrontier();
  session: SessionStart | null = null;
  lastLeaf = '';
  lastTimeUs = 0;
  ended = false;
  resumes = 0;
  signedRecords = 0;
  heads: SignedCheckpoint[] = [];
  /**
   * Sizes of the heads in the file itself, and how many of them the end of the session counts
   * before itself.
   */
  readonly #stored: number[] = [];
  #headsBeforeEnd: number | null = null;
  readonly streamSizes = new Map<number, number>();
  #hasher: LeafHasher | null = null;
  #mac: ForwardMac | null = null;
  #nextHead = 0;
  readonly #streamNames;
  readonly #payloadBytes;

  /** @param canonical where payloads are checked on the side; null: here and now */
  constructor(
    readonly db: Db,
    readonly options: VerifyOptions,
    readonly canonical: CanonicalCheck | null,
  ) {
    this.#streamNames = streamNames(options.streams);
    this.#payloadBytes = db.prepare(PAYLOAD_BYTES).pluck();
  }

  /** Reads record 0, which names the run; without it no head can be assigned to this run. */
  begin(): void {
    const { key } = this.options;
    if (key.signer === 'single-process') this.#mac = new ForwardMac(key.master);
    const text = this.db
      .prepare('SELECT CAST(payload AS TEXT) FROM log WHERE gseq = 0')
      .pluck()
      .get();
    if (typeof text !== 'string') return;
    const refuse: Refuse = refusing('log', 0);
    try {
      this.session = parseSessionStart(text);
    } catch (error) {
      refuse((error as Error).message);
    }
    const { runId, signer, ticket, genesis } = this.session;
    if (this.options.runId !== undefined && runId !== this.options.runId)
      refuse(`the log belongs to another run, ${runId}`);
    if (signer !== key.signer)
      refuse(`the log names the signer ${signer}, but the given key is a ${key.signer} key`);
    if (key.signer === 'witness' && !isSignedBy(ticket.note, WITNESS_KEY_NAME, key.publicKey))
      refuse('the ticket is not signed by the trusted key');
    this.lastLeaf = genesis;
    this.#hasher = new LeafHasher(Buffer.from(runId, 'hex'));
  }

  #admitHead(text: string, at: number): SignedCheckpoint {
    const refuse = refusing('checkpoint', at);
    let head: SignedCheckpoint;
    try {
      head = parseCheckpoint(text);
    } catch (error) {
      return refuse((error as Error).message);
    }
    if (this.session !== null && head.runId !== this.session.runId)
      refuse(`the checkpoint belongs to another run, ${head.runId}`);
    const { key } = this.options;
    const origin = originOf(head.runId);
    if (key.signer === 'witness') {
      if (!isSignedBy(head.note, origin, key.publicKey))
        refuse('the checkpoint is not signed by the trusted key');
    } else {
      const id = forwardMacKeyId(origin, key.master);
      if (!head.note.signatures.some((each) => each.keyName === origin && each.keyId.equals(id)))
        refuse('the checkpoint has no MAC of the trusted key');
    }
    return head;
  }

  /** Reads all heads, ascending. Two roots for one size are an equivocation. */
  readHeads(): void {
    const { key } = this.options;
    const rows = this.db
      .prepare('SELECT size, note FROM checkpoint ORDER BY size')
      .raw()
      .iterate() as IterableIterator<[number, string]>;
    for (const [size, text] of rows) {
      const refuse = refusing('checkpoint', size);
      if (typeof text !== 'string') refuse('one of its columns has the wrong type');
      const head = this.#admitHead(text, size);
      if (head.size !== size)
        refuse(`the checkpoint stored for ${size} records covers ${head.size}`);
      this.heads.push(head);
      this.#stored.push(size);
    }
    const stored = new Set(this.heads.map((head) => head.text));
    for (const text of this.options.heads ?? [])
      if (!stored.has(text)) this.heads.push(this.#admitHead(text, -1));
    this.heads.sort((a, b) => a.size - b.size);
    // a MAC can be checked only where its key is reached, so heads without a public key meet each
    // other in #meetHeads
    if (key.signer !== 'witness') return;
    this.#refuseEquivocation(this.heads);
    const final = this.heads.find((head) => head.final);
    const last = this.heads.at(-1);
    if (final !== undefined && last!.size > final.size)
      throw equivocation(
        final.size,
        `a head of ${last!.size} records was signed in addition to the final one of ${final.size}`,
      );
  }

  /** @param heads ascending, each signed by the trusted key */
  #refuseEquivocation(heads: readonly SignedCheckpoint[]): void {
    for (let i = 1; i < heads.length; i++) {
      const [a, b] = [heads[i - 1]!, heads[i]!];
      if (a.size === b.size && a.root !== b.root)
        throw equivocation(a.size, `two signed heads of ${a.size} records have different roots`);
    }
  }

  /** Compares the tree with every head of its present size. */
  #meetHeads(): void {
    const size = this.frontier.size;
    const first = this.#nextHead;
    while (this.heads[this.#nextHead]?.size === size) this.#nextHead++;
    if (this.#nextHead === first) return;
    const met = this.heads.slice(first, this.#nextHead);
    if (this.#mac !== null) {
      for (const head of met) this.#checkMac(head, this.#mac);
      this.#refuseEquivocation(met);
    }
    if ((met[0] as SignedCheckpoint).root !== this.frontier.root()) {
      throw tampered(
        'log',
        this.signedRecords,
        `the records up to ${size} do not match the signed head of ${size} records`,
        size,
      );
    }
    this.signedRecords = size;
    this.headFrontier = this.frontier.clone();
  }

  #checkMac(head: SignedCheckpoint, mac: ForwardMac): void {
    const expected = mac.head(head.note.text);
    if (!head.note.signatures.some((each) => each.signature.equals(expected)))
      throw tampered('checkpoint', head.size, 'the MAC of the checkpoint is wrong');
  }

  record(row: Row): void {
    const expected = this.frontier.size;
    const [gseq, stream, sseq, timeUs, link, tag, payload] = row;
    const prev = this.lastLeaf;
    const refuse: Refuse = refusing('log', expected);
    if (gseq !== expected)
      refuse(
        gseq > expected
          ? `record ${expected} is missing`
          : `record ${gseq} comes where record ${expected} is expected`,
      );
    if (this.session === null || this.#hasher === null)
      throw tampered('log', 0, 'the log does not begin with a session start');
    if (this.ended) refuse('a record follows the end of the session');
    if (!this.#streamNames.has(stream)) refuse(`there is no stream ${stream}`);
    const inStream = this.streamSizes.get(stream) ?? 0;
    if (sseq !== inStream) refuse(`its number in the stream should be ${inStream}`);
    if (!Number.isSafeInteger(timeUs) || timeUs < this.lastTimeUs)
      refuse('its time is earlier than that of the record before it');
    if (
      (payload !== null && typeof payload !== 'string') ||
      typeof link !== 'string' ||
      (tag !== null && !Buffer.isBuffer(tag))
    )
      refuse('one of its columns has the wrong type');
    if (payload === null) refuse(`its payload has more than ${MAX_PAYLOAD_BYTES} bytes`);
    const position = { stream, gseq, sseq, timeUs };
    const exact = !payload.includes('\ufffd');
    const bytes = exact ? null : this.#payloadBytes.get(gseq);
    if (bytes !== null && !Buffer.isBuffer(bytes))
      refuse('its payload cannot be read by its record number');
    const digest =
      bytes === null
        ? this.#hasher.ofText(position, prev, payload)
        : this.#hasher.ofBytes(position, prev, bytes);
    if (link !== `${prev}.${digest}`)
      refuse(
        link.startsWith(`${prev}.`)
          ? 'its hash does not match its content'
          : 'its link to the record before it is wrong',
      );
    // control records take effect at once
    const isControl = stream === this.options.streams.codes.control;
    if (this.canonical !== null && !isControl) this.canonical.add(payload);
    else if (!isCanonicalPayload(payload)) refuse('its payload is not canonical JSON of a record');
    if (this.#mac === null ? tag !== null : tag === null || !tag.equals(this.#mac.tag(digest)))
      refuse('its MAC is wrong');
    if (isControl) this.#control(gseq, payload, refuse);
    this.frontier.append(digest);
    this.streamSizes.set(stream, sseq + 1);
    this.lastLeaf = digest;
    this.lastTimeUs = timeUs;
    this.#meetHeads();
  }

  /** One start, any number of resumes, a nonce that fits its commitment, one end. */
  #control(gseq: number, text: string, refuse: Refuse): void {
    const payload = JSON.parse(text) as LogPayload;
    if (payload.kind === 'session_start' && gseq !== 0) refuse('the session starts a second time');
    if (payload.kind === 'session_end') {
      this.ended = true;
      if (typeof payload.heads === 'number') this.#headsBeforeEnd = payload.heads;
    }
    if (payload.kind === 'resume') {
      this.resumes++;
      const from = payload.abandonedFrom;
      if (!Number.isSafeInteger(from) || (from as number) < 1 || (from as number) > gseq)
        refuse('the resume record abandons records that do not exist');
    }
    if (payload.kind === 'nonce') {
      const nonce =
        typeof payload.nonce === 'string' && /^[0-9a-f]{64}$/.test(payload.nonce)
          ? Buffer.from(payload.nonce, 'hex')
          : null;
      const { runId, ticket } = this.session as SessionStart;
      if (nonce === null || !commitToNonce(runId, nonce).equals(ticket.nonceCommitment))
        refuse('the nonce does not match the commitment in the ticket');
    }
  }

  outcome(): Verdict {
    const size = this.frontier.size;
    const beyond = this.heads[this.#nextHead];
    if (beyond !== undefined) {
      if (beyond.size < size) throw tampered('checkpoint', beyond.size, 'a head was not reached');
      if (this.#mac !== null) {
        if (beyond.size - size > 10_000_000)
          refusing(
            'checkpoint',
            beyond.size,
          )('the checkpoint covers more records than can be checked');
        this.#mac.skip(beyond.size - size);
        this.#checkMac(beyond, this.#mac);
      }
      return {
        outcome: 'truncated',
        disagreement: {
          table: 'log',
          at: size,
          reason: `the file ends at ${size} records, but a signed head covers ${beyond.size}`,
          until: beyond.size,
        },
      };
    }
    const final = this.heads.find((head) => head.final);
    if (final === undefined) return { outcome: 'unterminated', disagreement: null };
    if (final.size < size) throw tampered('log', final.size, 'a record follows the final head');
    if (!this.ended)
      throw tampered('log', size - 1, 'the final head was signed before the session ended');
    const stored = this.#stored.filter((each) => each < size).length;
    const counted = this.#headsBeforeEnd;
    if (counted !== null && counted !== stored)
      refusing(
        'checkpoint',
        size - 1,
      )(
        `there are ${stored} heads before the end of the session, but its record counts ${counted}`,
      );
    return { outcome: 'ok', disagreement: null };
  }
}

/**
 * Verifies an open log against a key and the known heads. It reads the whole log once; memory does
 * not grow with the log.
 * @throws IsoproError ABORTED, or CHECKPOINT_INVALID if a head in `options.heads` is not of this
 *   key
 */
export async function scanLog(db: Db, options: VerifyOptions): Promise<ScanResult> {
  return (await scanWithPages(db, options, null)).result;
}

interface ScanResult {
  readonly verification: Verification;
  readonly state: LogState;
}

/**
 * Scans a log and checks the pages of its file.
 * @param file whose pages to check, in a thread if that is worthwhile, else at once
 */
async function scanWithPages(
  db: Db,
  options: VerifyOptions,
  file: string | null,
): Promise<{ result: ScanResult; pages: PageCheck }> {
  const canonical = CanonicalCheck.for(countRecords(db), file);
  if (canonical === null) {
    const pages = file === null ? null : checkPages(db);
    return { result: await runScan(db, options, null), pages };
  }
  let result: ScanResult;
  try {
    result = await runScan(db, options, canonical);
  } catch (error) {
    await canonical.cancel();
    throw error;
  }
  const found = await canonical.finish();
  // a scan in order finds which record it was
  return {
    result: found.canonical || found.pages !== null ? result : await runScan(db, options, null),
    pages: found.pages,
  };
}

/** Returns the number of records; 0 if it cannot be read. */
function countRecords(db: Db): number {
  try {
    return Number(db.prepare('SELECT count(*) FROM log').pluck().get());
  } catch {
    return 0;
  }
}

async function runScan(
  db: Db,
  options: VerifyOptions,
  canonical: CanonicalCheck | null,
): Promise<ScanResult> {
  const scan = new Scan(db, options, canonical);
  let verdict: Verdict;
  try {
    if (!hasExpectedSchema(db, options.streams))
      throw tampered('file', 0, 'it does not have the tables, triggers and views of a log');
    // nothing reads these two fields, so no change of them has a legitimate reason
    const isMarked = ['user_version', 'application_id'].some(
      (field) => db.pragma(field, { simple: true }) !== 0,
    );
    if (isMarked)
      throw tampered(
        'file',
        0,
        'its header sets user_version or application_id, which a log never does',
      );
    scan.begin();
    scan.readHeads();
    const total = options.onProgress === undefined ? 0 : countRecords(db);
    // the heads of an empty log are met before its first record
    for (const row of db.prepare(ROWS).raw().iterate() as IterableIterator<Row>) {
      scan.record(row);
      if (scan.frontier.size % RECORDS_PER_TURN === 0) {
        await nextTurn();
        if (options.signal?.aborted === true)
          throw abortError('verification was cancelled', options.signal);
        options.onProgress?.({ done: scan.frontier.size, total });
      }
    }
    verdict = scan.outcome();
  } catch (error) {
    verdict =
      error instanceof Disagrees
        ? { outcome: error.outcome, disagreement: error.disagreement }
        : damaged(unreadableReason(error, 'log'), scan.frontier.size);
  }
  return {
    verification: {
      ...verdict,
      runId: scan.session?.runId ?? null,
      signer: scan.session?.signer ?? null,
      records: scan.frontier.size,
      signedRecords: scan.signedRecords,
      heads: scan.heads.length,
      resumes: scan.resumes,
      root: scan.frontier.root(),
    },
    state: scan,
  };
}

const damaged = (reason: string, at = 0): Verdict => ({
  outcome: 'tampered',
  disagreement: { table: 'file', at, reason },
});

/** Returns why SQLite cannot read a file. @throws any other failure */
function unreadableReason(failure: unknown, path: string): string {
  const known = asLogError(failure, path);
  if (known instanceof IsoproError && known.code === 'LOG_UNREADABLE') return known.message;
  throw known;
}

const UNREADABLE: Omit<Verification, keyof Verdict> = {
  runId: null,
  signer: null,
  records: 0,
  signedRecords: 0,
  heads: 0,
  resumes: 0,
  root: '',
};

/**
 * Verifies the log in a file and leaves the file unchanged. A file that SQLite cannot read is
 * `tampered`, not an error.
 * @throws IsoproError LOG_NOT_FOUND, ABORTED
 */
export async function verifyLogFile(path: string, options: VerifyOptions): Promise<Verification> {
  let db: Db | null = null;
  try {
    db = openLogFile(path, 'read');
    const { result, pages } = await scanWithPages(db, options, path);
    if (pages === null) return result.verification;
    return { ...UNREADABLE, ...damaged(`SQLite reports that the file is damaged: ${pages}`) };
  } catch (error) {
    return { ...UNREADABLE, ...damaged(unreadableReason(error, path)) };
  } finally {
    db?.close();
  }
}
