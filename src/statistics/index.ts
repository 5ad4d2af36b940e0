export { changeOfMean, type ChangeOfMean, type TierChange } from './change-of-mean.js';
export { kendall, mean, pearson, sampleStandardDeviation, spearman } from './descriptive.js';
export {
  FORGETTING_SET,
  forgettingOf,
  intervalOfMean,
  type Forgetting,
  type MeanPerToken,
  type ScoredText,
} from './forgetting.js';
export { exactGreater, type TwoSamples } from './hypergeometric.js';
export {
  clusteredWilsonInterval,
  fisherInterval,
  normalInterval,
  studentInterval,
  wilsonInterval,
  Z95,
  type Interval,
} from './intervals.js';
export {
  clusterBootstrap,
  holm,
  mcnemarExact,
  pairedBootstrap,
  stratifiedBootstrap,
  type PairedDifference,
  type PairedOutcome,
  type Stratum,
} from './paired.js';
export {
  gainScore,
  isSignificantDrop,
  pairedChange,
  type PairedChange,
  type TierVerdicts,
} from './paired-change.js';
export {
  brierScore,
  logScore,
  measure,
  MEASURE_NAMES,
  type MeasureEstimate,
  type MeasureName,
  type Measures,
  type MeasureSummary,
} from './measures.js';
export {
  FIGURE_NAMES,
  figuresGiven,
  figuresOf,
  READINGS,
  underReading,
  type FigureName,
  type Figures,
  type Forecast,
  type Outcome,
  type Reading,
} from './outcome.js';
export { passAtK } from './pass-at-k.js';
export { normalQuantile, normalTail, studentQuantile, studentTail } from './student.js';
export {
  MAX_NONE_FRACTION,
  meanOverTiers,
  summarise,
  SUMMARY_SEED,
  verdictsByTier,
  weightsOf,
  type Rates,
  type Summary,
  type SummaryOptions,
  type TierSummary,
} from './summary.js';
