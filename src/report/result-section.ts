/** The test set before and after, with all that was measured on it. */
import type { Submission } from '../run-folder/course-records.js';
import {
  testComparison,
  testRates,
  type PairedCounts,
  type TestRate,
} from '../run-folder/comparison.js';
import { inOrder, testEvaluation, type RunRecord, type TierInfo } from '../run-folder/read-run.js';
import { MEASURE_NAMES, type Forgetting, type Summary } from '../statistics/index.js';
import { bestPolicy } from '../text/conclusion.js';
import {
  bounds,
  decimal,
  decimalBounds,
  forgettingText,
  MEASURE_NOTES,
  MEASURE_TITLES,
  percent,
  points,
  RATE_NOTES,
  RATE_TITLES,
  severalOf,
} from '../text/figures.js';
import { html, type Html } from '../text/hostile-text.js';
import {
  cells,
  COLUMNS,
  heads,
  more,
  name,
  pairOf,
  ROWS,
  section,
  tierHeads,
  tierName,
  type Section,
} from './markup.js';

export function resultSection(run: RunRecord): Section {
  const [before, after] = [testEvaluation(run, 'before'), testEvaluation(run, 'after')];
  const comparison = testComparison(run);
  const policies = Object.entries(run.policies).sort(
    ([, one], [, other]) => (other.mean ?? 0) - (one.mean ?? 0),
  );
  const best = bestPolicy(run);
  const first = before ?? after;
  if (first === null)
    return section(
      'result',
      'Before and after',
      html`<p class="muted">The test set has not been evaluated.</p>`,
    );
  const tiers = new Map(run.tiers.map((tier) => [tier.id, tier]));
  const keys = inOrder(Object.keys(first.summary.byTier), run.tiers);
  const cell = (
    summary: { mean: number | null; low: number; high: number } | undefined,
    lead = false,
  ): Html =>
    html`<td${lead && html` class="lead"`}>${
      summary === undefined ? '–' : html`${percent(summary.mean)} <small>${bounds(summary)}</small>`
    }</td>`;
  const pair = (of: PairedCounts | null | undefined): Html[] => cells(pairOf(of));
  const row = (key: string): Html => {
    const tier = tiers.get(key);
    const [was, is] = [before?.summary.byTier[key], after?.summary.byTier[key]];
    const untrained = tier?.trains === false && html` <small>· not trained on</small>`;
    return html`<tr${tier === undefined && html` class="group"`}><td class="tier">${tierName(key, run.tiers)}${untrained}</td>
<td>${first.summary.byTier[key]!.n}</td>
${cell(was)}${cell(is, true)}<td>${points(was?.mean != null && is?.mean != null ? is.mean - was.mean : null)}</td>
${pair(comparison?.byTier[key])}${best !== null && html`<td>${percent(best[1].byTier[key]?.mean)}</td>`}</tr>
`;
  };
  const none = [before, after].reduce(
    (sum, evaluation) => sum + (evaluation?.summary.none ?? 0),
    0,
  );
  const invalid = [before, after].some((evaluation) => evaluation?.summary.valid === false);
  const groups = keys.filter((key) => !tiers.has(key));
  const several = severalOf(keys);
  return section(
    'result',
    'Before and after',
    html`<p class="note muted">Per cent of frozen test problems solved by greedy decoding, with 95 % intervals. Evaluated once before and
once after the run.${
      several.length > 0 && [
        ' The mean counts each tier once',
        groups.length > 0 && ', and the tiers of a group, in italics, together once',
        '.',
      ]
    }</p>
<div class="wide"><table><thead><tr>${heads(['tier', 'n', 'before', 'after', 'change', 'gained, lost', 'p'])}${
      best !== null && html`<th class="policy">best program</th>`
    }</tr></thead><tbody>
${several.slice(0, ROWS).map(row)}<tr class="sum"><td${several.length === 0 && html` class="tier"`}>${
      several.length === 0 ? tierName(keys[0]!, run.tiers) : 'mean'
    }</td><td>${first.summary.n}</td>
${cell(before?.summary)}${cell(after?.summary, true)}<td>${points(comparison?.difference?.mean)}</td>
${pair(comparison)}${best !== null && html`<td>${percent(best[1].mean)}</td>`}</tr>
</tbody></table></div>
${more(ROWS, keys.length, 'tiers')}
<p class="note muted">p: exact two-sided paired tests over the same problems: McNemar's for a tier; for the mean, a ' +
'test of its change in which each
problem has the weight of its tier. p values of tiers are not adjusted for their number.
${best !== null && html`Best program: ${name(best[0], 60)}, see below.`}</p>
${invalid && html`<p class="bad">The verifier reached no verdict on more than 1 % of the replies, so these figures are not a result.</p>`}
${!invalid && none > 0 && html`<p class="note fair">${none} replies have no verdict and are not counted.</p>`}
${rateTable(testRates(run), keys, run.tiers)}
${run.forgetting !== null && forgettingPart(run.forgetting, run.submission?.restraint)}
${measureTables(before?.summary, after?.summary, policies.slice(0, ROWS), keys, run.tiers)}
${policies.length > 0 && policyTable(policies.slice(0, ROWS), keys, run.tiers)}${more(ROWS, policies.length, 'programs')}`,
  );
}

/** Table that separates format and skill: rates next to the accuracy, by tier. */
function rateTable(
  rates: readonly TestRate[],
  keys: readonly string[],
  tiers: readonly TierInfo[],
): Html | null {
  const columns = severalOf(keys).slice(0, COLUMNS);
  const rows = rates.flatMap(({ name: rate, before, after, change }) => [
    ...(before === null ? [] : [{ rate, when: 'before', of: before, pair: null }]),
    ...(after === null ? [] : [{ rate, when: 'after', of: after, pair: change }]),
  ]);
  if (rows.length === 0) return null;
  return html`<h3>Format and skill apart</h3>
<p class="note muted">Per cent of the replies. ${rates.map(({ name: rate }, i) => html`${i > 0 && '; '}${RATE_NOTES[rate]}`)}.</p>
<div class="wide"><table class="dense">
<thead><tr>${heads(['', '', 'mean'])}${tierHeads(columns, tiers)}${heads(['gained, lost', 'p'])}</tr></thead><tbody>
${rows.map(
  ({ rate, when, of, pair }) => html`<tr><td>${RATE_TITLES[rate]}</td><td>${when}</td>
<td class="lead">${percent(of.mean)} <small>${bounds(of)}</small></td>
${cells([...columns.map((key) => percent(of.byTier[key]?.mean)), ...pairOf(pair)])}</tr>
`,
)}</tbody></table></div>`;
}

/** Section on forgetting: the model on texts that it was not trained on. */
const forgettingPart = (
  forgetting: Forgetting,
  restraint: Submission['restraint'],
): Html => html`<h3>Forgetting</h3>
<p class="note muted">On texts written for this measure, on which no run trains. Intervals are over texts.</p>
${forgettingText(forgetting, restraint).map((sentence) => html`<p>${sentence}.</p>`)}`;

/** Mean score and proper scores, by tier; nothing where the task's verdicts have no figures. */
function measureTables(
  before: Summary | undefined,
  after: Summary | undefined,
  policies: readonly (readonly [string, Summary])[],
  keys: readonly string[],
  tiers: readonly TierInfo[],
): Html[] {
  const columns = severalOf(keys).slice(0, COLUMNS);
  return MEASURE_NAMES.flatMap((measure) => {
    const rows = [['before', before] as const, ['after', after] as const, ...policies].flatMap(
      ([who, summary]) => {
        const of = summary?.measures?.[measure];
        return of === undefined ? [] : [[who, of] as const];
      },
    );
    if (rows.length === 0) return [];
    return [
      html`<h3>${MEASURE_TITLES[measure]}</h3>
<p class="note muted">${MEASURE_NOTES[measure]}. Means over tiers, with 95 % bootstrap intervals over problems; valid: per
cent of the replies that had the figure or passed, with Wilson's interval.</p>
<div class="wide"><table class="dense"><thead><tr>${heads(['', 'n', 'valid', 'mean'])}${tierHeads(columns, tiers)}</tr></thead><tbody>
${rows.map(
  ([who, of]) => html`<tr><td>${name(who, 60)}</td><td>${of.n}</td>
<td>${percent(of.valid)} <small>${of.valid !== null && bounds(of.validInterval)}</small></td>
<td class="lead">${decimal(of.mean)} <small>${of.mean !== null && decimalBounds(of)}</small></td>
${cells(columns.map((key) => decimal(of.byTier[key]?.mean)))}</tr>
`,
)}</tbody></table></div>`,
    ];
  });
}

/** Table of the trivial policies, which a model must beat to have learned anything. */
function policyTable(
  policies: readonly (readonly [string, Summary])[],
  keys: readonly string[],
  tiers: readonly TierInfo[],
): Html {
  const columns = severalOf(keys).slice(0, COLUMNS);
  return html`<h3>Without a model</h3>
<p class="note muted">Trivial policies (programs of a few lines) on the same problems: per cent solved.</p>
<div class="wide"><table class="dense"><thead><tr>${heads(['program', 'mean'])}${tierHeads(columns, tiers)}</tr></thead><tbody>
${policies.map(([policy, { mean, byTier }]) => {
  const solved = cells(columns.map((key) => percent(byTier[key]?.mean)));
  return html`<tr><td>${name(policy, 60)}</td><td class="lead">${percent(mean)}</td>${solved}</tr>
`;
})}</tbody></table></div>`;
}
