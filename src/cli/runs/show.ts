import { checkIntegrity, integrityLine, type Integrity } from '../../report/integrity.js';
import { readRun, testEvaluation, type RunRecord } from '../../run-folder/read-run.js';
import { readWrittenSettings } from '../../run-folder/written-settings.js';
import { summariseRun } from '../../lookup/run-list.js';
import { findRun } from '../../lookup/runs.js';
import { testComparison, testRates } from '../../run-folder/comparison.js';
import { percent } from '../../text/figures.js';
import { pooledHitRate } from '../../run-folder/derived-figures.js';
import { failureTable } from '../../text/failures.js';
import { label } from '../../text/hostile-text.js';
import { conclusionLines, resultTable } from '../../text/terminal.js';
import { terminalStyle, wrapped, type TerminalStyle } from '../../text/terminal-style.js';
import { interruption, print, printJson } from '../output.js';
import { command } from '../command.js';
import { runArgument } from '../option.js';

/** No record of its log can be read, or the log disagrees. */
const DAMAGED = 1;

export const runsShowCommand = command({
  command: 'show <run>',
  describe: 'Show a run: its result by tier, its iterations, the state of its log',
  positionals: { run: runArgument },
  examples: [['$0 runs show 3f2a', 'the run in ./runs whose id starts with 3f2a']],
  handler: async ({ run: target, json }) => {
    const folder = findRun(target);
    const run = readRun(folder);
    const integrity = await checkIntegrity(folder, { signal: interruption() });
    if (run.time === null || integrityLine(integrity).tone === 'bad') process.exitCode = DAMAGED;
    if (json) return printJson(documentOf(folder, run, integrity));
    const style = terminalStyle(process.stdout);
    print(
      [
        ...headLines(run, integrity, style),
        '',
        conclusionLines(run, style),
        '',
        testText(run, style),
        '',
        ...[failureTable(run.failures, 'rollouts', style)].flatMap((text) =>
          text === '' ? [] : [text, ''],
        ),
        ...iterationLines(run),
        '',
      ].join('\n'),
    );
  },
});

const testOf = (run: RunRecord) => ({
  before: testEvaluation(run, 'before')?.summary ?? null,
  after: testEvaluation(run, 'after')?.summary ?? null,
  comparison: testComparison(run),
  rates: testRates(run),
});

function documentOf(folder: string, run: RunRecord, integrity: Integrity): object {
  const { policies, forgetting, iterations, end, gates, defects, manifest } = run;
  return {
    ...summariseRun(folder),
    test: testOf(run),
    trivialPolicies: policies,
    forgetting,
    restraint: run.submission?.restraint ?? null,
    iterations,
    failures: {
      before: testEvaluation(run, 'before')?.failures ?? null,
      after: testEvaluation(run, 'after')?.failures ?? null,
      rollouts: run.failures,
    },
    ...{ end, gates, integrity, defects, manifest },
  };
}

/** Lines about the model, the end and the log of a run. */
function headLines(
  { manifest, end, defects }: RunRecord,
  integrity: Integrity,
  style: TerminalStyle,
): string[] {
  const { model, task, settings } = manifest.start;
  const { seed = '–' } = readWrittenSettings(settings);
  const open = defects.length === 0 ? 'unfinished' : 'damaged';
  return [
    wrapped(
      `${label(model.name, 60)} on ${label(task.id, 40)}, seed ${label(seed, 20)}, run ${manifest.runId}`,
      style,
    ),
    `${end === null ? open : `ended: ${label(end.stopped, 200)}`}; ${integrityLine(integrity).text}`,
    ...(integrity.outcome === 'unchecked'
      ? [wrapped(`not checked: ${label(integrity.reason, 300)}`, style)]
      : []),
    ...defects.map((defect) => wrapped(label(defect, 300), style)),
  ];
}

function testText(run: RunRecord, style: TerminalStyle): string {
  const { before, after, comparison, rates } = testOf(run);
  if (before === null || after === null || comparison === null)
    return 'The test set was not evaluated both before and after training.';
  const { policies, forgetting } = run;
  const restraint = run.submission?.restraint;
  return resultTable({ before, after, comparison, rates, policies, forgetting, restraint }, style);
}

function iterationLines({ iterations, rollouts, ruleEvaluations }: RunRecord): string[] {
  const fired = (at: number): string =>
    ruleEvaluations
      .filter(({ iteration }) => iteration === at)
      .flatMap(({ rules }) => Object.keys(rules).filter((rule) => rules[rule]!.fired))
      .join(' ');
  return iterations.map(({ iteration, loss, buffer }) => {
    const hits = pooledHitRate(rollouts.get(iteration) ?? new Map());
    const rules = fired(iteration);
    return (
      `iteration ${iteration}: hit rate ${hits === null ? '–' : `${percent(hits)} %`}, ` +
      `${Object.values(buffer).reduce((a, b) => a + b, 0)} in the buffer, ` +
      `loss ${loss === null ? '–' : loss.toFixed(3)}${rules === '' ? '' : `, rules ${label(rules, 60)}`}`
    );
  });
}
