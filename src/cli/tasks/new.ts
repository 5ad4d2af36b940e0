import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { IsoproError } from '../../errors.js';
import { requireTarget, unwritable } from '../../files.js';
import { openTask } from '../../tasks/open-task.js';
import { print, printJson, UsageError } from '../output.js';
import { pythonTask, scriptTask, type TaskAnswers } from './templates.js';
import { command } from '../command.js';
import { text, toggle } from '../option.js';

/**
 * Smallest largest numbers of a tier, for questions with one number and with two: with smaller
 * ones, most problems are reserved for evaluation.
 */
const LEAST_LARGEST = { one: 400, two: 20 } as const;

/** Questions in order, each with its default. */
const QUESTIONS = {
  file: ['Which file should be written (.ts or .py)?', 'my-task.ts'],
  ask: ['What question does the model get? {a} and {b} are two numbers.', 'What is {a} plus {b}?'],
  answer: ['What is the right answer, as an expression of a and b?', 'a + b'],
  reply: ['Is the answer a number or a text?', 'number'],
  tiers: ['Which tiers, from the easiest, each with its largest number?', 'small:99,large:9999'],
} as const;
type Question = keyof typeof QUESTIONS;

/**
 * Which of the two numbers a question names.
 * @throws UsageError where it names none, or not all that the answer takes
 */
function numbersIn(ask: string, answer: string): readonly string[] {
  const named = ['a', 'b'].filter((name) => ask.includes(`{${name}}`));
  if (named.length === 0)
    throw new UsageError(
      `--ask: ${JSON.stringify(ask)} has neither {a} nor {b}: every problem would be the same question`,
    );
  const missing = ['a', 'b'].filter(
    (name) => !named.includes(name) && new RegExp(`\\b${name}\\b`).test(answer),
  );
  if (missing.length > 0)
    throw new UsageError(
      `--answer uses ${missing.join(' and ')}, which --ask does not contain: add {${missing[0]}} to --ask`,
    );
  return named;
}

function readTiers(text: string, numbers: number): TaskAnswers['tiers'] {
  const least = numbers === 1 ? LEAST_LARGEST.one : LEAST_LARGEST.two;
  const tiers = text.split(',').map((part): [string, number] => {
    const [, name, most] = /^\s*([\w-]+):(\d{1,9})\s*$/.exec(part) ?? [];
    if (name === undefined || Number(most) < least)
      throw new UsageError(
        `--tiers takes names with a largest number of ${least} or more${numbers === 1 ? ', as the question has one number' : ''}, ` +
          `such as small:${numbers === 1 ? 999 : 99},large:9999`,
      );
    return [name, Number(most)];
  });
  const names = tiers.map(([name]) => name);
  const twice = names.find((name, i) => names.indexOf(name) < i);
  if (twice !== undefined) throw new UsageError(`--tiers names the tier ${twice} twice`);
  return tiers;
}

export const tasksNewCommand = command({
  command: 'new [file]',
  describe: 'Write a working task from five answers, as a start for your own',
  positionals: {
    file: { type: 'string', describe: `file to write, .ts or .py; default: ${QUESTIONS.file[1]}` },
  },
  options: {
    ask: text(`question for the model; default: ${QUESTIONS.ask[1]}`),
    answer: text(`right answer, as an expression of a and b; default: ${QUESTIONS.answer[1]}`),
    reply: {
      choices: ['number', 'text'] as const,
      describe: `type of the answer; default: ${QUESTIONS.reply[1]}`,
    },
    tiers: text(`tier names with their largest numbers; default: ${QUESTIONS.tiers[1]}`),
    force: toggle('replace an existing file'),
  },
  epilogue: 'If you already have questions and answers, you need no task file: docs/own-data.md.',
  examples: [
    ['$0 tasks new', 'asks for each missing answer in a terminal'],
    ["$0 tasks new times.py --ask 'What is {a} times {b}?' --answer 'a * b'", 'asks nothing'],
  ],
  handler: async ({ force, json, ...given }) => {
    const answers: Record<Question, string> = await complete(
      given,
      !json && process.stdin.isTTY === true && process.stderr.isTTY === true,
    );
    const extension = path.extname(answers.file);
    if (!['.ts', '.mts', '.py'].includes(extension))
      throw new UsageError(`${answers.file}: expected a .ts, .mts or .py file`);
    if (answers.reply !== 'number' && answers.reply !== 'text')
      throw new UsageError('--reply takes number or text');
    const task: TaskAnswers = {
      ask: answers.ask,
      answer: answers.answer,
      tiers: readTiers(answers.tiers, numbersIn(answers.ask, answers.answer).length),
      check: answers.reply,
      id: path.basename(answers.file, extension),
    };
    requireTarget(answers.file);
    try {
      writeFileSync(answers.file, extension === '.py' ? pythonTask(task) : scriptTask(task), {
        flag: force ? 'w' : 'wx',
      });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === 'EEXIST')
        throw new UsageError(`${answers.file} already exists; replace it with --force`);
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

/**
 * Takes the file away again where its right answer is no expression of its language, or not one
 * that its own verifier passes.
 */
async function tryOut(
  specifier: string,
  { file, answer }: Record<Question, string>,
): Promise<void> {
  const refuse = (why: string): never => {
    rmSync(file);
    throw new UsageError(
      `--answer: ${JSON.stringify(answer)} does not work in ${path.basename(file)}, so the file was not written: ${why}. ` +
        'If the answer needs more than an expression, start with a simple one and edit the file',
    );
  };
  try {
    await using task = await openTask(
      specifier.startsWith('python:') ? specifier : path.resolve(file),
      { silent: true },
    );
    const problem = await task.generate(task.tiers[0]!.id, 1n);
    const { verdict } = await task.judge(
      problem,
      (await task.referenceReply(problem, 'plain')) ?? '',
      'stop',
    );
    if (verdict.kind !== 'pass')
      refuse(verdict.reason ?? verdict.violations[0]?.detail ?? 'the task rejects its own answer');
  } catch (error) {
    // whoever runs it is told
    if (error instanceof IsoproError && error.code === 'PYTHON_UNAVAILABLE') return;
    if (error instanceof IsoproError && error.code.startsWith('TASK_')) refuse(error.message);
    throw error;
  }
}

/** Asks for missing answers in a terminal; otherwise takes the defaults. */
async function complete(
  given: Readonly<Partial<Record<Question, string | undefined>>>,
  asks: boolean,
): Promise<Record<Question, string>> {
  const answers = {} as Record<Question, string>;
  const terminal = asks ? createInterface({ input: process.stdin, output: process.stderr }) : null;
  try {
    for (const [name, [question, usual]] of Object.entries(QUESTIONS) as [
      Question,
      readonly [string, string],
    ][]) {
      const said = given[name] ?? (await terminal?.question(`${question} [${usual}] `)) ?? '';
      answers[name] = said.trim() === '' ? usual : said.trim();
    }
  } finally {
    terminal?.close();
  }
  return answers;
}
