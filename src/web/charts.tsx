/** Charts of a run's page: options of ECharts, with the same figures in a table. */
import type { Rate, RunDetail } from './api.ts';
import type { Colors, Drawn } from './chart.tsx';
import { figure, percent } from './format.ts';

interface CustomApi {
  value(dimension: number): number;
  coord(point: readonly number[]): [number, number];
}

const GRID = { left: 46, right: 14, top: 34, bottom: 26 };
const hundred = (value: number | null): number | null =>
  value === null ? null : Math.round(1000 * value) / 10;

const valueAxis = ({ rule, muted }: Colors, more: object = {}): object => ({
  type: 'value',
  axisLabel: { color: muted },
  splitLine: { lineStyle: { color: rule } },
  ...more,
});
const shareAxis = (colors: Colors): object =>
  valueAxis(colors, {
    min: 0,
    max: 100,
    interval: 25,
    axisLabel: { color: colors.muted, formatter: '{value} %' },
  });
const iterationAxis = ({ rule, muted }: Colors, iterations: readonly number[]): object => ({
  type: 'category',
  data: iterations.map(String),
  axisLine: { lineStyle: { color: rule } },
  axisTick: { show: false },
  axisLabel: { color: muted, hideOverlap: true },
});
const legend = ({ muted }: Colors): object => ({
  type: 'plain',
  top: 3,
  left: 0,
  padding: [3, 0],
  pageIconColor: muted,
  pageTextStyle: { color: muted },
  itemWidth: 12,
  itemHeight: 8,
  itemGap: 14,
  textStyle: { color: muted, fontSize: 12 },
});

/** Bars from low to high behind a line. */
const intervals = (rates: readonly (Rate | null)[], color: string): object => ({
  type: 'custom',
  silent: true,
  tooltip: { show: false },
  z: 1,
  data: rates.flatMap((rate, i) =>
    rate === null || rate.mean === null ? [] : [[i, 100 * rate.low, 100 * rate.high]],
  ),
  renderItem: (_: unknown, api: CustomApi) => {
    const [x, low] = api.coord([api.value(0), api.value(1)]);
    const [, high] = api.coord([api.value(0), api.value(2)]);
    return {
      type: 'line',
      shape: { x1: x, y1: low, x2: x, y2: high },
      style: { stroke: color, lineWidth: 6, opacity: 0.28, lineCap: 'round' },
    };
  },
});

const line = (
  name: string,
  data: readonly (number | null)[],
  color: string,
  more: object = {},
): object => ({
  type: 'line',
  name,
  data,
  color,
  symbol: 'circle',
  symbolSize: 6,
  lineStyle: { width: 2 },
  z: 2,
  ...more,
});

/** Rate over all tiers with its interval, and the rate of each tier. */
export function ratesChart(points: RunDetail['dev'], all: string): Drawn {
  const tiers = [...new Set(points.flatMap(({ byTier }) => byTier.map(({ tier }) => tier)))].slice(
    0,
    9,
  );
  const of = (tier: string): (number | null)[] =>
    points.map(({ byTier }) => hundred(byTier.find((each) => each.tier === tier)?.mean ?? null));
  const iterations = points.map(({ iteration }) => iteration);
  const shown = tiers.length > 1 ? tiers : [];
  return {
    option: (colors) => ({
      legend: { ...legend(colors), type: 'scroll' },
      grid: { ...GRID, left: 50 },
      xAxis: iterationAxis(colors, iterations),
      yAxis: shareAxis(colors),
      series: [
        intervals(
          points.map((point) => point.all),
          colors.accent,
        ),
        line(
          all,
          points.map((point) => hundred(point.all.mean)),
          colors.accent,
          { lineStyle: { width: 3 }, symbolSize: 8, z: 3 },
        ),
        ...shown.map((tier, i) =>
          line(tier, of(tier), colors.series[(i + 1) % colors.series.length]!, {
            lineStyle: { width: 1.25, opacity: 0.8 },
            symbolSize: 4,
          }),
        ),
      ],
    }),
    table: {
      head: ['iteration', all, '95 %', ...shown],
      rows: points.map((point) => [
        String(point.iteration),
        percent(point.all.mean),
        `${percent(point.all.low)} to ${percent(point.all.high)}`,
        ...shown.map((tier) => percent(point.byTier.find((each) => each.tier === tier)?.mean)),
      ]),
    },
  };
}

export function lossChart({ steps }: RunDetail): Drawn {
  return {
    option: (colors) => ({
      grid: { ...GRID, top: 14 },
      xAxis: valueAxis(colors, {
        minInterval: 1,
        min: 1,
        max: 'dataMax',
        splitLine: { show: false },
      }),
      yAxis: valueAxis(colors, { scale: true }),
      series: [
        {
          type: 'line',
          name: 'loss',
          showSymbol: steps.length < 40,
          symbolSize: 5,
          lineStyle: { width: 1.5 },
          color: colors.series[1],
          data: steps.map(({ step, loss }) => [step, loss]),
        },
      ],
    }),
    table: {
      head: ['step', 'iteration', 'loss'],
      rows: steps.map(({ step, iteration, loss }) => [
        String(step),
        String(iteration),
        figure(loss),
      ]),
    },
  };
}

export function bufferChart({ buffer, tiers }: RunDetail): Drawn {
  const ids = tiers
    .map(({ id }) => id)
    .filter((id) => buffer.some(({ byTier }) => (byTier[id] ?? 0) > 0));
  return {
    option: (colors) => ({
      legend: { ...legend(colors), type: 'scroll' },
      grid: GRID,
      xAxis: iterationAxis(
        colors,
        buffer.map(({ iteration }) => iteration),
      ),
      yAxis: valueAxis(colors, { minInterval: 1 }),
      series: ids.map((id, i) => ({
        type: 'bar',
        name: id,
        stack: 'kept',
        barMaxWidth: 44,
        color: colors.series[i % colors.series.length],
        data: buffer.map(({ byTier }) => byTier[id] ?? 0),
      })),
    }),
    table: {
      head: ['iteration', ...ids],
      rows: buffer.map(({ iteration, byTier }) => [
        String(iteration),
        ...ids.map((id) => String(byTier[id] ?? 0)),
      ]),
    },
  };
}

/** Tokens per second, sampled and trained on, by iteration. */
export function speedChart({ iterations }: RunDetail): Drawn {
  const rate = (tokens: number, seconds: number): number | null =>
    seconds > 0 ? Math.round(tokens / seconds) : null;
  const speeds = [
    ['sampled', iterations.map(({ tokens, seconds }) => rate(tokens.sampled, seconds.rollouts)), 0],
    [
      'trained on',
      iterations.map(({ tokens, seconds }) => rate(tokens.trained, seconds.training)),
      4,
    ],
  ] as const;
  return {
    option: (colors) => ({
      legend: legend(colors),
      grid: GRID,
      xAxis: iterationAxis(
        colors,
        iterations.map(({ iteration }) => iteration),
      ),
      yAxis: valueAxis(colors),
      series: speeds.map(([what, data, i]) => ({
        type: 'bar',
        name: `${what} per second`,
        barMaxWidth: 26,
        color: colors.series[i],
        data,
      })),
    }),
    table: {
      head: ['iteration', ...speeds.map(([what]) => `tokens ${what} per second`)],
      rows: iterations.map(({ iteration }, i) => [
        String(iteration),
        ...speeds.map(([, values]) => figure(values[i])),
      ]),
    },
  };
}

/** Values over time: megabytes, tokens per second. */
export function timeChart(
  name: string,
  points: readonly (readonly [seconds: number, value: number])[],
): Drawn {
  return {
    option: (colors) => ({
      grid: { ...GRID, top: 14 },
      xAxis: valueAxis(colors, {
        splitLine: { show: false },
        axisLabel: { color: colors.muted, formatter: '{value} s' },
      }),
      yAxis: valueAxis(colors),
      series: [
        {
          type: 'line',
          name,
          showSymbol: false,
          areaStyle: { opacity: 0.12 },
          color: colors.accent,
          data: points,
        },
      ],
    }),
    table: {
      head: ['second', name],
      rows: points.map(([at, value]) => [at.toFixed(0), figure(value)]),
    },
  };
}
