import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { MODEL_ALIASES } from '../../src/engine/model-aliases.js';
import { writeSyntheticModel } from '../models/synthetic.js';
import { CommandLines, MAIN, runCli } from './run-cli.js';

const literal = (text: string): string => text.replace(/[.+]/g, '\\$&');

let home: string;
let server: Server;
let hub: string;
let lines: CommandLines;
const body = Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(500_000, 7)]);

beforeAll(async () => {
  home = mkdtempSync(path.join(tmpdir(), 'isopro-models-'));
  server = createServer((request, response) => {
    if (!request.url!.includes('Qwen3-0.6B-Q4_K_M.gguf')) return void response.writeHead(404).end();
    response.writeHead(200, { 'content-length': body.length }).end(body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  hub = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  lines = new CommandLines({ ISOPRO_HOME: home, HF_ENDPOINT: hub });
});
afterAll(async () => {
  await lines.end();
  server.closeAllConnections();
  server.close();
  rmSync(home, { recursive: true, force: true });
});

interface Listing {
  folder: string;
  embedded: { alias: string; licence: string; path: string };
  aliases: {
    alias: string;
    uri: string;
    licence: string;
    tested: boolean;
    cached: boolean;
    bytes: number;
    path: string | null;
  }[];
}

test('models pull fetches by alias, prints the path on stdout alone, and models list then has it', async () => {
  const before = JSON.parse((await lines.run(['models', 'list', '--json'])).stdout) as Listing;
  expect(before.aliases).toHaveLength(Object.keys(MODEL_ALIASES).length);
  expect(before.aliases.filter(({ cached }) => cached)).toEqual([]);
  const pulled = await lines.run(['models', 'pull', 'qwen3-0.6b']);
  expect(pulled.code).toBe(0);
  expect(existsSync(pulled.stdout.trim())).toBe(true);
  const again = await lines.run(['models', 'pull', 'qwen3-0.6b', '--json']);
  expect((JSON.parse(again.stdout) as { path: string }).path).toBe(pulled.stdout.trim());
  const after = JSON.parse((await lines.run(['models', 'list', '--json'])).stdout) as Listing;
  expect(after.aliases.filter(({ cached }) => cached)).toEqual([
    {
      alias: 'qwen3-0.6b',
      uri: expect.stringContaining('hf:'),
      licence: 'Apache-2.0',
      tested: false,
      cached: true,
      bytes: body.length,
      path: pulled.stdout.trim(),
    },
  ]);
  const text = await lines.run(['models', 'list']);
  expect(text.stdout).toMatch(/^qwen3-0\.6b +Apache-2\.0 +here +500 kB +no +hf:/m);
  expect(text.stdout).not.toContain('\x1b');
});

test('models list shows the licence of each model, and which downloads no developer has tried', async () => {
  const { stdout } = await lines.run(['models', 'list']);
  expect(stdout).toMatch(/^name +licence +size +tested +address$/m);
  expect(stdout).toMatch(/^tiny +Apache-2\.0 +here +yes +embedded: /m);
  for (const [alias, { licence, uri }] of Object.entries(MODEL_ALIASES))
    expect(stdout).toMatch(
      new RegExp(`^${literal(alias)} +${literal(licence)} .* no +${literal(uri)}$`, 'm'),
    );
  expect(stdout).toMatch(
    /^"no" under "tested": the developers of isopro-native have not downloaded the file/m,
  );
  const listing = JSON.parse((await lines.run(['models', 'list', '--json'])).stdout) as Listing;
  expect(listing.embedded).toMatchObject({ alias: 'tiny', licence: 'Apache-2.0' });
  expect(listing.aliases.map(({ alias, licence, tested }) => [alias, licence, tested])).toEqual(
    Object.entries(MODEL_ALIASES).map(([alias, { licence }]) => [alias, licence, false]),
  );
});

test('a failed pull ends with 1 and says on stderr where the file would have to be put', async () => {
  const { code, stdout, stderr } = await lines.run(['models', 'pull', 'qwen2.5-3b', '--json']);
  expect([code, stdout]).toEqual([1, '']);
  const { error } = JSON.parse(stderr) as {
    error: { code: string; message: string; remedy: string };
  };
  expect(error.code).toBe('MODEL_DOWNLOAD_FAILED');
  expect(error.message).toContain(
    `${hub}/Qwen/Qwen2.5-3B-Instruct-GGUF/resolve/main/qwen2.5-3b-instruct-q4_k_m.gguf answered 404`,
  );
  expect(error.message).toContain('The alias qwen2.5-3b stands for this file');
  expect(error.remedy).toContain('hf:<owner>/<repository>/<file>.gguf');
  expect(error.remedy).toContain(home);
});

describe('models inspect', () => {
  test('shows architecture, tensor types and memory; a file that cannot be loaded ends with 1', async () => {
    const file = path.join(home, 'inspected.gguf');
    writeSyntheticModel(file, { architecture: 'qwen3', type: 'Q4_K', layers: 3 });
    const text = await lines.run(['models', 'inspect', file, '--context', '1000']);
    expect(text.code).toBe(0);
    expect(text.stdout).toMatch(/^model +.*qwen3/m);
    expect(text.stdout).toMatch(/^tensors +q4_K: 2\d with/m);
    expect(text.stdout).toMatch(
      /^runs +yes.*\ntrains +yes: an adapter of rank 16.*\nchats +yes: /m,
    );
    expect(text.stdout.trimEnd().split('\n').length).toBeLessThan(24);
    const { code, stdout } = await lines.run([
      'models',
      'inspect',
      file,
      '--context',
      '1000',
      '--json',
    ]);
    expect(code).toBe(0);
    // 3 layers, 2 key-value heads of 64, keys and values, f16.
    expect(JSON.parse(stdout)).toMatchObject({
      architecture: 'qwen3',
      problem: null,
      memory: { kvBytesPerToken: 3 * 2 * 64 * 2 * 2, kvBytes: 1000 * 3 * 2 * 64 * 2 * 2 },
    });
    const unreadable = await lines.run([
      'models',
      'inspect',
      path.join(home, '..', 'package.json'),
      '--json',
    ]);
    expect([unreadable.code, unreadable.stdout]).toEqual([1, '']);
  });

  test('a reader that has enough (| head) ends it without a complaint', async () => {
    const file = path.join(home, 'long.gguf');
    writeSyntheticModel(file, {
      architecture: 'llama',
      layers: 2000,
      embedding: 8,
      feedForward: 8,
      heads: 2,
    });
    const child = spawn(process.execPath, [MAIN, 'models', 'inspect', file, '--tensors']);
    child.stdout.once('data', () => child.stdout.destroy());
    let complaint = '';
    child.stderr.on('data', (chunk) => (complaint += String(chunk)));
    const code = await new Promise((resolve) => child.on('close', resolve));
    expect([code, complaint]).toEqual([0, '']);
  });
});

test.each([
  [['models']],
  [['runs']],
  [['log']],
  [['models', 'pull']],
  [['models', 'fetch']],
  [['models', 'list', '--colour']],
  [['models', 'inspect', 'x.gguf', '--context', '0']],
])('%j is wrong usage: exit code 2', async (args) => {
  const { code, stdout } = await lines.run(args);
  expect([code, stdout]).toEqual([2, '']);
});

test.each([['models'], ['models list'], ['models pull'], ['models inspect'], ['doctor']])(
  '%s --help shows an example',
  async (command) => {
    const { code, stdout } = await runCli([...command.split(' '), '--help']);
    expect(code).toBe(0);
    expect(stdout).toContain(`isopro-native ${command.split(' ')[0]}`);
    expect(stdout).toMatch(/Examples:\n {2}isopro-native/);
  },
);

test('--help loads no command', () => {
  const hooks = `export async function resolve(name, context, next) {
    const found = await next(name, context);
    process._rawDebug(found.url);
    return found;
  }`;
  const url = (source: string): string => `data:text/javascript,${encodeURIComponent(source)}`;
  const telling = url(
    `import { register } from 'node:module'; register(${JSON.stringify(url(hooks))});`,
  );
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ['--import', telling, MAIN, '--help'],
    { encoding: 'utf8' },
  );
  expect([status, stdout]).toEqual([0, expect.stringContaining('isopro-native run')]);
  expect(stderr).toMatch(/dist\/program\/main\.js$/m);
  expect(
    stderr
      .split('\n')
      .filter((each) =>
        /node_modules\/(@node-llama-cpp|node-llama-cpp|or-tools|better-sqlite3|zod)|\.node$/.test(
          each,
        ),
      ),
  ).toEqual([]);
});
