/**
 * Free text of a request through the process of a job: whatever it looks like, no file, address,
 * program or module is opened by it. note-reads.mjs sees what the process opens.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { JOB_KINDS } from '../../src/jobs/kinds.js';
import type { Answer, Work } from '../../src/jobs/worker.js';
import { fieldOf } from '../../src/operations/flags.js';
import { OPERATIONS } from '../../src/operations/index.js';
import { shortestRun, writeLetterModel, writeLetterTask } from '../models/letters.js';
import { FREE, textsOf, withText } from '../models/request-texts.js';

const FULL = process.env.ISOPRO_FULL === '1';
const MARK = 'hostile-7f3a';
const TEXTS = [
  `/nowhere/${MARK}.json`,
  `file:///nowhere/${MARK}.mjs`,
  `http://127.0.0.1:9/${MARK}.gguf`,
  `./${MARK}.mjs`,
  `python:${MARK}:checker`,
  `$(touch ${MARK})`,
];

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-free-text-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const file = (name: string): string => path.join(folder, name);
beforeAll(() => {
  writeLetterModel(file('letters.gguf'));
  writeLetterTask(file('letters.mjs'));
});

let works = 0;
/** What the process of a job answers, and the lines of what it opened. */
async function work(of: Work): Promise<{ answer: Answer | undefined; opened: string[] }> {
  const reads = file(`reads-${++works}`);
  const child = spawn(process.execPath, [path.resolve('dist/src/jobs/worker.js')], {
    cwd: folder,
    env: {
      ...process.env,
      ISOPRO_HOME: file('home'),
      ISOPRO_READS: reads,
      NODE_OPTIONS: `--import ${pathToFileURL(path.resolve('test/jobs/note-reads.mjs')).href}`,
    },
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  let answer: Answer | undefined;
  child.on('message', (message) => {
    const { type } = message as { readonly type: string };
    if (type === 'result' || type === 'error') answer = message as Answer;
  });
  child.send(of);
  await once(child, 'close');
  return { answer, opened: readFileSync(reads, 'utf8').split('\n') };
}

/** Settings with which an operation gets to its work. */
function accepted(operation: string): object {
  const run = shortestRun(file('letters.mjs'), file('letters.gguf'));
  const { model, task } = { model: file('letters.gguf'), task: file('letters.mjs') };
  switch (operation) {
    case 'run':
      return { ...run, out: file(`run-${works}`) };
    case 'ablate':
      return { ...run, out: file(`ablation-${works}`), seeds: '1' };
    case 'eval':
      return { model, task, perTier: 1, maxTokens: 4, style: 'plain', threads: 1 };
    case 'truth run':
      return { model, out: file(`truth-${works}`), problems: 1, maxTokens: 4 };
    case 'truth train':
      return { model, runs: [file('none')], out: file(`trained-${works}`) };
    case 'truth analyze':
      return { analyzer: 'results-catalog', runs: [file('none')] };
    default:
      return { adapter: 'ab'.repeat(32), as: 'letters@champion', registry: file('registry') };
  }
}

/** Operations that take any text, and get to their end with it. */
const WORKS = ['run', 'eval'];

/** Of `ablate`, which does several runs, in the full form alone. */
const free = JOB_KINDS.flatMap(({ settings }, i) => {
  const { id } = OPERATIONS.filter(({ job }) => job !== undefined)[i]!;
  const texts = textsOf(fieldOf(settings)).filter(({ at, field }) => {
    return FREE.has(at) && field.names === undefined && field.pattern === undefined;
  });
  return texts.length === 0 || (id === 'ablate' && !FULL) ? [] : [[id, texts] as const];
});

test('what a process opens is seen: a file that a setting names', async () => {
  const { answer, opened } = await work({
    operation: 'judge',
    settings: { run: `/nowhere/${MARK}` },
  });
  expect(answer).toMatchObject({ type: 'error', error: { code: 'RUN_NOT_FOUND' } });
  expect(opened.filter((line) => line.includes(MARK))).not.toEqual([]);
  expect(opened.some((line) => line.includes('operations/index.js'))).toBe(true);
});

test.each(free)(
  'free text of %s is opened nowhere',
  async (operation, texts) => {
    for (let round = 0; round < (FULL ? TEXTS.length : 1); ++round) {
      // all of them at once, each another; what is refused for one of them is tried alone
      const values = texts.map((text, i) => [text, TEXTS[(round + i) % TEXTS.length]!] as const);
      const all = values.reduce((of, [text, value]) => withText(of, text, value), {});
      const alone = values.map(([text, value]) => withText({}, text, value));
      for (const settings of [all, ...(FULL ? alone : alone.slice(0, 2))]) {
        const { answer, opened } = await work({
          operation,
          settings: merged(accepted(operation), settings),
        });
        expect(opened.filter((line) => line.includes(MARK))).toEqual([]);
        if (WORKS.includes(operation)) expect(answer?.type).toBe('result');
        if (answer?.type === 'result') break;
      }
    }
    expect(existsSync(file(MARK))).toBe(false);
  },
  300_000,
);

/** The members of one object, and those of its parts, in place of the other's. */
function merged(settings: object, others: object): object {
  const whole = settings as Readonly<Record<string, unknown>>;
  const isPart = (value: unknown): value is object =>
    typeof value === 'object' && value !== null && !Array.isArray(value);
  return {
    ...settings,
    ...Object.fromEntries(
      Object.entries(others).map(([name, value]) => [
        name,
        isPart(value) ? { ...(whole[name] as object), ...value } : value,
      ]),
    ),
  };
}
