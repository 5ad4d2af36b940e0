/**
 * Charts of a truth run, a panel for each setup. Each is null where the run has nothing of the
 * kind.
 */
import { groupOf } from '../truth-seeking/beliefs/belief.js';
import { mean } from '../statistics/index.js';
import { clusteredInterval, regressionBand } from '../statistics/regression.js';
import { calibration } from '../truth-seeking/strategies/accuracy.js';
import { changesOf, martingale } from '../truth-seeking/strategies/martingale.js';
import { dots, thinned, title, whiskers } from './charts.js';
import type { Html } from '../text/hostile-text.js';
import {
  ACCENT,
  axisStyle,
  chartLabel,
  FONT,
  MUTED,
  panelChart,
  RULE,
  SERIES,
  type Panel,
} from './svg-chart.js';
import { forecastGroupsOf, forecastsOf, towardsTruth, type ShownSetup } from './truth-figures.js';

/** Panels, lines of a panel and points of one, at most. */
const PANELS = 9;
const LINES = 40;
const POINTS = 300;
const WIDTH = 920;
const CELL = 220;
const BINS = 10;
const CHANGES = { change: 'difference', granularity: 'steps' } as const;

const percent = (fraction: number): number => 100 * fraction;

type SetupPanel = Pick<Panel, 'x' | 'y' | 'series'> & { readonly name: string };

/** Draws panels side by side, at most three in a row. */
function panels(chart: string, all: readonly SetupPanel[]): Html | null {
  if (all.length === 0) return null;
  const columns = Math.min(3, all.length);
  const width = WIDTH / columns;
  return panelChart(
    chart,
    { width: WIDTH, height: Math.ceil(all.length / columns) * CELL },
    all.map(({ name, x, y, series }, i): Panel => {
      const [left, top] = [(i % columns) * width, Math.floor(i / columns) * CELL];
      return {
        title: title(chartLabel(name, columns === 3 ? 40 : 70), left + 44, top + 4),
        grid: { left: left + 50, top: top + 32, width: width - 74, height: CELL - 74 },
        x: { ...axisStyle, splitLine: { show: false }, ...x },
        y: { ...axisStyle, ...y },
        series,
      };
    }),
  );
}

const share = {
  type: 'value',
  min: 0,
  max: 100,
  interval: 50,
  axisLabel: { ...FONT, formatter: '{value} %' },
} as const;
const named = (text: string): object => ({
  name: text,
  nameLocation: 'middle',
  nameGap: 24,
  nameTextStyle: FONT,
});
const scatter = (axis: number, data: readonly (readonly number[])[], style: object): object => ({
  type: 'scatter',
  xAxisIndex: axis,
  yAxisIndex: axis,
  silent: true,
  data,
  ...style,
});
const line = (
  axis: number,
  data: readonly (readonly [number, number])[],
  style: object,
): object => ({
  type: 'line',
  xAxisIndex: axis,
  yAxisIndex: axis,
  data,
  silent: true,
  symbol: 'none',
  lineStyle: style,
  z: 1,
});

/** Beliefs by step: single trajectories, and their mean with its 95 % interval. */
export function beliefLineChart(setups: readonly ShownSetup[]): Html | null {
  const shown = setups.filter(({ paths }) => paths.length > 0).slice(0, PANELS);
  return panels(
    'beliefs',
    shown.map(({ name, paths }): SetupPanel => {
      const lines = paths.map(towardsTruth);
      const steps = Math.max(...lines.map(({ length }) => length));
      const means = Array.from({ length: steps }, (_, step) => {
        const there = lines.flatMap((each, i) =>
          each[step] === undefined ? [] : [{ value: each[step], group: groupOf(paths[i]!.path) }],
        );
        const values = there.map(({ value }) => value);
        const interval = clusteredInterval(
          values,
          there.map(({ group }) => group),
        );
        return { centre: mean(values), interval };
      });
      return {
        name,
        x: { type: 'category', data: means.map((_, step) => String(step)), ...named('step') },
        y: share,
        series: (axis) => [
          ...thinned(lines, LINES).map((each) =>
            line(
              axis,
              each.map((belief, step) => [step, percent(belief)] as const),
              { width: 1, color: MUTED, opacity: 0.3 },
            ),
          ),
          whiskers(
            means.flatMap(({ interval }, step) =>
              interval === null
                ? []
                : [[step, percent(Math.max(0, interval.low)), percent(Math.min(1, interval.high))]],
            ),
            ACCENT,
            axis,
          ),
          dots(
            means.map(({ centre }) => percent(centre)),
            ACCENT,
            axis,
          ),
        ],
      };
    }),
  );
}

/**
 * Calibration: how often option 0 was right, by the belief in it, before the first step and after
 * the last.
 */
export function calibrationChart(setups: readonly ShownSetup[]): Html | null {
  const shown = setups
    .filter(({ paths }) => forecastsOf(paths, 'eventual').length > 0)
    .slice(0, PANELS);
  return panels(
    'calibration',
    shown.map(
      ({ name, paths }): SetupPanel => ({
        name,
        x: { ...share, ...named('belief in option 0') },
        y: share,
        series: (axis) => [
          line(
            axis,
            [
              [0, 0],
              [100, 100],
            ],
            { width: 1, color: RULE, type: 'dashed' },
          ),
          ...(['initial', 'eventual'] as const).flatMap((which, i) => {
            const { bins } = calibration(forecastsOf(paths, which), BINS, forecastGroupsOf(paths))!;
            const color = i === 0 ? MUTED : ACCENT;
            return [
              whiskers(
                bins.map(({ forecast, interval: { low, high } }) => [
                  percent(forecast),
                  percent(low),
                  percent(high),
                ]),
                color,
                axis,
              ),
              scatter(
                axis,
                bins.map(({ forecast, observed }) => [percent(forecast), percent(observed)]),
                { symbol: i === 0 ? 'circle' : 'rect', symbolSize: 7, itemStyle: { color }, z: 2 },
              ),
            ];
          }),
        ],
      }),
    ),
  );
}

/**
 * Change of a belief in one step against the belief before it, with the line through all of them
 * and the means of tenths.
 */
export function changeChart(setups: readonly ShownSetup[]): Html | null {
  const shown = setups
    .filter(({ paths }) => paths.some(({ path }) => path.beliefs.length > 1))
    .slice(0, PANELS);
  return panels(
    'changes',
    shown.map(({ name, paths }): SetupPanel => {
      const all = paths.flatMap(({ path }) => changesOf(path, CHANGES));
      const [priors, changes] = [all.map(({ prior }) => prior), all.map(({ change }) => change)];
      const { regression, bins } = martingale(
        paths.map(({ path }) => path),
        CHANGES,
      ).details;
      const at = Array.from({ length: 11 }, (_, i) => i / 10);
      const band = regression === null ? [] : regressionBand(regression, mean(priors), at);
      const bound = Math.min(
        1,
        Math.max(0.1, Math.ceil(10 * Math.max(...changes.map(Math.abs))) / 10),
      );
      return {
        name,
        x: { ...share, ...named('belief before') },
        y: {
          type: 'value',
          min: percent(-bound),
          max: percent(bound),
          splitNumber: 4,
          axisLabel: { ...FONT, formatter: '{value}' },
        },
        series: (axis) => [
          scatter(
            axis,
            thinned(all, POINTS).map(({ prior, change }) => [percent(prior), percent(change)]),
            { symbolSize: 4, itemStyle: { color: MUTED, opacity: 0.45 } },
          ),
          line(
            axis,
            [
              [0, 0],
              [100, 0],
            ],
            { width: 1, color: RULE },
          ),
          ...(['low', 'high'] as const).map((side) =>
            line(
              axis,
              band.map((each) => [percent(each.x), percent(each[side])] as const),
              { width: 1, color: ACCENT, opacity: 0.5, type: 'dashed' },
            ),
          ),
          line(
            axis,
            band.map(({ x, fitted }) => [percent(x), percent(fitted)] as const),
            { width: 2, color: ACCENT },
          ),
          scatter(
            axis,
            bins.map(({ prior, change }) => [percent(prior), percent(change)]),
            { symbol: 'diamond', symbolSize: 9, itemStyle: { color: SERIES[1] }, z: 3 },
          ),
        ],
      };
    }),
  );
}
