/**
 * Asks a server about a model file before fetching it: reachable, how large, which content,
 * resumable, a GGUF at all?
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { abortError, IsoproError } from '../errors.js';
import { given } from '../given.js';
import { keyFor } from '../keys.js';
import { MODEL_ALIASES } from './model-aliases.js';
import { hubEndpoint, type RemoteModel } from './model-location.js';

export interface RemoteFile {
  readonly url: string;
  /** Size in bytes, if the server reports it. */
  readonly size: number | null;
  /**
   * SHA-256 of the content in hexadecimal, if the server reports it (the Hugging Face hub does).
   */
  readonly sha256: string | null;
  /** Changes when the file behind the URL changes. */
  readonly version: string;
  /** Strong ETag of the content, if the server sends one. */
  readonly etag: string | null;
  /** The server announces that it serves byte ranges. */
  readonly ranges: boolean;
}

const MAX_REDIRECTS = 10;
const ATTEMPTS = 3;
const RETRY_MS = 500;
const TIMEOUT_MS = 30_000;

/**
 * Returns the reason of a failed fetch, which Node hides in a chain of causes (refused, no such
 * host, reset).
 */
export function networkReason(error: unknown): string {
  const reasons: string[] = [];
  for (
    let current = error;
    current !== undefined && current !== null && reasons.length < 4;
    current = (current as Error).cause
  ) {
    const { message, code, name } = current as NodeJS.ErrnoException;
    const text = message !== '' ? message : (code ?? name);
    if (text !== 'fetch failed') reasons.push(text);
  }
  return reasons.join(': ') || String(error);
}

/**
 * Returns the authorization header from HF_TOKEN; sent only to the hub, never to a redirect target.
 */
export function authorization(url: URL): Record<string, string> {
  const token = keyFor('HF_TOKEN');
  return token && url.origin === new URL(hubEndpoint()).origin
    ? { authorization: `Bearer ${token}` }
    : {};
}

/**
 * A connection that broke, perhaps one that the server had closed while it was kept for reuse; not
 * a server that is not there.
 */
function connectionBroke(error: unknown): boolean {
  const code = ((error as Error).cause as NodeJS.ErrnoException | undefined)?.code;
  return code === 'UND_ERR_SOCKET' || code === 'ECONNRESET';
}

async function request(
  url: URL,
  headers: Record<string, string>,
  signal: AbortSignal | undefined,
): Promise<Response> {
  const ending = [AbortSignal.timeout(TIMEOUT_MS), ...(signal === undefined ? [] : [signal])];
  for (let attempt = 1; ; ++attempt) {
    try {
      const response = await fetch(url, {
        headers: { 'accept-encoding': 'identity', ...authorization(url), ...headers },
        redirect: 'manual',
        signal: AbortSignal.any(ending),
      });
      if ((response.status < 500 && response.status !== 429) || attempt === ATTEMPTS)
        return response;
      await response.body?.cancel();
    } catch (error) {
      if (attempt === ATTEMPTS || !connectionBroke(error)) throw error;
    }
    await sleep(RETRY_MS * 2 ** (attempt - 1), undefined, given({ signal }));
  }
}

/** Statuses after which asking again does not help, and what they mean. */
const LASTING: Readonly<Record<number, string>> = {
  // the hub's answer for a repository that does not exist, too
  401: 'the repository does not exist, or it is gated: accept its terms on the hub and set HF_TOKEN',
  403: 'the repository is gated: accept its terms on the hub and set HF_TOKEN',
  404: 'file not found',
};

/** @param model whose file it is, where that is known */
function refused(url: string, status: number, model?: RemoteModel): IsoproError {
  const answer = `${url} answered ${status}`;
  const meaning = LASTING[status];
  if (meaning === undefined)
    return model === undefined
      ? new IsoproError('MODEL_DOWNLOAD_FAILED', answer)
      : downloadFailed(answer, model.path);
  const alias =
    model !== undefined && Object.hasOwn(MODEL_ALIASES, model.name)
      ? `. The alias ${model.name} stands for this file`
      : '';
  return new IsoproError('MODEL_DOWNLOAD_FAILED', `${answer}: ${meaning}${alias}`, {
    remedy:
      'Name another file with hf:<owner>/<repository>/<file>.gguf, or give the path of a file that is already on ' +
      `this machine.${model === undefined ? '' : ` If you get this file in another way, save it as ${model.path}.`}`,
  });
}

/** @param destination where the file belongs */
export function downloadFailed(message: string, destination: string, cause?: unknown): IsoproError {
  return new IsoproError('MODEL_DOWNLOAD_FAILED', message, {
    cause,
    remedy: `Run it again, or download the URL above in another way and save the file as ${destination} (or pass it as --model PATH).`,
  });
}

/**
 * Reads the first bytes and the headers of a file of the model, following redirects.
 * @throws IsoproError MODEL_DOWNLOAD_FAILED, ABORTED
 */
export async function probeFile(
  address: string,
  model: RemoteModel,
  signal?: AbortSignal,
): Promise<RemoteFile> {
  let url = new URL(address);
  let sha256: string | null = null;
  let size: number | null = null;
  try {
    for (let hop = 0; hop <= MAX_REDIRECTS; ++hop) {
      const response = await request(url, { range: 'bytes=0-3' }, signal);
      // The hub names content and size on its own answer, before it redirects to where the bytes
      // are.
      const linked = /^"?([0-9a-f]{64})"?$/.exec(response.headers.get('x-linked-etag') ?? '')?.[1];
      sha256 ??= linked ?? null;
      size ??= Number(response.headers.get('x-linked-size')) || null;
      const next = response.headers.get('location');
      if (response.status >= 300 && response.status < 400 && next !== null) {
        await response.body?.cancel();
        url = new URL(next, url);
        continue;
      }
      if (!response.ok) {
        await response.body?.cancel();
        throw refused(address, response.status, model);
      }
      const total =
        response.status === 206
          ? /\/(\d+)$/.exec(response.headers.get('content-range') ?? '')?.[1]
          : response.headers.get('content-length');
      size ??= total == null ? null : Number(total);
      await requireMagic(address, response, model.path);
      const etag = response.headers.get('etag');
      return {
        url: address,
        size,
        sha256,
        etag: etag?.startsWith('"') === true ? etag : null,
        version: sha256 ?? `${etag ?? response.headers.get('last-modified') ?? ''} ${size ?? ''}`,
        ranges: response.status === 206 && response.headers.get('accept-ranges') === 'bytes',
      };
    }
    throw downloadFailed(`${address} redirects more than ${MAX_REDIRECTS} times`, model.path);
  } catch (error) {
    if (error instanceof IsoproError) throw error;
    if (signal?.aborted === true) throw abortError('the download was cancelled', signal);
    throw downloadFailed(
      `${address} could not be reached: ${networkReason(error)}`,
      model.path,
      error,
    );
  }
}

/**
 * A login page or an error page with status 200 is found out before gigabytes of another file are
 * fetched.
 */
async function requireMagic(
  address: string,
  response: Response,
  destination: string,
): Promise<void> {
  const reader = response.body?.getReader();
  let start = '';
  while (reader !== undefined && start.length < 4) {
    const { done, value } = await reader.read();
    if (done) break;
    start += Buffer.from(value.subarray(0, 4)).toString('latin1');
  }
  await reader?.cancel();
  if (start.slice(0, 4) !== 'GGUF')
    throw downloadFailed(`${address} is not a GGUF file`, destination);
}

/**
 * Returns the hub's file for a quantisation of a repository.
 * @throws IsoproError MODEL_DOWNLOAD_FAILED, ABORTED
 */
export async function hubFileOfTag(
  owner: string,
  repository: string,
  tag: string,
  signal?: AbortSignal,
): Promise<string> {
  const address = new URL(
    `${hubEndpoint()}v2/${[owner, repository, 'manifests', tag].map(encodeURIComponent).join('/')}`,
  );
  let answer: unknown;
  try {
    // The hub adds the GGUF file's name to the manifest for this user agent only (llama.cpp, pull
    // request 11195).
    const response = await request(address, { 'user-agent': 'llama-cpp' }, signal);
    if (!response.ok) throw refused(address.href, response.status);
    answer = await response.json();
  } catch (error) {
    if (error instanceof IsoproError) throw error;
    if (signal?.aborted === true) throw abortError('the download was cancelled', signal);
    const message = `${address.href} could not be read: ${networkReason(error)}`;
    throw new IsoproError('MODEL_DOWNLOAD_FAILED', message, { cause: error });
  }
  const file = (answer as { ggufFile?: { rfilename?: unknown } } | null)?.ggufFile?.rfilename;
  if (typeof file !== 'string' || file === '')
    throw new IsoproError('MODEL_DOWNLOAD_FAILED', `${address.href} does not name a GGUF file`);
  return file;
}
