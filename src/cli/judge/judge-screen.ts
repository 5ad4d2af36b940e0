/**
 * Text of a judge report: the steps in plain words, the accuracies, and the parts of each score.
 */
import type { HeldOutResult } from '../../judge/held-out.js';
import type { StepName } from '../../judge/hard-fail.js';
import type { JudgeReport } from '../../operations/judge.js';
import type { TraceStep } from '../../judge/trace.js';
import { percent as figure, forgettingSentences } from '../../text/figures.js';
import { failureTable } from '../../text/failures.js';
import { label } from '../../text/hostile-text.js';
import { painted, wrapped, type Paint, type TerminalStyle } from '../../text/terminal-style.js';
import { findingBeside } from '../../run-folder/comparison.js';
import type { Summary } from '../../statistics/index.js';

/** Titles of the steps. */
export const STEP_TITLES: Readonly<Record<StepName, string>> = {
  chain_integrity: 'log against its signed heads',
  ticket_and_key: "the run's ticket and the key",
  rule_recomputation: 'rules against logged measurements',
  figure_recomputation: 'figures against logged verdicts',
  deliverables_exist: 'manifest and adapter are there',
  deliverables_as_submitted: 'files against what was submitted',
  adapter_loads: 'adapter against the base model',
  run_config_consistency: 'manifest against the log',
  rollout_verification: 'rollouts, judged here again',
  course_verification: 'iterations, steps, seeds and rates',
  architecture_replay: "adapter's modules against the log",
  live_diagnostic_sanity: 'gradients here against logged ones',
  rollout_resampling: 'some rollouts, sampled here again',
  rule_coverage_audit: 'rules that fired against answers',
  decision_defensibility: 'decisions against what they cite',
  test_set_evaluation: 'test problems, answered here again',
  emit_two_scores: 'scores',
};

const MARK: Readonly<Record<TraceStep['status'], readonly [word: string, Paint]>> = {
  pass: ['pass', 'good'],
  findings: ['note', 'fair'],
  hard_fail: ['FAIL', 'bad'],
  skipped: ['skip', 'faint'],
};
const LISTED = 12;

const percent = (value: number | null): string => (value === null ? 'none' : `${figure(value)} %`);
const interval = ({ mean, low, high, n }: Pick<Summary, 'mean' | 'low' | 'high' | 'n'>): string =>
  `${percent(mean)} (${figure(low)} to ${figure(high)}, n ${n})`;
const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** Columns in which most details stand beside their titles. */
const WIDE = 120;

/**
 * Lines of the steps, numbered in running order; the trace has the numbers of the specification.
 */
function stepLines(steps: readonly TraceStep[], style: TerminalStyle): string[] {
  const longest = Math.max(...Object.values(STEP_TITLES).map((title) => title.length));
  return steps.map(({ name, status, detail }, i) => {
    const [word, paint] = MARK[status];
    const lead = `${String(i + 1).padStart(2)}  `;
    const said =
      name === 'emit_two_scores' && status === 'pass'
        ? detail.replaceAll('null', 'none').replace(/ of target [\d.]+/, '')
        : detail;
    const title = STEP_TITLES[name];
    const what =
      (style.prose ?? WIDE) < WIDE ? `${title}: ${said}` : `${title.padEnd(longest)}  ${said}`;
    const text = wrapped(`${' '.repeat(lead.length)}${word}  ${what}`, style, 6);
    return `${lead}${painted(word, paint, style)}${text.slice(lead.length + word.length)}`;
  });
}

function heldOutLines({ before, after, policies }: HeldOutResult, style: TerminalStyle): string[] {
  const rows: [name: string, measured: string, claimed: string][] = [];
  const notes: string[] = [];
  for (const [name, comparison] of [
    ['before', before],
    ['after', after],
  ] as const) {
    if (comparison === null) continue;
    rows.push([`  ${name}`, interval(comparison.measured), interval(comparison.claimed)]);
    const reasons = comparison.failures.differing ?? 0;
    if (comparison.differing > 0)
      notes.push(
        `${name}: ${comparison.differing} verdicts differ, p ${comparison.p.toPrecision(2)}`,
      );
    else if (reasons > 0)
      notes.push(`${name}: ${reasons} fail for a different reason than claimed`);
  }
  for (const [tier, of] of Object.entries(after.measured.byTier))
    rows.push([`    ${label(tier, 14)}`, interval(of), '']);
  const table: typeof rows = [['test solved', 'measured here', 'claimed by the run'], ...rows];
  const [names, measured] = [0, 1].map((column) =>
    Math.max(...table.map((row) => row[column]!.length)),
  ) as [number, number];
  const programs = Object.entries(policies).sort(
    ([, one], [, other]) => (other.mean ?? -1) - (one.mean ?? -1),
  );
  const longest = Math.max(0, ...programs.map(([name]) => label(name, 40).length));
  return [
    '',
    ...table.map(([name, here, claimed]) =>
      `${name.padEnd(names)}  ${here.padEnd(measured)}  ${claimed}`.trimEnd(),
    ),
    ...notes.map((note) => painted(wrapped(`  ${note}`, style), 'fair', style)),
    ...(after.measured.valid
      ? []
      : [
          painted(
            `  not a valid result: ${after.measured.none} replies have no verdict`,
            'fair',
            style,
          ),
        ]),
    ...(programs.length === 0 ? [] : ['', 'programs without a model, on the same problems']),
    ...programs.map(
      ([name, summary]) => `  ${label(name, 40).padEnd(longest)}  ${interval(summary)}`,
    ),
  ];
}

/** Lines about fresh problems, and the gap to the public test problems. */
function freshLines(
  { measured, gap, p }: NonNullable<JudgeReport['fresh']>,
  style: TerminalStyle,
): string[] {
  const own = ['', `fresh problems solved after training  ${interval(measured)}`];
  if (gap === null) return own;
  const points = `${gap < 0 ? '−' : '+'}${figure(Math.abs(gap))} points`;
  return [
    ...own,
    wrapped(
      `  gap ${points}: test minus fresh, both measured here (p ${p.toPrecision(2)}, one-sided)`,
      style,
      2,
    ),
  ];
}

function forgettingLines(
  { claimed, measured }: NonNullable<JudgeReport['forgetting']>,
  style: TerminalStyle,
): string[] {
  const lines = [['measured here', measured] as const, ['claimed by the run', claimed] as const];
  return [
    '',
    ...lines.flatMap(([who, figures]) => [
      `forgetting, ${who}`,
      ...forgettingSentences(figures).map((each) => wrapped(`  ${each}`, style, 2)),
    ]),
  ];
}

/** Lines of the scores with their divisions. */
function scoreLines(
  { scores, heldOut, fresh, violations, policy, deciders }: JudgeReport,
  target: number,
  style: TerminalStyle,
): string[] {
  const {
    accuracy_score: accuracy,
    process_score,
    obligations,
    distinct_rules_fired: rules,
    process_lower_bound: bound,
  } = scores;
  const said = (text: string): string => wrapped(text, style, 16);
  const broken = count(violations.length, 'violation');
  return [
    said(
      accuracy === null
        ? 'accuracy score  none: held-out accuracy was not measured or is not valid'
        : `accuracy score  ${accuracy.toFixed(3)} = ${percent((fresh?.measured ?? heldOut!.after.measured).mean)} of the ` +
            `${fresh === null ? 'test' : 'fresh'} problems solved after training, measured here, / ` +
            `${(100 * target).toFixed(1).replace(/\.0$/, '')} % (--target; a lower score is not a failure)` +
            `${accuracy === 1 ? ', at most 1' : ''}`,
    ),
    said(
      process_score === null
        ? `process score   none: ${broken} of ${count(obligations, 'obligation')} broken, ${count(rules, 'rule')} ` +
            `fired, too few to score ` +
            '(3 obligations of 2 rules are needed), which is normal'
        : `process score   ${process_score.toFixed(3)} = 1 - ${broken} / ${count(obligations, 'obligation')}, at least 0; ` +
            `${count(rules, 'rule')} fired${bound === null ? '' : `; at least ${bound.toFixed(2)} of the obligations kept (95 %)`}`,
    ),
    `policy          ${policy === null ? 'unknown' : label(policy)}`,
    ...(deciders === null ? [] : [said(`decided by      ${deciderText(deciders)}`)]),
    ...violations
      .slice(0, LISTED)
      .map(({ kind, rule, iteration, detail }) =>
        wrapped(`  ${kind} ${rule} at iteration ${iteration}: ${detail}`, style, 2),
      ),
    ...(violations.length > LISTED
      ? [`  and ${violations.length - LISTED} more in the trace`]
      : []),
  ];
}

/** Effect of the run on the model as measured here; the verdict below it is about the log. */
function outcomeLines({ heldOut }: JudgeReport, style: TerminalStyle): string[] {
  const [before, after] = [heldOut?.before?.measured, heldOut?.after.measured];
  if (
    heldOut?.change == null ||
    before == null ||
    after == null ||
    before.mean === null ||
    after.mean === null
  )
    return [];
  const [was, is] = [percent(before.mean), percent(after.mean)];
  const finding = findingBeside([before.mean, after.mean], heldOut.change);
  const same = `The run changed nothing on the test problems: ${is} solved after it, as before.`;
  const text = {
    worse: `The run made the model worse: ${is} of the test problems solved after it, ${was} before.`,
    better: `The run made the model better: ${is} of the test problems solved after it, ${was} before.`,
    chance:
      before.mean === after.mean
        ? same
        : `${is} of the test problems solved after the run, ${was} before: a difference that may be chance.`,
  }[finding];
  return [painted(wrapped(text, style), finding === 'better' ? 'strong' : 'fair', style)];
}

/** Who answered the rules, and how well by the process score: a fallback's merit is its own. */
function deciderText({
  sources,
  invalidRate,
  agreement,
  tokens,
  seconds,
}: NonNullable<JudgeReport['deciders']>): string {
  const by = sources.map(({ source, decisions, cached, processScore }) => {
    const score = processScore === null ? '' : `, process score ${processScore.toFixed(3)}`;
    return `${source} ${decisions} (${cached} recorded before${score})`;
  });
  return [
    by.length === 0 ? 'no one: no rule fired' : by.join(', '),
    ...(invalidRate === null ? [] : [`invalid replies ${percent(100 * invalidRate)}`]),
    ...(agreement === null ? [] : [`agreement over orders ${percent(100 * agreement)}`]),
    ...(tokens === 0 ? [] : [`${tokens} tokens in ${seconds.toFixed(1)} s`]),
  ].join('; ');
}

function endLines(report: JudgeReport, target: number, style: TerminalStyle): string[] {
  const { verdict, failure, steps, notVerified } = report;
  const skipped = steps.flatMap(({ name, status }) =>
    status === 'skipped' ? [STEP_TITLES[name]] : [],
  );
  const without = skipped.length === 0 ? '' : `. Not checked: ${skipped.join('; ')}`;
  const end = (text: string, paint: Paint): string => painted(wrapped(text, style), paint, style);
  const scored = (): string[] => [
    ...scoreLines(report, target, style),
    '',
    ...outcomeLines(report, style),
  ];
  switch (verdict) {
    case 'pass':
      return [
        ...scored(),
        end(
          `PASS: the log is intact, and its claims were confirmed here, relative to the key above${without}`,
          'good',
        ),
      ];
    case 'not_verified':
      return [
        ...scored(),
        end(
          `NOT VERIFIED: nothing fails, but not everything was measured and confirmed here: ${notVerified
            .map((each) => label(each, 300))
            .join('; ')}${without}`,
          'fair',
        ),
      ];
    case 'not_ended':
      return [end('NOT SCORED: the run has not ended', 'fair')];
    case 'hard_fail': {
      const at = steps.findIndex(({ name }) => name === failure!.name);
      const title = STEP_TITLES[failure!.name as StepName];
      return [
        'accuracy score  0: a step failed',
        'process score   0: a step failed',
        '',
        end(
          `HARD FAIL at step ${at + 1} of ${steps.length}, ${title} (${failure!.name}): ${failure!.detail}`,
          'bad',
        ),
      ];
    }
  }
}

export function judgeText(report: JudgeReport, target: number, style: TerminalStyle): string {
  const { trust, steps, heldOut, fresh, forgetting, runId, failures } = report;
  const vouching =
    trust === null
      ? []
      : [
          `key ${trust.key}`,
          trust.signer === 'single-process'
            ? '    no witness stored its heads (single process): the run vouches for itself'
            : trust.ownedByThisUser
              ? '    owned by the judging user, who could have signed any history'
              : "    not this user's witness",
        ];
  const failing = [
    ['test replies after training', heldOut?.after.failures.measured] as const,
    ['rollouts', failures] as const,
  ].flatMap(([what, of]) =>
    of == null || of.rows.length === 0
      ? []
      : ['', failureTable(of, `${what}, judged here,`, style)],
  );
  return [
    `run ${runId ?? 'unknown'}`,
    ...vouching,
    '',
    ...stepLines(steps, style),
    ...(heldOut === null ? [] : heldOutLines(heldOut, style)),
    ...(fresh === null ? [] : freshLines(fresh, style)),
    ...(forgetting === null ? [] : forgettingLines(forgetting, style)),
    ...failing,
    '',
    ...endLines(report, target, style),
    '',
  ].join('\n');
}
