/**
 * Worker thread: one CP-SAT model per message. The WebAssembly module takes a second to load and
 * blocks while it solves.
 */
import { setFlagsFromString } from 'node:v8';
import { parentPort } from 'node:worker_threads';
import type { IntVar } from 'or-tools-wasm/cp-sat';
import type { GroundTruth } from './grade.js';
import { indexOf, type SchedulingProblem } from './problem.js';

// V8's optimising compiler works on the 12 MB module for ten seconds, delays the end of the process
// by as much, and never pays for itself on models that the baseline code solves in 30 ms. Must come
// before the module compiles.
setFlagsFromString('--liftoff-only');
const { CpModel, CpSolver } = await import('or-tools-wasm/cp-sat');

export interface SolveRequest {
  readonly request: number;
  readonly problem: SchedulingProblem;
  readonly timeLimitSeconds: number;
}
export type SolveReply =
  | { readonly request: number; readonly truth: GroundTruth }
  | { readonly request: number; readonly error: string }
  | { readonly ready: true };

async function solve({ problem, timeLimitSeconds }: SolveRequest): Promise<GroundTruth> {
  const model = new CpModel();
  const starts: IntVar[] = [];
  const impossible = problem.jobs.some(
    (job) =>
      job.duration > Math.min(job.deadline ?? problem.horizon, problem.horizon) ||
      job.needs.some((need, resource) => need > problem.resources[resource]!.capacity),
  );
  if (impossible) return { status: 'infeasible', schedule: null, makespan: null, lowerBound: 0 };
  const intervals = problem.jobs.map((job) => {
    const start = model.newIntVar(
      0,
      Math.min(job.deadline ?? problem.horizon, problem.horizon) - job.duration,
      `start ${job.label}`,
    );
    starts.push(start);
    return model.newFixedSizeIntervalVar(start, job.duration, `interval ${job.label}`);
  });
  const end = model.newIntVar(0, problem.horizon, 'makespan');
  problem.jobs.forEach((job, index) => {
    const start = starts[index]!;
    model.addLinearConstraint(end.minus(start), job.duration, problem.horizon);
    for (const label of job.after) {
      const other = indexOf(label);
      model.addLinearConstraint(
        start.minus(starts[other]!),
        problem.jobs[other]!.duration,
        problem.horizon,
      );
    }
  });
  problem.resources.forEach((resource, index) => {
    model.addCumulative(
      intervals,
      problem.jobs.map((job) => job.needs[index]!),
      resource.capacity,
    );
  });
  model.minimize(end);
  const solver = new CpSolver();
  const status = solver.statusName(
    await solver.solve(model, {
      numSearchWorkers: 1,
      randomSeed: 1,
      maxTimeInSeconds: timeLimitSeconds,
    }),
  );
  if (status === 'INFEASIBLE')
    return { status: 'infeasible', schedule: null, makespan: null, lowerBound: 0 };
  if (status !== 'OPTIMAL' && status !== 'FEASIBLE')
    return { status: 'unknown', schedule: null, makespan: null, lowerBound: 0 };
  return {
    status: status === 'OPTIMAL' ? 'optimal' : 'feasible',
    schedule: Object.fromEntries(
      problem.jobs.map((job, index) => [job.label, solver.value(starts[index]!)]),
    ),
    makespan: solver.value(end),
    lowerBound: Math.ceil(solver.bestObjectiveBound() - 1e-6),
  };
}

parentPort!.on('message', (request: SolveRequest) => {
  solve(request).then(
    (truth) => parentPort!.postMessage({ request: request.request, truth } satisfies SolveReply),
    (error: unknown) =>
      parentPort!.postMessage({
        request: request.request,
        error: String(error),
      } satisfies SolveReply),
  );
});
// The module compiles with its first model; only then does a time limit mean search.
await new CpSolver().solve(new CpModel(), { numSearchWorkers: 1 });
parentPort!.postMessage({ ready: true } satisfies SolveReply);
