/**
 * ECharts as a function from options to the text of an SVG, coloured by the page's CSS variables,
 * the same text for the same options.
 */
// in one file, which loads in a quarter of the time that the hundreds of modules of the parts take
import { init, type EChartsCoreOption } from 'echarts/dist/echarts.esm.min.mjs';
import { Html, label } from '../text/hostile-text.js';

/** Series colours, in order; the page defines them for light, dark and print. */
export const SERIES = Array.from({ length: 10 }, (_, i) => `var(--s${i})`);
export const INK = 'var(--ink)';
export const MUTED = 'var(--muted)';
export const RULE = 'var(--rule)';
export const ACCENT = 'var(--accent)';
export const BAD = 'var(--bad)';
export const FONT = { color: MUTED, fontSize: 12, fontFamily: 'inherit' };

/** Interface of a custom series of ECharts. */
export interface CustomApi {
  value(dimension: number): number;
  coord(point: readonly number[]): [number, number];
  size(extent: readonly number[]): [number, number];
}

export const axisStyle = {
  axisLine: { lineStyle: { color: RULE } },
  axisTick: { lineStyle: { color: RULE } },
  axisLabel: FONT,
  nameTextStyle: FONT,
  splitLine: { lineStyle: { color: RULE, opacity: 0.6 } },
} as const;

/**
 * A label as a chart may have it. ECharts keeps text widths in a plain object by text, so that
 * `__proto__` would write into the prototype of every object of this process; such a name gets a
 * space.
 */
export const chartLabel = (text: string, length: number): string => {
  const short = label(text, length);
  return short in {} ? `${short}\u00a0` : short;
};

/** A panel of a chart: its title, its place, its axes, and its series for an axis index. */
export interface Panel {
  readonly title: object;
  readonly grid: object;
  readonly x: object;
  readonly y: object;
  readonly series: (axis: number) => readonly object[];
}

/** Draws panels in one chart. @param more options of the whole chart, such as a legend */
export const panelChart = (
  name: string,
  size: { readonly width: number; readonly height: number },
  panels: readonly Panel[],
  more: EChartsCoreOption = {},
): Html =>
  svgChart(name, size, {
    title: panels.map(({ title }) => title),
    ...more,
    grid: panels.map(({ grid }) => grid),
    xAxis: panels.map(({ x }, gridIndex) => ({ gridIndex, ...x })),
    yAxis: panels.map(({ y }, gridIndex) => ({ gridIndex, ...y })),
    series: panels.flatMap(({ series }, axis) => series(axis)),
  });

/** @param name names the chart within the page, so that ids of several charts do not clash */
export function svgChart(
  name: string,
  size: { readonly width: number; readonly height: number },
  option: EChartsCoreOption,
): Html {
  const chart = init(null, null, { renderer: 'svg', ssr: true, ...size });
  try {
    chart.setOption({
      animation: false,
      backgroundColor: 'transparent',
      textStyle: FONT,
      color: SERIES,
      ...option,
    });
    const svg = chart.renderToSVGString();
    return new Html(
      svg
        .replace(/<style\s*>[\s\S]*?<\/style>\s*/g, '') // what happens under the mouse
        .replace(/ (?:class|pointer-events|ecmeta_\w+)="[^"]*"/g, '')
        // ids count the charts that this process has drawn so far
        .replace(/(id="|url\(#)zr\d+-/g, `$1${name}-`)
        .replace(/^<svg width="\d+" height="\d+"/, '<svg focusable="false" aria-hidden="true"'),
    );
  } finally {
    chart.dispose();
  }
}
