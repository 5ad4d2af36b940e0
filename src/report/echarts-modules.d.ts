/**
 * What is used of ECharts. Its own declarations import each other without file extensions, which `moduleResolution: nodenext` cannot
 * follow.
 */
declare module 'echarts/core' {
  export type EChartsCoreOption = Readonly<Record<string, unknown>>;
  export function use(extensions: readonly unknown[]): void;
  export function init(
    element: null,
    theme: null,
    options: { readonly renderer: 'svg'; readonly ssr: true; readonly width: number; readonly height: number },
  ): { setOption(option: EChartsCoreOption): void; renderToSVGString(): string; dispose(): void };
}
declare module 'echarts/charts' {
  export const BarChart: unknown;
  export const CustomChart: unknown;
  export const LineChart: unknown;
  export const ScatterChart: unknown;
}
declare module 'echarts/components' {
  export const GridComponent: unknown;
  export const LegendComponent: unknown;
  export const TitleComponent: unknown;
}
declare module 'echarts/renderers' {
  export const SVGRenderer: unknown;
}
