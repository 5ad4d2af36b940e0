/** HTML file of the results of an analyzer, which opens offline. */
import { thinned } from './charts.js';
import {
  analysisFigures,
  type AnalysisPlot,
  type AnalysisResult,
  type AnalysisTable,
} from './analysis-figures.js';
import { html, label, type Html } from '../text/hostile-text.js';
import { cells, figure, heads, more, ROWS, section } from './markup.js';
import { page } from './page.js';
import {
  ACCENT,
  axisStyle,
  chartLabel,
  FONT,
  INK,
  MUTED,
  RULE,
  svgChart,
  type CustomApi,
} from './svg-chart.js';

/** Rows of a forest, points of a scatter, and charts of a page, at most. */
const FOREST_ROWS = 40;
const POINTS = 400;
const CHARTS = 24;
const WIDTH = 920;

function forest(id: string, given: Extract<AnalysisPlot, { kind: 'forest' }>['rows']): Html | null {
  const rows = given.slice(0, FOREST_ROWS);
  if (rows.length === 0) return null;
  return svgChart(
    id,
    { width: WIDTH, height: 50 + 26 * rows.length },
    {
      grid: { left: 300, right: 24, top: 8, bottom: 28 },
      xAxis: { type: 'value', scale: true, ...axisStyle },
      yAxis: {
        type: 'category',
        inverse: true,
        data: rows.map(({ name }) => chartLabel(name, 44)),
        ...axisStyle,
        splitLine: { show: false },
        axisLabel: { ...FONT, color: INK },
      },
      series: [
        {
          type: 'custom',
          silent: true,
          // the zero line where there is one to be seen
          data: rows.flatMap(({ low, high }, i) =>
            low === null || high === null ? [] : [[low, i, high]],
          ),
          encode: { x: [0, 2], y: 1 },
          renderItem: (_: unknown, api: CustomApi) => {
            const [x1, y1] = api.coord([api.value(0), api.value(1)]);
            const [x2] = api.coord([api.value(2), api.value(1)]);
            return {
              type: 'line',
              shape: { x1, y1, x2, y2: y1 },
              style: { stroke: ACCENT, lineWidth: 5, opacity: 0.35, lineCap: 'round' },
            };
          },
        },
        {
          type: 'scatter',
          silent: true,
          symbolSize: 9,
          itemStyle: { color: ACCENT },
          data: rows.map(({ value }, i) => [value, i]),
          markLine: {
            silent: true,
            symbol: 'none',
            label: { show: false },
            lineStyle: { color: RULE, type: 'solid' },
            data: [{ xAxis: 0 }],
          },
        },
      ],
    },
  );
}

function scatter(
  id: string,
  { points, band, axes }: Extract<AnalysisPlot, { kind: 'scatter' }>,
): Html | null {
  if (points.length === 0) return null;
  const axis = (name: string): object => ({
    type: 'value',
    scale: true,
    ...axisStyle,
    name: chartLabel(name, 60),
    nameLocation: 'middle',
    nameTextStyle: FONT,
  });
  const line = (data: readonly (readonly number[])[], style: object): object => ({
    type: 'line',
    silent: true,
    symbol: 'none',
    data,
    lineStyle: style,
  });
  return svgChart(
    id,
    { width: WIDTH, height: 320 },
    {
      grid: { left: 70, right: 24, top: 12, bottom: 46 },
      xAxis: { ...axis(axes[0]), nameGap: 28 },
      yAxis: { ...axis(axes[1]), nameGap: 46 },
      series: [
        {
          type: 'scatter',
          silent: true,
          symbolSize: 6,
          itemStyle: { color: MUTED, opacity: 0.6 },
          data: thinned(points, POINTS).map(({ x, y }) => [x, y]),
        },
        line(
          band.map(({ x, fitted }) => [x, fitted]),
          { color: ACCENT, width: 2 },
        ),
        ...[band.map(({ x, low }) => [x, low]), band.map(({ x, high }) => [x, high])].map((data) =>
          line(data, { color: ACCENT, width: 1, opacity: 0.5, type: 'dashed' }),
        ),
      ],
    },
  );
}

const tableOf = ({ title, heads: names, rows }: AnalysisTable): Html =>
  html`<h3>${label(title, 200)}</h3><div class="wide"><table class="rows"><thead><tr>${heads(names)}</tr></thead>
<tbody>${rows.slice(0, ROWS).map((row) => html`<tr>${cells(row.map((cell) => label(cell, 120)))}</tr>`)}</tbody></table></div>
${more(ROWS, rows.length, 'rows')}`;

function drawn(plot: AnalysisPlot, id: string): Html | null {
  const title = label(plot.title, 120);
  return plot.kind === 'forest'
    ? figure(
        forest(id, plot.rows),
        title,
        `${title}: estimates with their intervals`,
        'Estimates with their unadjusted 95 % intervals.',
      )
    : figure(
        scatter(id, plot),
        title,
        `${title}: ${label(plot.axes[1], 80)} against ${label(plot.axes[0], 80)}`,
        'At most 400 points, chosen evenly, with the least-squares line and the 95 % band of its mean.',
      );
}

/** The page's text; the same for the same results. @param results of one analyzer */
export function analysisHtml(results: readonly AnalysisResult[]): string {
  const all = results.map(analysisFigures);
  const plots = all.flatMap((each) => each.plots).slice(0, CHARTS);
  const notes = [...new Set(all.flatMap((each) => each.notes))].map(
    (note) => html`<p class="note muted">${label(note, 400)}</p>`,
  );
  const title = results[0]?.analyzer ?? 'nothing';
  const charts = plots
    .map((plot, i) => drawn(plot, `${plot.kind}${i}`))
    .filter((each) => each !== null);
  return page(title, [
    html`<header><h1>${title}</h1></header>`,
    section('tables', 'Tables', all.flatMap((each) => each.tables).map(tableOf), notes),
    charts.length > 0 && section('charts', 'Charts', charts),
  ]);
}
