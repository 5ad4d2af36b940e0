/**
 * HTTPS by files: what is served over it, whom it takes for a page of its own, and files that do
 * not do.
 */
import { execFile, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { request, type RequestOptions } from 'node:https';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Server } from '../../src/server/server.js';
import { readTls } from '../../src/server/tls.js';
import { selfSigned } from '../models/certificate.js';
import { closeAll, eventsOf, folder, reported, send, start } from '../models/server.js';

const pair = selfSigned();
const other = selfSigned();
const at = (name: string): string => path.join(folder, name);
const written = (name: string, text: string): string => {
  writeFileSync(at(name), text);
  return at(name);
};
const files = { cert: written('cert.pem', pair.cert), key: written('key.pem', pair.key) };

let server: Server;
beforeAll(async () => {
  server = await start({ tls: files });
});
afterAll(async () => {
  await closeAll();
  expect(reported).toEqual([]);
});

interface Got {
  readonly status: number;
  readonly text: string;
  readonly code: string | undefined;
}
function ask(target: string, options: RequestOptions = {}, body?: object): Promise<Got> {
  return new Promise((resolve, reject) => {
    const sent = request(
      `${server.url}${target}`,
      { ca: pair.cert, servername: 'localhost', agent: false, ...options },
      (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('end', () => {
          const { error } = text.startsWith('{')
            ? (JSON.parse(text) as { error?: { code: string } })
            : {};
          resolve({ status: response.statusCode!, text, code: error?.code });
        });
      },
    );
    sent.on('error', reject);
    sent.end(body && JSON.stringify(body));
  });
}

const CHAT = '/v1/chat/completions';
const body = {
  model: 'base',
  messages: [{ role: 'user', content: 'Name a river.' }],
  max_tokens: 6,
  seed: 5,
};
const post = { method: 'POST', headers: { 'content-type': 'application/json' } };

test('answers over HTTPS, whole and streamed, as without it', async () => {
  expect(server.url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
  const plain = (await send(await start(), CHAT, { body })).body.choices[0].message.content;
  expect(JSON.parse((await ask(CHAT, post, body)).text).choices[0].message.content).toBe(plain);
  const { events, done } = eventsOf((await ask(CHAT, post, { ...body, stream: true })).text);
  expect([done, events.map(({ choices }) => choices[0].delta.content ?? '').join('')]).toEqual([
    true,
    plain,
  ]);
});

test('shows the certificate of the file: who trusts another one does not come in, nor who speaks no TLS', async () => {
  await expect(ask('/health', { ca: other.cert })).rejects.toMatchObject({
    code: 'DEPTH_ZERO_SELF_SIGNED_CERT',
  });
  await expect(send({ url: server.url.replace('https', 'http') }, '/health')).rejects.toThrow();
  expect((await ask('/health')).status).toBe(200);
});

test('takes requests for its own names, and pages that came over HTTPS, as before', async () => {
  const { host } = new URL(server.url);
  const from = async (headers: Record<string, string>): Promise<Got> =>
    ask('/v1/models', { headers });
  for (const headers of [{ origin: server.url }, { host: `localhost:${new URL(server.url).port}` }])
    expect((await from(headers)).status).toBe(200);
  expect(await from({ origin: `http://${host}` })).toMatchObject({
    status: 403,
    code: 'origin_not_allowed',
  });
  expect(await from({ host: 'evil.example.com' })).toMatchObject({
    status: 403,
    code: 'host_not_allowed',
  });
});

(spawnSync('curl', ['--version']).status === 0 ? test : test.skip)(
  'curl trusts it by its file',
  async () => {
    const { stdout } = await promisify(execFile)('curl', [
      '-sS',
      '--cacert',
      files.cert,
      `${server.url}/health`,
    ]);
    expect(JSON.parse(stdout)).toMatchObject({ status: 'ok' });
  },
);

mkdirSync(at('a-folder'));
const locked = pair.privateKey.export({
  type: 'pkcs8',
  format: 'pem',
  cipher: 'aes-256-cbc',
  passphrase: 'x',
}) as string;
test.each([
  ['a certificate that is not there', { cert: at('absent.pem') }, 'FILE_UNREADABLE', 'absent.pem'],
  ['a folder', { key: at('a-folder') }, 'FILE_UNREADABLE', 'is a folder'],
  [
    'a certificate that is none',
    { cert: written('none.pem', 'PEM') },
    'INVALID_ARGUMENT',
    'is not a certificate',
  ],
  [
    'a key in the place of the certificate',
    { cert: files.key },
    'INVALID_ARGUMENT',
    'is not a certificate',
  ],
  [
    'a certificate in the place of the key',
    { key: files.cert },
    'INVALID_ARGUMENT',
    'is not a usable private key',
  ],
  [
    'a key with a passphrase',
    { key: written('locked.pem', locked) },
    'INVALID_ARGUMENT',
    'passphrase',
  ],
  [
    'the key of another certificate',
    { key: written('other.pem', other.key) },
    'INVALID_ARGUMENT',
    'does not match the certificate',
  ],
  [
    'a cut chain',
    { cert: written('cut-chain.pem', pair.cert + other.cert.slice(0, 300)) },
    'INVALID_ARGUMENT',
    'OpenSSL rejects',
  ],
  [
    'a key that was cut off',
    { key: written('cut.pem', pair.key.slice(0, 120)) },
    'INVALID_ARGUMENT',
    'is not a usable private key',
  ],
])('%s is refused before a model is loaded', async (_, given, code, message) => {
  const refused = start({ tls: { ...files, ...given }, model: at('no-model.gguf') });
  await expect(refused).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
  await expect(refused).rejects.toMatchObject({
    message: expect.not.stringContaining(pair.key.split('\n')[1]!),
  });
});

test('a chain of certificates does', () => {
  const chain = written('chain.pem', pair.cert + other.cert);
  expect(readTls({ ...files, cert: chain })).toEqual({
    cert: pair.cert + other.cert,
    key: pair.key,
  });
});
