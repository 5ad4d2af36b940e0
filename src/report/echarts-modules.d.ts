/**
 * Declarations of the parts of ECharts in use. Its own declarations import each other without file
 * extensions, which `moduleResolution: nodenext` cannot follow.
 */
declare module 'echarts/dist/echarts.esm.min.mjs' {
  export type EChartsCoreOption = Readonly<Record<string, unknown>>;
  export function init(
    element: null,
    theme: null,
    options: {
      readonly renderer: 'svg';
      readonly ssr: true;
      readonly width: number;
      readonly height: number;
    },
  ): { setOption(option: EChartsCoreOption): void; renderToSVGString(): string; dispose(): void };
}
