/**
 * A canary in each variable that holds a key. What leaks it shows the canary: programs of the user
 * and their children, processes of our own, the channel of a job, errors of servers and networks,
 * and each file that a command writes. It may be where it was handed by name, and nowhere else.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { trial } from '../../src/engine/model-trial.js';
import { JobProcess } from '../../src/jobs/job-process.js';
import {
  childEnvironment,
  declareKey,
  defaultKeyName,
  keyFor,
  passEnvironment,
  withoutKeys,
} from '../../src/keys.js';
import { WitnessClient } from '../../src/log/witness-client.js';
import { shellWord } from '../../src/shell-word.js';
import { runCli, type CliResult } from '../cli/run-cli.js';
import { ONE_TIER_TASK, shortestRun, writeLetterModel } from '../models/letters.js';

const KEYS = [
  'OPENAI_API_KEY',
  'ANTHROPIC_API_KEY',
  'HF_TOKEN',
  'ISOPRO_API_KEY',
  'ISOPRO_ADMIN_KEY',
  'OF_KEY_ENV',
] as const;
const canaryOf = (name: string): string => `canary-of-${name}-0123456789`;
const CANARIES: Readonly<Record<string, string>> = Object.fromEntries(
  KEYS.map((name) => [name, canaryOf(name)]),
);
/** With a copy of a key in a variable of another name, and a variable of the user's own task. */
const ENVIRONMENT: Readonly<Record<string, string>> = {
  ...CANARIES,
  A_COPY: `Bearer ${canaryOf('OPENAI_API_KEY')}`,
  OF_THE_TASK: 'stays-with-the-task',
};

let folder: string;
let dumps: string;
const file = (name: string): string => path.join(folder, name);
const home = (): string => file('home');
const PROGRAM = path.resolve('test/backends/command-program.mjs');
const node = shellWord(process.execPath);

/** Text of a module that writes its environment, and that of a child, where it is imported. */
const LEAK = (what: string): string => `
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { isMainThread } from 'node:worker_threads';
const write = (name, text) => writeFileSync(${JSON.stringify('DUMPS')} + '/' + name, text);
if (!isMainThread) {
  write('${what}-thread.json', JSON.stringify(process.env));
  write('${what}-child.json', spawnSync(process.execPath, ['-p', 'JSON.stringify(process.env)'], { encoding: 'utf8' }).stdout);
}
`;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-keys-'));
  dumps = file('dumps');
  mkdirSync(dumps);
  writeLetterModel(file('letters.gguf'));
  writeFileSync(file('letters.mjs'), LEAK('task').replaceAll('DUMPS', dumps) + ONE_TIER_TASK);
  writeFileSync(
    file('letters.py'),
    `import json, os, random
def tiers(): return ["small"]
def problem(tier, seed): return {"a": seed % 100000}
def prompt(problem): return str(problem["a"])
def verify(problem, reply):
    json.dump(dict(os.environ), open(${JSON.stringify(dumps)} + "/python.json", "w"))
    return {"outcome": "fail", "category": "format", "reason": str(dict(os.environ))[:3000]}
`,
  );
  const rows = Array.from({ length: 60 }, (_, i) => `q${i},${i}`);
  writeFileSync(file('rows.csv'), ['prompt,answer', ...rows].join('\n'));
  writeFileSync(
    file('check.mjs'),
    `${LEAK('check').replaceAll('DUMPS', dumps)}
process.stdin.resume();
write('command-check.json', JSON.stringify(process.env));
console.log('false');`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Names of the keys whose canary stands in a text. */
const keysIn = (text: string): string[] => KEYS.filter((name) => text.includes(canaryOf(name)));
const filesBelow = (place: string): string[] =>
  readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath ?? entry.path, entry.name));
/** Files below a folder, but for the dumps, with the keys that stand in them. */
const leaks = (): [string, string[]][] =>
  filesBelow(folder)
    .filter((each) => !each.startsWith(dumps))
    .map((each): [string, string[]] => [each, keysIn(readFileSync(each, 'latin1'))])
    .filter(([, keys]) => keys.length > 0);
const dumped = (name: string): Record<string, string> =>
  JSON.parse(readFileSync(path.join(dumps, name), 'utf8')) as Record<string, string>;
/** A variable is a key where it is named: without --key-env it is one of the user's own task. */
const cli = (...args: readonly string[]): Promise<CliResult> => {
  const all: Record<string, string> = { ...ENVIRONMENT, ISOPRO_HOME: home() };
  const { OF_KEY_ENV: named, ...others } = all;
  const hasKey = args.includes('--key-env');
  return runCli(args, { ...others, ...(hasKey && { OF_KEY_ENV: named }) }, folder);
};
const expectClean = ({ stdout, stderr }: CliResult): void => {
  expect([keysIn(stdout), keysIn(stderr), leaks()]).toEqual([[], [], []]);
};
const expectWithout = (name: string): void => {
  const seen = dumped(name);
  expect(keysIn(JSON.stringify(seen))).toEqual([]);
  expect([seen.OF_THE_TASK, seen.A_COPY]).toEqual(['stays-with-the-task', undefined]);
};

test('a run: task in a thread, its child, the witness, and each file of the run folder', async () => {
  const { signer: _, ...settings } = shortestRun(file('letters.mjs'), file('letters.gguf'));
  writeFileSync(file('run.json'), JSON.stringify(settings));
  const flags = ['--config', file('run.json'), '--out', file('run'), '--json'];
  const ran = await cli('run', ...flags, '--log-to', 'jsonl', 'tensorboard');
  expect(ran).toMatchObject({ code: 0 });
  expectWithout('task-thread.json');
  expectWithout('task-child.json');
  const reported = await cli('report', file('run'), '--out', file('report.html'));
  expect(reported).toMatchObject({ code: 0 });
  for (const result of [ran, reported]) expectClean(result);
  expect(readdirSync(file('run'))).toEqual(expect.arrayContaining(['log.sqlite', 'manifest.json']));
});

const asking = (task: string, ...more: string[]): string[] => [
  ...['eval', '--task', task, '--set', 'dev', '--per-tier', '2', '--json', ...more],
];
const programmed = `command:${node} ${shellWord(PROGRAM)} environment`;

test('a task in Python and the program of a back end, whose environment is the reply', async () => {
  const replies = file('replies.jsonl');
  const evaluated = await cli(
    ...asking(`python:${file('letters.py')}`, '--backend', programmed, '--out', replies),
  );
  expect(evaluated).toMatchObject({ code: 0 });
  expectWithout('python.json');
  expect(readFileSync(replies, 'utf8')).toMatch(/stays-with-the-task/); // the programs were asked
  expectClean(evaluated);
});

test('checks of rows: a command, and a script in a thread', async () => {
  const of = (check: string) =>
    cli(...asking(file('rows.csv'), '--check', check, '--backend', programmed));
  const [command, script] = [
    await of(`command:${node} ${shellWord(file('check.mjs'))}`),
    await of(file('check.mjs')),
  ];
  expect(command).toMatchObject({ code: 0 });
  expectWithout('command-check.json');
  expectWithout('check-thread.json');
  expectWithout('check-child.json');
  for (const result of [command, script]) expectClean(result);
});

test('--pass-env hands one variable to programs, by name, and no other', async () => {
  const passed = ['--pass-env', 'HF_TOKEN'];
  const replies = file('dumps/passed.jsonl');
  const evaluated = await cli(
    ...asking(file('letters.mjs'), '--backend', programmed, ...passed, '--out', replies),
  );
  expect(evaluated).toMatchObject({ code: 0 });
  for (const name of ['task-thread.json', 'task-child.json'])
    expect(keysIn(JSON.stringify(dumped(name)))).toEqual(['HF_TOKEN']);
  expect(keysIn(readFileSync(replies, 'utf8'))).toEqual(['HF_TOKEN']);
  expect(keysIn(evaluated.stdout + evaluated.stderr)).toEqual([]);
  const unset = await cli('tasks', 'list', '--pass-env', 'NOT_SET');
  expect([unset.code, unset.stderr]).toEqual([
    2,
    expect.stringMatching(/--pass-env: the variable NOT_SET is not set/),
  ]);
  // a key in place of its name is not repeated
  const typed = await cli('tasks', 'list', '--pass-env', canaryOf('OPENAI_API_KEY'));
  expect([typed.code, keysIn(typed.stderr)]).toEqual([2, []]);
});

describe('a server that says the key', () => {
  let server: Server;
  let url: string;
  let answer: (key: string) => { status: number; body: string };
  const heard: string[] = [];
  beforeAll(async () => {
    server = createServer((request, response) => {
      const key = request.headers.authorization ?? '';
      heard.push(key);
      const { status, body } = answer(key);
      response.writeHead(status, { 'content-type': 'application/json', 'x-key': key });
      response.end(body);
    });
    await new Promise<void>((ready) => server.listen(0, '127.0.0.1', ready));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  });
  afterAll(() => void server.close());
  const evaluate = (address: string, ...more: string[]): Promise<CliResult> =>
    cli(
      ...asking(file('letters.mjs'), '--backend', `${address}#model`),
      ...['--key-env', 'OF_KEY_ENV', '--out', file('served.jsonl'), ...more],
    );

  test('in an error, in a header, in a body that is no JSON, and in a reply', async () => {
    const bodies = [
      { status: 401, body: (key: string) => JSON.stringify({ error: { message: `bad ${key}` } }) },
      { status: 400, body: (key: string) => `<html>${key}</html>` },
      {
        status: 200,
        body: (key: string) =>
          JSON.stringify({
            choices: [
              { index: 0, message: { role: 'assistant', content: key }, finish_reason: 'stop' },
            ],
          }),
      },
    ];
    for (const { status, body } of bodies) {
      answer = (key) => ({ status, body: body(key) });
      const evaluated = await evaluate(url);
      expect(evaluated.code).toBe(status === 200 ? 0 : 1);
      expectClean(evaluated);
    }
    expect(new Set(heard)).toEqual(new Set([`Bearer ${canaryOf('OF_KEY_ENV')}`]));
    // the verifier ran beside the back end whose key it may not see
    expectWithout('task-thread.json');
  });
  test('and asks for it of a job, whose own process has it from the channel alone', async () => {
    answer = () => ({
      status: 200,
      body: JSON.stringify({
        choices: [
          { index: 0, message: { role: 'assistant', content: 'a' }, finish_reason: 'stop' },
        ],
      }),
    });
    heard.splice(0);
    process.env.OF_KEY_ENV = canaryOf('OF_KEY_ENV');
    declareKey('OF_KEY_ENV');
    const settings = {
      ...{ backend: `${url}#model`, keyEnv: 'OF_KEY_ENV', record: file('job.jsonl') },
      ...{ task: file('letters.mjs'), set: 'dev', perTier: 2 },
    };
    rmSync(path.join(dumps, 'task-thread.json'));
    const job = new JobProcess({ work: { operation: 'eval', settings }, onEvent: () => {} });
    job.admit();
    const outcome = await job.outcome;
    delete process.env.OF_KEY_ENV;
    expect(outcome).toMatchObject({ kind: 'result', result: { backend: { kind: 'server' } } });
    expect(new Set(heard)).toEqual(new Set([`Bearer ${canaryOf('OF_KEY_ENV')}`]));
    expect(keysIn(JSON.stringify([dumped('task-thread.json'), outcome]))).toEqual([]);
    expect(leaks()).toEqual([]);
  });
  test('or that is not there', async () => {
    const evaluated = await evaluate('http://127.0.0.1:9/v1', '--max-requests', '2');
    expect(evaluated).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(/BUDGET_EXHAUSTED|ECONNREFUSED/) as unknown,
    });
    expectClean(evaluated);
  });
});

describe('in this process', () => {
  const before: NodeJS.ProcessEnv = {};
  beforeAll(() => {
    for (const [name, value] of Object.entries(ENVIRONMENT)) {
      before[name] = process.env[name];
      process.env[name] = value;
    }
  });
  afterAll(() => {
    for (const name of Object.keys(ENVIRONMENT))
      if (before[name] === undefined) delete process.env[name];
      else process.env[name] = before[name];
  });

  test('the process of a job is handed the key of its back end over the channel', async () => {
    const worker = file('worker.mjs');
    writeFileSync(
      worker,
      `process.once('message', (work) => {
         const result = { work, env: process.env };
         process.send({ type: 'result', result }, () => process.disconnect());
       });`,
    );
    declareKey('OF_KEY_ENV');
    const handed = async (settings: object): Promise<string[]> => {
      const job = new JobProcess({
        work: { operation: 'eval', settings },
        worker,
        onEvent: () => {},
      });
      job.admit();
      const outcome = (await job.outcome) as {
        result: { work: { keys?: Record<string, string> }; env: NodeJS.ProcessEnv };
      };
      const { work, env } = outcome.result;
      expect([keysIn(JSON.stringify(env)), env.OF_THE_TASK]).toEqual([[], 'stays-with-the-task']);
      for (const [name, key] of Object.entries(work.keys ?? {})) expect(key).toBe(canaryOf(name));
      return keysIn(JSON.stringify(work));
    };
    expect(await handed({ task: 'sql' })).toEqual([]);
    expect(await handed({ backend: 'openai:small' })).toEqual(['OPENAI_API_KEY']);
    expect(await handed({ backend: 'http://127.0.0.1/v1#x', keyEnv: 'OF_KEY_ENV' })).toEqual([
      'OF_KEY_ENV',
    ]);
    expect(await handed({ model: { name: 'hf:owner/repository/file.gguf' } })).toEqual([
      'HF_TOKEN',
    ]);
  });

  test('a process that tries a model file is handed none', async () => {
    const program = file('trial.mjs');
    writeFileSync(
      program,
      `console.log(JSON.stringify({ ok: false, code: 'MODEL_CORRUPT', message: JSON.stringify(process.env) }));`,
    );
    const fault = await trial(file('letters.gguf'), undefined, program);
    expect([fault?.code, keysIn(fault!.message)]).toEqual(['MODEL_CORRUPT', []]);
    expect(fault!.message).toMatch(/stays-with-the-task/);
  });

  test('the witness is handed none', async () => {
    if (process.platform !== 'linux') return; // where a process shows its environment
    const client = await WitnessClient.open(file('witness-home'));
    const environments = readdirSync('/proc')
      .filter((name) => /^\d+$/.test(name))
      .map((pid) => {
        try {
          return readFileSync(`/proc/${pid}/environ`, 'latin1');
        } catch {
          return ''; // it has ended, or is somebody else's
        }
      })
      .filter((environment) => environment.includes(`ISOPRO_HOME=${file('witness-home')}`));
    await client.close();
    expect(environments.map(keysIn)).toEqual([[]]);
  });

  test('what a key is', () => {
    expect([
      defaultKeyName('openai:small'),
      defaultKeyName('anthropic:x'),
      defaultKeyName('huggingface:a/b'),
      defaultKeyName('ollama:x'),
      defaultKeyName('http://127.0.0.1:1/v1#openai:x'),
      defaultKeyName('constructor:x'),
    ]).toEqual([
      'OPENAI_API_KEY',
      'ANTHROPIC_API_KEY',
      'HF_TOKEN',
      undefined,
      undefined,
      undefined,
    ]);
    expect(keyFor('HF_TOKEN')).toBe(canaryOf('HF_TOKEN'));
    process.env.EMPTY_KEY = '';
    expect([keyFor('EMPTY_KEY'), keyFor('NOT_SET')]).toEqual([undefined, undefined]);
    expect(withoutKeys(`x ${canaryOf('HF_TOKEN')} y`)).toBe('x [HF_TOKEN] y');
    // a word that local servers take is no key elsewhere
    process.env.OPENAI_API_KEY = 'none';
    process.env.A_WORD = 'none';
    expect([childEnvironment().A_WORD, childEnvironment().OPENAI_API_KEY]).toEqual([
      'none',
      undefined,
    ]);
    expect(withoutKeys('none')).toBe('none');
    for (const name of ['EMPTY_KEY', 'A_WORD']) delete process.env[name];
    process.env.OPENAI_API_KEY = canaryOf('OPENAI_API_KEY');
    for (const wrong of ['', 'A B', 'sk-123', 'A=b'])
      expect(() => declareKey(wrong)).toThrow(/--key-env: expected the name of an environment/);
    expect(() => passEnvironment('NOT_SET')).toThrow(/--pass-env: the variable NOT_SET is not set/);
  });
});

/** Each file of src/ that starts a process or thread, and what makes its environment. */
test('no process or thread is started with an environment that nobody has looked at', () => {
  const STARTS = /\b(?:spawn|spawnSync|fork|exec|execFile|execFileSync|execSync)\(|new Worker\(/;
  const starting = filesBelow(path.resolve('src'))
    .filter((each) => each.endsWith('.ts') || each.endsWith('.tsx'))
    .map(
      (each) =>
        [
          path.relative(path.resolve('src'), each).replaceAll(path.sep, '/'),
          readFileSync(each, 'utf8'),
        ] as const,
    )
    .filter(
      ([, text]) =>
        /from 'node:(?:child_process|worker_threads)'/.test(text) &&
        STARTS.test(text.replaceAll(/\.exec\(/g, '')),
    );
  const how = (text: string): string =>
    text.includes('childEnvironment(') || text.includes('env: options.env')
      ? 'without keys'
      : /env: \{\},/.test(text)
        ? 'empty'
        : 'whole';
  expect(Object.fromEntries(starting.map(([name, text]) => [name, how(text)]))).toEqual({
    'cli/run/live-page.ts': 'whole', // this program itself, which has server keys of its own
    'cli/serve/browser.ts': 'without keys',
    'engine/model-trial.ts': 'without keys',
    'jobs/job-process.ts': 'without keys',
    'line-process.ts': 'without keys',
    'log/witness-client.ts': 'without keys',
    'tasks/data/program-checkers.ts': 'without keys',
    'tasks/sql/query-processes.ts': 'empty',
    'thread.ts': 'without keys',
  });
});
