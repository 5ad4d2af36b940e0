/** `isopro-native serve` as a process: what it prints, whom it lets ask, and how it ends. */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { copyFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { UsageError } from '../../src/cli/output.js';
import { serveCommand } from '../../src/cli/serve/serve.js';
import { hashKey } from '../../src/server/keys.js';
import { findAdapter } from '../../src/lookup/adapters.js';
import { MAIN, runCli } from '../cli/run-cli.js';
import { writeRunFolder } from '../models/run-folder.js';
import { adapterFile, eventsOf, file, folder, send } from '../models/server.js';

const execute = promisify(execFile);
const KEY = 'a-key-for-the-command';
const HASHED = 'a-key-that-only-its-hash-is-known-of';

test('says where it listens, asks for the keys that it was given, and lets a reply end when it is told to', async () => {
  const keys = path.join(folder, 'keys.json');
  writeFileSync(keys, JSON.stringify([hashKey('hashed', HASHED, ['infer'])]));
  const flags = [
    '--model',
    file,
    '--name',
    'mine',
    '--adapter',
    `sql=${adapterFile('sql', 3n)}`,
    '--keys',
    keys,
    '--port',
    '0',
    '--threads',
    '1',
  ];
  const server = spawn(process.execPath, [MAIN, 'serve', ...flags, '--json'], {
    env: { ...process.env, ISOPRO_API_KEY: KEY },
  });
  let stderr = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const [line] = (await once(createInterface(server.stdout), 'line')) as [string];
  const said = JSON.parse(line) as { url: string; models: string[]; adminKey: string };
  expect(said.models).toEqual(['mine', 'sql']);

  const authorized = (key: string): { headers: { authorization: string } } => ({
    headers: { authorization: `Bearer ${key}` },
  });
  expect((await send(said, '/v1/models')).status).toBe(401);
  expect((await send(said, '/v1/models', authorized(KEY))).status).toBe(200);
  const pause = { method: 'POST', ...authorized(KEY) };
  expect((await send(said, '/resume', pause)).status).toBe(403);
  expect((await send(said, '/resume', { ...pause, ...authorized(said.adminKey) })).status).toBe(
    200,
  );

  const many = { model: 'mine', messages: [{ role: 'user', content: 'x' }], max_tokens: 1, n: 128 };
  expect(
    (await send(said, '/v1/chat/completions', { body: many, ...authorized(KEY) })).body.choices,
  ).toHaveLength(128);
  const body = {
    model: 'sql',
    messages: [{ role: 'user', content: 'x' }],
    max_tokens: 400,
    ignore_eos: true,
    stream: true,
  };
  const running = send(said, '/v1/chat/completions', { body, ...authorized(HASHED) });
  const count = async (): Promise<string> => (await send(said, '/metrics', authorized(KEY))).text;
  while (!/^isopro_running_replies 1$/m.test(await count()));
  const ended = once(server, 'close');
  server.kill('SIGTERM');
  const { events, done } = eventsOf((await running).text);
  expect([done, events.at(-1).choices[0].finish_reason]).toEqual([true, 'length']);
  expect(
    events.filter(({ choices }) => choices[0].delta.content !== undefined).length,
  ).toBeGreaterThan(100);
  expect(await ended).toEqual([0, null]);
  await expect(send(said, '/health')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  expect(stderr).toBe(''); // of keys nothing, and of listeners, of which each choice has one
});

test('a process that serves keeps its new objects in the megabytes that it began with, and this Node knows how', async () => {
  const program = `
    import { getHeapSpaceStatistics } from 'node:v8';
    import { keepMemorySteady } from ${JSON.stringify(pathToFileURL(path.resolve('dist/src/cli/serve/steady-memory.js')).href)};
    if (process.argv[1] === 'steady') keepMemorySteady();
    for (let kept = [], i = 0; i < 3e6; i++) {
      kept.push({ i });
      if (kept.length > 200_000) kept = kept.slice(100_000);
    }
    console.log(getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space').space_size);`;
  const bytes = async (how: string): Promise<number> => {
    const { stdout, stderr } = await execute(process.execPath, [
      '--input-type=module',
      '-e',
      program,
      how,
    ]);
    expect(stderr).toBe(''); // where V8 tells of a flag that it has not
    return Number(stdout);
  };
  const [grown, steady] = [await bytes('grown'), await bytes('steady')];
  expect(steady).toBeLessThanOrEqual(4 * 2 ** 20);
  expect(grown).toBeGreaterThan(2 * steady);
});

test.each([
  ['another host without keys', { host: '0.0.0.0' }, '--host 0.0.0.0'],
  [
    'an adapter without a name',
    { adapter: ['sql.gguf'] },
    'such as --adapter mine=sql.gguf, got sql.gguf',
  ],
  ['a port that is none', { port: 70_000 }, '--port'],
  ['a certificate without its key', { tlsCert: 'cert.pem' }, '--tls-key'],
  ['a limit that is none', { maxBody: 0 }, '--max-body'],
  [
    'a back end for jobs without jobs',
    { allowBackend: ['a=openai:b'] },
    '--allow-backend need --runs',
  ],
  ['a back end without a name', { allowBackend: ['openai:b'] }, 'expected NAME=SPEC, got openai:b'],
  ['a back end that is none', { allowBackend: ['a=b'] }, '--allow-backend: expected local, '],
  ['a person for jobs', { allowBackend: ['a=human'] }, 'a job has no terminal'],
  ['a model of this machine', { allowBackend: ['a=local:tiny'] }, 'use --allow-model'],
  ['a key of no back end', { keyEnv: ['a=A_KEY'] }, 'no --allow-backend has the name a'],
])('%s is wrong usage', async (_, given, message) => {
  const argv = {
    model: file,
    adapter: [],
    allowModel: [],
    allowTask: [],
    allowBackend: [],
    keyEnv: [],
    jobs: 1,
    apiKey: [],
    host: '127.0.0.1',
    port: 0,
    maxWaiting: 1,
    maxBody: 1,
    maxConnections: 1,
    rate: 1,
    timeout: 1,
  };
  const call = Promise.resolve().then(() => serveCommand.handler({ ...argv, ...given } as never));
  await expect(call).rejects.toThrow(UsageError);
  await expect(call).rejects.toThrow(message);
});

test('a key that is too short, and a file of keys with one as it is, are refused', async () => {
  const argv = {
    model: file,
    adapter: [],
    allowModel: [],
    allowTask: [],
    allowBackend: [],
    keyEnv: [],
    host: '127.0.0.1',
  };
  const call = (given: object): Promise<void> =>
    Promise.resolve().then(() => serveCommand.handler({ ...argv, ...given } as never));
  await expect(call({ apiKey: ['short'] })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: '--api-key: a key needs at least 16 characters',
  });
  const keys = path.join(folder, 'plain.json');
  writeFileSync(keys, JSON.stringify([{ name: 'plain', key: KEY, scopes: ['infer'] }]));
  await expect(call({ apiKey: [], keys })).rejects.toMatchObject({
    code: 'INVALID_ARGUMENT',
    message: expect.not.stringContaining(KEY),
  });
});

const hasTerminal = process.platform === 'linux' && spawnSync('script', ['--version']).status === 0;
(hasTerminal ? test.each : test.skip.each)(['ui', 'run --ui'])(
  'at a terminal `%s` opens the page in a browser',
  async (command) => {
    const own = path.join(folder, command.replaceAll(/\W/g, ''));
    const opened = path.join(own, 'opened');
    mkdirSync(own);
    writeFileSync(
      path.join(own, 'xdg-open'),
      `#!/bin/sh\necho "$1" > '${opened}.part' && mv '${opened}.part' '${opened}'\n`,
      {
        mode: 0o755,
      },
    );
    const small =
      '--iterations 1 --rollouts 8 --dev-size 1 --test-size 1 --threads 1 --signer single-process';
    const where = command === 'ui' ? `--runs '${own}'` : `${small} --out '${own}/job'`;
    const line = `'${process.execPath}' '${MAIN}' ${command} --model tiny ${where}`;
    const terminal = spawn('script', ['-qefc', line, '/dev/null'], {
      env: { ...process.env, ISOPRO_HOME: own, DISPLAY: ':0', PATH: `${own}:${process.env.PATH}` },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    let shown = '';
    terminal.stdout.setEncoding('utf8').on('data', (text: string) => (shown += text));
    const ended = once(terminal, 'close');
    while (!existsSync(opened) && terminal.exitCode === null)
      await new Promise((resolve) => setTimeout(resolve, 50));
    // a file of the user's own leads to it: a command line is read by everybody
    const page = readFileSync(opened, 'utf8').trim();
    const [, address] = /<a href="([^"]*)">/.exec(
      readFileSync(page, 'utf8').replaceAll('&#38;', '&'),
    )!;
    expect(shown).toContain(address!);
    const { origin: url, hash } = new URL(address!);
    const authorization = `Bearer ${/token=([^&]*)/.exec(hash)![1]}`;
    expect((await send({ url }, '/api/status', { headers: { authorization } })).body).toMatchObject(
      { model: 'tiny' },
    );
    if (command === 'run --ui')
      while (!shown.includes('the web page stays open until Ctrl-C'))
        await new Promise((resolve) => setTimeout(resolve, 50));
    const { body: runs } = await send({ url }, '/api/runs', { headers: { authorization } });
    expect(runs.map(({ name, state }: { name: string; state: string }) => [name, state])).toEqual(
      command === 'ui' ? [] : [['job', 'ended']],
    );
    terminal.stdin.write('\x03');
    await ended;
    await expect(send({ url }, '/health')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  },
);

test('says which adapters were trained behind more than a question, where its page is, and which adapter is not there', async () => {
  const run = path.join(folder, 'behind-examples');
  await writeRunFolder({
    folder: run,
    home: folder,
    iterations: 1,
    settings: { sampling: { examples: 4 } } as never,
  });
  const { file: at } = findAdapter(run);
  const flags = [
    'serve',
    '--model',
    file,
    '--adapter',
    `mails=${run}`,
    '--runs',
    folder,
    '--port',
    '0',
    '--threads',
    '1',
  ];
  const without = await runCli(flags);
  expect(without.code).toBe(1);
  expect(without.stderr).toContain(`the adapter: there is no file ${at}`);
  expect(without.stderr).not.toContain('alias');

  copyFileSync(adapterFile('behind', 4n), at);
  const server = spawn(process.execPath, [MAIN, ...flags, '--json']);
  const [[line], [noted]] = (await Promise.all([
    once(createInterface(server.stdout), 'line'),
    once(createInterface(server.stderr), 'line'),
  ])) as [[string], [string]];
  expect(noted).toMatch(/^mails: The adapter was trained with 4 solved examples/);
  const said = JSON.parse(line) as {
    url: string;
    models: string[];
    adminKey: string;
    page: string;
  };
  expect(said).toMatchObject({
    models: expect.arrayContaining(['mails']),
    page: `${said.url}/ui/#token=${said.adminKey}`,
  });
  const ended = once(server, 'close');
  server.kill('SIGTERM');
  await ended;
});
