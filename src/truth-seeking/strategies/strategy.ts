/** Scoring strategies by name, with their options. */
import { z } from 'zod';
import { specs, type Spec } from '../spec.js';
import { ACCURACY_METRICS, ACCURACY_MODES, type AccuracyMetric } from './accuracy.js';
import { BELIEF_CHANGES, GRANULARITIES } from './martingale.js';
import { qualitativeConfig } from './qualitative-judge.js';

export const SYCOPHANCY_MEASURES = ['shift', 'quality-change', 'asymmetry'] as const;
export type SycophancyMeasure = (typeof SYCOPHANCY_MEASURES)[number];

/**
 * Presentation of a trajectory to a forecaster: as its own reply, as someone's notes, or as a tool
 * result.
 */
export const FORECAST_TEMPLATES = ['vanilla', 'rephrase', 'toolcall'] as const;
export type ForecastTemplate = (typeof FORECAST_TEMPLATES)[number];

/** Kinds of graders. */
export const GRADER_KINDS = [
  'belief',
  'asked-belief',
  'model-belief',
  'rating',
  'coverage',
] as const;
export type GraderKind = (typeof GRADER_KINDS)[number];

const FORMS = {
  accuracy: z.strictObject({
    metric: z
      .enum(Object.keys(ACCURACY_METRICS) as [AccuracyMetric, ...AccuracyMetric[]])
      .default('brier'),
    mode: z.enum(ACCURACY_MODES).default('eventual'),
  }),
  martingale: z.strictObject({
    change: z.enum(BELIEF_CHANGES).default('difference'),
    granularity: z.enum(GRANULARITIES).default('steps'),
  }),
  sycophancy: z.strictObject({ measure: z.enum(SYCOPHANCY_MEASURES).default('shift') }),
  'mutual-predictability': z.strictObject({
    /** Predictor: the evaluated reasoner, a random other one, or any. */
    predictor: z.enum(['evaluated', 'random-other', 'random-any']).default('random-other'),
    /**
     * Whose answer is predicted, if not the evaluated reasoner's: another model answers the same
     * questions in the same way.
     */
    predicted: z.enum(['random-other', 'random-any']).optional(),
    /** Question whose answer is predicted. */
    target: z
      .enum(['evaluated-question', 'random-other', 'random-any'])
      .default('evaluated-question'),
    /** Context questions: the evaluated one, or `contextSize` others. */
    context: z.enum(['evaluated-question', 'random-others']).default('random-others'),
    contextSize: z.int().min(1).max(32).default(3),
    trials: z.int().min(1).max(100).default(3),
    /**
     * `uplift`: with the context less without it. `conditional`: with it alone. `judge`: by a
     * judge's word, from 0 to 1.
     */
    scoring: z.enum(['uplift', 'conditional', 'judge']).default('uplift'),
    /** Earlier questions with the predicted policy's answers before it all. */
    behaviourExamples: z.int().min(0).max(32).default(0),
  }),
  'world-in-the-loop': z.strictObject({
    template: z.enum(FORECAST_TEMPLATES).default('vanilla'),
    /** Nats of a whole outcome, or of each of its tokens. */
    per: z.enum(['token', 'outcome']).default('token'),
  }),
  /**
   * Distance of beliefs in a statement and its negation from adding up to 1, and of paraphrases
   * from each other.
   */
  coherence: z.strictObject({}),
  /** A judge's rating of what was said, by what the run's instruction asks for. */
  'qualitative-judge': qualitativeConfig,
  /**
   * `belief`: the belief that a reply states; `asked-belief`: the one that who reasoned states when
   * it is asked afterwards; `model-belief`: the one that a judge finds in it; `rating`, `coverage`:
   * by a judge.
   */
  grader: z.strictObject({ kind: z.enum(GRADER_KINDS).default('belief') }),
} as const;

export const STRATEGIES = specs('strategy', FORMS);
export type Strategy = Spec<typeof FORMS>;
export type StrategyOf<N extends Strategy['name']> = Extract<Strategy, { readonly name: N }>;

/** True if any of the written strategies scores beliefs. */
export const needsBeliefs = (strategies: readonly string[]): boolean =>
  strategies.some((each) =>
    ['accuracy', 'martingale', 'sycophancy', 'coherence'].includes(STRATEGIES.parse(each).name),
  );
