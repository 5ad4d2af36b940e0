import type { HeldOutResult } from '../judge/held-out.js';
import { DEFAULT_TARGET, judgeRun, type JudgeReport } from '../judge/judge.js';
import { writeJudgeTrace } from '../judge/trace-file.js';
import type { TraceStep } from '../judge/trace.js';
import type { Summary } from '../statistics/index.js';
import { requireTarget } from '../files.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { forgettingSentences } from '../report/figures.js';
import { failureTable } from '../report/failures.js';
import { terminalStyle } from '../report/terminal.js';
import { findRunOrPath } from '../report/find-run.js';
import { label } from '../report/hostile-text.js';
import { defineCommand } from './command.js';
import { interruption, printJson } from './output.js';
import { Progress } from './progress.js';
import { checkOption, verifierThreadsOption } from './tasks-generate.js';

const EXIT = { pass: 0, not_ended: 3, hard_fail: 4, not_verified: 5 } as const;
const MARK: Readonly<Record<TraceStep['status'], string>> = { pass: 'pass', findings: 'note', hard_fail: 'FAIL', skipped: 'skip' };
const LISTED = 12;

const percent = (value: number | null): string => (value === null ? 'none' : `${(100 * value).toFixed(1)} %`);
const interval = ({ mean, low, high, n }: Pick<Summary, 'mean' | 'low' | 'high' | 'n'>): string =>
  `${percent(mean)} (${(100 * low).toFixed(1)} to ${(100 * high).toFixed(1)}, n ${n})`;

function heldOutLines({ before, after, policies }: HeldOutResult): string[] {
  const lines = ['', 'held-out accuracy           measured here                     claimed by the run'];
  for (const [name, comparison] of [
    ['before', before],
    ['after', after],
  ] as const) {
    if (comparison === null) continue;
    const reasons = comparison.failures.differing ?? 0;
    const differs =
      comparison.differing === 0
        ? reasons === 0
          ? ''
          : `   ${reasons} fail of something else`
        : `   ${comparison.differing} verdicts differ, p ${comparison.p.toPrecision(2)}`;
    lines.push(`  ${name.padEnd(24)}  ${interval(comparison.measured).padEnd(32)}  ${interval(comparison.claimed)}${differs}`);
  }
  for (const [tier, { mean, low, high, n }] of Object.entries(after.measured.byTier))
    lines.push(`    ${tier.padEnd(22)}  ${interval({ mean, low, high, n })}`);
  for (const [policy, summary] of Object.entries(policies)) lines.push(`  policy ${policy.padEnd(17)}  ${interval(summary)}`);
  if (!after.measured.valid) lines.push(`  not a result: ${after.measured.none} verdicts could not be found`);
  return lines;
}

function forgettingLines({ claimed, measured }: NonNullable<JudgeReport['forgetting']>): string[] {
  const lines = [['measured here', measured] as const, ['claimed by the run', claimed] as const];
  return ['', ...lines.flatMap(([who, figures]) => [`forgetting, ${who}`, ...forgettingSentences(figures).map((each) => `  ${each}`)])];
}

function processLines({ scores, violations, policy }: JudgeReport): string[] {
  const { process_score, process_axis_exercised, obligations, distinct_rules_fired, process_lower_bound } = scores;
  const counts =
    `${violations.length} violation${violations.length === 1 ? '' : 's'} of ${obligations} ` +
    `obligation${obligations === 1 ? '' : 's'}, ${distinct_rules_fired} rule${distinct_rules_fired === 1 ? '' : 's'} fired`;
  const bound = process_lower_bound === null ? '' : `; at least ${process_lower_bound.toFixed(2)} of them kept (95 %)`;
  const lines = [
    process_axis_exercised
      ? `process score   ${process_score!.toFixed(3)}   ${counts}${bound}`
      : `process score   none    ${counts}: too few to score (3 obligations of 2 rules are needed), which is an ordinary result`,
    `policy          ${policy === null ? 'unknown' : label(policy)}`,
    ...violations.slice(0, LISTED).map(({ kind, rule, iteration, detail }) => `  ${kind} ${rule} at iteration ${iteration}: ${detail}`),
  ];
  if (violations.length > LISTED) lines.push(`  and ${violations.length - LISTED} more in the trace`);
  return lines;
}

function print(report: JudgeReport, target: number): void {
  const { verdict, failure, trust, steps, scores, heldOut, runId, unverified } = report;
  const lines = [`run ${runId ?? 'unknown'}`];
  if (trust !== null) {
    lines.push(`key ${trust.key}`);
    if (trust.signer === 'single-process') lines.push('    no witness kept its heads (single process): it vouches for itself');
    else if (trust.ownedByThisUser) lines.push('    of the user who judges: that user could have signed any history');
    else lines.push("    not this user's witness");
  }
  lines.push('', 'step                            status       ms');
  for (const { step, name, status, durationMs, detail } of steps)
    lines.push(
      `${String(step).padStart(4)} ${name.padEnd(26)} ${MARK[status]} ` +
        `${status === 'skipped' ? '-'.padStart(8) : String(durationMs).padStart(8)}   ${detail}`,
    );
  if (heldOut !== null) lines.push(...heldOutLines(heldOut));
  if (report.forgetting !== null) lines.push(...forgettingLines(report.forgetting));
  const { width } = terminalStyle(process.stdout);
  for (const [what, failures] of [
    ['test replies after training', heldOut?.after.failures.measured],
    ['rollouts', report.failures],
  ] as const)
    if (failures != null && failures.rows.length > 0) lines.push('', failureTable(failures, `${what}, judged here,`, { width }));
  lines.push('');
  if (verdict === 'pass' || verdict === 'not_verified') {
    lines.push(
      scores.accuracy_score === null
        ? 'accuracy score  none    held-out accuracy was not measured'
        : `accuracy score  ${scores.accuracy_score.toFixed(3)}   measured accuracy over a target of ${target}`,
    );
    const end =
      verdict === 'pass'
        ? 'PASS: nothing fails, relative to the key above'
        : `NOT VERIFIED: nothing fails, but of ${unverified} verdict${unverified === 1 ? '' : 's'} that the run logged none was found ` +
          `here in time; judge again on a faster machine, or one with less to do`;
    lines.push(...processLines(report), '', end);
  } else if (verdict === 'not_ended') lines.push('NOT SCORED: the run has not ended');
  else
    lines.push('accuracy score  0', 'process score   0', '', `HARD FAIL at step ${failure!.step} (${failure!.name}): ${failure!.detail}`);
  process.stdout.write(`${lines.join('\n')}\n`);
}

export const judgeCommand = defineCommand({
  command: 'judge <run>',
  describe: 'Re-derive a finished run from its folder and the base model: integrity, rules, adapter, accuracy',
  builder: (yargs) =>
    yargs
      .positional('run', { type: 'string', demandOption: true, describe: 'run folder, or the beginning of a run id in ./runs' })
      .option('model', {
        type: 'string',
        default: EMBEDDED_MODEL,
        requiresArg: true,
        describe: "the run's base model: a GGUF file, an alias, or an hf: URI",
      })
      .option('key', { type: 'string', requiresArg: true, describe: "public key of the run's witness; default: this machine's own" })
      .option('head', { type: 'string', array: true, requiresArg: true, describe: 'file with a signed head that was kept elsewhere' })
      .option('task', {
        type: 'string',
        requiresArg: true,
        describe: "your copy of the run's task, where that is a file; without it neither rollouts nor accuracy are judged",
      })
      .option('check', { ...checkOption, describe: "your copy of the run's check, where the task is data and its check a file or program" })
      .option('target', { type: 'number', default: DEFAULT_TARGET, describe: 'accuracy that scores 1' })
      .option('held-out', {
        choices: ['both', 'after', 'none'] as const,
        default: 'both' as const,
        describe: 'which test accuracies are measured again',
      })
      .option('verifier-threads', verifierThreadsOption)
      .option('trace', {
        type: 'string',
        requiresArg: true,
        describe: 'where the trace is written; default: judge-trace.json in the folder',
      })
      .epilogue(
        `Nothing that the run supplied is executed. Exit codes: 0 passed, ${EXIT.not_ended} the run has not ended, ${EXIT.hard_fail} ` +
          `hard fail, ${EXIT.not_verified} nothing fails and not every verdict could be found again, 1 the check could not be made.`,
      )
      .example('$0 judge runs/3f2a --key witness.pub', 'a run of somebody else, with the key that they publish')
      .example('$0 judge runs/3f2a --model qwen2.5-3b --held-out none', 'all but the evaluation'),
  handler: async ({ run, model, key, head, task, check, target, heldOut, verifierThreads, trace, json }) => {
    if (trace !== undefined) requireTarget(trace);
    let report: JudgeReport;
    {
      using progress = new Progress({ label: 'test set', unit: 'problems' });
      report = await judgeRun({
        folder: findRunOrPath(run),
        model,
        target,
        heldOut,
        ...(key === undefined ? {} : { keyFile: key }),
        ...(head === undefined ? {} : { headFiles: head }),
        ...(task === undefined ? {} : { task }),
        ...(check === undefined ? {} : { check }),
        ...(verifierThreads === undefined ? {} : { verifierThreads }),
        signal: interruption(),
        onProgress: ({ done, total }) => progress.update(done, { total }),
      });
    }
    const file = await writeJudgeTrace(report, trace);
    if (json) printJson(report);
    else {
      print(report, target);
      if (file === null) process.stderr.write('the run folder cannot be written: no trace was kept (--trace FILE)\n');
      else process.stdout.write(`trace: ${file}\n`);
    }
    process.exitCode = EXIT[report.verdict];
  },
});
