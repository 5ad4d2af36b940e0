import { inspectModel } from '../engine/inspect.js';
import { loadModel } from '../engine/model.js';
import { examineTask } from '../evaluation/examine-task.js';
import { openTask } from '../tasks/open-task.js';
import { PROMPT_STYLES, type PromptStyle } from '../tasks/task.js';
import { defineCommand } from './command.js';
import { interruption, printJson, UsageError } from './output.js';
import { Progress } from './progress.js';
import { askingFlags, openedWith, readCount } from './tasks-generate.js';

/** More are no classes. */
const MOST_ANSWERS = 24;

export const tasksCheckCommand = defineCommand({
  command: 'check [file]',
  describe: 'Find what would spoil a run: a generator that is not deterministic, a verifier that passes everything, answers in prompts',
  builder: (yargs) =>
    yargs
      .positional('file', { type: 'string', describe: 'a task, as --task takes it' })
      .option('task', { type: 'string', requiresArg: true, describe: 'the same, for who is used to it' })
      .options(askingFlags)
      .option('count', { type: 'number', default: 24, describe: 'problems of each tier that are tried' })
      .option('style', { choices: PROMPT_STYLES, default: 'cot' as PromptStyle, describe: 'how answers are asked for' })
      .option('model', { type: 'string', requiresArg: true, describe: 'also whether its context holds the prompts, and its chat template' })
      .option('max-tokens', { type: 'number', default: 512, describe: 'tokens of a reply that have to fit behind a prompt' })
      .example('$0 tasks check my-task.ts', 'before the first run')
      .example('$0 tasks check data.csv --check number --model smollm2-135m', 'with the model that it is for')
      .epilogue('Exit code 0: no error, warnings or not; 1: an error, or the task could not be opened.'),
  handler: async ({ file: named, task: given, count, style, model: name, maxTokens, json, ...flags }) => {
    const file = named ?? given;
    if (file === undefined || (named !== undefined && given !== undefined))
      throw new UsageError('Name one task: isopro-native tasks check FILE');
    const signal = interruption();
    const perTier = readCount('count', count, 1);
    const reply = readCount('max-tokens', maxTokens, 1);
    await using task = await openTask(file, openedWith(flags));
    await using model = name === undefined ? null : await loadModel(name, { signal });
    const template = name !== undefined && Object.hasOwn((await inspectModel(name)).metadata, 'tokenizer.chat_template');
    using progress = new Progress({ label: 'trying the verifier', unit: 'verdicts' });
    progress.begin('problems are generated');
    const examination = await examineTask(task, {
      style,
      perTier,
      signal,
      onProgress: (done, total) => progress.update(done, { total }),
      ...(model === null ? {} : { model: { model, template, maxTokens: reply } }),
    });
    progress.clear();
    const { findings, problems, longestPrompt, policies } = examination;
    const errors = findings.filter(({ severity }) => severity === 'error').length;
    if (errors > 0) process.exitCode = 1;
    if (json) return printJson(examination);
    const size = longestPrompt === null ? '' : `, the longest prompt ${longestPrompt} tokens`;
    process.stdout.write(`${task.id}, version ${task.version}: ${problems} problems tried${size}\n`);
    if (task.rows !== undefined) {
      const { train, dev, test } = task.rows.counts;
      process.stdout.write(`  ${train + dev + test} rows: ${train} to train on, ${dev} for the dev evaluations, ${test} for the test\n`);
      const answers = new Map<string, number>();
      for (const row of [...task.tiers.flatMap(({ id }) => task.rows!.trained(id)), ...task.rows.heldOut.dev, ...task.rows.heldOut.test]) {
        const { answer } = row as { readonly answer?: unknown };
        if (typeof answer === 'string') answers.set(answer, (answers.get(answer) ?? 0) + 1);
      }
      const shown = [...answers].sort(([, a], [, b]) => b - a);
      if (shown.length > 0 && shown.length <= MOST_ANSWERS)
        process.stdout.write(`  answers: ${shown.map(([answer, count]) => `${JSON.stringify(answer)} ${count}`).join(', ')}\n`);
    }
    for (const [policy, passed] of Object.entries(policies))
      process.stdout.write(`  policy ${policy}: ${(100 * passed).toFixed(0)} % pass\n`);
    for (const { severity, name: finding, detail } of findings) process.stdout.write(`${severity} ${finding}: ${detail}\n`);
    process.stdout.write(
      errors > 0
        ? 'Correct the errors before a run.\n'
        : findings.length > 0
          ? 'No errors.\n'
          : 'Nothing was found that would spoil a run.\n',
    );
  },
});
