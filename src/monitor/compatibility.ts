import { z } from 'zod';
import { RULES, type RuleId } from './rules.js';
import { smooth } from './smoothing.js';

/**
 * The original system's evaluator, number for number (its rule table, arithmetic EMA, three in a
 * row; see docs/monitor.md). It is here so that its published runs can be checked; runs of this
 * program use `evaluateRules`. Known faults are kept: one NaN silences a smoothed rule for good,
 * and R6 needs 67 epochs to notice gradients that vanish.
 */
export const compatibilityConfig = z.strictObject({
  alpha: z.number().gt(0).max(1).default(0.1),
  consecutiveEpochs: z.number().int().min(1).default(3),
  updateRatioHigh: z.number().default(1e-2),
  updateRatioLow: z.number().default(1e-4),
  plateauPatience: z.number().int().min(1).default(3),
  gradNoiseScaleLow: z.number().default(50),
  gradNoiseScaleHigh: z.number().default(5000),
  earlyStopPatience: z.number().int().min(1).default(5),
  earlyStopMinDelta: z.number().default(1e-3),
  saturationGap: z.number().default(0.02),
  deadReluFraction: z.number().default(0.4),
  minLayerGradNorm: z.number().default(1e-5),
  maxLayerGradNorm: z.number().default(10),
});
export type CompatibilityConfig = z.infer<typeof compatibilityConfig>;

/** One epoch of the original's metrics log, by its field names. Absent keys are skipped. */
export interface CompatibilityEpoch {
  readonly train_loss?: number;
  readonly val_loss?: number;
  readonly train_acc?: number;
  readonly update_to_param_ratio?: number;
  readonly grad_noise_scale?: number;
  readonly dead_relu_fraction?: number;
  readonly min_layer_grad_norm?: number;
  readonly max_layer_grad_norm?: number;
  readonly has_nan_or_inf?: boolean;
}

type Signal = Exclude<keyof CompatibilityEpoch, 'has_nan_or_inf'>;

/** Returns which rules fire at the newest epoch. */
export function evaluateCompatibility(
  history: readonly CompatibilityEpoch[],
  config: CompatibilityConfig = compatibilityConfig.parse({}),
): Record<RuleId, boolean> {
  const signal = (key: Signal): number[] =>
    history.flatMap((epoch) => (epoch[key] === undefined ? [] : [epoch[key]]));
  const n = config.consecutiveEpochs;
  const lastSmoothed = (key: Signal, holds: (value: number) => boolean): boolean => {
    const values = signal(key);
    return values.length >= n && smooth(values, config.alpha).slice(-n).every(holds);
  };
  const valLoss = signal('val_loss');
  const trainAcc = signal('train_acc');

  const patience = config.plateauPatience;
  const plateau =
    valLoss.length > patience &&
    valLoss.slice(-patience).every((loss) => loss >= (valLoss.at(-patience - 1) as number));
  const stopPatience = config.earlyStopPatience;
  const best = Math.min(...valLoss.slice(0, -stopPatience));
  const stop =
    valLoss.length > stopPatience &&
    valLoss.slice(-stopPatience).every((loss) => loss >= best - config.earlyStopMinDelta);
  const steps = trainAcc.slice(1).map((accuracy, i) => accuracy - (trainAcc[i] as number));
  const saturated =
    trainAcc.length > n && steps.slice(-n).every((step) => Math.abs(step) < config.saturationGap);
  const newest = history.at(-1);
  const broken = (value: number | undefined): boolean =>
    value !== undefined && !Number.isFinite(value);

  const fired: Record<RuleId, boolean> = {
    R1:
      lastSmoothed('update_to_param_ratio', (ratio) => ratio > config.updateRatioHigh) ||
      lastSmoothed('update_to_param_ratio', (ratio) => ratio < config.updateRatioLow) ||
      plateau,
    R2: lastSmoothed(
      'grad_noise_scale',
      (scale) => scale < config.gradNoiseScaleLow || scale > config.gradNoiseScaleHigh,
    ),
    R3: stop,
    R4: saturated,
    R5: lastSmoothed('dead_relu_fraction', (fraction) => fraction > config.deadReluFraction),
    R6: lastSmoothed('min_layer_grad_norm', (norm) => norm < config.minLayerGradNorm),
    R7:
      newest?.has_nan_or_inf === true ||
      broken(newest?.train_loss) ||
      broken(newest?.val_loss) ||
      lastSmoothed('max_layer_grad_norm', (norm) => norm > config.maxLayerGradNorm),
  };
  return Object.fromEntries(RULES.map((rule) => [rule, fired[rule]])) as Record<RuleId, boolean>;
}
