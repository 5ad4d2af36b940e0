import { z } from 'zod';
import { algorithmOf } from '../algorithms/index.js';
import { ReplayBuffer } from '../algorithms/replay-buffer.js';
import { mostSteps } from '../algorithms/steps.js';
import { inTurns, type LogRecord } from '../log/read.js';
import { deriveSeed } from '../random.js';
import { adapterState, gate, sessionEnd } from '../run-folder/course-records.js';
import { isTrainedOn } from '../run-folder/derived-figures.js';
import type { RunStart } from '../run-folder/manifest.js';
import { anyEffect } from '../run-folder/monitor-records.js';
import { readRecord } from '../run-folder/record.js';
import { readRolloutsRecord, type RolloutsRecord } from '../run-folder/rollout-records.js';
import { courseSettings, type CourseSettings } from './course-settings.js';
import type { CheckedFigures } from './figures.js';
import type { Findings } from './findings.js';
import { failing } from './hard-fail.js';
import { planCheck } from './plan.js';
import { scheduleFactor } from './schedule.js';
import type { Step } from './step.js';
import { plural } from './trace.js';

/**
 * Checks that the submitted adapter has the course that the settings require. The iterations, the
 * rollouts with their seeds and samplers, the steps with their numbers and rates, and the submitted
 * state follow from the settings, the verdicts and the executed remedies. No claim of the run about
 * itself is used.
 */

const fail: (detail: string) => never = failing('course_verification');

/** An iteration as the process records show it. */
interface IterationCourse {
  readonly iteration: number;
  /** Adapter that its rollouts were sampled with; null: the bare base. */
  readonly sampler: string | null;
  /** Sequences a step. */
  readonly batchSize: number;
  readonly steps: number;
}

const stepForm = z.object({
  iteration: z.int(),
  step: z.number(),
  learningRate: z.number(),
  applied: z.boolean(),
});
const iterationForm = z.object({ iteration: z.int() });
const near = (a: number, b: number): boolean => Math.abs(a - b) <= 1e-6 * Math.abs(b);

/** Follows the live records; `settings` and executed remedies say what each has to be. */
class Course {
  readonly iterations: IterationCourse[] = [];
  /** Adapter in force. */
  #adapter: string | null = null;
  #rate: number;
  #batch: number;
  /** Steps that were applied, of the state in force and of each state by its digest. */
  #applied = 0;
  readonly #appliedAt = new Map<string, number>();
  #stopped: number | null = null;
  #stoppedSaying: { readonly text: string; readonly seconds: number } | null = null;
  /** States of the current iteration, before its measurements. */
  #states: string[] = [];
  #restored: string | null = null;
  #steps: z.output<typeof stepForm>[] = [];
  /** The adapter before any step. */
  #untrained: string | null = null;

  constructor(
    readonly start: RunStart,
    readonly settings: CourseSettings,
    readonly startsAnew: boolean,
  ) {
    this.#rate = settings.optimiser.learningRate;
    this.#batch = settings.optimiser.batchSize;
  }

  take(record: LogRecord): void {
    const { stream, payload } = record;
    if (stream === 'metrics' && payload.kind === 'adapter_state') {
      const { digest } = readRecord(adapterState.pick({ digest: true }), record, fail);
      if (this.#untrained === null) {
        this.#untrained = digest;
        this.#appliedAt.set(digest, 0);
      } else this.#states.push(digest);
    } else if (stream === 'metrics' && payload.kind === 'step')
      this.#steps.push(readRecord(stepForm, record, fail));
    else if (stream === 'metrics' && payload.kind === 'iteration') {
      this.#settleRemedied();
      this.#settle(readRecord(iterationForm, record, fail).iteration, record.gseq);
    } else if (stream === 'effects' && payload.kind === 'gate')
      this.#restored = readRecord(gate, record, fail).restored;
    else if (stream === 'effects' && payload.kind === 'effect') this.#effect(record);
    else if (stream === 'control' && payload.kind === 'session_end') {
      const said = sessionEnd.pick({ stopped: true, seconds: true }).safeParse(payload);
      if (said.success)
        this.#stoppedSaying = { text: said.data.stopped, seconds: said.data.seconds };
    }
  }

  /**
   * A remedy makes its own state, logged after the iteration's measurements and before the states
   * of the next one.
   */
  #settleRemedied(): void {
    // of the states since the last iteration the last one is what this iteration trained; one
    // before it is what remedies made
    while (this.#states.length > 1) this.#goTo(this.#states.shift()!);
  }

  #goTo(digest: string): void {
    this.#adapter = digest;
    if (!this.#appliedAt.has(digest)) this.#appliedAt.set(digest, this.#applied);
  }

  #settle(iteration: number, gseq: number): void {
    const { iterations } = this.settings;
    if (iteration > iterations)
      fail(
        `record ${gseq} measures iteration ${iteration}, but the settings have only ${iterations}`,
      );
    if (iteration !== this.iterations.length + 1)
      fail(
        `record ${gseq} measures iteration ${iteration}, but iteration ${this.iterations.length + 1} of ${iterations} should come next`,
      );
    if (this.#stopped !== null)
      fail(`iteration ${iteration} follows iteration ${this.#stopped}, which ended the run`);
    const trained = this.#states.shift();
    if (trained === undefined || this.#untrained === null)
      fail(`iteration ${iteration} has no adapter state`);
    const { length: steps } = this.#steps;
    const before = { iteration, sampler: this.#adapter, batchSize: this.#batch, steps };
    if (this.startsAnew) this.#applied = 0;
    for (const { step, learningRate, applied } of this.#steps) {
      if (step !== this.#applied + 1)
        fail(
          `a step of iteration ${iteration} has number ${step}, but step ${this.#applied + 1} should come next`,
        );
      const rate = this.#rate * scheduleFactor(this.start.schedule, step);
      if (!near(learningRate, rate))
        fail(
          `step ${step} of iteration ${iteration} ran at learning rate ${learningRate}, but the settings give ${rate}`,
        );
      if (applied) this.#applied++;
    }
    this.#appliedAt.set(trained, this.#applied);
    this.#adapter = trained;
    this.#restore();
    this.#steps = [];
    this.iterations.push(before);
  }

  #restore(): void {
    if (this.#restored === null) return;
    const applied = this.#appliedAt.get(this.#restored);
    if (applied === undefined)
      fail(`the run restores ${this.#restored}, but the log has no such state`);
    this.#adapter = this.#restored;
    this.#applied = applied;
    this.#restored = null;
  }

  #effect(record: LogRecord): void {
    const { executed, operation, iteration } = readRecord(anyEffect, record, fail);
    if (!executed) return;
    const { op } = operation;
    if (op === 'set_lr') this.#rate = this.#number(record, operation.to);
    if (op === 'rollback') this.#rate = this.#number(record, operation.learningRate);
    if (op === 'set_batch') {
      const most = 4 * this.settings.optimiser.batchSize;
      const { measured } = record.payload as { measured?: { sequencesPerStep?: unknown } };
      this.#batch = this.#number(record, measured?.sequencesPerStep);
      if (!Number.isInteger(this.#batch) || this.#batch < 1 || this.#batch > Math.max(most, 65_536))
        fail(`record ${record.gseq}: ${this.#batch} sequences is not a valid batch size`);
    }
    if (op === 'stop') this.#stopped = iteration;
    const to = op === 'stop' ? operation.restore : op === 'rollback' ? operation.to : null;
    if (typeof to === 'string') {
      this.#restored = to;
      this.#restore();
    }
  }

  #number({ gseq }: LogRecord, value: unknown): number {
    return typeof value === 'number' && Number.isFinite(value)
      ? value
      : fail(`record ${gseq}: the measurement of the remedy is not a number`);
  }

  /** @returns the adapter that the log leads to */
  end(): string | null {
    if (this.#steps.length > 0)
      fail(`${this.#steps.length} steps at the end do not belong to an iteration`);
    for (const digest of this.#states.splice(0)) this.#goTo(digest);
    this.#restore();
    const { iterations, maxMinutes } = this.settings;
    const done = this.iterations.length;
    const seconds = this.#stoppedSaying?.seconds ?? 0;
    const outOfTime = maxMinutes !== undefined && done > 0 && seconds >= 60 * maxMinutes;
    if (done < iterations && this.#stopped === null && !outOfTime)
      fail(
        `the log holds ${done} of the ${iterations} iterations in the settings, but nothing ended the run early`,
      );
    return this.#adapter;
  }
}

/** Steps that an algorithm takes of an iteration's rollouts. */
function stepsOf(
  { iteration, batchSize }: IterationCourse,
  trainedOn: number,
  buffer: ReplayBuffer,
  settings: CourseSettings,
): number {
  const { stepsPerIteration } = settings.optimiser;
  if (algorithmOf(settings as never).replays !== true)
    return mostSteps(trainedOn, stepsPerIteration, batchSize);
  const wanted = stepsPerIteration * batchSize;
  const runSeed = BigInt(settings.seed);
  return Math.ceil(buffer.draw(settings.buffer, { runSeed, iteration, wanted }).length / batchSize);
}

type Given = Pick<
  Findings,
  'options' | 'reader' | 'records' | 'figures' | 'submitted' | 'model' | 'start' | 'opened'
>;

export const courseVerification: Step<keyof Given> = {
  name: 'course_verification',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async (found) => {
    if (found.submitted.adapter === null)
      return {
        found: {},
        detail: 'the base model was submitted without an adapter: there is no training to check',
        status: 'skipped',
      };
    const iterations = await checkCourse(found);
    const steps = iterations.reduce((sum, each) => sum + each.steps, 0);
    return {
      found: {},
      detail: `${plural(iterations.length, 'iteration')} and ${plural(steps, 'step')}, as the settings and verdicts require`,
    };
  },
};

/** @throws HardFail, IsoproError LOG_UNREADABLE, ABORTED */
async function checkCourse({
  options: { signal },
  reader,
  records,
  figures,
  submitted,
  model,
  start,
  opened: { task },
}: Given): Promise<readonly IterationCourse[]> {
  const checkPlan = task === null ? null : await planCheck(start, task, model);
  const settings = courseSettings(start);
  const startsAnew = algorithmOf(figures.settings).startsAnew(figures.settings);
  const course = new Course(start, settings, startsAnew);
  for (const record of records) course.take(record);
  const last = course.end();
  // a weakened adapter is another file than the state that it was made of
  if ((submitted.restraint?.strength ?? 1) === 1 && last !== submitted.adapter)
    fail(
      `the submitted adapter is ${submitted.adapter ?? 'the bare base'}, but according to the log it should be ${last ?? 'the bare base'}`,
    );
  checkDevEvaluations(figures, course.iterations);

  const buffer = new ReplayBuffer(
    settings.buffer.kind === 'classic' ? Infinity : settings.buffer.tierCap,
  );
  let of: RolloutsRecord[] = [];
  const settle = async (): Promise<void> => {
    if (of.length === 0) return;
    const { iteration } = of[0]!;
    const expected =
      course.iterations[iteration - 1] ??
      fail(`rollouts of iteration ${iteration} do not belong to a measured iteration`);
    const problems = checkSamples(settings, of, expected);
    await checkPlan?.({ iteration, problems, buffer });
    for (const record of of) buffer.take(record);
    const trainedOn = of.filter(
      (record) => record.kind === 'rollout' && isTrainedOn(record.admission),
    ).length;
    const steps = stepsOf(expected, trainedOn, buffer, settings);
    if (expected.steps !== steps)
      fail(
        `iteration ${iteration} has ${expected.steps} steps, but its rollouts and the settings give ${steps}`,
      );
    seen.add(iteration);
    of = [];
  };
  const seen = new Set<number>();
  for await (const record of inTurns(reader.records({ stream: 'rollouts' }), signal)) {
    if (!['problem', 'rollout', 'reference'].includes(record.payload.kind)) continue;
    const taken = readRolloutsRecord(record);
    if (of.length > 0 && taken.iteration !== of[0]!.iteration) await settle();
    if (seen.has(taken.iteration))
      fail(
        `record ${record.gseq} belongs to iteration ${taken.iteration}, which had already ended`,
      );
    of.push(taken);
  }
  await settle();
  for (const { iteration } of course.iterations)
    if (!seen.has(iteration)) fail(`iteration ${iteration} has no rollouts`);
  return course.iterations;
}

/**
 * The dev problems are evaluated before the first iteration and after each: what the gate reads
 * cannot be left out.
 */
function checkDevEvaluations(
  { evaluations }: CheckedFigures,
  iterations: readonly IterationCourse[],
): void {
  const found = new Set(
    evaluations.flatMap(({ set, iteration }) => (set === 'dev' ? [iteration] : [])),
  );
  for (const iteration of [0, ...iterations.map((each) => each.iteration)])
    if (!found.has(iteration))
      fail(
        iteration === 0
          ? 'the dev problems were not evaluated before training'
          : `the dev problems were not evaluated in iteration ${iteration}`,
      );
}

/**
 * Seeds, samplers and number of the rollouts, which follow from the settings and the problems
 * alone.
 */
function checkSamples(
  { seed, sampling: { rollouts, samples } }: CourseSettings,
  records: readonly RolloutsRecord[],
  { iteration, sampler }: IterationCourse,
): { problemId: string; tier: string }[] {
  const runSeed = BigInt(seed);
  const problems: { problemId: string; tier: string }[] = [];
  let sampled = 0;
  for (const record of records) {
    const { problemId, tier } = record;
    if (record.kind === 'problem') problems.push({ problemId, tier });
    if (record.kind !== 'rollout') continue;
    sampled++;
    const { sample, adapterId } = record;
    const own = deriveSeed({ runSeed, purpose: 'rollout', iteration, problemId, sample });
    if (record.seed !== own.toString())
      fail(
        `sample ${sample} of problem ${problemId} in iteration ${iteration} has the seed ${record.seed}, but the run's seed gives ${own}`,
      );
    if (adapterId !== sampler)
      fail(
        `iteration ${iteration} sampled with ${adapterId ?? 'the bare base'}, but according to the log it should have ` +
          `used ${sampler ?? 'the bare base'}`,
      );
  }
  const wanted = Math.max(1, Math.round(rollouts / samples));
  if (new Set(problems.map(({ problemId }) => problemId)).size !== problems.length)
    fail(`iteration ${iteration} contains the same problem twice`);
  if (problems.length > wanted || sampled !== problems.length * samples)
    fail(
      `iteration ${iteration} has ${sampled} rollouts of ${problems.length} problems, but the settings ask for ${wanted} problems, ` +
        `${samples} samples of each`,
    );
  return problems;
}
