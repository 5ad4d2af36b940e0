/** The table at the end of a run. */
import { existsSync } from 'node:fs';
import path from 'node:path';
import { EMBEDDED_MODEL } from '../../engine/model-aliases.js';
import { SET_SIZE } from '../../tasks/frozen-sets.js';
import { testComparison, testRates } from '../../run-folder/comparison.js';
import { bounds, percent, points, pValue, whole } from '../../text/figures.js';
import { failureTable, leftOut, nothingAccepted, SHOWN_OF_EACH } from '../../text/failures.js';
import { readRun } from '../../run-folder/read-run.js';
import { conclusionLines, resultTable } from '../../text/terminal.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import { isBuiltIn } from '../../tasks/registry.js';
import type { Comparison } from '../../operations/compare-modes.js';
import { shellWord } from '../../shell-word.js';
import type { RunResult } from '../../training/result.js';
import type { RunSettings } from '../../training/settings.js';
import { howAsked } from '../../operations/asking.js';
import { formatBytes, formatDuration } from '../quantities.js';
import { flagText, taskFlags } from '../tasks/task-flags.js';

/** One row a method, its interval below, its tokens and seconds beside. */
export function comparisonText({
  methods,
  skipped,
  problems,
  model,
  task,
  run,
}: Comparison): string {
  const tiers = Object.keys(methods[0]?.test.byTier ?? {});
  const columns = tiers.length === 1 ? [] : tiers; // one tier's column is the mean
  const style = terminalStyle(process.stdout);
  const width = Math.max(...methods.map(({ method }) => method.length), 6) + 2;
  const line = (head: string, cells: readonly string[]): string =>
    `${head.padEnd(width)}${cells.map((cell) => cell.padStart(12)).join('')}`.trimEnd();
  const cells = (
    of: (part: { mean: number | null; low: number; high: number }) => string,
    test: Comparison['methods'][number]['test'],
  ): string[] => [...columns.map((tier) => of(test.byTier[tier]!)), of(test)];
  return [
    '',
    `${model} on ${task}: per cent of ${problems} test problems solved, 95 % interval below`,
    '',
    line('', [...columns, 'mean', 'k', 'tokens', 'seconds']),
    ...methods.flatMap(({ method, test, k, tokens, seconds }) => [
      line(method, [
        ...cells(({ mean }) => percent(mean), test),
        String(k),
        String(tokens),
        seconds.toFixed(1),
      ]),
      line('', cells(bounds, test)),
    ]),
    '',
    ...methods.map(({ method, note }) => `${method}: ${note}`),
    ...skipped.map(({ method, reason }) => `${method}: not measured, ${reason}`),
    ...methods.flatMap(({ method, failures }) =>
      failures === null || failures.rows.length === 0
        ? []
        : ['', failureTable(failures, `replies (${method})`, style, SHOWN_OF_EACH)],
    ),
    ...(run === null ? [] : [`run folder ${path.relative('.', run.folder) || '.'}`]),
    '',
  ].join('\n');
}

/** A path, and no flag. */
const shellPath = (file: string): string => shellWord(file.startsWith('-') ? `./${file}` : file);

/** Next commands for the user, relative to the working directory. */
function nextCommands(
  { folder }: Pick<RunResult, 'folder'>,
  settings: ResultSettings,
  defaults: ResultSettings,
): string[] {
  const {
    model: { name: model },
    task,
    check,
    sampling: { style, maxTokens },
  } = settings;
  const here = (file: string): string => shellPath(path.relative('.', file) || '.');
  const own = taskFlags(settings);
  const base = model === EMBEDDED_MODEL ? '' : ` --model ${shellPath(model)}`;
  // the judge finds the witness's key and heads there, and knows a built-in task from the manifest
  const home =
    process.env.ISOPRO_HOME && process.platform !== 'win32'
      ? `ISOPRO_HOME=${shellPath(process.env.ISOPRO_HOME)} `
      : '';
  return [
    `${home}npx isopro-native judge ${here(folder)}${base}${
      isBuiltIn(task)
        ? ''
        : flagText([
            ['task', task],
            ['check', check],
          ])
    }`,
    `npx isopro-native eval${base}${own}${turnsFlag(settings)}${evaluationSizes(settings, defaults)} --adapter ${here(folder)}`,
    `npx isopro-native tasks generate${own} --json${style === 'cot' ? '' : ` --style ${style}`} | npx isopro-native generate${base} ` +
      `--max-tokens ${maxTokens} --adapter ${here(folder)} --prompts -`,
  ];
}

/** A task without turns of its own has one where it is not asked for more. */
const turnsFlag = ({ sampling: { turns } }: ResultSettings): string =>
  turns > 1 ? ` --turns ${turns}` : '';

/** Flags that make `eval` measure as the run did: the same problems, prompts and batch sizes. */
function evaluationSizes(
  { model, evaluation, sampling }: ResultSettings,
  defaults: ResultSettings,
): string {
  const flags: readonly (readonly [
    string,
    string | number | undefined,
    string | number | undefined,
  ])[] = [
    ['style', sampling.style, defaults.sampling.style],
    ['per-tier', evaluation.testSize, SET_SIZE.test],
    ['max-tokens', sampling.maxTokens, defaults.sampling.maxTokens],
    ['batch', model.maxSequences, defaults.model.maxSequences],
    ['threads', model.threads, defaults.model.threads],
    ['matmul', model.matmul, defaults.model.matmul],
    ['context', model.contextTokens, defaults.model.contextTokens],
  ];
  return flagText(
    flags.map(([flag, value, otherwise]) => [flag, value === otherwise ? undefined : value]),
  );
}

type ResultSettings = Pick<
  RunSettings,
  'model' | 'task' | 'sampling' | 'evaluation' | 'check' | 'answerTag' | 'verifySeconds'
>;

/** Why the adapter changes nothing, where it does; null where it was trained and taken. */
function unchanged(
  { accepted, adapter, failures }: RunResult,
  settings: ResultSettings,
): string | null {
  if (accepted === 0)
    return `No iteration had a rollout to train on, so nothing was trained and the adapter changes nothing. ${nothingAccepted(
      failures.rollouts,
      failures.refused,
      howAsked(settings),
    )}`;
  if (adapter.iteration === 0)
    return 'No iteration was better than the base model on the dev problems, so the adapter is untrained: it changes nothing.';
  return null;
}

/** Next commands after a run without a useful adapter. */
function nextAfterNothing({ folder }: RunResult, settings: ResultSettings): string[] {
  const { name: model } = settings.model;
  const base = model === EMBEDDED_MODEL ? '' : ` --model ${shellPath(model)}`;
  return [
    `npx isopro-native tasks calibrate${base}${taskFlags(settings)} --max-tokens ${settings.sampling.maxTokens}`,
    `npx isopro-native runs show ${shellPath(path.relative('.', folder) || '.')}`,
  ];
}

/** `0 to 29` where they follow each other, else each. */
export const layersText = (layers: readonly number[]): string =>
  layers.length > 2 && layers.every((layer, i) => layer === layers[0]! + i)
    ? `${layers[0]} to ${layers.at(-1)}`
    : layers.join(', ');

/** Notice that the requested run has already ended. */
export const endedAlready = (folder: string): string =>
  `${wrapped(
    `The run in ${path.relative('.', folder) || '.'} has already ended, so nothing was run. To run it again, give ` +
      `another folder with --out.`,
    terminalStyle(process.stdout),
  )}\n`;

/**
 * Everything that is printed when a run has ended.
 * @param defaults what a run of this model has where nothing is said
 */
export function resultText(
  result: RunResult,
  settings: ResultSettings,
  defaults: ResultSettings,
): string {
  const {
    test,
    trivialPolicies,
    forgetting,
    restraint,
    seconds,
    tokens,
    peakRssBytes,
    folder,
    adapter,
    accepted,
    layers,
    stopped,
  } = result;
  const here = (file: string): string => path.relative('.', file) || '.';
  const run = readRun(folder);
  const style = terminalStyle(process.stdout);
  const nothing = unchanged(result, settings);
  const failing = [
    failureTable(
      result.failures.after ?? { replies: 0, passed: 0, rows: [] },
      'test replies after training',
      style,
    ),
    failureTable(result.failures.rollouts, 'rollouts', style),
  ];
  const said = (text: string): string => wrapped(text, style);
  const comparison = testComparison(run)!;
  const { difference } = comparison;
  const interval =
    difference === null
      ? ''
      : `, 95 % interval ${points(difference.low)} to ${points(difference.high)}`;
  const change =
    test.after.mean === null || test.before.mean === null
      ? null
      : test.after.mean - test.before.mean;
  const isLast = adapter.iteration >= result.iterations.length;
  return [
    '',
    conclusionLines(run, style),
    '',
    resultTable(
      {
        before: test.before,
        after: test.after,
        comparison,
        rates: testRates(run),
        policies: trivialPolicies,
        forgetting,
        restraint,
      },
      style,
    ),
    '',
    said(
      `change ${points(change)} points${interval}; ` +
        `${test.gained} problems gained, ${test.lost} lost, exact paired test p = ${pValue(test.pairedP)}`,
    ),
    ...(nothing === null ? [] : [said(nothing)]),
    said(
      `${accepted} rollouts to train on${leftOut(result.failures.refused)}; layers ${layersText(layers)}; ${stopped}`,
    ),
    said(
      `${formatDuration(seconds)}; ${whole(tokens.sampled)} tokens sampled, ${whole(tokens.trained)} trained on; peak ` +
        `resident memory ${formatBytes(peakRssBytes)}`,
    ),
    '',
    ...failing.flatMap((text) => (text === '' ? [] : [text, ''])),
    `adapter  ${here(adapter.file)}  (iteration ${adapter.iteration}${isLast ? '' : ', the best on the dev problems'})`,
    `log      ${here(path.join(folder, 'log.sqlite'))}`,
    ...(existsSync(path.join(folder, 'report.html'))
      ? [`report   ${here(path.join(folder, 'report.html'))}`]
      : []),
    '',
    'next:',
    ...(nothing === null
      ? nextCommands(result, settings, defaults)
      : nextAfterNothing(result, settings)
    ).map((command) => `  ${command}`),
    '',
  ].join('\n');
}
