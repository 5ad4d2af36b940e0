import { checkIntegrity, integrityLine } from '../../report/integrity.js';
import { readRun, testEvaluation } from '../../run-folder/read-run.js';
import { readWrittenSettings } from '../../run-folder/written-settings.js';
import { summariseRun } from '../../lookup/run-list.js';
import { findRun } from '../../lookup/runs.js';
import { testComparison, testRates } from '../../run-folder/comparison.js';
import { failureTable } from '../../text/failures.js';
import { label } from '../../text/hostile-text.js';
import { conclusionLines, resultTable } from '../../text/terminal.js';
import { terminalStyle, wrapped } from '../../text/terminal-style.js';
import { interruption, print, printJson } from '../output.js';
import { command } from '../command.js';
import { runArgument } from '../option.js';

/** No record of its log can be read, or the log disagrees. */
const DAMAGED = 1;

export const runsShowCommand = command({
  command: 'show <run>',
  describe: 'What a run did: its result by tier, its iterations, the state of its log',
  positionals: { run: runArgument },
  examples: [['$0 runs show 3f2a', 'the run in ./runs whose id begins so']],
  handler: async ({ run: target, json }) => {
    const folder = findRun(target);
    const run = readRun(folder);
    const integrity = await checkIntegrity(folder, { signal: interruption() });
    const [before, after, comparison] = [
      testEvaluation(run, 'before')?.summary ?? null,
      testEvaluation(run, 'after')?.summary ?? null,
      testComparison(run),
    ];
    const rates = testRates(run);
    if (run.time === null || integrityLine(integrity).tone === 'bad') process.exitCode = DAMAGED;
    const { manifest, iterations, end, policies, forgetting, gates, ruleEvaluations, defects } =
      run;
    if (json) {
      return printJson({
        ...summariseRun(folder),
        test: { before, after, comparison, rates },
        trivialPolicies: policies,
        forgetting,
        restraint: run.submission?.restraint ?? null,
        iterations,
        failures: {
          before: testEvaluation(run, 'before')?.failures ?? null,
          after: testEvaluation(run, 'after')?.failures ?? null,
          rollouts: run.failures,
        },
        end,
        gates,
        integrity,
        defects,
        manifest,
      });
    }
    const hits = (iteration: number): string => {
      const [passed, decided] = [...(run.rollouts.get(iteration)?.values() ?? [])].reduce(
        ([p, d], tier) => [p + tier.passed, d + tier.passed + tier.failed],
        [0, 0],
      );
      return decided === 0 ? '–' : `${((100 * passed) / decided).toFixed(1)} %`;
    };
    const fired = (at: number): string =>
      ruleEvaluations
        .filter(({ iteration }) => iteration === at)
        .flatMap(({ rules }) =>
          Object.entries(rules).flatMap(([rule, { fired: is }]) => (is ? [rule] : [])),
        )
        .join(' ');
    const style = terminalStyle(process.stdout);
    const { model, task, settings } = manifest.start;
    const { seed = '–' } = readWrittenSettings(settings);
    print(
      [
        wrapped(
          `${label(model.name, 60)} on ${label(task.id, 40)}, seed ${label(seed, 20)}, run ${manifest.runId}`,
          style,
        ),
        `${end === null ? (defects.length === 0 ? 'unfinished' : 'damaged') : `ended: ${label(end.stopped, 200)}`}; ` +
          `${integrityLine(integrity).text}`,
        ...(integrity.outcome === 'unchecked'
          ? [wrapped(`not checked since ${label(integrity.reason, 300)}`, style)]
          : []),
        ...defects.map((defect) => wrapped(label(defect, 300), style)),
        '',
        conclusionLines(run, style),
        '',
        ...(before === null || after === null || comparison === null
          ? ['The test set has not been evaluated before and after.']
          : [
              resultTable(
                {
                  before,
                  after,
                  comparison,
                  rates,
                  policies,
                  forgetting,
                  restraint: run.submission?.restraint,
                },
                style,
              ),
            ]),
        '',
        ...[failureTable(run.failures, 'rollouts', style)].flatMap((text) =>
          text === '' ? [] : [text, ''],
        ),
        ...iterations.map(
          ({ iteration, loss, buffer }) =>
            `iteration ${iteration}: hit rate ${hits(iteration)}, ${Object.values(buffer).reduce((a, b) => a + b, 0)} in the buffer, ` +
            `loss ${loss === null ? '–' : loss.toFixed(3)}${fired(iteration) === '' ? '' : `, rules ${label(fired(iteration), 60)}`}`,
        ),
        '',
      ].join('\n'),
    );
  },
});
