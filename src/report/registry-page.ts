/**
 * A registry as one page: what is in use and why, each gate with its evidence, every move; with the
 * stages of a run through all of it.
 */
import { writeFileAtomically } from '../engine/atomic-file.js';
import { evidenceCourses, type Course } from '../registry/courses.js';
import { movesOf } from '../registry/history.js';
import type { Reading } from '../registry/ledger.js';
import { aliasText, baseSlug } from '../registry/names.js';
import { nameOf } from '../registry/record.js';
import type { Registry } from '../registry/registry.js';
import type { AliasState, Entry } from '../registry/state.js';
import { validateRegistry, type Validation } from '../registry/upkeep.js';
import { percent, whole } from '../text/figures.js';
import { html, label, type Html } from '../text/hostile-text.js';
import {
  card,
  contents,
  figure,
  heads,
  list,
  more,
  name,
  ROWS,
  section,
  time,
  type Section,
} from './markup.js';
import { page } from './page.js';
import { axisStyle, BAD, FONT, INK, SERIES, svgChart } from './svg-chart.js';

/** A stage of a run through all steps. */
export interface Stage {
  readonly stage: string;
  readonly seconds: number;
  /** Result of the stage. */
  readonly said: string;
}

export interface RegistryPage {
  readonly title: string;
  readonly stages?: readonly Stage[];
}

interface Shown {
  readonly reading: Reading;
  readonly courses: readonly Course[];
  readonly validation: Validation;
}

/** Charts of the latest; a page with hundreds of them is not read. */
const CHARTS = 12;

const seconds = (value: number): string =>
  value < 10
    ? `${value.toFixed(2)} s`
    : value < 120
      ? `${value.toFixed(1)} s`
      : `${(value / 60).toFixed(1)} min`;
const many = (count: number, one: string, several = `${one}s`): string =>
  count === 1 ? one : several;
const TONES: Readonly<Record<string, string>> = {
  accepted: 'good',
  rollback: 'bad',
  rejected: 'bad',
  invalid: 'bad',
  keep: 'good',
};

const table = (headings: readonly string[], rows: readonly Html[]): Html =>
  html`<div class="wide"><table class="rows"><thead><tr>${heads(headings)}</tr></thead><tbody>
${rows.slice(0, ROWS)}</tbody></table></div>
${more(ROWS, rows.length, 'rows')}`;

/** `base#hash`; the base without an adapter has no name. */
function shortName({ state }: Reading, id: string | null): Html {
  const entry = id === null ? undefined : state.entries.get(id);
  return entry === undefined
    ? html`<span class="muted">the base</span>`
    : html`<code>${label(nameOf(entry.record, entry.id), 60)}</code>`;
}

function header({ reading, validation }: Shown, title: string): Html {
  const { state, events } = reading;
  const moves = movesOf(reading);
  const isSound = validation.defects.length === 0;
  const accepted = state.gates.filter(({ decision }) => decision === 'accepted').length;
  const back = moves.filter(({ cause }) => cause === 'rollback').length;
  const [first, last] = [events[0]?.timeUs, events.at(-1)?.timeUs];
  const live = state.aliases.filter(({ current }) => current !== null).length;
  const forced = moves.filter((move) => move.forced).length;
  return html`<header>
<p class="muted note">isopro-native · registry${first !== undefined && html` · ${time(first)} to ${time(last!)} UTC`}</p>
<h1>${label(title, 120)}</h1>
<p><span class="badge ${isSound ? 'good' : 'bad'}">${
    isSound
      ? `valid: ${whole(validation.records)} signed records, every gate decision confirmed`
      : `${validation.defects.length} defects`
  }</span></p>
${validation.defects.slice(0, ROWS).map(({ message }) => html`<p class="bad">${label(message, 400)}</p>`)}
<div class="cards">
${card(whole(live), many(live, 'name in use', 'names in use'))}
${card(whole(state.entries.size), `${many(state.entries.size, 'adapter')} published`)}
${card(`${accepted} of ${state.gates.length}`, 'gates accepted their challenger')}
${card(whole(forced), `${many(forced, 'move')} by force, recorded as such`)}
${card(whole(back), many(back, 'rollback'))}
</div>
</header>
`;
}

function useSection({ reading }: Shown): Section {
  const { state } = reading;
  const row = (named: AliasState): Html => {
    const { slot, alias, current, movedUs, probation, observed } = named;
    const move = movesOf(reading).findLast(({ alias: of }) => of === aliasText(slot, alias))!;
    const by =
      move.gate !== null
        ? `gate ${move.gate}`
        : move.forced
          ? `${move.cause} by force`
          : move.cause;
    const before = state.before(slot, alias);
    const terms =
      probation === null
        ? 'every key'
        : `${percent(probation.share)} % of the keys, for ${whole(probation.problems)} problems`;
    const seen = observed === null ? '' : html` <small>${whole(observed.blocks)} seen</small>`;
    return html`<tr><td>${name(aliasText(slot, alias), 80)}</td><td>${shortName(reading, current)}</td><td>${time(movedUs)}</td>
<td>${by}</td><td>${terms}${seen}</td><td>${before === undefined ? '–' : shortName(reading, before)}</td></tr>
`;
  };
  const rows = state.aliases.map(row);
  return section(
    'use',
    'In use',
    rows.length === 0
      ? html`<p class="muted">No name points to anything yet.</p>`
      : table(['name', 'points to', 'since (UTC)', 'by', 'for', 'a rollback restores'], rows),
  );
}

function stageSection(stages: readonly Stage[]): Section {
  const total = stages.reduce((sum, stage) => sum + stage.seconds, 0);
  const rows = stages.map(
    ({
      stage,
      seconds: took,
      said,
    }) => html`<tr><td>${label(stage, 60)}</td><td>${seconds(took)}</td>
<td>${percent(total === 0 ? 0 : took / total)} %</td><td class="long">${label(said, 400)}</td></tr>
`,
  );
  const sum = html`<tr class="sum"><td>all</td><td>${seconds(total)}</td><td></td><td></td></tr>
`;
  return section(
    'stages',
    'From training to rollback',
    table(['stage', 'time', 'share', 'result'], [...rows, sum]),
  );
}

/** E after each problem, against what is asked for. */
function courseChart({ kind, gate, points, logThreshold }: Course, index: number): Html | null {
  if (points.length === 0) return null;
  const decades = (log: number): number => log / Math.LN10;
  const values = points.map(({ problems, logE }) => [problems, decades(logE)]);
  const asked = decades(logThreshold);
  const low = Math.floor(Math.min(-1, ...values.map(([, value]) => value!)));
  const high = Math.ceil(Math.max(asked, ...values.map(([, value]) => value!)) + 0.2);
  return svgChart(
    `${kind}-${gate ?? index}`,
    { width: 920, height: 210 },
    {
      grid: { left: 64, right: 120, top: 16, bottom: 40 },
      xAxis: {
        type: 'value',
        name: 'problems',
        nameLocation: 'middle',
        nameGap: 24,
        min: 0,
        max: points.at(-1)!.problems,
        minInterval: 1,
        ...axisStyle,
        splitLine: { show: false },
      },
      yAxis: {
        type: 'value',
        min: low,
        max: high,
        minInterval: 1,
        ...axisStyle,
        axisLabel: {
          ...FONT,
          formatter: (value: number) =>
            Math.abs(value) <= 3 ? String(10 ** value) : `10^${value}`,
        },
      },
      series: [
        {
          type: 'line',
          data: values,
          showSymbol: points.length < 30,
          symbolSize: 5,
          silent: true,
          lineStyle: { color: SERIES[0], width: 2 },
          itemStyle: { color: SERIES[0] },
          markLine: {
            symbol: 'none',
            silent: true,
            lineStyle: { color: BAD, type: 'dashed' },
            label: {
              color: INK,
              fontSize: 12,
              formatter: `E = ${Math.exp(logThreshold).toPrecision(3)}`,
            },
            data: [{ yAxis: asked }],
          },
        },
      ],
    },
  );
}

function evidenceSection({ reading, courses }: Shown): Section {
  const { state } = reading;
  const rows = state.gates.map(
    ({ gate, slot, alias, challenger, incumbent, attempt, alpha, decision, used }) => {
      const reasons =
        reading.events
          .flatMap(({ event }) =>
            event.kind === 'gate_decided' && event.gate === gate ? [event.reasons] : [],
          )
          .at(-1) ?? [];
      return html`<tr><td>${gate}</td><td>${name(aliasText(slot, alias), 60)}</td><td>${shortName(reading, challenger)}</td>
<td>${shortName(reading, incumbent)}</td><td>${attempt}, ${percent(alpha)} %</td>
<td class="${TONES[decision ?? ''] ?? 'fair'}">${decision ?? 'not decided'}</td>
<td class="long">${label(reasons.join('; '), 300)}${used && ' · moved the name'}</td></tr>
`;
    },
  );
  const charts = courses.slice(-CHARTS).map((course, i) => {
    const { kind, gate, alias, decision, points } = course;
    const what =
      kind === 'gate' ? `Gate ${gate} on ${label(alias, 80)}` : `Canary of ${label(alias, 80)}`;
    const said = `${decision} after ${points.at(-1)?.problems ?? 0} problems`;
    const against = html`${shortName(reading, course.id)} against ${shortName(reading, course.against)}`;
    const meaning =
      kind === 'gate'
        ? 'E grows with every problem that only the challenger solves. At the dashed line the challenger is accepted.'
        : 'The largest E so far. It grows with every problem that only the previous version solves. At the dashed ' +
          'line that version is restored.';
    return figure(
      courseChart(course, i),
      `${what}: ${said}`,
      `evidence by problem: ${said}`,
      html`${against}. ${meaning}`,
    );
  });
  return section(
    'evidence',
    'Evidence',
    rows.length === 0
      ? html`<p class="muted">No gate was started.</p>`
      : table(
          ['gate', 'name', 'challenger', 'incumbent', 'attempt, its α', 'decision', 'because'],
          rows,
        ),
    charts,
    courses.length > CHARTS &&
      html`<p class="note muted">Only the last ${CHARTS} of ${courses.length} are drawn.</p>`,
  );
}

function moveSection({ reading }: Shown): Section {
  const rows = movesOf(reading)
    .reverse()
    .map(({ alias, from, to, cause, gate, forced, reason, timeUs }) => {
      const by = forced ? `${cause} by force` : gate === null ? cause : `${cause} by gate ${gate}`;
      return html`<tr><td>${time(timeUs)}</td><td>${name(alias, 80)}</td><td>${shortName(reading, from)}</td>
<td>${shortName(reading, to)}</td><td>${by}</td><td class="long">${label(reason, 300)}</td></tr>
`;
    });
  return section(
    'moves',
    'Moves',
    table(['time (UTC)', 'name', 'from', 'to', 'by', 'reason'], rows),
  );
}

function adapterSection({ reading: { state } }: Shown): Section {
  const row = ({ id, record, publishedUs, withdrawn, collected }: Entry): Html => {
    const { adapter, base, dataset, evidence, lineage } = record;
    const shown =
      evidence.length > 0 ? evidence.map(({ description }) => description) : lineage.producedBy;
    const data =
      dataset === null
        ? '–'
        : html`${label(dataset.description, 200)}${dataset.rows !== null && `, ${whole(dataset.rows)} rows`}`;
    const from = adapter.invocationTokens !== undefined && ', acts from the reply on';
    const kept =
      withdrawn !== null
        ? html`<span class="bad">withdrawn: ${label(withdrawn, 200)}</span>`
        : collected
          ? 'bytes deleted'
          : '';
    return html`<tr><td><code>${label(nameOf(record, id), 60)}</code> ${kept}</td><td>${name(baseSlug(base.name), 60)}</td>
<td>rank ${adapter.rank}, ${adapter.layers.length} layers, ${whole(adapter.bytes)} bytes${from}</td>
<td class="long">${data}</td>
<td class="long">${label(shown.join('; '), 300)}</td><td>${time(publishedUs)}</td></tr>
`;
  };
  const rows = [...state.entries.values()].reverse().map(row);
  return section(
    'adapters',
    'Adapters',
    table(['name', 'base', 'size', 'trained on', 'evidence', 'published (UTC)'], rows),
  );
}

const originSection = ({ reading }: Shown): Section =>
  section(
    'origin',
    'Origin',
    list([
      ['registry', reading.runId],
      ['records', `${reading.records}, under ${reading.heads.length} signed heads`],
      ['last head', reading.heads.at(-1)?.root ?? '–'],
      ['hash of the names', reading.state.root()],
    ]),
    html`<p class="note muted">Derived only from the registry's signed log and the saved trials. <code>adapters validate</code>
does the same, and <code>adapters history --at DATE --proof FILE</code> proves what a name pointed to on a day.</p>`,
  );

/** The page's text; the same for the same registry. @throws IsoproError as Registry.read */
export async function registryHtml(
  registry: Registry,
  { title, stages = [] }: RegistryPage,
): Promise<string> {
  const validation = await validateRegistry(registry);
  const reading = await registry.read();
  const shown = { reading, validation, courses: evidenceCourses(registry, reading) };
  const sections = [
    ...(stages.length === 0 ? [] : [stageSection(stages)]),
    useSection(shown),
    evidenceSection(shown),
    moveSection(shown),
    adapterSection(shown),
    originSection(shown),
  ];
  return page(title, [header(shown, title), contents(sections), sections]);
}

/** @throws IsoproError WRITE_FAILED; as Registry.read */
export async function writeRegistryPage(
  registry: Registry,
  file: string,
  options: RegistryPage,
): Promise<void> {
  await writeFileAtomically(file, [Buffer.from(await registryHtml(registry, options))], 'follow');
}
