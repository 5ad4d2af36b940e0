/**
 * Estimate of the remaining time of a run from its stages so far. It is for display only and enters
 * neither results nor logs.
 */
import { forgettingTextCount, type PlannedWork } from '../../operations/planned-work.js';
import type { RunProgress, Stage } from '../../training/hooks.js';

/**
 * Costs relative to tokens that are read, until they are measured: a prompt, a sampled token, and a
 * text of the forgetting measurement (SmolLM2-135M, two cores). A trained sequence takes about as
 * long as an answer.
 */
const [PROMPT, SAMPLED, FORGETTING_TEXT] = [60, 3, 79];
/** Share of a stage from which only its own pace counts, since first answers end together. */
const TRUSTED = 1 / 4;

export class TimeLeft {
  #planned: PlannedWork | undefined;
  /** Seconds that a stage took when it was last gone through. */
  readonly #taken = new Map<Stage, number>();
  readonly #totals = new Map<Stage, number>();
  /** Seconds per problem of an evaluation, and tokens per reply. */
  #pace: number | null = null;
  #replyTokens = 0;
  /** Share of the replies that pass, as far as is known. */
  #passRate: number | null = null;
  /** Rollouts of an iteration that may be trained on. */
  readonly #usable = new Map<number, number>();
  /** The iteration whose steps were timed last. */
  #trainedIteration = 0;
  #progress: RunProgress | null = null;
  #told = 0;
  #stageBegun = 0;
  /** A stage goes through its problems again where they are answered under a grammar too. */
  #passBegun = 0;
  #latest = 0;

  constructor(planned?: PlannedWork) {
    this.#planned = planned;
  }

  /** Takes the plan of the run once model and task are known. */
  plan(planned: PlannedWork): void {
    this.#planned = planned;
  }

  /** @param now milliseconds */
  take(progress: RunProgress, now: number): void {
    const { stage, iteration, done, total, tokens } = progress;
    const before = this.#progress;
    if (before === null || before.stage !== stage || before.iteration !== iteration) {
      // a stage that is first heard of with some of it done began where the one before was last
      // heard of
      const begun = done === 0 || before === null ? now : this.#told;
      if (before !== null) this.#taken.set(before.stage, (begun - this.#stageBegun) / 1000);
      if (before?.stage === 'training') this.#trainedIteration = before.iteration;
      this.#stageBegun = this.#passBegun = this.#latest = begun;
    } else if (done < before.done) this.#passBegun = now;
    if (done !== before?.done) this.#latest = now;
    if (total > 0) this.#totals.set(stage, total);
    this.#takeHits(progress);
    const isEvaluation = stage === 'before' || stage === 'dev' || stage === 'after';
    if (isEvaluation && done > 0 && (this.#pace === null || done >= TRUSTED * total)) {
      this.#pace = (now - this.#passBegun) / 1000 / this.#answered(done, total);
      this.#replyTokens = tokens / done;
    }
    this.#progress = progress;
    this.#told = now;
  }

  /**
   * Seconds to the end of the run, the test and the measure of forgetting included; null until the
   * first answers tell.
   */
  left(now: number): number | null {
    if (this.#progress === null) return null;
    const { stage, iteration, iterations } = this.#progress;
    const [rollouts, dev, after] = (['rollouts', 'dev', 'after'] as const).map((each) =>
      this.#of(each),
    );
    const training = this.#training(iteration);
    const rest = this.#rest(now);
    if (stage === 'forgetting' || stage === 'close') return rest;
    const forgetting = this.#of('forgetting');
    if (stage === 'after' || stage === 'restraint')
      return rest === null
        ? null
        : rest + (stage === 'restraint' ? (after ?? 0) : 0) + (forgetting ?? 0);
    if (
      rest === null ||
      rollouts == null ||
      training == null ||
      dev == null ||
      after == null ||
      forgetting === null
    )
      return null;
    const following = {
      load: dev,
      before: dev,
      rollouts: training + dev,
      layers: training + dev,
      training: dev,
      dev: 0,
    }[stage];
    let coming = 0;
    for (let next = iteration + 1; next <= iterations; next++)
      coming += rollouts + (this.#training(next) ?? training) + dev;
    return rest + following + coming + after + forgetting;
  }

  #takeHits({ stage, iteration, done, total, hits }: RunProgress): void {
    const [passed, decided] = Object.values(hits).reduce(
      ([p, d], of) => [p + of.passed, d + of.decided],
      [0, 0],
    );
    if (decided === 0) return;
    // the test after training tells of nothing that is to come
    if (
      stage !== 'after' &&
      (this.#passRate === null || stage === 'before' || done >= TRUSTED * total)
    )
      this.#passRate = (passed + 1) / (decided + 2); // few say little
    if (stage === 'rollouts')
      this.#usable.set(
        iteration,
        (this.#planned?.reuse?.passing === true ? passed / decided : 1) * total,
      );
  }

  /** Seconds of the steps of an iteration. */
  #training(iteration: number): number | null {
    const { trained = 0 } = this.#planned ?? {};
    const taken = this.#taken.get('training');
    if (taken === undefined)
      return this.#pace === null
        ? null
        : this.#pace * Math.min(trained, this.#sequences(iteration));
    const then = Math.min(trained, this.#sequences(this.#trainedIteration));
    return then === 0 ? taken : (taken * Math.min(trained, this.#sequences(iteration))) / then;
  }

  /**
   * Sequences that an iteration can train on, each as often as it may be used: few if few rollouts
   * pass.
   */
  #sequences(iteration: number): number {
    const { reuse, rollouts } = this.#planned ?? {};
    if (reuse === undefined || rollouts === undefined) return Infinity;
    const expected =
      (reuse.passing ? (this.#passRate ?? 1) : 1) * (this.#totals.get('rollouts') ?? rollouts);
    let usable = 0;
    for (let i = reuse.earlier ? 1 : iteration; i <= iteration; i++)
      usable += this.#usable.get(i) ?? expected;
    return reuse.uses * usable;
  }

  /**
   * Answered problems plus half of the running ones; without those, the first answers would suggest
   * several times the duration.
   */
  #answered(done: number, total: number): number {
    return done + Math.min(this.#planned?.together ?? 0, total - done) / 2;
  }

  /**
   * Remaining seconds of the current stage: by its own pace as far as that is reliable, otherwise
   * by the expectation.
   */
  #rest(now: number): number | null {
    const { stage, done, total } = this.#progress!;
    const expected = this.#of(stage);
    const gone = (now - this.#passBegun) / 1000;
    if (done === 0 || total === 0) return expected === null ? null : Math.max(0, expected - gone);
    const one = stage === 'training' || stage === 'forgetting' || stage === 'restraint';
    const answered = one ? done : this.#answered(done, total);
    const own = ((this.#latest - this.#passBegun) / 1000 / answered) * total;
    const trust = expected === null ? 1 : Math.min(1, done / total / TRUSTED);
    return Math.max(0, trust * own + (1 - trust) * (expected ?? 0) - gone);
  }

  /** Seconds of a whole stage: as it was, else as others let expect. */
  #of(stage: Stage): number | null {
    const answers = (count: number | undefined): number | null =>
      this.#pace === null || count === undefined ? null : this.#pace * count;
    const {
      testSize = 1,
      devSize = 1,
      rollouts,
      samples = 1,
      forgetting = 0,
    } = this.#planned ?? {};
    const [whole, reply] = [PROMPT + SAMPLED * this.#replyTokens, SAMPLED * this.#replyTokens];
    switch (stage) {
      case 'before':
      case 'after':
        return (
          this.#taken.get(stage) ??
          this.#taken.get('before') ??
          answers(
            this.#totals.get('before') ?? ((this.#totals.get('dev') ?? NaN) * testSize) / devSize,
          )
        );
      case 'dev':
        return (
          this.#taken.get(stage) ??
          answers(
            this.#totals.get('dev') ?? ((this.#totals.get('before') ?? NaN) * devSize) / testSize,
          )
        );
      case 'rollouts': {
        // the samples of a prompt share what is read of it
        const count = this.#totals.get(stage) ?? rollouts;
        return (
          this.#taken.get(stage) ??
          answers(count === undefined ? undefined : (count * (PROMPT / samples + reply)) / whole)
        );
      }
      case 'training':
        return this.#training(this.#progress!.iteration);
      case 'forgetting':
        return answers(
          (forgettingTextCount(forgetting) * Math.min(whole, FORGETTING_TEXT)) / whole,
        );
      default:
        return 0; // short beside the others, or not known
    }
  }
}
