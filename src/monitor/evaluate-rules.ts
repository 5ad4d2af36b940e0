import { valueOf } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import { gainScore, pairedChange, type PairedChange } from '../statistics/index.js';
import type { HeldOutMeasurement, Iteration, ModuleSignals, Step } from './measurements.js';
import type { RuleSet } from './rule-set.js';
import { PRECEDENCE, RULES, type BreachSide, type RuleConfig, type RuleId } from './rules.js';
import { Ema, mean, median, Persistence } from './smoothing.js';

/** One rule at one iteration; the judge recomputes it and compares every member. */
export interface RuleEvaluation {
  readonly fired: boolean;
  readonly side: BreachSide;
  /** The smoothed signal that was compared, null where there is none yet. */
  readonly value: number | null;
  readonly threshold: number | null;
  /** Modules that breach, where the rule looks at modules. */
  readonly modules: readonly string[];
  /** Warm, not cooling down. */
  readonly eligible: boolean;
  /** This iteration gave the rule a reading. */
  readonly reading: boolean;
  /** Fired again soon after its remedy was executed. */
  readonly recurrence: boolean;
}

export interface Evaluation {
  readonly iteration: number;
  readonly rules: Readonly<Record<RuleId, RuleEvaluation>>;
  /** Fired rules, first the one that goes first. */
  readonly fired: readonly RuleId[];
  /** `S0`: no group has carried a gradient for as many iterations as rules persist. */
  readonly advisories: readonly 'S0'[];
}

/** What a rule concludes before eligibility, cool-down and recurrence are looked at. */
interface Finding {
  readonly side: BreachSide;
  readonly value: number | null;
  readonly threshold: number | null;
  readonly modules?: readonly string[];
  readonly reading: boolean;
  readonly warm: boolean;
}

interface Rule {
  read(iteration: Iteration, informative: boolean): Finding;
  /** After an executed remedy: smoothers are seeded by the next reading. */
  reseed(): void;
}

const NOTHING: Finding = { side: 'none', value: null, threshold: null, reading: false, warm: true };
const positive = (x: number): boolean => Number.isFinite(x) && x > 0;

/** NaN where the module has no such number. */
function readingOf(module: ModuleSignals, signal: string): number {
  const value = valueOf(module, signal);
  return typeof value === 'number' ? value : NaN;
}

/** Mean over the iteration's steps of a module's signal; only finite readings count. */
function moduleMeans(steps: readonly Step[], signal: string): Map<string, number> {
  const values = new Map<string, number[]>();
  for (const step of steps) {
    for (const [name, module] of Object.entries(step.modules)) {
      const value = readingOf(module, signal);
      if (!Number.isFinite(value)) continue;
      const list = values.get(name);
      if (list === undefined) values.set(name, [value]);
      else list.push(value);
    }
  }
  return new Map([...values].map(([name, list]) => [name, mean(list)]));
}

/** A signal smoothed as log10 with a persistence on each side. */
class LogBand {
  readonly #ema: Ema;
  readonly #high: Persistence;
  readonly #low: Persistence;

  constructor(
    config: RuleConfig,
    readonly low: number | null,
    readonly high: number | null,
  ) {
    this.#ema = new Ema(config.alpha);
    this.#high = new Persistence(config.persistence);
    this.#low = new Persistence(config.persistence);
  }

  update(x: number): { side: 'high' | 'low' | 'none'; value: number; threshold: number | null } {
    const value = 10 ** this.#ema.update(Math.log10(x));
    const high = this.#high.update(this.high !== null && value > this.high);
    const low = this.#low.update(this.low !== null && value < this.low);
    return { side: high ? 'high' : low ? 'low' : 'none', value, threshold: high ? this.high : low ? this.low : (this.high ?? this.low) };
  }

  get value(): number | null {
    return this.#ema.value === null ? null : 10 ** this.#ema.value;
  }

  reset(): void {
    this.#ema.reset();
    this.#high.reset();
    this.#low.reset();
  }
}

/**
 * Middle of R1's band, in logarithms. Below it a rate is small rather than large, and an objective that stands still asks for neither less
 * of it nor for capacity.
 */
const bandMiddle = ({ r1 }: RuleConfig): number => Math.sqrt(r1.updateRatioLow * r1.updateRatioHigh);

/** R1: how far a step moves the modules, KL, plateau of the train objective. */
class LearningRate implements Rule {
  readonly #band: LogBand;
  readonly #kl: Persistence;
  #objectives: { value: number; standardError: number }[] = [];
  #steps = 0;

  constructor(
    readonly config: RuleConfig,
    readonly signals: RuleSet['signals'],
  ) {
    this.#band = new LogBand(config, config.r1.updateRatioLow, config.r1.updateRatioHigh);
    this.#kl = new Persistence(config.persistence);
  }

  get ratio(): number | null {
    return this.#band.value;
  }

  read(iteration: Iteration, informative: boolean): Finding {
    this.#steps += iteration.steps.length;
    const warm = this.#steps >= this.config.r1.minSteps;
    const { klHigh, plateauPatience: patience } = this.config.r1;
    if (!informative) return { ...NOTHING, warm };
    const perStep = iteration.steps
      .map((step) =>
        median(
          Object.values(step.modules)
            .map((module) => readingOf(module, this.signals.change))
            .filter(Number.isFinite),
        ),
      )
      .filter(positive);
    const ratio = perStep.length === 0 ? null : this.#band.update(mean(perStep));
    const { kl, objective } = iteration;
    const klBreach = this.#kl.update(kl !== null && Number.isFinite(kl) && kl > klHigh);
    if (objective !== null && Number.isFinite(objective.value)) this.#objectives.push(objective);
    const reading = ratio !== null || kl !== null || objective !== null;
    if (ratio !== null && ratio.side !== 'none') return { ...ratio, reading, warm };
    if (klBreach) return { side: 'high', value: kl, threshold: klHigh, reading, warm };
    // a plateau wants a smaller rate, which is no cure where the weights hardly move
    const recent = (this.ratio ?? Infinity) < bandMiddle(this.config) ? [] : this.#objectives.slice(-patience);
    const earlier = this.#objectives.slice(0, -patience);
    const newest = recent.at(-1);
    if (objective !== null && newest !== undefined && earlier.length > 0 && newest.value < this.config.objectiveTarget) {
      const best = earlier.reduce((a, b) => (b.value > a.value ? b : a));
      const bar = best.value + best.standardError;
      if (recent.length === patience && recent.every(({ value }) => value <= bar))
        return { side: 'plateau', value: Math.max(...recent.map(({ value }) => value)), threshold: bar, reading, warm };
    }
    return { side: 'none', value: ratio?.value ?? this.#band.value, threshold: ratio?.threshold ?? null, reading, warm };
  }

  reseed(): void {
    this.#band.reset();
    this.#kl.reset();
    this.#objectives = [];
  }
}

/** R2: McCandlish's simple noise scale over the batch, from micro-batches of unequal size by their means. */
class BatchSize implements Rule {
  readonly #noise: Ema;
  readonly #signal: Ema;
  readonly #high: Persistence;
  readonly #low: Persistence;

  constructor(readonly config: RuleConfig) {
    this.#noise = new Ema(config.alpha);
    this.#signal = new Ema(config.alpha);
    this.#high = new Persistence(config.persistence);
    this.#low = new Persistence(config.persistence);
  }

  read(iteration: Iteration, informative: boolean): Finding {
    if (!informative) return NOTHING;
    const estimates = iteration.steps.flatMap((step) => {
      const parts = step.microBatchNorms.length;
      const norms = step.microBatchNorms.filter(Number.isFinite);
      if (parts < 2 || norms.length < parts || !Number.isFinite(step.gradNorm)) return [];
      const tokens = step.microBatchTokens;
      if (tokens.length !== parts) return [];
      const big = tokens.reduce((sum, x) => sum + x, 0);
      const small = parts / tokens.reduce((sum, x) => sum + 1 / x, 0); // harmonic mean: E‖g_b‖² = |G|² + S·E[1/b]
      if (!(small > 0 && small < big)) return [];
      const bigSquare = step.gradNorm ** 2;
      const smallSquare = mean(norms.map((x) => x * x));
      return [
        { signal: (big * bigSquare - small * smallSquare) / (big - small), noise: (smallSquare - bigSquare) / (1 / small - 1 / big), big },
      ];
    });
    if (estimates.length === 0) return NOTHING;
    const noise = this.#noise.update(mean(estimates.map((each) => each.noise)));
    const signal = this.#signal.update(mean(estimates.map((each) => each.signal)));
    const batch = mean(estimates.map((each) => each.big));
    const ratio = signal <= 0 ? Infinity : Math.max(0, noise) / signal / batch;
    const { noiseToBatchLow, noiseToBatchHigh } = this.config.r2;
    const high = this.#high.update(ratio > noiseToBatchHigh);
    const low = this.#low.update(ratio < noiseToBatchLow);
    return {
      side: high ? 'high' : low ? 'low' : 'none',
      value: ratio,
      threshold: low ? noiseToBatchLow : noiseToBatchHigh,
      reading: true,
      warm: true,
    };
  }

  reseed(): void {
    this.#noise.reset();
    this.#signal.reset();
    this.#high.reset();
    this.#low.reset();
  }
}

/**
 * R3: the last evaluations speak against an improvement. Each is compared with the best one before all of them on the same problems, so
 * that what counts is how many problems changed sides and not how far a rate may stray; a few problems that show nothing either way end no
 * run.
 */
class EarlyStop implements Rule {
  #evaluations: HeldOutMeasurement[] = [];
  #losses: number[] = [];

  constructor(readonly config: RuleConfig) {}

  read(iteration: Iteration): Finding {
    const { heldOut } = iteration;
    const { patience, z, minGain, minDelta } = this.config.r3;
    if (heldOut === null) return NOTHING;
    if ('loss' in heldOut) {
      if (!Number.isFinite(heldOut.loss)) return NOTHING;
      this.#losses.push(heldOut.loss);
      const earlier = this.#losses.slice(0, -patience);
      if (earlier.length === 0) return { ...NOTHING, reading: true, value: heldOut.loss };
      const bar = Math.min(...earlier) - minDelta;
      const best = Math.min(...this.#losses.slice(-patience));
      return { side: best >= bar ? 'plateau' : 'none', value: best, threshold: bar, reading: true, warm: true };
    }
    this.#evaluations.push(heldOut);
    const recent = this.#evaluations.slice(-patience);
    const changes = recent.map(({ verdicts }) => compared(recent[0]!.best, verdicts, iteration.iteration));
    const value = Math.max(...changes.map(({ gain, loss }) => gain - loss));
    const against = recent.length === patience && changes.every((change) => gainScore(change, minGain) < -z);
    return { side: against ? 'plateau' : 'none', value, threshold: minGain, reading: true, warm: recent.length === patience };
  }

  reseed(): void {
    this.#evaluations = [];
    this.#losses = [];
  }
}

function compared(before: HeldOutMeasurement['best'], after: HeldOutMeasurement['verdicts'], iteration: number): PairedChange {
  try {
    return pairedChange(before, after);
  } catch (cause) {
    throw new IsoproError('INVALID_ARGUMENT', `the held-out evaluations up to iteration ${iteration} are not of the same problems`, {
      cause,
    });
  }
}

/** R4: the objective has stopped rising below its target, and capacity is used up. The caller adds that R5 to R7 are silent. */
class Capacity implements Rule {
  #objectives: number[] = [];
  readonly #flat: Persistence;

  constructor(
    readonly config: RuleConfig,
    readonly signals: RuleSet['signals'],
  ) {
    this.#flat = new Persistence(config.persistence);
  }

  read(iteration: Iteration): Finding {
    const { objective } = iteration;
    const { window, saturationGap, rankUse } = this.config.r4;
    if (objective === null || !Number.isFinite(objective.value)) return NOTHING;
    this.#objectives.push(objective.value);
    if (this.#objectives.length < window) return { ...NOTHING, reading: true, warm: false };
    const bound = slopeUpperBound(this.#objectives.slice(-window));
    const flat = this.#flat.update(bound < saturationGap);
    const { capacity } = this.signals;
    const use = capacity === null ? new Map<string, number>() : moduleMeans(iteration.steps, capacity);
    const full = [...use].filter(([, value]) => value >= rankUse).map(([name]) => name);
    const usedUp = capacity === null || (use.size > 0 && full.length * 2 >= use.size);
    const saturated = flat && objective.value < this.config.objectiveTarget && usedUp;
    return {
      side: saturated ? 'plateau' : 'none',
      value: bound,
      threshold: saturationGap,
      modules: saturated ? full : [],
      reading: true,
      warm: true,
    };
  }

  reseed(): void {
    this.#objectives = [];
    this.#flat.reset();
  }
}

/** Least-squares slope of y over 0, 1, 2, … plus one standard error of it. */
export function slopeUpperBound(y: readonly number[]): number {
  const n = y.length;
  const center = (n - 1) / 2;
  const average = mean(y);
  const spread = y.reduce((sum, _, i) => sum + (i - center) ** 2, 0);
  const slope = y.reduce((sum, value, i) => sum + (i - center) * (value - average), 0) / spread;
  const residual = y.reduce((sum, value, i) => sum + (value - average - slope * (i - center)) ** 2, 0);
  return slope + (n > 2 ? Math.sqrt(residual / (n - 2) / spread) : 0);
}

/** Steps in which some module has begun to contribute. */
const begunSteps = (steps: readonly Step[], { begun }: RuleSet['signals']): readonly Step[] =>
  begun === null ? steps : steps.filter((step) => Object.values(step.modules).some((module) => readingOf(module, begun) > 0));

/** R5: the module of which the largest part is dormant. */
class Dormancy implements Rule {
  readonly #ema: Ema;
  readonly #high: Persistence;
  #steps = 0;

  constructor(
    readonly config: RuleConfig,
    readonly signals: RuleSet['signals'],
  ) {
    this.#ema = new Ema(config.alpha);
    this.#high = new Persistence(config.persistence);
  }

  read(iteration: Iteration, informative: boolean): Finding {
    const trained = begunSteps(iteration.steps, this.signals);
    this.#steps += trained.length;
    const last = trained.at(-1);
    const warm = this.#steps >= this.config.r5.minSteps;
    const { dormancy, begun } = this.signals;
    // what is younger than the warm-up looks dormant without being it, so its readings do not enter the average either
    if (dormancy === null || !informative || last === undefined || !warm) return { ...NOTHING, warm };
    const limit = this.config.r5.dormantFraction;
    const fractions = Object.entries(last.modules)
      .filter(([, module]) => begun === null || readingOf(module, begun) > 0)
      .map(([name, module]): [string, number] => [name, readingOf(module, dormancy)])
      .filter(([, fraction]) => Number.isFinite(fraction));
    if (fractions.length === 0) return { ...NOTHING, warm };
    const value = this.#ema.update(Math.max(...fractions.map(([, fraction]) => fraction)));
    const side = this.#high.update(value > limit) ? 'high' : 'none';
    return {
      side,
      value,
      threshold: limit,
      modules: side === 'high' ? fractions.filter(([, fraction]) => fraction > limit).map(([name]) => name) : [],
      reading: true,
      warm,
    };
  }

  reseed(): void {
    this.#ema.reset();
    this.#high.reset();
    this.#steps = 0;
  }
}

/** R6: a module whose gradient is a vanishing part of the median module's, or exactly zero. */
class Vanishing implements Rule {
  readonly #band: LogBand;
  readonly #zero: Persistence;
  #steps = 0;

  constructor(
    readonly config: RuleConfig,
    readonly signals: RuleSet['signals'],
  ) {
    this.#band = new LogBand(config, config.r6.relativeGradientLow, null);
    this.#zero = new Persistence(config.persistence);
  }

  read(iteration: Iteration, informative: boolean): Finding {
    const trained = begunSteps(iteration.steps, this.signals);
    this.#steps += trained.length;
    const warm = this.#steps >= this.config.r6.minSteps;
    const limit = this.config.r6.relativeGradientLow;
    if (!informative || !warm) return { ...NOTHING, warm };
    const norms = [...moduleMeans(trained, this.signals.gradient)].map(([name, norm]): [string, number] => [
      name,
      norm / Math.sqrt(valueOf(iteration.parameters, name) ?? 1),
    ]);
    const middle = median(norms.map(([, norm]) => norm));
    if (norms.length === 0 || !positive(middle)) return { ...NOTHING, warm };
    const smallest = Math.min(...norms.map(([, norm]) => norm));
    const below = (): string[] => norms.filter(([, norm]) => norm < limit * middle).map(([name]) => name);
    const zero = this.#zero.update(smallest === 0);
    if (smallest === 0)
      // log 0 is no reading of the average
      return { side: zero ? 'low' : 'none', value: 0, threshold: limit, modules: zero ? below() : [], reading: true, warm };
    const { side, value } = this.#band.update(smallest / middle);
    return { side, value, threshold: limit, modules: side === 'low' ? below() : [], reading: true, warm };
  }

  reseed(): void {
    this.#band.reset();
    this.#zero.reset();
  }
}

/** R7: something not finite, at once; gradients far above their own past; too much clipping. */
class Exploding implements Rule {
  #baseline: number[] = [];
  readonly #ratio: Persistence;
  readonly #unusual: Persistence;
  readonly #clipped: Persistence;
  #warmup: number[] = [];
  #warmupClipped = 0;
  #center = 0;
  #variance = 0;

  constructor(
    readonly config: RuleConfig,
    readonly signals: RuleSet['signals'],
  ) {
    this.#ratio = new Persistence(config.persistence);
    this.#unusual = new Persistence(config.persistence);
    this.#clipped = new Persistence(config.persistence);
  }

  /** z-score of a step's log gradient norm; the statistics take in at most a z of zHigh (ZClip), so that a spike does not hide the next. */
  #score({ gradNorm, clipped }: Step): number {
    const { zHigh, zDecay, zWarmupSteps } = this.config.r7;
    const x = Math.log(gradNorm);
    if (this.#warmup.length < zWarmupSteps) {
      this.#warmup.push(x);
      if (clipped) this.#warmupClipped++;
      this.#center = mean(this.#warmup);
      this.#variance = mean(this.#warmup.map((each) => (each - this.#center) ** 2));
      return 0;
    }
    const deviation = Math.sqrt(Math.max(this.#variance, 1e-12));
    const z = (x - this.#center) / deviation;
    const taken = Math.min(x, this.#center + zHigh * deviation);
    this.#variance = zDecay * this.#variance + (1 - zDecay) * (taken - this.#center) ** 2;
    this.#center = zDecay * this.#center + (1 - zDecay) * taken;
    return z;
  }

  read(iteration: Iteration): Finding {
    const { steps } = iteration;
    const { ratioHigh, zHigh, clipFraction } = this.config.r7;
    if (steps.length === 0) return NOTHING;
    const broken = steps.filter((step) => step.nonFinite.length > 0 || !Number.isFinite(step.loss) || !Number.isFinite(step.gradNorm));
    const sound = steps.filter((step) => !broken.includes(step) && step.gradNorm > 0);
    const largest = moduleMeans(sound, this.signals.gradient);
    const top = [...largest].reduce<[string, number] | null>((best, each) => (best === null || each[1] > best[1] ? each : best), null);
    const usual = median(this.#baseline);
    const ratio = top === null || this.#baseline.length < this.config.persistence ? null : top[1] / usual;
    const exceeds = ratio !== null && ratio > ratioHigh;
    if (top !== null && !exceeds && top[1] > 0) this.#baseline.push(top[1]);
    const ratioFired = this.#ratio.update(exceeds);
    const scores = sound.map((step) => this.#score(step));
    const unusual = this.#unusual.update(scores.filter((z) => z > zHigh).length * 2 > steps.length);
    const part = steps.filter((step) => step.clipped).length / steps.length;
    // a bound within the healthy gradient's range clips from the first steps on; that is a setting, and only of a bound above it clipping
    // is news
    const bounded = this.#warmup.length >= this.config.r7.zWarmupSteps && this.#warmupClipped * 4 <= this.#warmup.length;
    const clipped = this.#clipped.update(bounded && part > clipFraction);
    if (broken.length > 0)
      return {
        side: 'nonfinite',
        value: broken.length,
        threshold: 0,
        modules: [...new Set(broken.flatMap((step) => step.nonFinite))],
        reading: true,
        warm: true,
      };
    const modules = [...largest].filter(([, norm]) => norm > ratioHigh * usual).map(([name]) => name);
    if (ratioFired) return { side: 'high', value: ratio, threshold: ratioHigh, modules, reading: true, warm: true };
    if (unusual) return { side: 'high', value: median(scores), threshold: zHigh, reading: true, warm: true };
    if (clipped) return { side: 'high', value: part, threshold: clipFraction, reading: true, warm: true };
    return { side: 'none', value: ratio, threshold: ratioHigh, reading: true, warm: true };
  }

  reseed(): void {
    this.#ratio.reset();
    this.#unusual.reset();
    this.#clipped.reset();
    this.#warmup = [];
    this.#warmupClipped = 0;
  }
}

/**
 * The seven rules at the newest iteration of a history. Pure: the same history and configuration give the same answer, so a judge can
 * repeat it from the metrics stream. Readings that are not finite reach no smoother; iterations without signal give R1, R2, R5 and R6
 * no reading.
 * @throws IsoproError INVALID_ARGUMENT for an empty history or iterations that do not ascend
 */
export function evaluateRules(history: readonly Iteration[], config: RuleConfig, ruleSet: RuleSet): Evaluation {
  const evaluations = evaluateHistory(history, config, ruleSet);
  const newest = evaluations.at(-1);
  if (newest === undefined) throw new IsoproError('INVALID_ARGUMENT', 'rules are evaluated over at least one iteration');
  return newest;
}

/** The same for every iteration of a history. @throws IsoproError INVALID_ARGUMENT */
export function evaluateHistory(history: readonly Iteration[], config: RuleConfig, { signals }: RuleSet): Evaluation[] {
  const learningRate = new LearningRate(config, signals);
  const rules: Record<RuleId, Rule> = {
    R1: learningRate,
    R2: new BatchSize(config),
    R3: new EarlyStop(config),
    R4: new Capacity(config, signals),
    R5: new Dormancy(config, signals),
    R6: new Vanishing(config, signals),
    R7: new Exploding(config, signals),
  };
  const executedAt = new Map<RuleId, number>();
  const noSignal = new Persistence(config.persistence);
  let last = -Infinity;
  return history.map((iteration) => {
    const now = iteration.iteration;
    if (!Number.isSafeInteger(now) || now <= last) throw new IsoproError('INVALID_ARGUMENT', `iteration ${now} does not follow ${last}`);
    last = now;
    const informative = iteration.informativeGroupFraction > 0;
    const findings = Object.fromEntries(RULES.map((rule) => [rule, rules[rule].read(iteration, informative)])) as Record<RuleId, Finding>;
    const conclude = (rule: RuleId, finding: Finding): RuleEvaluation => {
      const executed = executedAt.get(rule);
      const since = executed === undefined ? Infinity : now - executed;
      const cooling = since <= config.coolDown && finding.side !== 'nonfinite';
      const eligible = finding.warm && !cooling;
      const fired = eligible && finding.side !== 'none';
      return {
        fired,
        side: fired ? finding.side : 'none',
        value: finding.value,
        threshold: finding.threshold,
        modules: fired ? [...(finding.modules ?? [])].sort() : [],
        eligible,
        reading: finding.reading,
        recurrence: fired && since <= config.recurrenceWindow,
      };
    };
    const concluded = Object.fromEntries(RULES.map((rule) => [rule, conclude(rule, findings[rule])])) as Record<RuleId, RuleEvaluation>;
    // growing is no answer to sick gradients or a wrong rate
    const ratio = learningRate.ratio;
    const inBand = ratio === null || (ratio >= bandMiddle(config) && ratio <= config.r1.updateRatioHigh);
    if (concluded.R4.fired && (concluded.R5.fired || concluded.R6.fired || concluded.R7.fired || !inBand)) {
      concluded.R4 = { ...concluded.R4, fired: false, side: 'none', modules: [], recurrence: false };
    }
    for (const rule of iteration.executed) {
      executedAt.set(rule, now);
      rules[rule].reseed();
      if (rule === 'R4') rules.R5.reseed(); // what is new is not dormant yet
    }
    return {
      iteration: now,
      rules: concluded,
      fired: PRECEDENCE.filter((rule) => concluded[rule].fired),
      advisories: noSignal.update(!informative) ? ['S0' as const] : [],
    };
  });
}
