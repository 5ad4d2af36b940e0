import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { IsoproError } from '../errors.js';
import { requireTarget, unwritable } from '../files.js';
import { openTask } from '../tasks/open-task.js';
import { defineCommand } from './command.js';
import { print, printJson, UsageError } from './output.js';
import { pythonTask, scriptTask, type TaskAnswers } from './task-templates.js';

/** Most problems of a tier are kept for evaluation where its numbers are smaller. */
const LEAST_LARGEST = 20;

/** In the order in which they are asked, with what is taken for an empty line. */
const QUESTIONS = {
  file: ['Which file is to be written, .ts or .py?', 'my-task.ts'],
  ask: ['What is the model asked? {a} and {b} are two numbers.', 'What is {a} plus {b}?'],
  answer: ['What is right, as an expression of a and b?', 'a + b'],
  reply: ['Is the answer a number or a text?', 'number'],
  tiers: ['Which tiers are there, from the easiest, with their largest number?', 'small:99,large:9999'],
} as const;
type Question = keyof typeof QUESTIONS;

function readTiers(text: string): TaskAnswers['tiers'] {
  const tiers = text.split(',').map((part): [string, number] => {
    const [, name, most] = /^\s*([\w-]+):(\d{1,9})\s*$/.exec(part) ?? [];
    if (name === undefined || Number(most) < LEAST_LARGEST)
      throw new UsageError(`--tiers takes names with a largest number of ${LEAST_LARGEST} or more, such as ${QUESTIONS.tiers[1]}`);
    return [name, Number(most)];
  });
  if (new Set(tiers.map(([name]) => name)).size < tiers.length) throw new UsageError('--tiers names a tier twice');
  return tiers;
}

export const tasksNewCommand = defineCommand({
  command: 'new [file]',
  describe: 'Write a task that runs as it stands, from five answers: to be changed into your own',
  builder: (yargs) =>
    yargs
      .positional('file', { type: 'string', describe: `the file, .ts or .py; default: ${QUESTIONS.file[1]}` })
      .option('ask', { type: 'string', requiresArg: true, describe: `what the model is asked; default: ${QUESTIONS.ask[1]}` })
      .option('answer', { type: 'string', requiresArg: true, describe: `an expression of a and b; default: ${QUESTIONS.answer[1]}` })
      .option('reply', { choices: ['number', 'text'] as const, describe: `what the answer is; default: ${QUESTIONS.reply[1]}` })
      .option('tiers', { type: 'string', requiresArg: true, describe: `names with largest numbers; default: ${QUESTIONS.tiers[1]}` })
      .option('force', { type: 'boolean', default: false, describe: 'replace a file that is there' })
      .example('$0 tasks new', 'asks for what no flag says, where somebody can answer')
      .example("$0 tasks new times.py --ask 'What is {a} times {b}?' --answer 'a * b'", 'asks nothing in a script')
      .epilogue('Questions and answers that are there already need no program: docs/own-data.md.'),
  handler: async ({ force, json, ...given }) => {
    const answers: Record<Question, string> = await complete(given, !json && process.stdin.isTTY === true && process.stderr.isTTY === true);
    const extension = path.extname(answers.file);
    if (!['.ts', '.mts', '.py'].includes(extension))
      throw new UsageError(`the file is written in TypeScript or Python: ${answers.file} ends otherwise`);
    if (answers.reply !== 'number' && answers.reply !== 'text') throw new UsageError('--reply takes number or text');
    const task: TaskAnswers = {
      ask: answers.ask,
      answer: answers.answer,
      tiers: readTiers(answers.tiers),
      check: answers.reply,
      id: path.basename(answers.file, extension),
    };
    requireTarget(answers.file);
    try {
      writeFileSync(answers.file, extension === '.py' ? pythonTask(task) : scriptTask(task), { flag: force ? 'w' : 'wx' });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST') throw new UsageError(`${answers.file} is there already; --force replaces it`);
      throw unwritable(answers.file, cause);
    }
    const specifier = extension === '.py' ? `python:${answers.file}` : answers.file;
    await tryOut(specifier, answers);
    if (json) return printJson({ file: answers.file, task: specifier });
    print(
      `${answers.file} is a task. Next:\n  npx isopro-native tasks check ${specifier}\n` +
        `  npx isopro-native tasks generate --task ${specifier}\n` +
        `  npx isopro-native run --task ${specifier} --model smollm2-135m --dry-run\n`,
    );
  },
});

/** Takes the file away again where its right answer is no expression of its language, or not one that its own verifier passes. */
async function tryOut(specifier: string, { file, answer }: Record<Question, string>): Promise<void> {
  const refuse = (why: string): never => {
    rmSync(file);
    throw new UsageError(`--answer: ${JSON.stringify(answer)} does not work in ${path.basename(file)}, which is not written: ${why}`);
  };
  try {
    await using task = await openTask(specifier.startsWith('python:') ? specifier : path.resolve(file), { silent: true });
    const problem = await task.generate(task.tiers[0]!.id, 1n);
    const { verdict } = await task.judge(problem, (await task.referenceReply(problem, 'plain')) ?? '', 'stop');
    if (verdict.kind !== 'pass') refuse(verdict.reason ?? verdict.violations[0]?.detail ?? 'its own answer fails');
  } catch (error) {
    if (error instanceof IsoproError && error.code === 'PYTHON_UNAVAILABLE') return; // whoever runs it is told
    if (error instanceof IsoproError && error.code.startsWith('TASK_')) refuse(error.message);
    throw error;
  }
}

/** Asks for what is not given, where somebody can answer; else what is usual is taken. */
async function complete(given: Readonly<Partial<Record<Question, string | undefined>>>, asks: boolean): Promise<Record<Question, string>> {
  const answers = {} as Record<Question, string>;
  const terminal = asks ? createInterface({ input: process.stdin, output: process.stderr }) : null;
  try {
    for (const [name, [question, usual]] of Object.entries(QUESTIONS) as [Question, readonly [string, string]][]) {
      const said = given[name] ?? (await terminal?.question(`${question} [${usual}] `)) ?? '';
      answers[name] = said.trim() === '' ? usual : said.trim();
    }
  } finally {
    terminal?.close();
  }
  return answers;
}
