/**
 * ECharts on a canvas: texts of a log are drawn and never become markup. A table holds the same
 * figures for readers who cannot see it.
 */
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TooltipComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import type { EChartsCoreOption } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';
import type { FunctionComponent } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { onTheme } from './theme.ts';
import { Table } from './ui.tsx';

echarts.use([
  BarChart,
  CustomChart,
  LineChart,
  ScatterChart,
  GridComponent,
  LegendComponent,
  TooltipComponent,
  CanvasRenderer,
]);

const NAMES = ['ink', 'muted', 'rule', 'panel', 'accent'] as const;
export type Colors = Readonly<Record<(typeof NAMES)[number], string>> & {
  readonly series: readonly string[];
};

function colors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  const named = Object.fromEntries(NAMES.map((name) => [name, of(name)]));
  const series = Array.from({ length: 10 }, (_, i) => of(`s${i}`));
  return { ...named, series } as unknown as Colors;
}

export interface Drawn {
  readonly option: (colors: Colors) => EChartsCoreOption;
  readonly table: {
    readonly head: readonly string[];
    readonly rows: readonly (readonly string[])[];
  };
}

/** @param props.label what the chart shows, in a phrase */
export const Chart: FunctionComponent<Drawn & { label: string; height?: number }> = ({
  label,
  height = 220,
  option,
  table,
}) => {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<echarts.ECharts | null>(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => onTheme(() => setTheme((before) => before + 1)), []);
  useEffect(() => {
    const made = echarts.init(place.current!);
    chart.current = made;
    const watched = new ResizeObserver(() => made.resize());
    watched.observe(place.current!);
    return () => {
      watched.disconnect();
      made.dispose();
    };
  }, []);
  useEffect(() => {
    const of = colors();
    chart.current?.setOption(
      {
        animation: false,
        textStyle: { fontFamily: 'system-ui, sans-serif', fontSize: 12, color: of.muted },
        tooltip: {
          trigger: 'axis',
          renderMode: 'richText',
          confine: true,
          backgroundColor: of.panel,
          borderColor: of.rule,
          textStyle: { color: of.ink, fontSize: 12 },
          axisPointer: { lineStyle: { color: of.muted } },
        },
        ...option(of),
      },
      { notMerge: true },
    );
  }, [option, theme]);
  return (
    <figure>
      <div
        ref={place}
        class="chart"
        role="img"
        aria-label={label}
        style={{ height: `${height}px` }}
      />
      <details class="figures">
        <summary>figures</summary>
        <Table caption={`figures: ${label}`} head={table.head}>
          {table.rows.map((row, i) => (
            <tr key={i}>
              {row.map((cell, j) => (
                <td key={j}>{cell}</td>
              ))}
            </tr>
          ))}
        </Table>
      </details>
    </figure>
  );
};
