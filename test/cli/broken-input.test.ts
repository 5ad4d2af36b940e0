/**
 * Every command with every path that it takes broken in every way: an error with a code and a
 * remedy, soon, and nothing that was there is gone.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { writeFileAtomically } from '../../src/engine/atomic-file.js';
import { loadModel } from '../../src/engine/model.js';
import { createTrainer } from '../../src/engine/trainer.js';
import { ERRORS } from '../../src/errors.js';
import { makeFolder } from '../../src/files.js';
import {
  brokenPath,
  INPUT_KINDS,
  OUTPUT_KINDS,
  pathCases,
  SMALL_RUN,
  type Kind,
  type PathCase,
} from '../models/broken-input.js';
import { writeLetterModel, writeLetterTask } from '../models/letters.js';
import { CommandLines, MAIN, type CliResult } from './run-cli.js';

const FULL = process.env.ISOPRO_FULL === '1';
/** A command that says nothing for so long does not answer. */
const PATIENCE_MS = 60_000;
const TOGETHER = 2;

let folder: string;
const file = (name: string): string => path.join(folder, name);
/** Root without capabilities reads and writes what its permissions say, as any user. */
const UNPRIVILEGED =
  process.getuid?.() === 0 ? ['setpriv', '--bounding-set=-all', '--inh-caps=-all'] : [];
const env = (): NodeJS.ProcessEnv => ({ ...process.env, ISOPRO_HOME: file('home'), NO_COLOR: '1' });

type Answer = CliResult & { readonly timedOut: boolean };

/** In a process of its own. */
function command(args: readonly string[]): Promise<Answer> {
  const [program, ...rest] = [...UNPRIVILEGED, process.execPath, MAIN, ...args];
  const child = spawn(program!, rest, {
    env: env(),
    cwd: file('scratch'),
    timeout: PATIENCE_MS,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout
    .setEncoding('utf8')
    .on('data', (text: string) => (stdout = (stdout + text).slice(-100_000)));
  child.stderr
    .setEncoding('utf8')
    .on('data', (text: string) => (stderr = (stderr + text).slice(-100_000)));
  return new Promise((resolve) =>
    child.on('close', (code, signal) =>
      resolve({ code, stdout, stderr, timedOut: signal === 'SIGKILL' }),
    ),
  );
}

/** Beside others in one process, which spares a start. */
async function line(lines: CommandLines, args: readonly string[]): Promise<Answer> {
  let patience: NodeJS.Timeout | undefined;
  const late = new Promise<Answer>((resolve) => {
    const answer = { code: null, stdout: '', stderr: '', timedOut: true };
    patience = setTimeout(() => resolve(answer), PATIENCE_MS);
  });
  try {
    return await Promise.race([
      lines.run(args).then((result) => ({ ...result, timedOut: false })),
      late,
    ]);
  } finally {
    clearTimeout(patience);
  }
}

let lines: CommandLines;
const run = (args: readonly string[]): Promise<CliResult> => lines.run(args);

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-broken-'));
  for (const name of ['scratch', 'broken']) mkdirSync(file(name));
  lines = new CommandLines(env());
  writeLetterModel(file('model.gguf'));
  writeLetterTask(file('task.mjs'));
  writeFileSync(
    file('data.jsonl'),
    '{"prompt":"one","completion":"a"}\n{"prompt":"two","completion":"b"}\n',
  );
  await using trainer = await createTrainer(
    { path: file('model.gguf') },
    { lora: { rank: 1, layers: { top: 1 } }, threads: 1 },
  );
  await trainer.exportAdapter(file('adapter.gguf'));
  const { code, stderr } = await run([
    'run',
    '--model',
    file('model.gguf'),
    '--task',
    file('task.mjs'),
    '--out',
    file('run'),
    ...SMALL_RUN,
  ]);
  if (code !== 0 && code !== 3) throw new Error(stderr); // 3: nothing was accepted
}, 120_000);
afterAll(async () => {
  await lines.end();
  rmSync(folder, { recursive: true, force: true });
});

/** What a command that was given a broken path said wrong; empty where it did as it should. */
function complaints(
  { code, stdout, stderr, timedOut }: Awaited<ReturnType<typeof command>>,
  { name }: PathCase,
): string[] {
  const text = `${stdout}\n${stderr}`;
  const found: string[] = [];
  if (timedOut) found.push('did not answer');
  if (/^\s+at .*:\d+/m.test(text) || /unexpected failure|NATIVE_FAILURE/.test(text))
    found.push('a stack trace');
  const [, errorCode] = /^error ([A-Z_]+): [^]+\n {2}what to do: .+/m.exec(stderr) ?? [];
  if (errorCode !== undefined && !Object.hasOwn(ERRORS, errorCode))
    found.push(`the unknown code ${errorCode}`);
  const verdict = /^(judge|log verify)/.test(name)
    ? [3, 4]
    : /^tasks verify file/.test(name)
      ? [0, 1]
      : /^models inspect/.test(name)
        ? [1]
        : [];
  if (code === 1 && errorCode === undefined && !verdict.includes(1))
    found.push('no code and remedy');
  if (code === 2 && !/See isopro-native .*--help\./.test(stderr))
    found.push('usage without a word');
  if (code !== 1 && code !== 2 && !verdict.includes(code ?? -1)) found.push(`exit code ${code}`);
  return found.map((what) => `${what}: ${text.trim().slice(0, 300)}`);
}

describe('a broken path', () => {
  test(`${FULL ? 'of every kind' : 'of one kind'} in every place of every command: a code and a remedy, no stack trace`, async () => {
    const sound = {
      model: file('model.gguf'),
      adapter: file('adapter.gguf'),
      task: file('task.mjs'),
      data: file('data.jsonl'),
      run: file('run'),
      scratch: file('scratch'),
    };
    const jobs: { readonly each: PathCase; readonly kind: Kind }[] = [];
    for (const [at, each] of pathCases(sound).entries()) {
      const kinds: readonly Kind[] = each.side === 'input' ? INPUT_KINDS : OUTPUT_KINDS;
      const short = [kinds[at % kinds.length]!];
      for (const kind of FULL ? kinds : short) {
        // they make their folder
        if (kind === 'homeless' && /^(run|ablate) --out/.test(each.name)) continue;
        jobs.push({ each, kind });
      }
    }
    const wrong: string[] = [];
    await Promise.all(
      Array.from({ length: TOGETHER }, async () => {
        const own = new CommandLines(env(), file('scratch'), UNPRIVILEGED);
        for (let job = jobs.pop(); job !== undefined; job = jobs.pop()) {
          const { each, kind } = job;
          const ending = each.name.endsWith('--task')
            ? '.mjs'
            : /model|adapter/.test(each.name)
              ? '.gguf'
              : '';
          const broken = brokenPath(file('broken'), kind, each.side, ending);
          const answer = await (FULL ? command(each.args(broken)) : line(own, each.args(broken)));
          // written line by line to what is there, it replaces nothing: a device takes it as the
          // file that it is, and nobody keeps the replies
          if (kind === 'device' && each.name === 'eval --out' && answer.code === 0) continue;
          for (const what of complaints(answer, each))
            wrong.push(`${each.name} (${kind}): ${what}`);
        }
        await own.end();
      }),
    );
    expect(wrong).toEqual([]);
    expect(
      ['/dev/null', '/dev/full', '/dev/zero'].every((device) =>
        lstatSync(device).isCharacterDevice(),
      ),
    ).toBe(true);
    expect(readdirSync(file('broken')).filter((name) => name.endsWith('.partial'))).toEqual([]);
  }, 1_800_000);

  test('the same words for the same fault, whatever the file was for', async () => {
    const [missing, directory] = [file('missing'), file('scratch')];
    const places = (broken: string): string[][] => [
      ['generate', '--model', file('model.gguf'), '--prompts', broken],
      ['generate', '--model', file('model.gguf'), '--prompt', 'x', '--grammar', broken],
      ['train', '--model', file('model.gguf'), '--data', broken],
      ['run', '--config', broken],
      ['tasks', 'verify', broken],
      ['log', 'verify', file('run'), '--head', broken],
    ];
    for (const [broken, words] of [
      [missing, `there is no file ${missing}`],
      [directory, `${directory} is a folder`],
    ] as const) {
      const said = await Promise.all(places(broken).map(async (args) => (await run(args)).stderr));
      for (const text of said)
        expect(text).toBe(
          `error FILE_UNREADABLE: ${words}\n  what to do: ${ERRORS.FILE_UNREADABLE}\n`,
        );
    }
  }, 60_000);

  test('a byte order mark is no part of a prompt, an example, a setting or a schema', async () => {
    const marked = (name: string, text: string): string => {
      writeFileSync(file(name), `\ufeff${text}`);
      return file(name);
    };
    const prompts = marked('marked-prompts.jsonl', '{"prompt":"hi","id":"a"}\r\n');
    const generated = await run([
      'generate',
      '--model',
      file('model.gguf'),
      '--max-tokens',
      '8',
      '--prompts',
      prompts,
      '--json-schema',
      marked('marked-schema.json', '{"type":"boolean"}'),
    ]);
    expect([generated.code, JSON.parse(generated.stdout)]).toMatchObject([
      0,
      { id: 'a', text: expect.stringMatching(/true|false/) },
    ]);
    const plan = await run([
      'train',
      '--model',
      file('model.gguf'),
      '--data',
      marked('marked.jsonl', '{"prompt":"one","completion":"a"}\n'),
      '--dry-run',
      '--json',
      '--top',
      '1',
    ]);
    expect([plan.code, JSON.parse(plan.stdout)]).toMatchObject([0, { examples: 1 }]);
    const refused = await run([
      'run',
      '--config',
      marked('marked-config.json', '{"iterations":0}'),
    ]);
    expect([refused.code, refused.stderr]).toEqual([2, expect.stringContaining('--iterations')]);
  }, 60_000);

  test('an empty answer in a training file is named', async () => {
    writeFileSync(
      file('mute.jsonl'),
      '{"prompt":"one","completion":"a"}\n{"prompt":"two","completion":""}\n',
    );
    const { code, stderr } = await run([
      'train',
      '--model',
      file('model.gguf'),
      '--data',
      file('mute.jsonl'),
      '--out',
      file('mute.gguf'),
    ]);
    expect([code, stderr]).toEqual([
      1,
      expect.stringMatching(/^error INVALID_ARGUMENT: line 2: the answer is empty/),
    ]);
  }, 30_000);

  test('standard output that takes nothing more: WRITE_FAILED', () => {
    const { status, stderr } = spawnSync(
      'sh',
      ['-c', `"${process.execPath}" "${MAIN}" tasks generate --count 50 > /dev/full`],
      {
        encoding: 'utf8',
      },
    );
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(
        /^error WRITE_FAILED: standard output could not be written.*\n {2}what to do: /,
      ),
    ]);
  }, 30_000);
});

describe('folders and files that are made', () => {
  test('where a file system denies a folder that it should be able to make, the error comes at once', () => {
    expect(() => makeFolder('/proc/no/such/place')).toThrow(
      expect.objectContaining({ code: 'ENOENT' }),
    );
    makeFolder(file('one/two/three'));
    makeFolder(file('one/two/three'));
    expect(statSync(file('one/two/three')).isDirectory()).toBe(true);
    writeFileSync(file('one/file'), '');
    expect(() => makeFolder(file('one/file'))).toThrow(expect.objectContaining({ code: 'EEXIST' }));
  });

  test('a killed process leaves neither a half file nor an adapter for good', async () => {
    const dead = spawnSync(process.execPath, ['-e', '']).pid;
    for (const pid of [dead, process.pid])
      writeFileSync(file(`kept.json.${pid}.9.partial`), 'half');
    await writeFileAtomically(file('kept.json'), [Buffer.from('whole')]);
    expect(readdirSync(folder).filter((name) => name.startsWith('kept.json'))).toEqual([
      'kept.json',
      `kept.json.${process.pid}.9.partial`,
    ]);
    const left = [
      path.join(tmpdir(), `isopro-adapter-${dead}-abcdef`),
      path.join(tmpdir(), `isopro-adapter-${process.pid}-abcdef`),
    ];
    for (const each of left) {
      mkdirSync(each);
      writeFileSync(path.join(each, 'adapter.gguf'), '');
      utimesSync(each, 0, 0);
    }
    await using model = await loadModel(file('model.gguf'), { threads: 1 });
    await using trainer = await createTrainer(model, {
      lora: { rank: 1, layers: { top: 1 } },
      threads: 1,
    });
    await trainer.applyTo(model);
    expect(left.map(existsSync)).toEqual([false, true]);
    rmSync(left[1]!, { recursive: true });
  });
});
