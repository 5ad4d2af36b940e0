import { spawn } from 'node:child_process';
import { createCipheriv, createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { downloadModel, type DownloadProgress } from '../../src/engine/download.js';
import { locateRemote, type RemoteModel } from '../../src/engine/model-location.js';
import { cachedModels, resolveModel } from '../../src/engine/model-files.js';
import type { IsoproError } from '../../src/errors.js';

/**
 * Bytes that begin as a GGUF file does and differ from seed to seed; what they are matters to
 * nobody here.
 */
function content(bytes: number, seed: number): Buffer {
  const buffer = createCipheriv('aes-128-ctr', Buffer.alloc(16, seed), Buffer.alloc(16)).update(
    Buffer.alloc(bytes),
  );
  buffer.write('GGUF', 'latin1');
  return buffer;
}

interface Behaviour {
  body: Buffer;
  /** Announce and serve byte ranges. */
  ranges: boolean;
  /** Announce the SHA-256 of this as the hub does. */
  announce?: Buffer;
  /** How many requests for content (not probes) are cut after `cutAfter` bytes. */
  cuts: number;
  cutAfter: number;
  /** Content-Length less what is really sent; the connection then ends regularly. */
  missing: number;
  /** Stop sending after `cutAfter` bytes without closing, for this many requests. */
  hangs: number;
  /** Announce ranges, and answer each request for one with the whole file. */
  restarts: boolean;
  /** How many requests for a range are answered from another place, which their headers name. */
  shifts: number;
  /** Pause between pieces. */
  delayMs: number;
  status?: number;
}

let server: Server;
let home: string;
let base: string;
let behaviour: Behaviour;
/** Requests for content, in order, with the range that was asked for. */
let contentRequests: string[];
let bytesSent: number;

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (behaviour.status !== undefined) return void response.writeHead(behaviour.status).end();
  if (request.url?.startsWith('/v2/') === true) {
    return void response.end(JSON.stringify({ ggufFile: { rfilename: 'tagged-Q4_K_M.gguf' } }));
  }
  const { body } = behaviour;
  const probe = request.headers.range === 'bytes=0-3';
  const range =
    behaviour.ranges && (probe || !behaviour.restarts)
      ? /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '')
      : null;
  const shift =
    !probe && range !== null && behaviour.shifts > 0 && --behaviour.shifts >= 0 ? 1_000_000 : 0;
  const from = range === null ? 0 : Number(range[1]) - shift;
  const to =
    range === null || range[2] === '' ? body.length : Math.min(body.length, Number(range[2]) + 1);
  response.setHeader('content-length', to - from);
  response.setHeader('etag', `"${createHash('sha256').update(body).digest('hex').slice(0, 8)}"`);
  if (behaviour.ranges) response.setHeader('accept-ranges', 'bytes');
  if (behaviour.announce !== undefined) {
    response.setHeader(
      'x-linked-etag',
      `"${createHash('sha256').update(behaviour.announce).digest('hex')}"`,
    );
    response.setHeader('x-linked-size', behaviour.announce.length);
  }
  if (range !== null) response.setHeader('content-range', `bytes ${from}-${to - 1}/${body.length}`);
  response.writeHead(range === null ? 200 : 206);
  if (!probe) contentRequests.push(request.headers.range ?? 'whole');
  const cut = !probe && behaviour.cuts > 0 && --behaviour.cuts >= 0;
  const hang = !probe && behaviour.hangs > 0 && --behaviour.hangs >= 0;
  const end =
    cut || hang ? Math.min(to, from + behaviour.cutAfter) : to - (probe ? 0 : behaviour.missing);
  for (let at = from; at < end && !response.destroyed; at += 65_536) {
    const piece = body.subarray(at, Math.min(end, at + 65_536));
    if (!probe) bytesSent += piece.length;
    await new Promise((resolve) => response.write(piece, resolve));
    if (behaviour.delayMs > 0)
      await new Promise((resolve) => setTimeout(resolve, behaviour.delayMs));
  }
  if (cut || behaviour.missing > 0) response.destroy();
  else if (!hang) response.end();
}

beforeAll(async () => {
  server = createServer((request, response) => void serve(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});
beforeEach(() => {
  home = mkdtempSync(path.join(tmpdir(), 'isopro-download-'));
  process.env.ISOPRO_HOME = home;
  process.env.HF_ENDPOINT = base;
  contentRequests = [];
  bytesSent = 0;
  behaviour = {
    body: content(1_000_000, 1),
    ranges: true,
    cuts: 0,
    cutAfter: 0,
    missing: 0,
    hangs: 0,
    restarts: false,
    shifts: 0,
    delayMs: 0,
  };
});
afterEach(() => {
  server.closeAllConnections();
  delete process.env.ISOPRO_HOME;
  delete process.env.HF_ENDPOINT;
  rmSync(home, { recursive: true, force: true });
});

function remote(uri = `${base}/models/m.gguf`): RemoteModel {
  const located = locateRemote(uri);
  if (located === null || !('path' in located)) throw new Error('not a located model');
  return located;
}

/** Everything under a name that a later run would take for a model. */
function finished(): string[] {
  return readdirSync(home, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.gguf') && !name.includes('.partial'))
    .sort();
}

describe('a whole download', () => {
  test('lands in the cache under the name of its source, with the announced content and growing progress', async () => {
    const progress: DownloadProgress[] = [];
    const result = await resolveModel('hf:owner/repo-GGUF/sub/m.gguf', {
      onProgress: (step) => progress.push(step),
    });
    expect(result).toEqual({
      path: path.join(home, 'models', 'huggingface', 'owner', 'repo-GGUF', 'sub', 'm.gguf'),
      url: `${base}/owner/repo-GGUF/resolve/main/sub/m.gguf`,
    });
    expect(readFileSync(result.path).equals(behaviour.body)).toBe(true);
    expect(progress.length).toBeGreaterThan(0);
    for (const step of progress) expect(step.totalBytes).toBe(behaviour.body.length);
    expect(progress.at(-1)!.downloadedBytes).toBeLessThanOrEqual(behaviour.body.length);
  });

  test('happens once: the second time the file is taken from the cache without a request', async () => {
    const first = await resolveModel('qwen3-0.6b');
    const requests = contentRequests.length;
    behaviour.status = 500;
    expect(await resolveModel('qwen3-0.6b')).toEqual(first);
    expect(contentRequests.length).toBe(requests);
    expect(await cachedModels()).toEqual([
      { alias: 'qwen3-0.6b', path: first.path, bytes: behaviour.body.length },
    ]);
  });

  test('asks the hub which file a quantisation is', async () => {
    const result = await resolveModel('hf:owner/repo:Q4_K_M');
    expect(path.basename(result.path)).toBe('tagged-Q4_K_M.gguf');
  });

  test('fetches every part of a split model', async () => {
    const result = await resolveModel(`${base}/big-00001-of-00003.gguf`);
    expect(finished().map((name) => path.basename(name))).toEqual([
      'big-00001-of-00003.gguf',
      'big-00002-of-00003.gguf',
      'big-00003-of-00003.gguf',
    ]);
    for (const name of finished())
      expect(readFileSync(path.join(home, name)).equals(behaviour.body)).toBe(true);
    expect(await cachedModels()).toEqual([
      { alias: null, path: result.path, bytes: 3 * behaviour.body.length },
    ]);
  });

  test('fails without a request where downloads are not allowed', async () => {
    await expect(resolveModel('smollm2-135m', { download: false })).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
      remedy: expect.stringContaining('models pull smollm2-135m'),
    });
    expect(contentRequests).toEqual([]);
  });
});

describe('a cut connection', () => {
  test.each([
    ['with byte ranges', true],
    ['without byte ranges', false],
  ])('%s: the file is whole in the end', async (_title, ranges) => {
    behaviour = {
      ...behaviour,
      body: content(23_000_000, 2),
      ranges,
      cuts: 1,
      cutAfter: 13_000_000,
    };
    const model = remote();
    await downloadModel(model);
    expect(readFileSync(model.path).equals(behaviour.body)).toBe(true);
    expect(behaviour.cuts).toBe(0);
    // After the cut nothing is fetched twice but what had not arrived.
    expect(contentRequests.map((range) => range === 'whole')).toEqual([true, !ranges]);
  });

  test.each([false, true])(
    'a range from another place than was asked for is not put behind what is there (announced: %s)',
    async (announced) => {
      const body = content(9_000_000, 5);
      behaviour = {
        ...behaviour,
        body,
        cuts: 1,
        cutAfter: 5_000_000,
        shifts: 2,
        ...(announced && { announce: body }),
      };
      const model = remote();
      await downloadModel(model);
      expect(readFileSync(model.path).equals(body)).toBe(true);
      expect([behaviour.cuts, behaviour.shifts]).toEqual([0, 0]);
      // what had arrived is asked for behind, each time
      expect(contentRequests).toEqual(['whole', ...Array(3).fill(contentRequests[1])]);
    },
  );

  test('a later run goes on where a broken-off one stopped', async () => {
    const body = content(30_000_000, 3);
    behaviour = { ...behaviour, body, announce: body, hangs: 100, cutAfter: 6_000_000 };
    const model = remote();
    await expect(downloadModel(model, { stallMs: 5000 })).rejects.toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
    });
    expect(finished()).toEqual([]);
    behaviour.hangs = 0;
    bytesSent = 0;
    await downloadModel(model);
    expect(readFileSync(model.path).equals(body)).toBe(true);
    // Three connections had each brought a whole 5 MB piece, at least.
    expect(bytesSent).toBeLessThan(25_000_000);
  });

  test('nothing is taken from a broken-off run of a file that has changed since', async () => {
    const old = content(30_000_000, 4);
    behaviour = { ...behaviour, body: old, announce: old, hangs: 100, cutAfter: 6_000_000 };
    const model = remote();
    await expect(downloadModel(model, { stallMs: 5000 })).rejects.toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
    });
    const fresh = content(30_000_000, 5);
    behaviour = { ...behaviour, body: fresh, announce: fresh, hangs: 0 };
    await downloadModel(model);
    expect(readFileSync(model.path).equals(fresh)).toBe(true);
  });
});

describe('what cannot be used leaves no file behind', () => {
  async function failure(model: RemoteModel, stallMs = 2000): Promise<unknown> {
    const error: unknown = await downloadModel(model, { stallMs }).then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(finished()).toEqual([]);
    return error;
  }

  test('404 names the URL and where to put the file', async () => {
    behaviour.status = 404;
    const model = remote();
    expect(await failure(model)).toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: `${model.url} answered 404: file not found`,
      remedy: expect.stringContaining(model.path),
    });
  });

  test.each([
    [401, /does not exist, or it is gated: .*HF_TOKEN/],
    [403, /is gated: .*HF_TOKEN/],
    [404, /file not found/],
  ])('%i for an alias names its file and two other ways to a model', async (status, meaning) => {
    behaviour.status = status;
    const model = remote('smollm3-3b');
    const error = (await failure(model)) as IsoproError;
    expect(error.code).toBe('MODEL_DOWNLOAD_FAILED');
    expect(error.message).toContain(
      `${base}/ggml-org/SmolLM3-3B-GGUF/resolve/main/SmolLM3-Q4_K_M.gguf answered ${status}: `,
    );
    expect(error.message).toMatch(meaning);
    expect(error.message).toMatch(/The alias smollm3-3b stands for this file$/);
    expect(error.remedy).toContain('hf:<owner>/<repository>/<file>.gguf');
    expect(error.remedy).toContain('the path of a file that is already on this machine');
    expect(error.remedy).toContain(model.path);
    expect(error.remedy).not.toContain('again');
    // what the remedy names works, beside the alias that does not
    delete behaviour.status;
    const named = await resolveModel('hf:ggml-org/SmolLM3-3B-GGUF/other.gguf');
    expect(await resolveModel(named.path)).toEqual({ path: named.path, url: null });
  });

  test('a quantisation that the hub does not have', async () => {
    behaviour.status = 404;
    await expect(resolveModel('hf:owner/repo:Q4_K_M')).rejects.toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringMatching(/manifests\/Q4_K_M answered 404: file not found$/),
      remedy: expect.stringContaining('hf:<owner>/<repository>/<file>.gguf'),
    });
  });

  test('a server that fails may be asked again', async () => {
    behaviour.status = 500;
    const model = remote('smollm3-3b');
    expect(await failure(model)).toMatchObject({
      message: `${model.url} answered 500`,
      remedy: expect.stringMatching(/^Run it again/),
    });
  });

  test('no server at all', async () => {
    const started = Date.now();
    expect(await failure(remote('http://127.0.0.1:9/m.gguf'))).toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining('http://127.0.0.1:9/m.gguf could not be reached'),
    });
    expect(Date.now() - started).toBeLessThan(5000);
  });

  test.each([
    ['with byte ranges', true],
    ['without byte ranges', false],
  ])('a body that always ends early, %s', async (_title, ranges) => {
    behaviour = { ...behaviour, ranges, missing: 1000 };
    expect(await failure(remote())).toMatchObject({ code: 'MODEL_DOWNLOAD_FAILED' });
  });

  test('a server that begins again each time and breaks off', async () => {
    Object.assign(behaviour, { restarts: true, cuts: Infinity, cutAfter: 300_000 });
    await expect(downloadModel(remote())).rejects.toMatchObject({ code: 'MODEL_DOWNLOAD_FAILED' });
    expect(contentRequests.length).toBeLessThanOrEqual(4);
    expect(finished()).toEqual([]);
  });

  test('a server that stops sending', async () => {
    behaviour = { ...behaviour, ranges: false, hangs: 100, cutAfter: 100_000 };
    expect(await failure(remote(), 500)).toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining('sent nothing for'),
    });
  });

  test('an HTML page in place of a model', async () => {
    behaviour.body = Buffer.from('<!doctype html><title>Sign in</title>'.repeat(100));
    expect(await failure(remote())).toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining('is not a GGUF file'),
    });
    expect(contentRequests).toEqual([]);
  });

  test('content other than announced, of the right size', async () => {
    behaviour.announce = content(behaviour.body.length, 6);
    expect(await failure(remote())).toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining('SHA-256'),
    });
  });

  test('a size other than announced', async () => {
    behaviour.announce = content(behaviour.body.length + 1, 6);
    expect(await failure(remote())).toMatchObject({
      code: 'MODEL_DOWNLOAD_FAILED',
      message: expect.stringContaining(`announced ${behaviour.body.length + 1} bytes`),
    });
  });
});

test.each([true, false])(
  'an AbortSignal ends a download at once (byte ranges: %s)',
  async (ranges) => {
    behaviour = { ...behaviour, ranges, body: content(5_000_000, 7), delayMs: 20 };
    const abort = new AbortController();
    let aborted = 0;
    const download = downloadModel(remote(), {
      signal: abort.signal,
      onProgress: ({ downloadedBytes }) => {
        if (downloadedBytes === 0 || aborted !== 0) return;
        aborted = Date.now();
        abort.abort();
      },
    });
    await expect(download).rejects.toMatchObject({ code: 'ABORTED' });
    expect(aborted).toBeGreaterThan(0);
    expect(Date.now() - aborted).toBeLessThan(2000);
    expect(finished()).toEqual([]);
  },
);

test('two processes that want the same file fetch it once, and a killed one does not lock out the next', async () => {
  behaviour = { ...behaviour, body: content(6_000_000, 8), delayMs: 15 };
  const script = path.join(home, 'pull.mjs');
  writeFileSync(
    script,
    `import { resolveModel } from ${JSON.stringify(new URL('../../dist/src/engine/model-files.js', import.meta.url).href)};
     const onProgress = ({ phase }) => process.stderr.write(phase + '\\n');
     const { path } = await resolveModel(${JSON.stringify(`${base}/m.gguf`)}, { onProgress });
     process.stdout.write(path);`,
  );
  const start = () => {
    const child = spawn(process.execPath, [script], { env: { ...process.env, ISOPRO_HOME: home } });
    let output = '';
    child.stdout.on('data', (text) => (output += String(text)));
    const downloading = new Promise<void>((resolve) =>
      child.stderr.on('data', (text) => String(text).includes('downloading') && resolve()),
    );
    const ended = new Promise<string>((resolve) =>
      child.on('close', (code) => resolve(code === 0 ? output : `exit ${code}`)),
    );
    return { child, downloading, ended };
  };
  const victim = start();
  await victim.downloading;
  victim.child.kill('SIGKILL');
  await victim.ended;

  contentRequests = [];
  const processes = [start(), start()];
  const paths = await Promise.all(processes.map(({ ended }) => ended));
  expect(new Set(paths).size).toBe(1);
  expect(readFileSync(paths[0]!).equals(behaviour.body)).toBe(true);
  // One download: a whole request to learn of ranges (never read to the end) and at most one a
  // piece of 5 MB.
  expect(contentRequests.length).toBeLessThanOrEqual(3);
});

describe('what is not a download', () => {
  test('a path is taken as it is', async () => {
    const file = path.join(home, 'mine.gguf');
    writeFileSync(file, behaviour.body);
    expect(await resolveModel(file)).toEqual({ path: file, url: null });
  });

  test.each([
    ['a misspelt alias', 'qwen-2.5', /neither a file nor an alias.*qwen2\.5-3b/],
    ['a path that is not there', './missing.gguf', /there is no file/],
  ])('%s', async (_title, name, message) => {
    await expect(resolveModel(name)).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
      message: expect.stringMatching(message),
    });
  });

  test('a folder names the models in it', async () => {
    writeFileSync(path.join(home, 'mine.gguf'), behaviour.body);
    await expect(resolveModel(home)).rejects.toMatchObject({
      code: 'MODEL_NOT_FOUND',
      message: expect.stringContaining('mine.gguf'),
    });
  });

  test.each([
    'hf:',
    'hf:owner',
    'hf:owner/',
    'hf:owner/repo//x.gguf',
    'https://',
    'http://user:secret@host/m.gguf',
  ])('%s is refused', async (name) => {
    await expect(resolveModel(name)).rejects.toMatchObject({ code: 'INVALID_ARGUMENT' });
  });

  test('a URI cannot reach outside the cache', () => {
    for (const uri of [
      'hf:../../x/../../../y/z.gguf',
      `${base}/..%2f..%2f..%2fetc/x.gguf`,
      'hf:a/b/../../../../x.gguf',
    ]) {
      expect(remote(uri).path.startsWith(path.join(home, 'models') + path.sep)).toBe(true);
      expect(remote(uri).path).not.toContain(`..${path.sep}`);
    }
    expect(existsSync(path.join(home, 'models'))).toBe(false);
  });
});
