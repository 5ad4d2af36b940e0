/**
 * Sections of a truth run's page: results, beliefs, single trajectories, and what differs from
 * another run.
 */
import {
  crossRunDifference,
  type RunDifference,
} from '../truth-seeking/analysis/run-difference.js';
import type { TokenEvidence } from '../truth-seeking/analysis/token-level-evidence.js';
import type { TokenHeat } from '../truth-seeking/analysis/token-heat.js';
import { readerText } from '../truth-seeking/analysis/from-run.js';
import { slopeWithoutNoiseIn } from '../truth-seeking/analysis/slope-without-noise.js';
import type { TruthRun } from '../truth-seeking/run/folder.js';
import { readerId } from '../truth-seeking/run/reader.js';
import { calibration } from '../truth-seeking/strategies/accuracy.js';
import { STRATEGIES } from '../truth-seeking/strategies/strategy.js';
import { openBounds, signed, signedBounds } from './analysis-figures.js';
import { decimal, decimalChange, percent, pValue } from '../text/figures.js';
import { html, label, type Html, type HtmlValue } from '../text/hostile-text.js';
import { visible } from '../visible-text.js';
import { cells, figure, heads, more, name, ROWS, section, type Section } from './markup.js';
import { beliefLineChart, calibrationChart, changeChart } from './truth-charts.js';
import { setupText } from './setup-text.js';
import { forecastsOf, towardsTruth, type ShownPath, type ShownSetup } from './truth-figures.js';

const DIRECTIONS = {
  lower: 'lower is better',
  higher: 'higher is better',
  zero: 'nearer to 0 is better',
} as const;

const skippedText = (skipped: Readonly<Record<string, number>>): string =>
  Object.entries(skipped)
    .map(([reason, count]) => `${reason} (${count})`)
    .join(', ');

export function resultsSection(run: TruthRun): Section {
  const { results } = run.state;
  const whose = results.map(({ reader }) => (reader ? readerText(run, readerId(reader)) : null));
  const areOwn = whose.every((text) => text === null);
  if (results.length === 0)
    return section('results', 'Results', html`<p class="muted">Nothing has been scored yet.</p>`);
  return section(
    'results',
    'Results',
    html`<div class="wide"><table class="rows">
<thead><tr>${heads(['strategy', 'score', '95 %', 'n', 'better', 'setup', 'left out', ...(areOwn ? [] : ['whose beliefs'])])}</tr></thead>
<tbody>${results.slice(0, ROWS).flatMap((result, i) => {
      const { strategy, setup, value, interval, n, direction, skipped } = result;
      const slope = slopeWithoutNoiseIn(result);
      const line = (of: string, figures: readonly HtmlValue[], leftOut: string): Html =>
        html`<tr>${cells([
          name(of, 60),
          ...figures,
          DIRECTIONS[direction].replace(' is better', ''),
          name(setupText(setup), 80),
          label(leftOut, 120),
          ...(areOwn ? [] : [label(whose[i] ?? '', 120)]),
        ])}</tr>`;
      return [
        line(
          shortStrategy(strategy),
          [signed(value), signedBounds(interval), n],
          skippedText(skipped),
        ),
        ...(slope === null
          ? []
          : [
              line(
                `${shortStrategy(strategy)}, without noise`,
                [signed(slope.value), openBounds(slope.interval), slope.n],
                '',
              ),
            ]),
      ];
    })}</tbody></table></div>`,
    more(ROWS, results.length, 'results'),
    html`<p class="note muted">Intervals are over groups of problems. Values that could not be measured are left out
and counted; they are never
replaced by a number.${
      results.some((each) => slopeWithoutNoiseIn(each) !== null) &&
      html` Noise in beliefs lowers a slope; without noise: from
products of different measurements only.`
    }</p>`,
  );
}

/**
 * Name of a strategy with the options that distinguish it; what an analysis has made of its figures
 * follows in brackets.
 */
function shortStrategy(config: string): string {
  const [strategy = '', ...made] = config.split(/ (?=\()/);
  const { name: of, ...options } = STRATEGIES.parse(strategy);
  const said = Object.values(options).filter((value) => typeof value === 'string');
  return [said.length === 0 ? of : `${of}, ${said.join(', ')}`, ...made].join(' ');
}

/** @param whose beliefs they are, where that has to be said */
export function beliefSection(setups: readonly ShownSetup[], whose: string | null): Section | null {
  if (setups.every(({ paths }) => paths.length === 0)) return null;
  const scored = setups.filter(({ paths }) => forecastsOf(paths, 'eventual').length > 0);
  return section(
    'beliefs',
    'Beliefs',
    whose !== null && html`<p>Beliefs here and below: ${label(whose, 120)}.</p>`,
    figure(
      beliefLineChart(setups),
      'By step',
      'Belief in the right answer before the first step and after each step, one panel per setup',
      html`Belief in the right answer, or in option 0 if the answer is unknown. Grey: single trajectories, at most 40; blue: the mean
and its 95 % interval, over the trajectories with this many steps.`,
    ),
    figure(
      calibrationChart(setups),
      'Calibration',
      'How often option 0 was right, by the belief in it, before the first step and after the last',
      html`Grey dots: beliefs before the first step; blue squares: after the last. Beliefs in bins of a tenth, with Wilson intervals. On the
diagonal, beliefs are calibrated.`,
    ),
    scored.length > 0 &&
      html`<div class="wide"><table><thead><tr>${heads(['setup', 'n', 'Brier', 'after', 'calibration error', 'after'])}</tr></thead>
<tbody>${scored.map(({ name: of, paths }) => {
        const [before, after] = (['initial', 'eventual'] as const).map(
          (which) => calibration(forecastsOf(paths, which), 10)!,
        );
        const figures = [before!.brier, after!.brier, before!.error, after!.error].map(decimal);
        return html`<tr>${cells([name(of, 80), forecastsOf(paths, 'eventual').length, ...figures])}</tr>`;
      })}</tbody></table></div>`,
    figure(
      changeChart(setups),
      'Change against the belief before',
      'Change of a belief in one step, by the belief before it, one panel per setup',
      html`Percentage points. For a rational reasoner the line is flat at 0: a belief does not predict its own change. Rising:
entrenched; falling: over-corrected. Dashed: the 95 % band of the line, as if steps were independent; diamonds: means of tenths.
The slope includes measurement noise; the slope without noise is in the results.`,
    ),
  );
}

export interface TokenFigures {
  readonly heat: readonly TokenHeat[];
  readonly evidence: readonly TokenEvidence[];
}

/** Log-probability in nats from which on colours no longer differ. */
const COLDEST = -8;
/** @param strength of the colour, in [0, 1] */
const coloured = (text: string, side: string, strength: number, title: string): Html =>
  html`<span class="${side}" style="--h:${Math.min(1, Math.max(0, strength)).toFixed(2)}" title="${title}">${visible(text)}</span>`;

const heatMap = ({ tokens }: TokenHeat): Html =>
  html`<h4>log-probability of each token</h4><p class="heat">${tokens.map(({ text, logprob }) =>
    coloured(
      text,
      '',
      (logprob ?? COLDEST) / COLDEST,
      logprob === null ? 'never' : logprob.toFixed(2),
    ),
  )}</p><p class="note muted">Redder is less likely, from 0 to ${COLDEST} nats.</p>`;

const evidenceMap = ({ pieces }: TokenEvidence): Html => {
  const most = Math.max(1e-9, ...pieces.map(({ evidence }) => Math.abs(evidence)));
  return html`<h4>what moved the belief</h4><p class="heat">${pieces.map(({ text, evidence }) =>
    coloured(
      text,
      evidence >= 0 ? 'for' : 'against',
      Math.abs(evidence) / most,
      decimalChange(evidence),
    ),
  )}</p><p class="note muted">Green: towards option 0; red: towards option 1.
The strongest word changes the belief by ${decimal(most)}.</p>`;
};

/** Trajectories of a page, chosen evenly, and characters of a step, at most. */
const TRAJECTORIES = 60;
const CHARACTERS = 4000;

const bar = (belief: number): Html =>
  html`<span class="belief"><span style="width:${(100 * belief).toFixed(1)}%"></span></span> ${percent(belief)} %`;

function trajectoryItem(
  run: TruthRun,
  { record, path, target }: ShownPath,
  tokens: TokenFigures,
  whose: string | null,
): Html {
  const { trajectory, setup } = record;
  const problem = run.state.problem(trajectory.problemId);
  const towards = towardsTruth({ record, path, target });
  const [first, last] = [towards[0]!, towards.at(-1)!];
  const tone = target === null ? 'fair' : last > 0.5 ? 'good' : 'bad';
  const heat = tokens.heat.find(({ trajectoryId }) => trajectoryId === trajectory.id);
  const evidence = tokens.evidence.find(({ trajectoryId }) => trajectoryId === trajectory.id);
  const shortened = (text: string): string =>
    visible(text.length > CHARACTERS ? `${text.slice(0, CHARACTERS)} …` : text);
  const options = problem?.kind === 'binary' ? problem.options : null;
  return html`<details class="rollout">
<summary><span class="kind ${tone}">${percent(first)} → ${percent(last)} %</span><span>${name(setupText(setup), 60)}</span>
<span class="muted">${label(problem?.question ?? '', 80)}</span></summary>
<div class="told"><h4>question</h4><pre>${shortened(problem?.question ?? 'unknown')}</pre>
${
  options !== null &&
  html`<p>Option 0: ${name(options[0], 60)}; option 1: ${name(options[1], 60)}; right: ${
    target === null ? 'unknown' : name(options[target === 1 ? 0 : 1], 60)
  }.</p>`
}
<h4>belief in ${target === null ? 'option 0' : 'the right answer'}, step by step</h4>
${whose !== null && html`<p class="note muted">${label(whose, 120)}</p>`}
<ol class="steps" start="0"><li>${bar(first)}</li>${trajectory.steps.map(
    ({ content, trainable }, i) =>
      html`<li>${bar(towards[i + 1]!)}${!trainable && html` <small class="muted">part of the prompt</small>`}
<pre>${shortened(content)}</pre></li>`,
  )}</ol>${heat !== undefined && heatMap(heat)}${evidence !== undefined && evidenceMap(evidence)}
<p class="note muted">trajectory ${trajectory.id.slice(0, 16)}, seed ${label(trajectory.seed, 24)}</p></div></details>
`;
}

/**
 * Section of the trajectories: first those with figures of single tokens, then others, chosen
 * evenly.
 */
export function trajectorySection(
  run: TruthRun,
  setups: readonly ShownSetup[],
  tokens: TokenFigures,
  whose: string | null,
): Section | null {
  const all = setups.flatMap(({ paths }) => paths);
  if (all.length === 0) return null;
  const measured = new Set(
    [...tokens.heat, ...tokens.evidence].map(({ trajectoryId }) => trajectoryId),
  );
  const first = all.filter(({ path }) => measured.has(path.trajectoryId));
  const others = all.filter(({ path }) => !measured.has(path.trajectoryId));
  const room = Math.max(0, TRAJECTORIES - first.length);
  const kept = others.filter(
    (_, i) =>
      Math.floor((i * room) / others.length) !== Math.floor(((i - 1) * room) / others.length) ||
      i === 0,
  );
  const shown = [...first, ...kept.slice(0, room)];
  return section(
    'trajectories',
    'Trajectories',
    html`<p class="note muted">${shown.length} of ${all.length}, chosen evenly. Invisible characters are written as symbols.</p>`,
    shown.map((each) => trajectoryItem(run, each, tokens, whose)),
  );
}

export function differenceSection(run: TruthRun, other: TruthRun, reader?: string): Section {
  const { rows, multiplicity }: RunDifference = crossRunDifference(run, other, reader);
  const body: HtmlValue =
    rows.length === 0
      ? html`<p class="muted">The two runs have no setup and strategy in common.</p>`
      : html`<div class="wide"><table class="rows"><thead><tr>${heads([
          ...[
            'strategy',
            'setup',
            'other run',
            'this run',
            'difference',
            '95 %',
            'p',
            'adjusted',
            'problems',
            '',
          ],
        ])}</tr></thead><tbody>${rows
          .slice(0, ROWS)
          .map(
            ({ setup, there, here, change }) =>
              html`<tr>${cells([
                name(shortStrategy(setup.config), 60),
                name(setupText(setup), 80),
                decimal(there),
                decimal(here),
                decimalChange(
                  change?.difference.value ??
                    (there === null || here === null ? null : here - there),
                ),
                signedBounds(change?.difference ?? null),
                change?.difference.p == null ? '–' : pValue(change.difference.p),
                change?.difference.adjusted == null ? '–' : pValue(change.difference.adjusted),
                change === null ? '–' : change.problems,
                change?.claim ?? '',
              ])}</tr>`,
          )}</tbody></table></div>`;
  return section(
    'difference',
    'Compared with another run',
    html`<p>Other run: <code>${other.runId}</code>, ${name(other.start.config.model, 60)}. Differences are over the
problems of both runs.</p>`,
    body,
    html`<p class="note muted">${multiplicity.note}. An effect is claimed only if both runs asked exactly the same
questions under the same settings. It is then the effect of the policy and of everything else that differs.</p>`,
  );
}
