/** R3, the rule of the class `process`: has the run stopped gaining? */
import { IsoproError } from '../errors.js';
import { gainScore, pairedChange, type PairedChange } from '../statistics/index.js';
import { found, NOTHING, Rule, type Finding } from './finding.js';
import type { HeldOutMeasurement, Iteration } from './measurements.js';

/**
 * Fires when the last evaluations are evidence against an improvement. Each is compared with the
 * best one before all of them on the same problems, so that the number of problems that changed
 * sides counts and not how far a rate may drift. A few problems that show nothing do not end a run.
 */
export class EarlyStop extends Rule {
  #evaluations: HeldOutMeasurement[] = [];
  #losses: number[] = [];

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
      return found(best >= bar ? 'plateau' : 'none', best, bar);
    }
    // an adapter that no step has changed is not evidence
    if (iteration.steps.length === 0) return NOTHING;
    this.#evaluations.push(heldOut);
    const recent = this.#evaluations.slice(-patience);
    const changes = recent.map(({ verdicts }) =>
      compared(recent[0]!.best, verdicts, iteration.iteration),
    );
    const value = Math.max(...changes.map(({ gain, loss }) => gain - loss));
    const against =
      recent.length === patience && changes.every((change) => gainScore(change, minGain) < -z);
    const warm = recent.length === patience;
    return { ...found(against ? 'plateau' : 'none', value, minGain), warm };
  }

  reseed(): void {
    this.#evaluations = [];
    this.#losses = [];
  }
}

function compared(
  before: HeldOutMeasurement['best'],
  after: HeldOutMeasurement['verdicts'],
  iteration: number,
): PairedChange {
  try {
    return pairedChange(before, after);
  } catch (cause) {
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the held-out evaluations up to iteration ${iteration} cover different problems`,
      {
        cause,
      },
    );
  }
}
