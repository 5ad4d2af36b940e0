import { z } from 'zod';

/** The seven rules in the order of their numbers. */
export const RULES = ['R1', 'R2', 'R3', 'R4', 'R5', 'R6', 'R7'] as const;
export type RuleId = (typeof RULES)[number];

/**
 * Order in which rules that fired together are answered: non-finite and exploding, vanishing,
 * dormant (recycle before growing), capacity, rate, batch, stop.
 */
export const PRECEDENCE: readonly RuleId[] = ['R7', 'R6', 'R5', 'R4', 'R1', 'R2', 'R3'];

export const RULE_CLASS: Readonly<Record<RuleId, 'stability' | 'capacity' | 'tuning' | 'process'>> =
  {
    R1: 'tuning',
    R2: 'tuning',
    R3: 'process',
    R4: 'capacity',
    R5: 'capacity',
    R6: 'stability',
    R7: 'stability',
  };

/** Side of its band on which a rule fired. */
export type BreachSide = 'high' | 'low' | 'plateau' | 'nonfinite' | 'none';

/**
 * Thresholds and their units. Sources: env_rl (patience, gap, .40, 10), McCandlish et al. 2018
 * (noise scale), Sokar et al. 2023 (dormancy), ZClip (arXiv 2504.02507), Tango 1998 (R3's score).
 * `rankUse`, `relativeGradientLow` and `objectiveTarget` are our own judgement; tiny runs decided
 * on the last and say nothing of the other two; `minGain` and `z` of R3 are chosen by simulation
 * (docs/monitor.md). The digest of the whole object is part of a run's genesis.
 */
export const ruleConfig = z.strictObject({
  /** Smoothing factor per iteration; scale-like signals are smoothed as log10. */
  alpha: z.number().gt(0).max(1).default(0.3),
  /** Readings in a row. */
  persistence: z.number().int().min(1).default(3),
  /** Iterations after an executed remedy in which its rule stays silent. */
  coolDown: z.number().int().min(0).default(1),
  /** Iterations after its remedy within which a rule that fires again counts as recurring. */
  recurrenceWindow: z.number().int().min(0).default(5),
  r1: z
    .strictObject({
      /** Update of a module in one optimiser step relative to its size; median over modules. */
      updateRatioHigh: z.number().positive().default(5e-3),
      updateRatioLow: z.number().positive().default(1e-5),
      /** Mean KL(new‖old) of an output over the iteration's own data, nats. */
      klHigh: z.number().positive().default(0.02),
      plateauPatience: z.number().int().min(1).default(3),
      minSteps: z.number().int().min(0).default(3),
    })
    .prefault({}),
  r2: z
    .strictObject({
      /** Noise scale over batch size. High: too noisy, a larger batch is due. */
      noiseToBatchLow: z.number().positive().default(0.1),
      noiseToBatchHigh: z.number().positive().default(10),
    })
    .prefault({}),
  r3: z
    .strictObject({
      /** Evaluations without improvement. */
      patience: z.number().int().min(1).default(5),
      /**
       * Gain in the mean over tiers that a run must be able to show against the best before it, for
       * verdicts,
       */
      minGain: z.number().gt(0).lt(1).default(0.05),
      /** and the score below which the pairs are evidence against that gain. */
      z: z.number().min(0).default(1.645),
      /** Least improvement of a loss. */
      minDelta: z.number().min(0).default(1e-3),
    })
    .prefault({}),
  r4: z
    .strictObject({
      /** Upper 1-σ bound of the slope of the train objective, per iteration. */
      saturationGap: z.number().positive().default(0.02),
      window: z.number().int().min(3).default(5),
      /** Part of its capacity that a module uses, in at least half of them. */
      rankUse: z.number().gt(0).max(1).default(0.8),
    })
    .prefault({}),
  r5: z
    .strictObject({
      dormantFraction: z.number().gt(0).max(1).default(0.4),
      minSteps: z.number().int().min(0).default(20),
    })
    .prefault({}),
  r6: z
    .strictObject({
      /** Smallest over median module gradient, each norm over √parameters. */
      relativeGradientLow: z.number().positive().default(1e-3),
      minSteps: z.number().int().min(0).default(5),
    })
    .prefault({}),
  r7: z
    .strictObject({
      /** Largest module gradient over its own running median. */
      ratioHigh: z.number().positive().default(10),
      zHigh: z.number().positive().default(2.5),
      zDecay: z.number().gt(0).lt(1).default(0.97),
      /** Steps from which mean and deviation of log gradient norms are first taken. */
      zWarmupSteps: z.number().int().min(2).default(25),
      /** Part of the iteration's steps whose gradient was clipped. */
      clipFraction: z.number().gt(0).max(1).default(0.5),
    })
    .prefault({}),
  /** Train objective at which R1's plateau and R4 become silent. */
  objectiveTarget: z.number().min(0).max(1).default(0.85),
});
export type RuleConfig = z.infer<typeof ruleConfig>;
/** Each member that is left out has its default. */
export type RuleConfigInput = z.input<typeof ruleConfig>;
export const DEFAULT_RULES: RuleConfig = ruleConfig.parse({});

/** Thresholds that differ by profile of a run. */
export const PROFILE_PATIENCE = { downloaded: 2, embedded: 3 } as const;
export const profileRules = (profile: keyof typeof PROFILE_PATIENCE): RuleConfig =>
  ruleConfig.parse({ r3: { patience: PROFILE_PATIENCE[profile] } });

/**
 * Thresholds that are not those of a run's profile, each with the profile's own behind it:
 * `r3.patience 9 (2)`.
 */
export function foreignThresholds(rules: RuleConfig, profile: unknown): string[] {
  const own = Object.entries(
    thresholds(profileRules(profile === 'embedded' ? 'embedded' : 'downloaded')),
  );
  const given = thresholds(rules);
  return own
    .filter(([name, value]) => given[name] !== value)
    .map(([name, value]) => `${name} ${given[name]} (${value})`);
}

const thresholds = (rules: object, path = ''): Record<string, number> =>
  Object.assign(
    {},
    ...Object.entries(rules).map(([name, value]) =>
      typeof value === 'object'
        ? thresholds(value as object, `${path}${name}.`)
        : { [path + name]: value as number },
    ),
  ) as Record<string, number>;
