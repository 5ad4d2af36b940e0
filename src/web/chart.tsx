/**
 * ECharts on a canvas: texts of a log are drawn, never made markup. Whoever cannot see it gets its
 * figures as a table.
 */
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { GridComponent, LegendComponent, TooltipComponent } from 'echarts/components';
import * as echarts from 'echarts/core';
import type { EChartsCoreOption } from 'echarts/core';
import { CanvasRenderer } from 'echarts/renderers';
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { onTheme } from './theme.ts';
import { Wide } from './ui.tsx';

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

export interface Colors {
  readonly ink: string;
  readonly muted: string;
  readonly rule: string;
  readonly panel: string;
  readonly accent: string;
  readonly good: string;
  readonly fair: string;
  readonly bad: string;
  readonly series: readonly string[];
}

function colors(): Colors {
  const style = getComputedStyle(document.documentElement);
  const of = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: of('ink'),
    muted: of('muted'),
    rule: of('rule'),
    panel: of('panel'),
    accent: of('accent'),
    good: of('good'),
    fair: of('fair'),
    bad: of('bad'),
    series: Array.from({ length: 10 }, (_, i) => of(`s${i}`)),
  };
}

export interface ChartTable {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

export const Chart = ({
  label,
  height = 220,
  option,
  table,
}: {
  /** What it shows, in a sentence. */
  label: string;
  height?: number;
  option: (colors: Colors) => EChartsCoreOption;
  table: ChartTable;
}): JSX.Element => {
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
        <Wide label={`figures: ${label}`}>
          <table>
            <thead>
              <tr>
                {table.head.map((cell) => (
                  <th key={cell} scope="col">
                    {cell}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {table.rows.map((row, i) => (
                <tr key={i}>
                  {row.map((cell, j) => (
                    <td key={j}>{cell}</td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      </details>
    </figure>
  );
};
