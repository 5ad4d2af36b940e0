/** The rules of the class `stability`: do gradients vanish (R6), or explode (R7)? */
import { ownValue } from '../dictionary.js';
import {
  begunSteps,
  found,
  moduleMeans,
  NOTHING,
  positive,
  Rule,
  type Finding,
} from './finding.js';
import type { Iteration, Step } from './measurements.js';
import { LogBand, mean, median, Persistence } from './smoothing.js';

/** R6: a module whose gradient is a vanishing part of the median module's, or exactly zero. */
export class Vanishing extends Rule {
  readonly #band = new LogBand(this.config, this.config.r6.relativeGradientLow, null);
  readonly #zero = new Persistence(this.config.persistence);
  #steps = 0;

  read(iteration: Iteration, informative: boolean): Finding {
    const trained = begunSteps(iteration.steps, this.signals);
    this.#steps += trained.length;
    const warm = this.#steps >= this.config.r6.minSteps;
    const limit = this.config.r6.relativeGradientLow;
    if (!informative || !warm) return { ...NOTHING, warm };
    const norms = [...moduleMeans(trained, this.signals.gradient)].map(
      ([name, norm]): [string, number] => [
        name,
        norm / Math.sqrt(ownValue(iteration.parameters, name) ?? 1),
      ],
    );
    const middle = median(norms.map(([, norm]) => norm));
    if (norms.length === 0 || !positive(middle)) return { ...NOTHING, warm };
    const smallest = Math.min(...norms.map(([, norm]) => norm));
    const below = norms.filter(([, norm]) => norm < limit * middle).map(([name]) => name);
    const zero = this.#zero.update(smallest === 0);
    // log 0 is not a reading for the average
    const { side, value } =
      smallest === 0
        ? ({ side: zero ? 'low' : 'none', value: 0 } as const)
        : this.#band.update(smallest / middle);
    return found(side, value, limit, side === 'low' ? below : []);
  }

  reseed(): void {
    this.#band.reset();
    this.#zero.reset();
  }
}

/** R7: something not finite, at once; gradients far above their own past; too much clipping. */
export class Exploding extends Rule {
  #baseline: number[] = [];
  readonly #ratio = new Persistence(this.config.persistence);
  readonly #unusual = new Persistence(this.config.persistence);
  readonly #clipped = new Persistence(this.config.persistence);
  #warmup: number[] = [];
  #warmupClipped = 0;
  #center = 0;
  #variance = 0;

  /**
   * z-score of a step's log gradient norm; the statistics take in at most a z of zHigh (ZClip), so
   * that a spike does not hide the next.
   */
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
    const broken = steps.filter(
      (step) =>
        step.nonFinite.length > 0 || !Number.isFinite(step.loss) || !Number.isFinite(step.gradNorm),
    );
    const sound = steps.filter((step) => !broken.includes(step) && step.gradNorm > 0);
    const largest = moduleMeans(sound, this.signals.gradient);
    const top = [...largest].reduce<[string, number] | null>(
      (best, each) => (best === null || each[1] > best[1] ? each : best),
      null,
    );
    const usual = median(this.#baseline);
    const ratio =
      top === null || this.#baseline.length < this.config.persistence ? null : top[1] / usual;
    const exceeds = ratio !== null && ratio > ratioHigh;
    if (top !== null && !exceeds && top[1] > 0) this.#baseline.push(top[1]);
    const ratioFired = this.#ratio.update(exceeds);
    const scores = sound.map((step) => this.#score(step));
    const unusual = this.#unusual.update(scores.filter((z) => z > zHigh).length * 2 > steps.length);
    const part = steps.filter((step) => step.clipped).length / steps.length;
    // a bound within the healthy gradient's range clips from the first steps on; that is a setting,
    // and only of a bound above it clipping is news
    const bounded =
      this.#warmup.length >= this.config.r7.zWarmupSteps &&
      this.#warmupClipped * 4 <= this.#warmup.length;
    const clipped = this.#clipped.update(bounded && part > clipFraction);
    if (broken.length > 0) {
      const names = new Set(broken.flatMap((step) => step.nonFinite));
      return found('nonfinite', broken.length, 0, [...names]);
    }
    const above = [...largest].filter(([, norm]) => norm > ratioHigh * usual);
    if (ratioFired)
      return found(
        'high',
        ratio,
        ratioHigh,
        above.map(([name]) => name),
      );
    if (unusual) return found('high', median(scores), zHigh);
    if (clipped) return found('high', part, clipFraction);
    return found('none', ratio, ratioHigh);
  }

  reseed(): void {
    this.#ratio.reset();
    this.#unusual.reset();
    this.#clipped.reset();
    this.#warmup = [];
    this.#warmupClipped = 0;
  }
}
