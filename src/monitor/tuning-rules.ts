/** The rules of the class `tuning`: is the learning rate right (R1), and the batch (R2)? */
import { found, NOTHING, positive, readingOf, Rule, type Finding } from './finding.js';
import type { Iteration } from './measurements.js';
import type { RuleConfig } from './rules.js';
import { Ema, LogBand, mean, median, Persistence } from './smoothing.js';

/**
 * Returns the logarithmic middle of R1's band. Below it a rate is small rather than large, so a
 * stalled objective calls for neither a lower rate nor more capacity.
 */
export const bandMiddle = ({ r1 }: RuleConfig): number =>
  Math.sqrt(r1.updateRatioLow * r1.updateRatioHigh);

/** R1: how far a step moves the modules, KL, plateau of the train objective. */
export class LearningRate extends Rule {
  readonly #band = new LogBand(
    this.config,
    this.config.r1.updateRatioLow,
    this.config.r1.updateRatioHigh,
  );
  readonly #kl = new Persistence(this.config.persistence);
  #objectives: { value: number; standardError: number }[] = [];
  #steps = 0;

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
    if (ratio !== null && ratio.side !== 'none')
      return { ...found(ratio.side, ratio.value, ratio.threshold), warm };
    if (klBreach) return { ...found('high', kl, klHigh), warm };
    // a plateau calls for a smaller rate, which does not help if the weights hardly move
    const recent =
      (this.ratio ?? Infinity) < bandMiddle(this.config) ? [] : this.#objectives.slice(-patience);
    const earlier = this.#objectives.slice(0, -patience);
    const newest = recent.at(-1);
    if (
      objective !== null &&
      newest !== undefined &&
      earlier.length > 0 &&
      newest.value < this.config.objectiveTarget
    ) {
      const best = earlier.reduce((a, b) => (b.value > a.value ? b : a));
      const bar = best.value + best.standardError;
      if (recent.length === patience && recent.every(({ value }) => value <= bar))
        return { ...found('plateau', Math.max(...recent.map(({ value }) => value)), bar), warm };
    }
    const none = found('none', ratio?.value ?? this.#band.value, ratio?.threshold ?? null);
    return { ...none, reading, warm };
  }

  reseed(): void {
    this.#band.reset();
    this.#kl.reset();
    this.#objectives = [];
  }
}

/**
 * R2: McCandlish's simple noise scale over the batch, from micro-batches of unequal size by their
 * means.
 */
export class BatchSize extends Rule {
  readonly #noise = new Ema(this.config.alpha);
  readonly #signal = new Ema(this.config.alpha);
  readonly #high = new Persistence(this.config.persistence);
  readonly #low = new Persistence(this.config.persistence);

  read(iteration: Iteration, informative: boolean): Finding {
    if (!informative) return NOTHING;
    const estimates = iteration.steps.flatMap((step) => {
      const parts = step.microBatchNorms.length;
      const norms = step.microBatchNorms.filter(Number.isFinite);
      if (parts < 2 || norms.length < parts || !Number.isFinite(step.gradNorm)) return [];
      const tokens = step.microBatchTokens;
      if (tokens.length !== parts) return [];
      const big = tokens.reduce((sum, x) => sum + x, 0);
      // harmonic mean: E‖g_b‖² = |G|² + S·E[1/b]
      const small = parts / tokens.reduce((sum, x) => sum + 1 / x, 0);
      if (!(small > 0 && small < big)) return [];
      const bigSquare = step.gradNorm ** 2;
      const smallSquare = mean(norms.map((x) => x * x));
      return [
        {
          signal: (big * bigSquare - small * smallSquare) / (big - small),
          noise: (smallSquare - bigSquare) / (1 / small - 1 / big),
          big,
        },
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
    const side = high ? 'high' : low ? 'low' : 'none';
    return found(side, ratio, low ? noiseToBatchLow : noiseToBatchHigh);
  }

  reseed(): void {
    this.#noise.reset();
    this.#signal.reset();
    this.#high.reset();
    this.#low.reset();
  }
}
