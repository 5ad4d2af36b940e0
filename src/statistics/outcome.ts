/** An answer that is a probability: what it gave an event, in [0, 1], and whether the event came about. */
export interface Forecast {
  readonly probability: number;
  readonly outcome: boolean;
}

/** What a verdict may say beside its kind. */
export interface Figures {
  /** In [0, 1], 1 being best. */
  readonly score?: number | undefined;
  readonly forecast?: Forecast | undefined;
}
export type FigureName = keyof Figures;
export const FIGURE_NAMES: readonly FigureName[] = ['score', 'forecast'];

/** One verdict on one problem. */
export interface Outcome extends Figures {
  readonly tier: string;
  readonly kind: 'pass' | 'fail' | 'none';
}

/** The figures of a verdict alone, without members for those that it does not have. */
export const figuresOf = ({ score, forecast }: Figures): { readonly score?: number; readonly forecast?: Forecast } => ({
  ...(score === undefined ? {} : { score }),
  ...(forecast === undefined ? {} : { forecast: { probability: forecast.probability, outcome: forecast.outcome } }),
});

/** Those that any of the verdicts has. */
export const figuresGiven = (verdicts: readonly Figures[]): FigureName[] =>
  FIGURE_NAMES.filter((name) => verdicts.some((verdict) => verdict[name] !== undefined));
