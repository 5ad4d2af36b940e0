import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { offAbort, onAbort } from '../../abort.js';
import { abortError, IsoproError } from '../../errors.js';
import { makeFolder } from '../../files.js';
import { requirePackage } from '../../optional-package.js';
import { startThread } from '../../thread.js';
import { frozenIndex } from '../frozen-sets.js';
import { checkSchedule } from './check-schedule.js';
import type { SolveReply, SolveRequest } from './cp-sat-worker.js';
import type { GroundTruth } from './grade.js';
import type { SchedulingProblem } from './problem.js';

export interface SolveOptions {
  /** Time that CP-SAT may search; 10 by default. */
  readonly timeLimitSeconds?: number;
  readonly signal?: AbortSignal;
}

const UNKNOWN: GroundTruth = { status: 'unknown', schedule: null, makespan: null, lowerBound: 0 };
/**
 * Beyond its own limit the solver gets this long to answer before its thread is ended; loading is
 * not counted.
 */
const GRACE_MS = 5_000;
const LOAD_MS = 60_000;

const cached = z.object({
  status: z.enum(['optimal', 'feasible', 'infeasible']),
  schedule: z.record(z.string(), z.int()).nullable(),
  makespan: z.int().nullable(),
  lowerBound: z.int(),
});

/**
 * Feasibility and optimal makespan by CP-SAT in a worker thread, one problem at a time, with a
 * cache keyed by problem id in memory and, where a folder is given, on disk. A solver that fails,
 * hangs or runs out of time yields `unknown`, which is not cached. Its schedules are checked by the
 * verifier's own rules before they are believed.
 */
export class GroundTruthSolver {
  readonly #cache = new Map<string, GroundTruth>();
  readonly #folder: string | undefined;
  #worker: Promise<Worker> | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #requests = 0;

  constructor(options: { readonly cacheFolder?: string } = {}) {
    this.#folder = options.cacheFolder;
    if (this.#folder !== undefined) makeFolder(this.#folder);
  }

  /**
   * @throws IsoproError ABORTED when the signal fires, PACKAGE_MISSING; every other failure is the
   *   status `unknown`
   */
  solve(problem: SchedulingProblem, options: SolveOptions = {}): Promise<GroundTruth> {
    const known = this.#cache.get(problem.id) ?? this.#read(problem);
    if (known !== undefined) return Promise.resolve(known);
    const result = this.#queue.then(
      () => this.#cache.get(problem.id) ?? this.#solve(problem, options),
    );
    this.#queue = result.catch(() => undefined);
    return result;
  }

  /** Ends the worker thread; a later `solve` starts a new one. */
  async dispose(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await (await worker?.catch(() => undefined))?.terminate();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  async #solve(
    problem: SchedulingProblem,
    { timeLimitSeconds = 10, signal }: SolveOptions,
  ): Promise<GroundTruth> {
    if (signal?.aborted === true) throw abortError('solving was cancelled', signal);
    requirePackage('or-tools-wasm', 'The solver CP-SAT');
    const reply = await this.#ask(problem, timeLimitSeconds, signal);
    if (reply === undefined || !('truth' in reply) || !sound(problem, reply.truth)) return UNKNOWN;
    if (reply.truth.status !== 'unknown') this.#write(problem.id, reply.truth);
    return reply.truth;
  }

  async #ask(
    problem: SchedulingProblem,
    timeLimitSeconds: number,
    signal: AbortSignal | undefined,
  ): Promise<SolveReply | undefined> {
    let worker: Worker;
    try {
      worker = await (this.#worker ??= startWorker(() => (this.#worker = undefined)));
    } catch {
      this.#worker = undefined;
      return undefined;
    }
    const request: SolveRequest = { request: ++this.#requests, problem, timeLimitSeconds };
    return new Promise((resolve, reject) => {
      const settle = (reply: SolveReply | undefined): void => {
        clearTimeout(timer);
        worker.off('message', settle).off('error', lost).off('exit', lost);
        offAbort(signal, abort);
        worker.unref();
        resolve(reply);
      };
      const lost = (): void => {
        this.#worker = undefined;
        void worker.terminate();
        settle(undefined);
      };
      const abort = (): void => {
        reject(abortError('solving was cancelled', signal));
        lost();
      };
      const timer = setTimeout(lost, timeLimitSeconds * 1000 + GRACE_MS);
      worker.on('message', settle).on('error', lost).on('exit', lost);
      onAbort(signal, abort);
      worker.ref();
      worker.postMessage(request);
    });
  }

  #read(problem: SchedulingProblem): GroundTruth | undefined {
    if (this.#folder === undefined) return undefined;
    try {
      const result = cached.safeParse(
        JSON.parse(readFileSync(join(this.#folder, `${problem.id}.json`), 'utf8')),
      );
      if (!result.success || !sound(problem, result.data)) return undefined;
      this.#cache.set(problem.id, result.data);
      return result.data;
    } catch {
      return undefined; // absent or damaged: solved anew
    }
  }

  #write(id: string, truth: GroundTruth): void {
    this.#cache.set(id, truth);
    if (this.#folder === undefined) return;
    const temporary = join(this.#folder, `${id}.${randomUUID()}.tmp`);
    try {
      writeFileSync(temporary, JSON.stringify(truth), { flag: 'wx' });
      renameSync(temporary, join(this.#folder, `${id}.json`));
    } catch {
      // a full disk costs the cache, not the result
    }
  }
}

/** A schedule that the solver claims must keep every rule and have the makespan claimed. */
function sound(problem: SchedulingProblem, truth: GroundTruth): boolean {
  if (truth.schedule === null) return truth.status === 'infeasible' || truth.status === 'unknown';
  const { faults, makespan } = checkSchedule(problem, truth.schedule);
  return (
    faults.length === 0 &&
    makespan === truth.makespan &&
    truth.lowerBound <= makespan &&
    (truth.status !== 'optimal' || truth.lowerBound === makespan)
  );
}

/** @param ended called when the thread ends, also while nobody waits for it */
function startWorker(ended: () => void): Promise<Worker> {
  return new Promise((resolve, reject) => {
    const worker = startThread(new URL('./cp-sat-worker.js', import.meta.url));
    const fail = (error: unknown): void => {
      clearTimeout(timer);
      void worker.terminate();
      reject(new IsoproError('SOLVER_FAILED', 'CP-SAT did not load', { cause: error }));
    };
    const timer = setTimeout(fail, LOAD_MS);
    worker.on('error', fail);
    worker.once('exit', ended);
    worker.once('message', () => {
      clearTimeout(timer);
      resolve(worker);
    });
  });
}

let shared: GroundTruthSolver | undefined;

/**
 * What is known about a problem of a built-in task: the committed proof where it is a frozen one,
 * else CP-SAT's. The process has one solver; its thread starts with the first problem and does not
 * keep the process alive.
 */
export async function groundTruth(
  task: string,
  problem: SchedulingProblem,
  options?: SolveOptions,
): Promise<GroundTruth> {
  const frozen = frozenIndex<SchedulingProblem, GroundTruth>(task).get(problem.id);
  return frozen?.reference ?? (shared ??= new GroundTruthSolver()).solve(problem, options);
}
