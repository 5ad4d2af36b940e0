/** Training data from run folders. */
import { beliefPath, type Readout } from '../beliefs/readout.js';
import { trainingSamples } from '../modes/reason.js';
import { Domains } from '../domains/user-domain.js';
import type { TruthConfig } from '../run/config.js';
import { groupOfRecord } from '../run/evaluate.js';
import type { TruthRun } from '../run/folder.js';
import { drawProblems } from '../run/plan.js';
import type { Selectable } from './select.js';

/** Returns a function from a trajectory id to its training data; null for unknown trajectories. */
export function selectableOf(
  runs: readonly TruthRun[],
): (trajectoryId: string) => Selectable | null {
  const places = new Map(
    runs.flatMap((run) =>
      run.state.trajectories.map((record) => [record.trajectory.id, { run, record }] as const),
    ),
  );
  return (trajectoryId) => {
    const place = places.get(trajectoryId);
    if (place === undefined) return null;
    const { run, record } = place;
    const problem = run.state.problem(record.trajectory.problemId)!;
    const readout = run.state.beliefs(trajectoryId)?.readout as Readout | undefined;
    const read = readout === undefined ? null : beliefPath(readout);
    return {
      samples: trainingSamples(record.trajectory, problem),
      eventual: read === null || typeof read === 'string' ? null : read.beliefs.at(-1)!,
      correctOption: problem.kind === 'binary' ? problem.correctOption : null,
    };
  };
}

/** Number of a configuration's problems that runs have asked, or whose group they have asked. */
export function askedTwice(runs: readonly TruthRun[], config: TruthConfig): number {
  const seen = new Set(
    runs.flatMap(({ state }) => state.trajectories.map((record) => groupOfRecord(state, record))),
  );
  const domains = new Domains(config.domain);
  const asked = config.domain.flatMap((domain) => drawProblems(domain, config, domains));
  return asked.filter((problem) =>
    seen.has((problem.kind === 'binary' ? problem.group : undefined) ?? problem.id),
  ).length;
}
