/**
 * The charts of a report, from what a run's folder holds. Each is null where the run has nothing of
 * the kind.
 */
import { wilsonInterval, type Interval } from '../statistics/index.js';
import type { Html } from '../text/hostile-text.js';
import { severalOf } from '../text/figures.js';
import { devEvaluations, inOrder, type RunRecord } from '../run-folder/read-run.js';
import {
  ACCENT,
  axisStyle,
  BAD,
  chartLabel,
  FONT,
  INK,
  MUTED,
  panelChart,
  RULE,
  SERIES,
  svgChart,
  type CustomApi,
  type Panel,
} from './svg-chart.js';

/** Limits of a chart that can be read: tiers, iterations (chosen evenly), steps, layers. */
const TIERS = 24;
const ITERATIONS = 60;
const STEPS = 400;
const LAYERS = 200;

const WIDTH = 920;

/** Returns at most `limit` of the items, chosen evenly, including the first and the last. */
export function thinned<T>(items: readonly T[], limit: number): readonly T[] {
  if (items.length <= limit) return items;
  return Array.from(
    { length: limit },
    (_, i) => items[Math.round((i * (items.length - 1)) / (limit - 1))]!,
  );
}

const last = <T>(items: readonly T[], key: (item: T) => number): T[] =>
  [...new Map(items.map((item) => [key(item), item])).values()].sort((a, b) => key(a) - key(b));
const kept = (buffer: Readonly<Record<string, number>>, tier: string): number =>
  Object.hasOwn(buffer, tier) ? buffer[tier]! : 0;
const percent = (fraction: number): number => 100 * fraction;
const titleOf = ({ tiers }: Pick<RunRecord, 'tiers'>, key: string): string =>
  tiers.find(({ id }) => id === key)?.title ?? '';
/** A tier's id and what it is called. */
const called = (run: Pick<RunRecord, 'tiers'>, key: string): string =>
  `${key} ${titleOf(run, key)}`.trim();
export const title = (text: string, left: number, top: number, below = ''): object => ({
  text,
  subtext: below,
  itemGap: 2,
  subtextStyle: { ...FONT, fontSize: 11 },
  left,
  top,
  padding: 0,
  textStyle: { color: INK, fontSize: 13, fontWeight: 600, fontFamily: 'inherit' },
});
const share = {
  type: 'value',
  min: 0,
  max: 100,
  interval: 50,
  ...axisStyle,
  axisLabel: { ...FONT, formatter: '{value} %' },
} as const;
const iterationAxis = (iterations: readonly number[]): object => ({
  type: 'category',
  data: iterations.map(String),
  ...axisStyle,
  splitLine: { show: false },
  axisLabel: { ...FONT, hideOverlap: true },
});

/** Vertical bars from low to high: [index, low, high]. */
export const whiskers = (
  data: readonly (readonly number[])[],
  color: string,
  axis: number,
): object => ({
  type: 'custom',
  xAxisIndex: axis,
  yAxisIndex: axis,
  data,
  silent: true,
  z: 1,
  renderItem: (_: unknown, api: CustomApi) => {
    const [x, low] = api.coord([api.value(0), api.value(1)]);
    const [, high] = api.coord([api.value(0), api.value(2)]);
    return {
      type: 'line',
      shape: { x1: x, y1: low, x2: x, y2: high },
      style: { stroke: color, lineWidth: 5, opacity: 0.35, lineCap: 'round' },
    };
  },
});

export const dots = (data: readonly (number | null)[], color: string, axis: number): object => ({
  type: 'line',
  xAxisIndex: axis,
  yAxisIndex: axis,
  data,
  silent: true,
  symbol: 'circle',
  symbolSize: 5,
  lineStyle: { width: 1.75, color },
  itemStyle: { color, borderWidth: 0 },
  z: 2,
});

type Rate = Interval & { readonly mean: number | null };

/** Rates in order with their intervals; a missing one leaves a gap. */
const ratesWith =
  (rates: readonly (Rate | undefined)[], color: string) =>
  (axis: number): object[] => [
    whiskers(
      rates.flatMap((rate, i) =>
        rate?.mean == null ? [] : [[i, percent(rate.low), percent(rate.high)]],
      ),
      color,
      axis,
    ),
    dots(
      rates.map((rate) => (rate?.mean == null ? null : percent(rate.mean))),
      color,
      axis,
    ),
  ];

/** Dev accuracy by tier, and over all tiers, with 95 % intervals. */
export function accuracyChart(run: RunRecord): Html | null {
  const evaluations = thinned(
    last(devEvaluations(run), ({ iteration }) => iteration),
    ITERATIONS,
  );
  if (evaluations.length === 0) return null;
  const iterations = evaluations.map(({ iteration }) => iteration);
  const keys = inOrder(Object.keys(evaluations[0]!.summary.byTier), run.tiers).slice(0, TIERS - 1);
  const untrained = new Set(run.tiers.filter(({ trains }) => !trains).map(({ id }) => id));
  const all = [
    {
      name: keys.length === 1 ? 'dev problems' : 'mean of all tiers',
      below: '',
      rates: evaluations.map(({ summary }): Rate | undefined => summary),
      color: ACCENT,
    },
    ...severalOf(keys).map((key) => ({
      name: `${chartLabel(key, 18)}${untrained.has(key) ? ' (not trained on)' : ''}`,
      below: titleOf(run, key) === '' ? '' : chartLabel(titleOf(run, key), 34),
      rates: evaluations.map(({ summary }): Rate | undefined => summary.byTier[key]),
      color: SERIES[0]!,
    })),
  ];
  const columns = Math.min(4, all.length);
  const [width, height] = [WIDTH / columns, 166];
  return panelChart(
    'accuracy',
    { width: WIDTH, height: Math.ceil(all.length / columns) * height },
    all.map(({ name, below, rates, color }, i): Panel => {
      const [left, top] = [(i % columns) * width, Math.floor(i / columns) * height];
      return {
        title: title(name, left + 44, top + 4, below),
        grid: { left: left + 44, top: top + 42, width: width - 60, height: height - 70 },
        x: iterationAxis(iterations),
        y: share,
        series: ratesWith(rates, color),
      };
    }),
  );
}

/**
 * Rollouts that passed, with Wilson intervals, and loss by step with the mean of each iteration.
 */
export function hitRateAndLossChart(run: RunRecord): Html | null {
  const iterations = thinned(
    [...run.rollouts.keys()].sort((a, b) => a - b),
    ITERATIONS,
  );
  if (iterations.length === 0) return null;
  const rates = iterations.map((iteration) => {
    const [passed, failed] = [...run.rollouts.get(iteration)!.values()].reduce(
      ([p, f], tier) => [p + tier.passed, f + tier.failed],
      [0, 0],
    );
    return {
      ...wilsonInterval(passed, passed + failed),
      mean: passed + failed === 0 ? null : passed / (passed + failed),
    };
  });
  const steps = thinned(
    run.steps.flatMap(({ loss, iteration }, i) =>
      Number.isFinite(loss) ? [{ at: i + 1, loss, iteration }] : [],
    ),
    STEPS,
  );
  const half = WIDTH / 2;
  const at = (left: number, name: string): Pick<Panel, 'title' | 'grid'> => ({
    title: title(name, left + 52, 4),
    grid: { left: left + 52, top: 34, width: half - 76, height: 150 },
  });
  const passed: Panel = {
    ...at(0, 'rollouts that passed, by iteration'),
    x: iterationAxis(iterations),
    y: { ...share, interval: 25 },
    series: ratesWith(rates, SERIES[0]!),
  };
  const loss: Panel = {
    ...at(half, 'loss by optimiser step, nats a token'),
    x: {
      type: 'value',
      min: 0,
      max: Math.max(2, run.steps.length),
      minInterval: 1,
      ...axisStyle,
      splitLine: { show: false },
      axisLabel: { ...FONT, showMaxLabel: false },
    },
    y: { type: 'value', scale: true, splitNumber: 4, ...axisStyle },
    series: (axis) => [
      {
        type: 'scatter',
        xAxisIndex: axis,
        yAxisIndex: axis,
        silent: true,
        symbolSize: 3.5,
        itemStyle: { color: SERIES[1], opacity: 0.75 },
        data: steps.map(({ at: step, loss: value }) => [step, value]),
      },
    ],
  };
  const size = { width: WIDTH, height: 220 };
  return panelChart('learning', size, steps.length === 0 ? [passed] : [passed, loss]);
}

/**
 * Accepted rollouts that are kept, by tier, in number and in share: the curriculum that selection
 * alone makes.
 */
export function bufferChart({ iterations: reports, tiers }: RunRecord): Html | null {
  const iterations = thinned(
    last(reports, ({ iteration }) => iteration),
    ITERATIONS,
  );
  const ids = tiers
    .map(({ id }) => id)
    .filter((id) => iterations.some(({ buffer }) => kept(buffer, id) > 0))
    .slice(0, TIERS);
  if (ids.length === 0) return null;
  const totals = iterations.map(({ buffer }) => ids.reduce((sum, id) => sum + kept(buffer, id), 0));
  const color = (i: number): string => SERIES[i % SERIES.length]!;
  const bars =
    (value: (iteration: number, id: string) => number) =>
    (axis: number): object[] =>
      ids.map((id, i) => ({
        type: 'bar',
        name: `${i}`,
        stack: `${axis}`,
        xAxisIndex: axis,
        yAxisIndex: axis,
        silent: true,
        barMaxWidth: 48,
        itemStyle: { color: color(i) },
        data: iterations.map((_, at) => value(at, id)),
      }));
  const shares = ids.length > 1; // a single tier has all of the buffer
  const [half, top, height] = [WIDTH / 2, 40 + 22 * Math.ceil(ids.length / 3), 180];
  const x = iterationAxis(iterations.map(({ iteration }) => iteration));
  const counts: Panel = {
    title: title('in the buffer', 52, top - 22),
    grid: { left: 52, top, width: (shares ? half : WIDTH) - 76, height },
    x,
    y: { type: 'value', minInterval: 1, splitNumber: 4, ...axisStyle },
    series: bars((at, id) => kept(iterations[at]!.buffer, id)),
  };
  const parts: Panel = {
    title: title('share of each tier', half + 52, top - 22),
    grid: { left: half + 52, top, width: half - 76, height },
    x,
    y: { ...share, interval: 25 },
    series: bars((at, id) =>
      totals[at] === 0 ? 0 : percent(kept(iterations[at]!.buffer, id) / totals[at]!),
    ),
  };
  const size = { width: WIDTH, height: top + height + 28 };
  return panelChart('buffer', size, shares ? [counts, parts] : [counts], {
    legend: {
      top: 0,
      left: 48,
      itemWidth: 12,
      itemHeight: 12,
      icon: 'rect',
      itemGap: 36, // the width of texts is a guess that is too small
      textStyle: { ...FONT, color: INK },
      data: ids.map((_, i) => ({ name: `${i}`, itemStyle: { color: color(i) } })),
      formatter: (name: string) => chartLabel(called({ tiers }, ids[Number(name)]!), 30),
    },
  });
}

/**
 * Part of the rollouts that passed, by tier and iteration; framed where a tier's first rollout was
 * accepted.
 */
export function emergenceChart(run: RunRecord): Html | null {
  const iterations = thinned(
    [...run.rollouts.keys()].sort((a, b) => a - b),
    ITERATIONS,
  );
  const ids = run.tiers
    .map(({ id }) => id)
    .filter((id) => iterations.some((iteration) => run.rollouts.get(iteration)!.has(id)))
    .slice(0, TIERS);
  if (ids.length === 0) return null;
  const first = new Map<string, number>();
  for (const [iteration, tiers] of [...run.rollouts].sort(([a], [b]) => a - b))
    for (const [id, { admitted }] of tiers)
      if (admitted > 0 && !first.has(id)) first.set(id, iteration);
  const cells = ids.flatMap((id, row) =>
    iterations.flatMap((iteration, column) => {
      const counts = run.rollouts.get(iteration)!.get(id);
      const decided = counts === undefined ? 0 : counts.passed + counts.failed;
      return decided === 0
        ? []
        : [[column, row, counts!.passed / decided, first.get(id) === iteration ? 1 : 0]];
    }),
  );
  const room = iterations.length <= 20;
  return svgChart(
    'emergence',
    { width: WIDTH, height: 44 + 30 * ids.length },
    {
      grid: { left: 230, right: 16, top: 6, bottom: 30 },
      xAxis: { ...iterationAxis(iterations), axisTick: { show: false }, axisLine: { show: false } },
      yAxis: {
        type: 'category',
        inverse: true,
        data: ids.map((id) => chartLabel(called(run, id), 34)),
        ...axisStyle,
        splitLine: { show: false },
        axisTick: { show: false },
        axisLine: { show: false },
        axisLabel: { ...FONT, color: INK },
      },
      series: [
        {
          type: 'custom',
          silent: true,
          data: cells,
          renderItem: (_: unknown, api: CustomApi) => {
            const [column, row, rate, emerged] = [0, 1, 2, 3].map((i) => api.value(i)) as [
              number,
              number,
              number,
              number,
            ];
            const [x, y] = api.coord([column, row]);
            const [width, height] = api.size([1, 1]);
            const shape = {
              x: x - width / 2 + 1,
              y: y - height / 2 + 1,
              width: Math.max(1, width - 2),
              height: Math.max(1, height - 2),
              r: 2,
            };
            return {
              type: 'group',
              children: [
                { type: 'rect', shape, style: { fill: ACCENT, opacity: 0.05 + 0.95 * rate } },
                ...(emerged === 1
                  ? [
                      {
                        type: 'rect',
                        shape: {
                          ...shape,
                          x: shape.x + 1,
                          y: shape.y + 1,
                          width: Math.max(1, shape.width - 2),
                          height: Math.max(1, shape.height - 2),
                        },
                        style: { fill: 'none', stroke: INK, lineWidth: 2 },
                      },
                    ]
                  : []),
                ...(room
                  ? [
                      {
                        type: 'text',
                        style: {
                          text: `${Math.round(100 * rate)}`,
                          x,
                          y,
                          textAlign: 'center',
                          textVerticalAlign: 'middle',
                          fill: rate > 0.62 ? 'var(--on-accent)' : INK,
                          fontSize: 12,
                          fontFamily: 'inherit',
                        },
                      },
                    ]
                  : []),
              ],
            };
          },
        },
      ],
    },
  );
}

/** Scores of the layer choice, with the trained layers filled. Null if nothing was measured. */
export function layerChart({ layers }: RunRecord): Html | null {
  if (layers === null || layers.scores === null || layers.scores.length === 0) return null;
  const scores = layers.scores
    .slice(0, LAYERS)
    .map((score) => (Number.isFinite(score) ? score : null));
  const chosen = new Set(layers.layers);
  return svgChart(
    'layers',
    { width: WIDTH, height: 180 },
    {
      grid: { left: 60, right: 16, top: 12, bottom: 28 },
      xAxis: {
        type: 'category',
        data: scores.map((_, layer) => `${layer}`),
        ...axisStyle,
        splitLine: { show: false },
        axisLabel: { ...FONT, hideOverlap: true },
      },
      yAxis: { type: 'value', splitNumber: 3, ...axisStyle },
      series: [
        {
          type: 'bar',
          silent: true,
          barMaxWidth: 40,
          data: scores.map((value, layer) => ({
            value,
            itemStyle: { color: chosen.has(layer) ? ACCENT : RULE },
          })),
        },
      ],
    },
  );
}

const TIMELINE_ROWS = ['R1', 'R2', 'R3', 'R4', 'R5', 'R6', 'R7', 'gate'];

/**
 * Timeline of the rules that fired, their remedies, and the times when the gate restored an earlier
 * adapter.
 */
export function timelineChart(run: RunRecord): Html | null {
  const iterations = thinned(
    [
      ...new Set([
        ...run.iterations.map(({ iteration }) => iteration),
        ...run.ruleEvaluations.map(({ iteration }) => iteration),
        ...run.rollouts.keys(),
      ]),
    ].sort((a, b) => a - b),
    ITERATIONS,
  );
  const fired = run.ruleEvaluations.flatMap(({ iteration, rules }) =>
    Object.entries(rules).flatMap(([rule, evaluation]) =>
      evaluation.fired ? [{ iteration, rule }] : [],
    ),
  );
  if (iterations.length === 0) return null;
  const at = (
    points: readonly { readonly iteration: number; readonly rule: string }[],
  ): (string | number)[][] =>
    points.flatMap(({ iteration, rule }) =>
      iterations.includes(iteration) && TIMELINE_ROWS.includes(rule)
        ? [[iterations.indexOf(iteration), TIMELINE_ROWS.indexOf(rule)]]
        : [],
    );
  const marks = (
    data: readonly unknown[],
    symbol: string,
    symbolSize: number,
    itemStyle: object,
  ): object => ({
    type: 'scatter',
    silent: true,
    data,
    symbol,
    symbolSize,
    itemStyle,
  });
  return svgChart(
    'timeline',
    { width: WIDTH, height: 230 },
    {
      grid: { left: 60, right: 16, top: 6, bottom: 28 },
      xAxis: iterationAxis(iterations),
      yAxis: {
        type: 'category',
        inverse: true,
        data: TIMELINE_ROWS,
        ...axisStyle,
        splitLine: { ...axisStyle.splitLine, show: true },
        axisTick: { show: false },
        axisLine: { show: false },
        axisLabel: { ...FONT, color: INK },
      },
      series: [
        marks(at(fired), 'circle', 15, {
          color: 'transparent',
          borderColor: ACCENT,
          borderWidth: 2,
        }),
        marks(at(run.effects.filter(({ executed }) => executed)), 'circle', 8, { color: ACCENT }),
        marks(at(run.effects.filter(({ executed }) => !executed)), 'diamond', 8, { color: BAD }),
        marks(at(run.gates.map(({ iteration }) => ({ iteration, rule: 'gate' }))), 'triangle', 13, {
          color: MUTED,
        }),
      ],
    },
  );
}
