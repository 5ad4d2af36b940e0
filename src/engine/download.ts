/**
 * Brings a model file into its place: probed first, fetched beside its place, checked, and only
 * then given its name. One process fetches a file at a time; others wait for it.
 */
import { createHash, hash } from 'node:crypto';
import { createReadStream, createWriteStream, existsSync } from 'node:fs';
import { readdir, rename, rm, stat, statfs } from 'node:fs/promises';
import path from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { abortError, type IsoproError } from '../errors.js';
import { makeFolder } from '../files.js';
import { given } from '../given.js';
import {
  authorization,
  downloadFailed,
  networkReason,
  probeFile,
  type RemoteFile,
} from './download-probe.js';
import { splitParts, type RemoteModel } from './model-location.js';

export interface DownloadProgress {
  readonly downloadedBytes: number;
  /** Total size; null if the server does not report it. */
  readonly totalBytes: number | null;
  /** `waiting`: another process is fetching the same file. */
  readonly phase: 'waiting' | 'downloading' | 'checking';
}

export interface DownloadOptions {
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Milliseconds without a new byte after which the download fails. */
  readonly stallMs?: number;
}

const STALL_MS = 60_000;
const LOCK_POLL_MS = 250;
/** Attempts that bring nothing on. */
const FRUITLESS_ATTEMPTS = 3;
const PROGRESS_MS = 100;

const cancelled = (signal: AbortSignal | undefined): IsoproError =>
  abortError('the download was cancelled', signal);

/** @throws IsoproError MODEL_DOWNLOAD_FAILED, ABORTED */
export async function downloadModel(
  model: RemoteModel,
  options: DownloadOptions = {},
): Promise<void> {
  const { signal } = options;
  if (signal?.aborted === true) throw cancelled(signal);
  const folder = path.dirname(model.path);
  const names = splitParts(path.basename(model.path));
  // Short names beside the place: its own may be as long as a file system allows.
  const partialNames =
    names.length === 1
      ? ['model.gguf']
      : splitParts(`model${path.basename(model.path).slice(-'-00001-of-00001.gguf'.length)}`);
  const urls = splitParts(model.url.split('/').at(-1) ?? '').map(
    (name) => new URL(name, model.url).href,
  );
  const identity = hash('sha256', model.path).slice(0, 16);
  const partials = path.join(folder, '.partial');
  try {
    makeFolder(partials);
  } catch (cause) {
    throw downloadFailed(
      `${partials} cannot be created: ${(cause as Error).message}`,
      model.path,
      cause,
    );
  }
  const release = await acquireLock(path.join(partials, `${identity}.lock`), options);
  try {
    if (existsSync(model.path)) return;
    const files = await Promise.all(
      (names.length === urls.length && names.length > 1 ? urls : [model.url]).map((url) =>
        probeFile(url, model, signal),
      ),
    );
    const versions = files.map(({ version }) => version).join('\n');
    const version = hash('sha256', versions).slice(0, 16);
    const partial = path.join(partials, `${identity}-${version}`);
    // A broken-off run is continued only where its result can be proven: another file may stand
    // behind the URL by now, and a machine that lost power may have kept the length of what was
    // written and not its bytes.
    const resumable = files.every((file) => file.sha256 !== null && file.ranges);
    for (const name of await readdir(partials)) {
      if (name.startsWith(`${identity}-`) && (name !== path.basename(partial) || !resumable)) {
        await rm(path.join(partials, name), { recursive: true, force: true });
      }
    }
    makeFolder(partial);
    await requireSpace(files, partial, model.path);
    const parts = files.map((file, i) => ({ file, target: path.join(partial, partialNames[i]!) }));
    const totalBytes = totalSize(files);
    let before = 0;
    for (const { file, target } of parts) {
      await fetchFile(file, target, { before, totalBytes, destination: model.path }, options);
      before += file.size ?? 0;
    }
    await checkAll(parts, partial, model.path, options);
    // The first part last: it is the name that says the model is there.
    for (let part = names.length - 1; part >= 0; --part)
      await rename(path.join(partial, partialNames[part]!), path.join(folder, names[part]!));
    await rm(partial, { recursive: true, force: true });
  } finally {
    release();
  }
}

/**
 * A lock between processes that ends with its owner, however that ends: an open write transaction
 * of SQLite. Returns the function that releases it.
 */
async function acquireLock(
  file: string,
  { signal, onProgress }: DownloadOptions,
): Promise<() => void> {
  const database = new Database(file, { timeout: 0 });
  try {
    for (;;) {
      try {
        database.exec('BEGIN EXCLUSIVE');
        return () => database.close();
      } catch (error) {
        if ((error as { code?: string }).code?.startsWith('SQLITE_BUSY') !== true) throw error;
      }
      onProgress?.({ phase: 'waiting', downloadedBytes: 0, totalBytes: null });
      await sleep(LOCK_POLL_MS, undefined, given({ signal }));
    }
  } catch (error) {
    database.close();
    throw signal?.aborted === true ? cancelled(signal) : error;
  }
}

function totalSize(files: readonly RemoteFile[]): number | null {
  return files.every((file) => file.size !== null)
    ? files.reduce((sum, file) => sum + (file.size ?? 0), 0)
    : null;
}

async function requireSpace(
  files: readonly RemoteFile[],
  partial: string,
  destination: string,
): Promise<void> {
  const total = totalSize(files);
  if (total === null) return;
  const { bavail, bsize } = await statfs(partial);
  let have = 0;
  for (const name of await readdir(partial)) have += (await stat(path.join(partial, name))).size;
  if (total - have > bavail * bsize) {
    throw downloadFailed(
      `${files[0]?.url} needs ${total - have} bytes, and the disk of ${path.dirname(destination)} has ${bavail * bsize} free`,
      destination,
    );
  }
}

/**
 * Returns where the bytes of a response belong: after the existing ones, or at the start if the
 * server sends the whole file.
 */
function startOf(response: Response, file: RemoteFile, have: number): number {
  if (response.status !== 206) return 0;
  const range = /^bytes (\d+)-\d+\/(\d+)$/.exec(response.headers.get('content-range') ?? '');
  if (
    range === null ||
    Number(range[1]) !== have ||
    (file.size !== null && Number(range[2]) !== file.size)
  )
    throw new Error(
      `the server did not answer with the range bytes ${have}- (content-range: ${response.headers.get('content-range') ?? 'none'})`,
    );
  return have;
}

/** Appends to what an earlier attempt brought where the server serves ranges, else starts over. */
async function fetchFile(
  file: RemoteFile,
  target: string,
  whole: {
    readonly before: number;
    readonly totalBytes: number | null;
    readonly destination: string;
  },
  { signal, onProgress, stallMs = STALL_MS }: DownloadOptions,
): Promise<void> {
  const { before, totalBytes, destination } = whole;
  let shown = -Infinity;
  const show = (received: number): void => {
    const now = performance.now();
    if (now - shown < PROGRESS_MS) return;
    shown = now;
    onProgress?.({ phase: 'downloading', downloadedBytes: before + received, totalBytes });
  };
  let fruitless = 0;
  // bytes that were there before any attempt: a server that begins again each time brings nothing
  // on
  let most = 0;
  for (;;) {
    const there = file.ranges ? await sizeOf(target) : 0;
    const have = file.size !== null && there > file.size ? 0 : there;
    if (have > 0 && have === file.size) return;
    most = Math.max(most, have);
    const stalled = new AbortController();
    const watchdog = setTimeout(
      () => stalled.abort(new Error(`the server sent nothing for ${Math.round(stallMs / 1000)} s`)),
      stallMs,
    );
    const either =
      signal === undefined ? stalled.signal : AbortSignal.any([signal, stalled.signal]);
    let received = 0;
    try {
      // Of a redirected request fetch takes the token away.
      const headers: Record<string, string> = {
        'accept-encoding': 'identity',
        ...authorization(new URL(file.url)),
      };
      if (have > 0) headers.range = `bytes=${have}-`;
      if (have > 0 && file.etag !== null) headers['if-range'] = file.etag;
      const response = await fetch(file.url, { headers, signal: either });
      if (!response.ok || response.body === null)
        throw new Error(`the server answered ${response.status}`);
      const start = startOf(response, file, have);
      const count = new Transform({
        transform(chunk: Buffer, _encoding, done) {
          received += chunk.length;
          watchdog.refresh();
          show(start + received);
          done(null, chunk);
        },
      });
      const source = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
      const sink = createWriteStream(target, { flags: start === 0 ? 'w' : 'a' });
      await pipeline(source, count, sink, { signal: either });
      return;
    } catch (error) {
      if (signal?.aborted === true) throw cancelled(signal);
      fruitless = file.ranges && (await sizeOf(target)) > most ? 0 : fruitless + 1;
      if (fruitless === FRUITLESS_ATTEMPTS || stalled.signal.aborted)
        throw downloadFailed(
          `${file.url}: ${networkReason(stalled.signal.aborted ? stalled.signal.reason : error)}`,
          destination,
          error,
        );
    } finally {
      clearTimeout(watchdog);
    }
  }
}

async function sizeOf(file: string): Promise<number> {
  return stat(file).then(
    ({ size }) => size,
    () => 0,
  );
}

async function checkAll(
  parts: readonly { readonly file: RemoteFile; readonly target: string }[],
  partial: string,
  destination: string,
  { signal, onProgress }: DownloadOptions,
): Promise<void> {
  const totalBytes = totalSize(parts.map(({ file }) => file));
  let checked = 0;
  for (const { file, target } of parts) {
    const { size } = await stat(target);
    if (file.size !== null && size !== file.size) {
      await rm(partial, { recursive: true, force: true });
      throw downloadFailed(
        `${file.url} announced ${file.size} bytes but sent ${size}`,
        destination,
      );
    }
    if (file.sha256 === null) continue;
    const contents = createHash('sha256');
    try {
      const bytes = createReadStream(target, { highWaterMark: 2 ** 20, ...given({ signal }) });
      for await (const chunk of bytes as AsyncIterable<Buffer>) {
        contents.update(chunk);
        checked += chunk.length;
        onProgress?.({ phase: 'checking', downloadedBytes: checked, totalBytes });
      }
    } catch (error) {
      throw signal?.aborted === true ? cancelled(signal) : error;
    }
    const digest = contents.digest('hex');
    if (digest !== file.sha256) {
      await rm(partial, { recursive: true, force: true });
      throw downloadFailed(
        `${file.url} arrived damaged: its SHA-256 is ${digest}, but the server announced ${file.sha256}`,
        destination,
      );
    }
  }
}
