/** The parts of a report. Each is null where a run has nothing to say on it. */
import { MEASURE_NAMES, type Forgetting, type Summary } from '../statistics/index.js';
import { testComparison, testRates, type PairedCounts, type TestRate } from '../run-folder/comparison.js';
import { accuracyChart, bufferChart, emergenceChart, hitRateAndLossChart, layerChart, timelineChart } from './charts.js';
import {
  bounds,
  decimal,
  decimalBounds,
  forgettingSentences,
  MEASURE_NOTES,
  MEASURE_TITLES,
  percent,
  points,
  pValue,
  RATE_NOTES,
  RATE_TITLES,
  whole,
} from './figures.js';
import { html, label, visible, type Html, type HtmlValue } from './hostile-text.js';
import { integrityLine, integrityText, type Integrity } from './integrity.js';
import { devEvaluations, inOrder, testEvaluation, type RunRecord, type ShownRollout } from '../run-folder/read-run.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';

/** Rows of a table; what is left out is counted. */
const ROWS = 120;
const COLUMNS = 16;

const code = (text: string): Html => html`<code>${text}</code>`;
const name = (text: string, length = 40): Html => html`<bdi>${label(text, length)}</bdi>`;
const section = (id: string, title: string, ...body: HtmlValue[]): Html => html`<section id="${id}"><h2>${title}</h2>
${body}</section>
`;
const figure = (chart: Html | null, description: string, caption: HtmlValue): Html | null =>
  chart === null
    ? null
    : html`<figure role="img" aria-label="${description}"><div class="chart">${chart}</div><figcaption>${caption}</figcaption></figure>`;
const cells = (values: readonly HtmlValue[]): Html[] => values.map((value) => html`<td>${value}</td>`);
const heads = (values: readonly HtmlValue[]): Html[] => values.map((value) => html`<th>${value}</th>`);
const tierHeads = (keys: readonly string[]): Html[] => heads(keys.map((key) => name(key, 16)));
const list = (rows: readonly (readonly [HtmlValue, HtmlValue])[]): Html =>
  html`<dl>${rows.map(([term, value]) => html`<dt>${term}</dt><dd>${value}</dd>`)}</dl>`;
const more = (shown: number, of: number, what: string): HtmlValue =>
  of > shown && html`<p class="note muted">${of - shown} further ${what} are in the log.</p>`;
const pairOf = (of: PairedCounts | null | undefined): [string, string] =>
  of == null ? ['–', '–'] : [`+${of.gained} −${of.lost}`, pValue(of.p)];
const time = (us: number): string => new Date(us / 1000).toISOString().replace('T', ' ').slice(0, 19);
const duration = (seconds: number): string =>
  seconds < 120 ? `${seconds.toFixed(0)} s` : seconds < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;

export function header(run: RunRecord, integrity: Integrity): Html {
  const { manifest, end, time: at, defects } = run;
  const { model, task, settings, code: version } = manifest.start;
  const [before, after] = [testEvaluation(run, 'before'), testEvaluation(run, 'after')];
  const comparison = testComparison(run);
  const { text, tone } =
    defects.length > 0 && integrity.outcome === 'unchecked'
      ? ({ text: 'log missing or damaged', tone: 'bad' } as const)
      : integrityLine(integrity);
  const seed = label(readWrittenSettings(settings).seed ?? '–', 20);
  const iterations = `${run.iterations.length} iteration${run.iterations.length === 1 ? '' : 's'}`;
  const card = (value: string, caption: HtmlValue): Html => html`<div class="card"><b>${value}</b><span>${caption}</span></div>`;
  return html`<header>
<p class="muted note">isopro-native ${label(version.version)} · run ${manifest.runId} · seed ${seed}${
    at !== null && html` · ${time(at.first)} UTC`
  }</p>
<h1>${name(model.name, 80)} on ${name(task.id, 60)}</h1>
<p><span class="badge ${tone}">${text}</span></p>
${
  end === null
    ? html`<p class="fair"><b>The run has not ended.</b> What follows is what its log holds so far.</p>`
    : html`<p class="muted">Ended after ${iterations}: ${name(end.stopped, 200)}.</p>`
}
${defects.map((defect) => html`<p class="bad">${label(defect, 400)}</p>`)}
<div class="cards">
${before !== null && card(`${percent(before.summary.mean)} %`, 'of the test problems solved before, mean over tiers')}
${after !== null && card(`${percent(after.summary.mean)} %`, 'solved after, mean over tiers')}
${
  comparison?.difference != null &&
  card(
    points(comparison.difference.mean),
    `points of change; 95 % interval ${points(comparison.difference.low)} to ${points(comparison.difference.high)}`,
  )
}
${
  comparison !== null &&
  card(
    pValue(comparison.p),
    `exact McNemar p, each problem counting once; ${comparison.gained} gained, ${comparison.lost} lost of ${comparison.n}`,
  )
}
${
  end !== null &&
  card(
    duration(end.seconds),
    `${whole(end.tokens.sampled)} tokens sampled, ${whole(end.tokens.trained)} trained on; ` +
      `at most ${whole(end.peakRssBytes / 1e6)} MB resident`,
  )
}
</div>
</header>
`;
}

export function resultSection(run: RunRecord): Html {
  const [before, after] = [testEvaluation(run, 'before'), testEvaluation(run, 'after')];
  const comparison = testComparison(run);
  const policies = Object.entries(run.policies).sort(([, one], [, other]) => (other.mean ?? 0) - (one.mean ?? 0));
  const best = policies[0];
  const first = before ?? after;
  if (first === null) return section('result', 'Before and after', html`<p class="muted">The test set has not been evaluated.</p>`);
  const tiers = new Map(run.tiers.map((tier) => [tier.id, tier]));
  const keys = inOrder(Object.keys(first.summary.byTier), run.tiers);
  const cell = (summary: { mean: number | null; low: number; high: number } | undefined, lead = false): Html =>
    html`<td${lead && html` class="lead"`}>${
      summary === undefined ? '–' : html`${percent(summary.mean)} <small>${bounds(summary)}</small>`
    }</td>`;
  const pair = (of: PairedCounts | null | undefined): Html[] => cells(pairOf(of));
  const row = (key: string): Html => {
    const tier = tiers.get(key);
    const [was, is] = [before?.summary.byTier[key], after?.summary.byTier[key]];
    const untrained = tier?.trains === false && html` <small>not trained on</small>`;
    return html`<tr${tier === undefined && html` class="group"`}><td>${name(key, 24)}${untrained}</td>
<td>${first.summary.byTier[key]!.n}</td>
${cell(was)}${cell(is, true)}<td>${points(was?.mean != null && is?.mean != null ? is.mean - was.mean : null)}</td>
${pair(comparison?.byTier[key])}${best !== undefined && html`<td>${percent(best[1].byTier[key]?.mean)}</td>`}</tr>
`;
  };
  const none = [before, after].reduce((sum, evaluation) => sum + (evaluation?.summary.none ?? 0), 0);
  const invalid = [before, after].some((evaluation) => evaluation?.summary.valid === false);
  const groups = keys.filter((key) => !tiers.has(key));
  const titled = run.tiers.filter(({ title }) => title !== '').slice(0, ROWS);
  return section(
    'result',
    'Before and after',
    html`<p class="note muted">Per cent of frozen test problems solved by greedy decoding, 95 % interval beside. Read once before and
once after the run. The mean counts each tier once${groups.length > 0 && ', and the tiers of a group, in italics, together once'}.</p>
<div class="wide"><table><thead><tr>${heads(['tier', 'n', 'before', 'after', 'change', 'gained, lost', 'p'])}${
      best !== undefined && html`<th class="policy">best program</th>`
    }</tr></thead><tbody>
${keys.slice(0, ROWS).map(row)}<tr class="sum"><td>mean</td><td>${first.summary.n}</td>
${cell(before?.summary)}${cell(after?.summary, true)}<td>${points(comparison?.difference?.mean)}</td>
${pair(comparison)}${best !== undefined && html`<td>${percent(best[1].mean)}</td>`}</tr>
</tbody></table></div>
${more(ROWS, keys.length, 'tiers')}
<p class="note muted">p: exact two-sided McNemar test over the same problems, each counting once, in the line of the mean too; p values
of tiers are not adjusted for their number.${best !== undefined && html` Best program: ${name(best[0], 60)}, see below.`}</p>
${
  titled.length > 0 &&
  html`<p class="note muted">${titled.map(({ id, title }, i) => html`${i > 0 && '; '}<b>${name(id, 24)}</b> ${label(title, 60)}`)}.</p>`
}
${invalid && html`<p class="bad">The verifier could not decide more than 1 % of the replies: these figures are no result.</p>`}
${!invalid && none > 0 && html`<p class="note fair">${none} replies could not be decided and are not counted.</p>`}
${rateTable(testRates(run), keys)}
${run.forgetting !== null && forgettingPart(run.forgetting)}
${measureTables(before?.summary, after?.summary, policies.slice(0, ROWS), keys)}
${policies.length > 0 && policyTable(policies.slice(0, ROWS), keys)}${more(ROWS, policies.length, 'programs')}`,
  );
}

/** Format and skill apart: rates beside accuracy, by tier. */
function rateTable(rates: readonly TestRate[], keys: readonly string[]): Html | null {
  const columns = keys.slice(0, COLUMNS);
  const rows = rates.flatMap(({ name: rate, before, after, change }) => [
    ...(before === null ? [] : [{ rate, when: 'before', of: before, pair: null }]),
    ...(after === null ? [] : [{ rate, when: 'after', of: after, pair: change }]),
  ]);
  if (rows.length === 0) return null;
  return html`<h3>Format and skill apart</h3>
<p class="note muted">Per cent of the replies. ${rates.map(({ name: rate }, i) => html`${i > 0 && '; '}${RATE_NOTES[rate]}`)}.</p>
<div class="wide"><table class="dense">
<thead><tr>${heads(['', '', 'mean'])}${tierHeads(columns)}${heads(['gained, lost', 'p'])}</tr></thead><tbody>
${rows.map(
  ({ rate, when, of, pair }) => html`<tr><td>${RATE_TITLES[rate]}</td><td>${when}</td>
<td class="lead">${percent(of.mean)} <small>${bounds(of)}</small></td>
${cells([...columns.map((key) => percent(of.byTier[key]?.mean)), ...pairOf(pair)])}</tr>
`,
)}</tbody></table></div>`;
}

/** What it cost: the model on what it was not trained on. */
const forgettingPart = (forgetting: Forgetting): Html => html`<h3>Forgetting</h3>
<p class="note muted">On texts written for this measure, which no run trains on. ± is one standard error over texts.</p>
${forgettingSentences(forgetting).map((sentence) => html`<p>${sentence}.</p>`)}`;

/** Mean score and proper scores, by tier; nothing where the task's verdicts have no figures. */
function measureTables(
  before: Summary | undefined,
  after: Summary | undefined,
  policies: readonly (readonly [string, Summary])[],
  keys: readonly string[],
): Html[] {
  const columns = keys.slice(0, COLUMNS);
  return MEASURE_NAMES.flatMap((measure) => {
    const rows = [['before', before] as const, ['after', after] as const, ...policies].flatMap(([who, summary]) => {
      const of = summary?.measures?.[measure];
      return of === undefined ? [] : [[who, of] as const];
    });
    if (rows.length === 0) return [];
    return [
      html`<h3>${MEASURE_TITLES[measure]}</h3>
<p class="note muted">${MEASURE_NOTES[measure]}. Means over tiers, 95 % bootstrap interval over problems; valid: per
cent of the replies that had the figure, or passed.</p>
<div class="wide"><table class="dense"><thead><tr>${heads(['', 'n', 'valid', 'mean'])}${tierHeads(columns)}</tr></thead><tbody>
${rows.map(
  ([who, of]) => html`<tr><td>${name(who, 60)}</td>${cells([of.n, percent(of.valid)])}
<td class="lead">${decimal(of.mean)} <small>${of.mean !== null && decimalBounds(of)}</small></td>
${cells(columns.map((key) => decimal(of.byTier[key]?.mean)))}</tr>
`,
)}</tbody></table></div>`,
    ];
  });
}

/** What a model must exceed to have learned anything. */
function policyTable(policies: readonly (readonly [string, Summary])[], keys: readonly string[]): Html {
  const columns = keys.slice(0, COLUMNS);
  return html`<h3>Without a model</h3>
<p class="note muted">Trivial policies, programs of a few lines, on the same problems: per cent solved.</p>
<div class="wide"><table class="dense"><thead><tr>${heads(['program', 'mean'])}${tierHeads(columns)}</tr></thead><tbody>
${policies.map(([policy, { mean, byTier }]) => {
  const tiers = cells(columns.map((key) => percent(byTier[key]?.mean)));
  return html`<tr><td>${name(policy, 60)}</td><td class="lead">${percent(mean)}</td>${tiers}</tr>
`;
})}</tbody></table></div>`;
}

export function learningSection(run: RunRecord): Html {
  const untrained =
    run.end !== null && [...run.rollouts.values()].every((tiers) => [...tiers.values()].every(({ admitted }) => admitted === 0));
  const figures = [
    figure(
      accuracyChart(run),
      'accuracy on dev problems by tier over iterations',
      `Per cent of ${devEvaluations(run)[0]?.outcomes.length ?? 0} dev problems solved, by iteration; 0 is the base model. ` +
        'Bars are 95 % intervals.',
    ),
    figure(
      hitRateAndLossChart(run),
      'hit rate and loss over the run',
      'Left: sampled replies that the verifier passed, of those it decided; the mix of tiers changes from one iteration to the next. ' +
        'Right: training loss per labelled token.',
    ),
    figure(
      emergenceChart(run),
      'hit rate by tier and iteration',
      'Capability emergence: per cent of sampled replies that passed, by tier and iteration; empty where none were sampled. A frame ' +
        'marks the iteration in which a tier had its first rollout to train on.',
    ),
    figure(
      bufferChart(run),
      'composition of the replay buffer by iteration',
      'Accepted rollouts in the replay buffer, by tier: the curriculum that nobody designed.',
    ),
  ];
  const found = figures.filter((each) => each !== null);
  return section(
    'learning',
    'Learning',
    untrained && html`<p class="fair">No iteration had a rollout to train on, so nothing was trained.</p>`,
    found.length === 0 ? html`<p class="muted">No iteration has left anything in the log.</p>` : found,
  );
}

export function methodSection({ methods: compared, tiers }: RunRecord): Html | null {
  if (compared === null || compared.methods.length === 0) return null;
  const [methods, skipped] = [compared.methods.slice(0, ROWS), compared.skipped.slice(0, ROWS)];
  const keys = inOrder(Object.keys(methods[0]!.test.byTier), tiers).slice(0, COLUMNS);
  return section(
    'methods',
    'Methods compared',
    html`<p class="note muted">Per cent of the test problems solved, 95 % interval beside the mean, with what each method costs. From
comparison.json, which is not part of the signed log.</p>
<div class="wide"><table class="dense"><thead><tr>${heads(['method', 'mean'])}${tierHeads(keys)}${heads(['n', 'k', 'tokens', 'seconds'])}
</tr></thead><tbody>
${methods.map(
  ({ method, test, k, tokens, seconds }) => html`<tr><td>${name(method)}</td>
<td class="lead">${percent(test.mean)} <small>${bounds(test)}</small></td>
${cells([...keys.map((key) => percent(test.byTier[key]?.mean)), test.n, k, whole(tokens), whole(seconds)])}</tr>
`,
)}</tbody></table></div>
${methods.map(({ method, note }) => html`<p class="note muted">${name(method)}: ${label(note, 200)}</p>`)}
${skipped.map(({ method, reason }) => html`<p class="note muted">${name(method)}: not measured, ${label(reason, 200)}</p>`)}`,
  );
}

export function adapterSection(run: RunRecord): Html | null {
  const { layers, adapterState: state, submission } = run;
  if (layers === null && state === null) return null;
  const targets = Object.entries(submission?.targets ?? state?.targets ?? {});
  const byRank = new Map<string, string[]>();
  for (const [module, { rank, scale }] of targets) {
    const key = `rank ${rank}, scale ${scale}`;
    byRank.set(key, [...(byRank.get(key) ?? []), module]);
  }
  const rows: [string, string][] = [...byRank]
    .slice(0, 20)
    .map(([key, modules]) => [key, `${modules.length} module${modules.length === 1 ? '' : 's'}: ${label(modules.join(', '), 400)}`]);
  if (submission !== null)
    rows.push(['adapter', submission.adapter === null ? 'none: the bare base model' : `${submission.adapter} (SHA-256)`]);
  const chosen = (layers?.layers ?? []).join(', ');
  return section(
    'adapter',
    'What was trained',
    layers !== null &&
      html`<p>Layers ${chosen.length > 600 ? `${chosen.slice(0, 600)}…` : chosen}, chosen by method ${code(label(layers.method))}.</p>`,
    figure(
      layerChart(run),
      'score of each layer',
      layers?.method === 'gradient'
        ? 'Gradient norm of an untrained adapter by layer; trained layers are filled.'
        : 'Relative update of the residual stream by layer; trained layers are filled.',
    ),
    list(rows),
  );
}

interface Event {
  readonly iteration: number;
  readonly what: string;
  readonly text: string;
}

const figureOf = (value: number | null): string => (value === null ? '–' : Number.isFinite(value) ? value.toPrecision(3) : String(value));

function eventsOf(run: RunRecord): Event[] {
  const events: Event[] = [
    ...run.ruleEvaluations.flatMap(({ iteration, rules }) =>
      Object.entries(rules).flatMap(([rule, { fired, side, value, threshold }]) =>
        fired ? [{ iteration, what: `${rule} fired`, text: `${side}: ${figureOf(value)} against ${figureOf(threshold)}` }] : [],
      ),
    ),
    ...run.decisions.map(({ iteration, cites, event_type: type, remedy_direction: direction, justification }) => ({
      iteration,
      what: `decision on ${cites.join(', ')}`,
      text: `${type === 'rule_triggered_no_action' ? 'no action' : direction}: ${justification}`,
    })),
    ...run.effects.map(({ iteration, rule, operation: { op, ...rest }, executed, failure }) => ({
      iteration,
      what: executed ? `remedy for ${rule}` : `remedy for ${rule} failed`,
      text: `${String(op)} ${JSON.stringify(rest)}${failure === undefined ? '' : `: ${failure}`}`,
    })),
    ...run.gates.map(({ iteration, cause }) => ({ iteration, what: 'gate: back to an earlier adapter', text: cause })),
  ];
  return events.sort((a, b) => a.iteration - b.iteration);
}

export function ruleSection(run: RunRecord): Html | null {
  const events = eventsOf(run);
  const evaluated = run.ruleEvaluations.length;
  if (events.length === 0 && run.iterations.length === 0) return null;
  return section(
    'rules',
    'Rules and remedies',
    events.length > 0 &&
      figure(
        timelineChart(run),
        'rules fired and remedies by iteration',
        'Ring: a rule fired. Dot within: its remedy was carried out. Diamond: a remedy failed. Triangle: the gate put an earlier adapter ' +
          'back.',
      ),
    events.length === 0
      ? html`<p class="muted">No rule fired in ${evaluated} evaluation${evaluated === 1 ? '' : 's'}, and the gate never put an earlier
adapter back. With fewer than three obligations a run has no process score: it says nothing about the process, good or bad.</p>`
      : html`<div class="wide"><table class="text"><thead><tr>${heads(['iteration', 'what', 'how'])}</tr></thead><tbody>
${events.slice(0, ROWS).map(
  ({ iteration, what, text }) => html`<tr>${cells([iteration, label(what, 80), label(text, 300)])}</tr>
`,
)}</tbody></table></div>`,
    more(ROWS, events.length, 'events'),
  );
}

const ADMISSIONS: ReadonlyMap<string, string> = new Map([
  ['admitted', 'in the replay buffer: trained on where it is drawn'],
  ['contrasted', 'trained on with its advantage over the other samples of its problem'],
  ['uninformative', 'not trained on: no sample of its problem has the other verdict'],
  ['failed', 'not trained on'],
  ['undecided', 'not trained on: no verdict'],
  ['incomplete', 'not trained on: it did not end by itself'],
  ['contradictory', 'not trained on: its reasoning contradicts the problem'],
  ['duplicate', 'not trained on: like an earlier sample'],
]);

/** @param budget bytes for all of them together; the longest texts are shortened until they fit */
export function rolloutSection({ shown, rolloutCount }: RunRecord, budget: number): Html {
  if (shown.length === 0) return section('rollouts', 'Rollouts', html`<p class="muted">The log holds no rollouts.</p>`);
  let items: Html[] = [];
  let kept = shown;
  for (let limit = 16_000; ; limit = Math.floor(limit / 2)) {
    items = kept.map((rollout) => rolloutItem(rollout, limit));
    if (items.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) <= budget) break;
    if (limit < 200) kept = kept.filter((_, i) => i % 2 === 1); // all of it is names and violations
  }
  const select = (id: string, all: string, values: readonly (string | number)[]): Html =>
    html`<select id="${id}" aria-label="${id}"><option value="">${all}</option>${[...new Set(values)]
      .map((value) => label(String(value), 24))
      .map((value) => html`<option value="${value}">${value}</option>`)}</select>`;
  const tiers = kept.map(({ tier }) => tier);
  const iterations = kept.map(({ iteration }) => iteration).sort((a, b) => a - b);
  const verdicts = kept.map(({ verdict }) => verdict.kind);
  return section(
    'rollouts',
    'Rollouts',
    html`<p class="note muted">${kept.length} of ${rolloutCount}, chosen evenly over tiers, iterations and verdicts, so that their
proportions are not the run's. Characters that would not show are written as symbols.</p>
<p class="note muted only-print">Only rollouts that were open on the screen are printed.</p>
<div class="tools"><input id="query" type="search" placeholder="search in prompts, replies and violations" aria-label="search">
${select('tier', 'all tiers', tiers)}
${select('iteration', 'all iterations', iterations)}
${select('verdict', 'all verdicts', verdicts)}
<span id="found" class="note muted" role="status"></span></div>
${items}`,
  );
}

function rolloutItem(
  { gseq, iteration, tier, text, finish, verdict, admission, advantage, tokens, prompt, meanLogprob }: ShownRollout,
  limit: number,
): Html {
  const shortened = (full: string): string => {
    const shownText = visible(full.slice(0, limit));
    return full.length > limit ? `${shownText}\n… ${full.length - limit} further characters are in the log, record ${gseq}` : shownText;
  };
  const { kind, violations, details, reason } = verdict;
  const tone = kind === 'pass' ? 'good' : kind === 'fail' ? 'bad' : 'fair';
  const muted = [`iteration ${iteration}`, `${tokens} tokens`, label(counted(violations), 80)].map(
    (value) => html`<span class="muted">${value}</span>`,
  );
  const facts: HtmlValue[] = [
    [label(ADMISSIONS.get(admission) ?? admission, 80), typeof advantage === 'number' && `: ${figureOf(advantage)}`],
    `finish: ${label(finish, 20)}`,
    ...(typeof meanLogprob === 'number' ? [`mean log-probability ${figureOf(meanLogprob)}`] : []),
    `record ${gseq} of the log`,
  ];
  return html`<details class="rollout" data-tier="${label(tier, 24)}" data-iteration="${iteration}" data-verdict="${label(kind, 24)}">
<summary><span class="kind ${tone}">${label(kind, 24)}</span><span>${name(tier, 24)}</span>${muted}</summary>
<div class="pair">
<div><h4>reply</h4><pre>${shortened(text)}</pre><h4>prompt</h4><pre>${shortened(prompt)}</pre></div>
<div><h4>verdict</h4>${verdictOf(kind, violations, details, reason)}
<h4>rollout</h4><ul>${facts.map((fact) => html`<li>${fact}</li>`)}</ul></div>
</div></details>
`;
}

/** Each name once, with how often it occurs. */
function counted(names: readonly string[]): string {
  const times = new Map<string, number>();
  for (const each of names) times.set(each, (times.get(each) ?? 0) + 1);
  return [...times].map(([each, n]) => (n === 1 ? each : `${each} ×${n}`)).join(', ');
}

function verdictOf(kind: string, violations: readonly string[], details: readonly string[] | undefined, reason: string | undefined): Html {
  if (kind === 'pass') return html`<p class="good">every rule is kept</p>`;
  if (kind === 'none') return html`<p class="fair">no verdict: ${label(reason ?? 'no reason given', 300)}</p>`;
  const items = violations.slice(0, 12).map((category, i) => {
    const detail = details?.[i];
    return html`<li><b>${label(category, 40)}</b>${detail !== undefined && html` ${label(detail, 320)}`}</li>`;
  });
  const rest = violations.length - items.length;
  return html`<ul>${items}</ul>${rest > 0 && html`<p class="note muted">and ${rest} more</p>`}`;
}

/** Leaves of a plain object by their path. */
function* leaves(value: unknown, path = ''): Generator<[string, string]> {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    for (const [key, item] of Object.entries(value)) yield* leaves(item, path === '' ? key : `${path}.${key}`);
  } else yield [path, typeof value === 'string' ? value : JSON.stringify(value)];
}

export function integritySection(integrity: Integrity): Html {
  return section(
    'integrity',
    'Integrity',
    integrityText(integrity).map((sentence) => html`<p>${label(sentence, 600)}</p>`),
    html`<p class="note muted">To judge this run yourself: <code>npx isopro-native judge FOLDER</code>, or the log alone:
<code>npx isopro-native log verify FOLDER --key witness.pub</code>.</p>`,
    integrity.outcome !== 'unchecked' && list([['Merkle root', integrity.root]]),
  );
}

export function settingsSection({ manifest }: RunRecord): Html {
  const {
    settings,
    machine: { features, ...machine },
    ...rest
  } = manifest.start;
  const table = (values: Iterable<[string, string]>): HtmlValue => {
    const all = [...values];
    const rows = all.slice(0, 2 * ROWS).map(([key, value]) => [label(key, 60), label(value, 300)] as const);
    return [list(rows), more(2 * ROWS, all.length, 'entries')];
  };
  const { rules, ...identities } = rest;
  return section(
    'settings',
    'Settings and hashes',
    table(leaves(settings)),
    html`<h3>What determined the run</h3>`,
    table(leaves({ ...identities, machine: { ...machine, features: features.join(' ') } })),
    html`<h3>Thresholds of the rules</h3>`,
    table(leaves(rules)),
  );
}

export const pageTitle = ({ manifest: { start, runId } }: RunRecord): string =>
  `${label(start.model.name)} on ${label(start.task.id)}, run ${runId.slice(0, 8)}`;
