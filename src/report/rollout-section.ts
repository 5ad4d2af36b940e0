/** Rollouts of a run, each with its prompt, reply, verdict and what became of it. */
import { Questions } from '../run-folder/question.js';
import type { RunRecord, ShownRollout, TierInfo } from '../run-folder/read-run.js';
import { html, label, type Html, type HtmlValue } from '../text/hostile-text.js';
import { visible } from '../visible-text.js';
import { figureOf, section, tierName, type Section } from './markup.js';

const ADMISSIONS: ReadonlyMap<string, string> = new Map([
  ['admitted', 'in the replay buffer: trained on when it is drawn'],
  ['contrasted', 'trained on with its advantage over the other samples of its problem'],
  ['distilled', 'trained on: each token was moved towards the distribution of the teacher'],
  ['uninformative', 'not trained on: all samples of its problem have the same reward'],
  ['failed', 'not trained on'],
  ['undecided', 'not trained on: no verdict'],
  ['incomplete', 'not trained on: the reply was cut off'],
  ['contradictory', 'not trained on: its reasoning contradicts the problem'],
  ['duplicate', 'not trained on: like an earlier sample'],
]);

/** Characters of a question and of its reply in the summary of a rollout. */
const ASKED = 100;

/** @param budget bytes for all of them together; the longest texts are shortened until they fit */
export function rolloutSection(
  { shown, rolloutCount, tiers: named }: RunRecord,
  budget: number,
): Section {
  if (shown.length === 0)
    return section('rollouts', 'Rollouts', html`<p class="muted">The log holds no rollouts.</p>`);
  const questions = new Questions();
  for (const { tier, prompt } of shown) questions.add(tier, prompt);
  let items: Html[] = [];
  let kept = shown;
  for (let limit = 16_000; ; limit = Math.floor(limit / 2)) {
    items = kept.map((rollout) =>
      rolloutItem(rollout, questions.of(rollout.tier, rollout.prompt), limit, named),
    );
    if (items.reduce((sum, { text }) => sum + Buffer.byteLength(text), 0) <= budget) break;
    if (limit < 200) kept = kept.filter((_, i) => i % 2 === 1); // all of it is names and violations
  }
  const select = (id: string, all: string, values: readonly (string | number)[]): Html =>
    html`<select id="${id}" aria-label="${id}"><option value="">${all}</option>${[
      ...new Set(values),
    ]
      .map((value) => label(String(value), 24))
      .map(
        (value) =>
          html`<option value="${value}">${value}${id === 'tier' && calledOf(value)}</option>`,
      )}</select>`;
  const calledOf = (id: string): string => {
    const title = named.find((tier) => label(tier.id, 24) === id)?.title ?? '';
    return title === '' ? '' : ` · ${label(title, 40)}`;
  };
  const tiers = kept.map(({ tier }) => tier);
  const iterations = kept.map(({ iteration }) => iteration).sort((a, b) => a - b);
  const verdicts = kept.map(({ verdict }) => verdict.kind);
  return section(
    'rollouts',
    'Rollouts',
    html`<p class="note muted">${kept.length} of ${rolloutCount}, chosen evenly over ${
      named.length > 1 && 'tiers, '
    }iterations and verdicts, so their
proportions differ from those of the run. Invisible characters are written as symbols.</p>
<p class="note muted only-print">Only rollouts that are open on the screen are printed.</p>
<div class="tools"><input id="query" type="search" placeholder="search in prompts, replies and violations" aria-label="search">
${select('tier', 'all tiers', tiers)}
${select('iteration', 'all iterations', iterations)}
${select('verdict', 'all verdicts', verdicts)}
<span id="found" class="note muted" role="status"></span></div>
${items}`,
  );
}

function rolloutItem(
  {
    gseq,
    iteration,
    tier,
    text,
    finish,
    verdict,
    admission,
    advantage,
    tokens,
    prompt,
    meanLogprob,
  }: ShownRollout,
  question: string,
  limit: number,
  tiers: readonly TierInfo[],
): Html {
  const shortened = (full: string): string => {
    const shownText = visible(full.slice(0, limit));
    return full.length > limit
      ? `${shownText}\n… ${full.length - limit} further characters are in the log, record ${gseq}`
      : shownText;
  };
  const { kind, violations, results } = verdict;
  const tone = kind === 'pass' ? 'good' : kind === 'fail' ? 'bad' : 'fair';
  const muted = [`iteration ${iteration}`, `${tokens} tokens`, label(counted(violations), 80)].map(
    (value) => html`<span class="muted">${value}</span>`,
  );
  const facts: HtmlValue[] = [
    [
      label(ADMISSIONS.get(admission) ?? admission, 80),
      typeof advantage === 'number' && `: ${figureOf(advantage)}`,
    ],
    `finish: ${label(finish, 20)}`,
    ...(typeof meanLogprob === 'number' ? [`mean log-probability ${figureOf(meanLogprob)}`] : []),
    `record ${gseq} of the log`,
  ];
  return html`<details class="rollout" data-tier="${label(tier, 24)}" data-iteration="${iteration}" data-verdict="${label(kind, 24)}">
<summary><span class="kind ${tone}">${label(kind, 24)}</span><span>${tierName(tier, tiers)}</span>${muted}
<span class="asked"><span class="muted">${label(question, ASKED)}</span>
→ ${label(text.trim().replaceAll(/\s+/g, ' '), ASKED)}</span></summary>
<div class="pair">
<div><h4>reply</h4><pre>${shortened(text)}</pre><h4>prompt</h4><pre>${shortened(prompt)}</pre></div>
<div><h4>verdict</h4>${verdictOf(verdict)}${
    results !== undefined &&
    html`<div class="side-by-side"><div><h4>result</h4><pre>${shortened(results.found)}</pre></div>
<div><h4>expected</h4><pre>${shortened(results.expected)}</pre></div></div>`
  }
<h4>rollout</h4><ul>${facts.map((fact) => html`<li>${fact}</li>`)}</ul></div>
</div></details>
`;
}

/** Lists each name once, with the number of its occurrences. */
function counted(names: readonly string[]): string {
  const times = new Map<string, number>();
  for (const each of names) times.set(each, (times.get(each) ?? 0) + 1);
  return [...times].map(([each, n]) => (n === 1 ? each : `${each} ×${n}`)).join(', ');
}

function verdictOf({ kind, violations, details, reason, score }: ShownRollout['verdict']): Html {
  const scored = score !== undefined && html`<p class="note muted">score ${figureOf(score)}</p>`;
  if (kind === 'pass') return html`<p class="good">accepted by the verifier</p>${scored}`;
  if (kind === 'none')
    return html`<p class="fair">no verdict: ${label(reason ?? 'no reason given', 300)}</p>`;
  const items = violations.slice(0, 12).map((category, i) => {
    const detail = details?.[i];
    return html`<li><b>${label(category, 40)}</b>${detail !== undefined && html` ${label(detail, 320)}`}</li>`;
  });
  const rest = violations.length - items.length;
  return html`<ul>${items}</ul>${scored}${rest > 0 && html`<p class="note muted">and ${rest} more</p>`}`;
}
