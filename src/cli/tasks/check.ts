import { inspectModel } from '../../engine/inspect.js';
import { loadModel } from '../../engine/model.js';
import { allRows, examineTask, type TaskExamination } from '../../evaluation/examine-task.js';
import { given as stated } from '../../given.js';
import { terminalStyle, wrapped, type TerminalStyle } from '../../text/terminal-style.js';
import { openTask } from '../../tasks/open-task.js';
import { PROMPT_STYLES, type OpenTask, type PromptStyle } from '../../tasks/task.js';
import { interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { askingFlags, openedWith } from './opening.js';
import { number, readCount, text } from '../option.js';
import { command } from '../command.js';

/** Largest number of different answers that are listed as classes. */
const MOST_ANSWERS = 24;

const errorsOf = ({ findings }: TaskExamination): number =>
  findings.filter(({ severity }) => severity === 'error').length;

/** @param style sentences are wrapped to its `prose` */
export function examinationText(
  task: Pick<OpenTask, 'id' | 'version' | 'tiers' | 'rows'>,
  examination: TaskExamination,
  style: Pick<TerminalStyle, 'prose'> = {},
): string {
  const { findings, problems, longestPrompt, policies } = examination;
  const size = longestPrompt === null ? '' : `, the longest prompt ${longestPrompt} tokens`;
  const lines = [
    `${task.id}, version ${task.version}: ${problems} problems tried${size}`,
    ...rowLines(task),
    ...Object.entries(policies).map(
      ([policy, passed]) => `  policy ${policy}: ${(100 * passed).toFixed(0)} % pass`,
    ),
    ...findings.map(({ severity, name, detail }) => `${severity} ${name}: ${detail}`),
    errorsOf(examination) > 0
      ? 'Fix the errors before a run.'
      : findings.length > 0
        ? 'No errors.'
        : 'No problems were found.',
  ];
  return lines.map((line) => `${wrapped(line, style, 2)}\n`).join('');
}

/** Lines about the rows of a data task. */
function rowLines({ rows, tiers }: Pick<OpenTask, 'tiers' | 'rows'>): string[] {
  if (rows === undefined) return [];
  const { train, dev, test } = rows.counts;
  const answers = new Map<string, number>();
  for (const row of allRows({ tiers }, rows)) {
    const { answer } = row as { readonly answer?: unknown };
    if (typeof answer === 'string') answers.set(answer, (answers.get(answer) ?? 0) + 1);
  }
  const shown = [...answers].sort(([, a], [, b]) => b - a);
  return [
    `  ${train + dev + test} rows: ${train} for training, ${dev} for dev evaluations, ${test} for the test`,
    ...(shown.length > 0 && shown.length <= MOST_ANSWERS
      ? [
          `  answers: ${shown.map(([answer, count]) => `${JSON.stringify(answer)} ${count}`).join(', ')}`,
        ]
      : []),
  ];
}

export const tasksCheckCommand = command({
  command: 'check [file]',
  describe:
    'Find defects of a task before a run: a nondeterministic generator, a verifier that passes everything, answers in prompts',
  positionals: { file: { type: 'string', describe: 'task, in any form that --task takes' } },
  options: {
    task: text('same as FILE'),
    ...askingFlags,
    count: number('problems to try per tier', 24),
    style: {
      choices: PROMPT_STYLES,
      default: 'cot' as PromptStyle,
      describe: 'prompt style',
    },
    model: text(
      'also check that the context of this model holds the prompts, and its chat template',
    ),
    'max-tokens': number('reply tokens that must fit after a prompt', 512),
  },
  epilogue:
    'Exit codes: 0 no errors (warnings allowed), 1 an error was found or the task could not be opened.',
  examples: [
    ['$0 tasks check my-task.ts', 'before the first run'],
    ['$0 tasks check data.csv --check number --model smollm2-135m', 'with the model to train'],
  ],
  handler: async ({
    file: named,
    task: given,
    count,
    style,
    model: name,
    maxTokens,
    json,
    ...flags
  }) => {
    const file = named ?? given;
    if (file === undefined || (named !== undefined && given !== undefined))
      throw new UsageError('Name one task: isopro-native tasks check FILE');
    const signal = interruption();
    const perTier = readCount('count', count, 1);
    const reply = readCount('max-tokens', maxTokens, 1);
    await using task = await openTask(file, openedWith(flags));
    await using model = name === undefined ? null : await loadModel(name, { signal });
    const template =
      name !== undefined &&
      Object.hasOwn((await inspectModel(name)).metadata, 'tokenizer.chat_template');
    using progress = new Progress({ label: 'trying the verifier', unit: 'verdicts' });
    progress.begin('generating problems');
    const examination = await examineTask(task, {
      style,
      perTier,
      signal,
      onProgress: (done, total, note) => progress.update(done, { total, ...stated({ note }) }),
      ...(model === null ? {} : { model: { model, template, maxTokens: reply } }),
    });
    progress.clear();
    if (errorsOf(examination) > 0) process.exitCode = 1;
    if (json) return printJson(examination);
    print(examinationText(task, examination, terminalStyle(process.stdout)));
  },
});
