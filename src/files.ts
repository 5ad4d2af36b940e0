/**
 * Files and folders that a user names: every command reports a wrong path in the same words, before
 * anything is computed.
 */
import {
  accessSync,
  constants,
  createReadStream,
  lstatSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  statSync,
  type Stats,
} from 'node:fs';
import path from 'node:path';
import { TextDecoder } from 'node:util';
import { createGunzip, gunzipSync } from 'node:zlib';
import { IsoproError, type ErrorCode } from './errors.js';
import { readJsonText, withDigits, type JsonText } from './json-text.js';

/** A file that is read whole has at most so many bytes, a line of JSON Lines so many characters. */
export const LARGEST_TEXT = 2 ** 26;

const code = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code;

/** Returns the error code for a failed call on a file: the resource that ran out, else `as`. */
export function refusal(cause: unknown, as: ErrorCode): ErrorCode {
  if (code(cause) === 'EMFILE' || code(cause) === 'ENFILE') return 'SYSTEM_LIMIT';
  return code(cause) === 'ENOMEM' ? 'OUT_OF_MEMORY' : as;
}

const failure = (as: ErrorCode, file: string, what: string, cause: unknown): IsoproError =>
  cause instanceof IsoproError
    ? cause
    : new IsoproError(refusal(cause, as), `${file} ${what}: ${(cause as Error).message}`, {
        cause,
      });

/** Returns the error for a file that was not read; an IsoproError is returned unchanged. */
export const unreadable = (
  file: string,
  cause: unknown,
  as: ErrorCode = 'FILE_UNREADABLE',
): IsoproError => failure(as, file, 'cannot be read', cause);

/** Returns the error for a file that was not written; an IsoproError is returned unchanged. */
export const unwritable = (file: string, cause: unknown): IsoproError =>
  failure('WRITE_FAILED', file, 'could not be written', cause);

/**
 * Returns what a path is if it is not a file; null for a file, and for a pipe if pipes are
 * accepted.
 */
function otherThanFile(status: Stats, pipes: boolean): string | null {
  if (status.isFile() || (pipes && (status.isFIFO() || status.isSocket()))) return null;
  return status.isDirectory()
    ? 'is a folder'
    : status.isFIFO() || status.isSocket()
      ? 'is a pipe'
      : 'is a device';
}

/** Returns undefined also for paths that the system cannot resolve, such as circular links. */
function statusOf(place: string): Stats | undefined {
  try {
    return statSync(place);
  } catch {
    return undefined;
  }
}

export const isFile = (place: string): boolean => statusOf(place)?.isFile() === true;
export const isFolder = (place: string): boolean => statusOf(place)?.isDirectory() === true;

function whyUnreadable(file: string, pipes: boolean): string | null {
  try {
    const other = otherThanFile(statSync(file), pipes);
    if (other !== null) return `${file} ${other}`;
    accessSync(file, constants.R_OK);
    return null;
  } catch (error) {
    if (code(error) === 'ENOENT' || code(error) === 'ENOTDIR') return `there is no file ${file}`;
    return code(error) === 'EACCES' || code(error) === 'EPERM'
      ? `no permission to read ${file}`
      : `${file} cannot be read: ${(error as Error).message}`;
  }
}

/**
 * Refuses a path that is no file which can be read.
 * @param as the code of what the file should have been
 * @param meant what the file should have been, and the remedy for that, where the code's own do not
 *   apply
 * @throws IsoproError
 */
export function requireFile(
  file: string,
  as: ErrorCode = 'FILE_UNREADABLE',
  pipes = false,
  meant?: { readonly what: string; readonly remedy: string },
): void {
  const reason = whyUnreadable(file, pipes);
  if (reason === null) return;
  throw meant === undefined
    ? new IsoproError(as, reason)
    : new IsoproError(as, `${meant.what}: ${reason}`, { remedy: meant.remedy });
}

const encodingOf = ([first, second]: Uint8Array): 'utf-16le' | 'utf-16be' | 'utf-8' =>
  first === 0xff && second === 0xfe
    ? 'utf-16le'
    : first === 0xfe && second === 0xff
      ? 'utf-16be'
      : 'utf-8';

/**
 * UTF-16 where the byte order mark says so, as Excel and PowerShell write it, else UTF-8. Leaves
 * the mark out, and refuses other bytes.
 */
const decoderOf = (bytes: Uint8Array): TextDecoder =>
  new TextDecoder(encodingOf(bytes), { fatal: true });

const undecodable = (as: ErrorCode, message: string): IsoproError =>
  new IsoproError(as, message, { remedy: 'Save the file as UTF-8.' });
/**
 * A text shows within so many characters whether it is UTF-16 without a mark: every other byte is
 * 0.
 */
const HEAD_CHARACTERS = 1000;

interface Before {
  readonly bytes: number;
  readonly lines: number;
}

/**
 * Bytes that are not what they are read as.
 * @param bytes a text from a place on, before which as much stands
 */
function wrongBytes(
  name: string,
  bytes: Buffer,
  encoding: string,
  as: ErrorCode,
  before: Before = { bytes: 0, lines: 0 },
): IsoproError {
  if (encoding !== 'utf-8')
    return undecodable(
      as,
      `${name} is not ${encoding.toUpperCase()}, although its byte order mark says so`,
    );
  // a decoder that lets wrong bytes pass writes others in their place
  const again = Buffer.from(bytes.toString('utf8'), 'utf8');
  const at = bytes.findIndex((byte, i) => byte !== again[i]);
  const line = before.lines + bytes.toString('latin1', 0, at).split(/\r\n?|\n/).length;
  return undecodable(
    as,
    `${name} is not UTF-8: byte ${before.bytes + at}, in line ${line}, is not valid`,
  );
}

/** The beginning of a character of UTF-8 whose end is still to come. */
function openEnd(bytes: Buffer): Buffer {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!;
    if (byte >= 0xc0)
      return (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) > back
        ? bytes.subarray(-back)
        : Buffer.alloc(0);
    if (byte < 0x80) break;
  }
  return Buffer.alloc(0);
}

const isUndecodable = (error: unknown): boolean =>
  code(error) === 'ERR_ENCODING_INVALID_ENCODED_DATA';

function refuseZeros(name: string, text: string, as: ErrorCode): void {
  if (text.slice(0, HEAD_CHARACTERS).includes('\0'))
    throw undecodable(as, `${name} contains zero bytes, like UTF-16 without a byte order mark`);
}

/** Tests by its name whether a file is compressed with gzip. */
const isPacked = (file: string): boolean => /\.gz$/i.test(file);

/**
 * What is unpacked has at most so many times the bytes of the file: more are a file that was made
 * to fill the memory.
 */
const MOST_TIMES = 1000;

/** @throws Error where it is no gzip, or too large */
function unpacked(file: string): Buffer {
  const packed = readFileSync(file);
  const most = Math.min(LARGEST_TEXT, MOST_TIMES * packed.length);
  try {
    return gunzipSync(packed, { maxOutputLength: most });
  } catch (cause) {
    if (code(cause) !== 'ERR_BUFFER_TOO_LARGE') throw cause;
    throw new Error(`it unpacks to more than ${most} bytes`, { cause });
  }
}

/**
 * The text of a small file, unpacked where its name ends in `.gz`, without byte order mark.
 * @param noText the code where its bytes are no text
 * @throws IsoproError FILE_UNREADABLE, or `as`; SYSTEM_LIMIT, OUT_OF_MEMORY
 */
export function readText(
  file: string,
  as: ErrorCode = 'FILE_UNREADABLE',
  noText: ErrorCode = as,
): string {
  requireFile(file, as, true);
  let bytes: Buffer | undefined;
  try {
    if (statSync(file).size > LARGEST_TEXT)
      throw new Error(`it has more than ${LARGEST_TEXT} bytes`);
    bytes = isPacked(file) ? unpacked(file) : readFileSync(file);
    return decoderOf(bytes).decode(bytes);
  } catch (cause) {
    throw bytes !== undefined && isUndecodable(cause)
      ? wrongBytes(file, bytes, encodingOf(bytes), noText)
      : unreadable(file, cause, as);
  }
}

/** Reads like readText; each line ends with a line feed, whatever ends it in the file. */
export function readRowText(file: string, noText: ErrorCode): string {
  const text = readText(file, 'FILE_UNREADABLE', noText);
  refuseZeros(file, text, noText);
  return text.replace(/\r\n?/g, '\n');
}

/**
 * Returns the JSON value in a small file.
 * @throws IsoproError FILE_UNREADABLE, INVALID_ARGUMENT where it is no JSON
 */
export const readJson = (file: string): unknown => readWrittenJson(file).value;

/** Reads like readJson, keeping how numbers are written. */
export function readWrittenJson(file: string): JsonText {
  const text = readText(file);
  try {
    return readJsonText(text);
  } catch (cause) {
    throw new IsoproError('INVALID_ARGUMENT', `${file} is not JSON: ${(cause as Error).message}`, {
      cause,
    });
  }
}

/**
 * The lines of a file, unpacked where its name ends in `.gz`, or of standard input for `-`, as they
 * are asked for; without byte order mark. A line ends with LF, CRLF or CR.
 * @throws IsoproError FILE_UNREADABLE at once; while it is read, INVALID_ARGUMENT for a line that
 *   is longer than any that could be meant, and for bytes that are no text
 */
export function readLines(file: string): AsyncGenerator<string, void> {
  if (file === '-') return linesOf(process.stdin, 'standard input');
  requireFile(file, 'FILE_UNREADABLE', true);
  return linesOf(isPacked(file) ? unpackedChunks(file) : createReadStream(file), file);
}

async function* unpackedChunks(file: string): AsyncGenerator<Buffer, void> {
  let packed = 0;
  let bytes = 0;
  const source = createReadStream(file);
  source.on('data', (chunk) => (packed += chunk.length));
  const stream = createGunzip();
  source.on('error', (cause) => stream.destroy(cause));
  try {
    for await (const chunk of source.pipe(stream) as AsyncIterable<Buffer>) {
      bytes += chunk.length;
      if (bytes > MOST_TIMES * packed)
        throw new IsoproError(
          'FILE_UNREADABLE',
          `${file} cannot be read: it unpacks to more than ${MOST_TIMES} times its size`,
        );
      yield chunk;
    }
  } finally {
    source.destroy();
  }
}

async function* linesOf(input: AsyncIterable<Buffer>, name: string): AsyncGenerator<string, void> {
  let text: TextDecoder | null = null;
  /** Until it is known how they are to be read. */
  let first: Buffer = Buffer.alloc(0);
  let line = '';
  let number = 1;
  /** The last character was a carriage return: a line feed that follows belongs to it. */
  let returned = false;
  const parts = function* (added: string): Generator<string> {
    const rest = returned && added.startsWith('\n') ? added.slice(1) : added;
    if (added !== '') returned = added.endsWith('\r');
    const pieces = rest.split(/\r\n|\n|\r/);
    for (const [at, piece] of pieces.entries()) {
      if (line.length + piece.length > LARGEST_TEXT)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `line ${number} of ${name} has more than ${LARGEST_TEXT} characters`,
        );
      line += piece;
      if (at === pieces.length - 1) return;
      yield line;
      line = '';
      number++;
    }
  };
  let read = 0;
  let open: Buffer = Buffer.alloc(0);
  const decoded = (chunk: Buffer, last: boolean): string => {
    try {
      const characters = text!.decode(chunk, { stream: !last });
      read += chunk.length;
      open = openEnd(Buffer.concat([open, chunk]));
      return characters;
    } catch (cause) {
      if (!isUndecodable(cause)) throw cause;
      throw wrongBytes(name, Buffer.concat([open, chunk]), text!.encoding, 'INVALID_ARGUMENT', {
        bytes: read - open.length,
        lines: number - 1,
      });
    }
  };
  try {
    for await (const chunk of input) {
      if (text !== null) yield* parts(decoded(chunk, false));
      else if ((first = Buffer.concat([first, chunk])).length >= 2) {
        text = decoderOf(first);
        const head = decoded(first, false);
        refuseZeros(name, head, 'INVALID_ARGUMENT');
        yield* parts(head);
      }
    }
    if (text === null) {
      text = decoderOf(first);
      yield* parts(decoded(first, true));
    } else yield* parts(decoded(Buffer.alloc(0), true));
  } catch (cause) {
    if (cause instanceof IsoproError || code(cause) === undefined) throw cause;
    throw unreadable(name, cause);
  }
  if (line !== '') yield line;
}

/**
 * The JSON value in a line, in which a number that a double does not hold is its digits, as a text.
 * @throws IsoproError INVALID_ARGUMENT naming the line
 */
export function parseLine(line: string, number: number): unknown {
  try {
    return withDigits(readJsonText(line));
  } catch (cause) {
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `line ${number} is not JSON: ${(cause as Error).message}`,
      { cause },
    );
  }
}

/** Returns the real path of a file, following links. */
function realPlace(file: string): string {
  try {
    return realpathSync(file);
  } catch {
    return path.resolve(file);
  }
}

/**
 * What a link means in the place of a file that is to be written. `follow`: the user has named this
 * file, and means what the link leads to. `replace`: the name is the product's own, in a folder
 * that may come from somebody else, and the link goes.
 */
export type Link = 'follow' | 'replace';

/** Returns the real path of a file to be written. */
export const targetOf = (file: string, link: Link): string =>
  link === 'follow'
    ? realPlace(file)
    : path.join(realPlace(path.dirname(file)), path.basename(file));

/**
 * Refuses a link where a file of the product's own is opened to be written: its folder may come
 * from somebody else.
 * @throws IsoproError WRITE_FAILED
 */
export function refuseLink(file: string): void {
  if (lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() !== true) return;
  throw new IsoproError('WRITE_FAILED', `${file} is a link, and its target would be overwritten`, {
    remedy:
      'Check the target of the link. Replace the link with the file itself, or remove it, and run the command again.',
  });
}

/**
 * Refuses a path at which no file can be written or replaced: a folder, a device or a pipe, or a
 * name in a folder that is missing or may not be written. @throws IsoproError WRITE_FAILED
 */
export function requireTarget(file: string, link: Link = 'follow'): void {
  const refuse = (reason: string, cause?: unknown): never => {
    throw new IsoproError('WRITE_FAILED', `${file} could not be written: ${reason}`, { cause });
  };
  if (file === '') refuse('the file name is empty');
  const target = targetOf(file, link);
  const folder = path.dirname(target);
  try {
    const there = (link === 'follow' ? statSync : lstatSync)(target, { throwIfNoEntry: false });
    const other =
      there === undefined || there.isSymbolicLink() ? null : otherThanFile(there, false);
    if (other !== null) refuse(`it ${other}`);
    if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
      refuse(`there is no folder ${folder}`);
    accessSync(folder, constants.W_OK);
  } catch (cause) {
    if (cause instanceof IsoproError) throw cause;
    refuse(
      code(cause) === 'EACCES' || code(cause) === 'EPERM' || code(cause) === 'EROFS'
        ? `no permission to write to the folder ${folder}`
        : (cause as Error).message,
      cause,
    );
  }
}

/**
 * Makes a folder and those above it; harmless where it is there. Node's own `recursive` asks again
 * for ever, and hears no signal, where a file system answers that the path does not exist although
 * the folder above it does (as /proc does).
 */
export function makeFolder(folder: string, mode = 0o777): void {
  const place = path.resolve(folder);
  try {
    mkdirSync(place, mode);
  } catch (error) {
    if (statSync(place, { throwIfNoEntry: false })?.isDirectory() === true) return;
    const above = path.dirname(place);
    if (
      code(error) !== 'ENOENT' ||
      above === place ||
      statSync(above, { throwIfNoEntry: false }) !== undefined
    )
      throw error;
    makeFolder(above, mode);
    makeFolder(place, mode);
  }
}

/**
 * Tests whether the process of an id has ended; false if unknown. A zombie process counts as ended:
 * in a container whose first process does not reap orphans it keeps its id.
 */
export function hasEnded(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return code(error) === 'ESRCH';
  }
  try {
    return /^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'latin1'));
  } catch {
    return false; // no Linux, or another's
  }
}

/** Returns an operating-system error about a path as an IsoproError. */
export function asFileError(error: unknown): unknown {
  const { code, path, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if (error instanceof IsoproError || code === undefined || path === undefined) return error;
  const reading = /^(open|read|l?stat|access|scandir|readlink|realpath)$/.test(syscall ?? '');
  return reading ? unreadable(path, error) : unwritable(path, error);
}
