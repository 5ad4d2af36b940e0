/** How long a run will still take, from what its stages have taken so far. For people only: nothing of it enters results or logs. */
import type { RunProgress, Stage } from '../training/hooks.js';

/** What is known of a run's work before it begins. */
export interface PlannedWork {
  /** Problems of a tier. */
  readonly testSize: number;
  readonly devSize: number;
  /** Of an iteration. */
  readonly rollouts: number;
}

/** An iteration's training as a part of its sampling, until it has been measured. */
const TRAINING_GUESS = 0.4;

export class TimeLeft {
  readonly #planned: PlannedWork | undefined;
  /** Seconds that a stage took when it was last gone through. */
  readonly #taken = new Map<Stage, number>();
  readonly #totals = new Map<Stage, number>();
  /** Seconds a problem of an evaluation. */
  #pace: number | null = null;
  #progress: RunProgress | null = null;
  #stageBegun = 0;
  /** A stage goes through its problems again where they are answered under a grammar too. */
  #passBegun = 0;
  #latest = 0;

  constructor(planned?: PlannedWork) {
    this.#planned = planned;
  }

  /** @param now milliseconds */
  take(progress: RunProgress, now: number): void {
    const { stage, iteration, done, total } = progress;
    const before = this.#progress;
    if (before === null || before.stage !== stage || before.iteration !== iteration) {
      if (before !== null) this.#taken.set(before.stage, (now - this.#stageBegun) / 1000);
      this.#stageBegun = this.#passBegun = this.#latest = now;
    } else if (done < before.done) this.#passBegun = now;
    if (done !== before?.done) this.#latest = now;
    if (total > 0) this.#totals.set(stage, total);
    if (done > 0 && (stage === 'before' || stage === 'dev' || stage === 'after')) this.#pace = (now - this.#passBegun) / 1000 / done;
    this.#progress = progress;
  }

  /** Seconds to the end of the run, the test after training included; null until the first answers tell. */
  left(now: number): number | null {
    if (this.#progress === null) return null;
    const { stage, iteration, iterations } = this.#progress;
    const [rollouts, training, dev, after] = (['rollouts', 'training', 'dev', 'after'] as const).map((each) => this.#of(each));
    const rest = this.#rest(now);
    if (stage === 'after' || stage === 'forgetting' || stage === 'close') return rest;
    if (rest === null || rollouts == null || training == null || dev == null || after == null) return null;
    const following = { load: dev, before: dev, rollouts: training + dev, layers: training + dev, training: dev, dev: 0 }[stage];
    return rest + following + (iterations - iteration) * (rollouts + training + dev) + after;
  }

  /** Of the stage that is going on: at its own pace, else what it took before. */
  #rest(now: number): number | null {
    const { stage, done, total } = this.#progress!;
    if (done > 0 && total > 0) return Math.max(0, (((this.#latest - this.#passBegun) / done) * total - (now - this.#passBegun)) / 1000);
    const whole = this.#of(stage);
    return whole === null ? null : Math.max(0, whole - (now - this.#stageBegun) / 1000);
  }

  /** Seconds of a whole stage: as it was, else as others let expect. */
  #of(stage: Stage): number | null {
    const answers = (count: number | undefined): number | null => (this.#pace === null || count === undefined ? null : this.#pace * count);
    const { testSize = 1, devSize = 1, rollouts } = this.#planned ?? {};
    switch (stage) {
      case 'before':
      case 'after':
        return (
          this.#taken.get(stage) ??
          this.#taken.get('before') ??
          answers(this.#totals.get('before') ?? ((this.#totals.get('dev') ?? NaN) * testSize) / devSize)
        );
      case 'dev':
        return this.#taken.get(stage) ?? answers(this.#totals.get('dev') ?? ((this.#totals.get('before') ?? NaN) * devSize) / testSize);
      case 'rollouts':
        return this.#taken.get(stage) ?? answers(this.#totals.get(stage) ?? rollouts);
      case 'training': {
        const sampling = this.#of('rollouts');
        return this.#taken.get(stage) ?? (sampling === null ? null : TRAINING_GUESS * sampling);
      }
      default:
        return 0; // short beside the others, or not known
    }
  }
}
