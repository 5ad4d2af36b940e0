/** What is trained on, of the folder of a run. */
import { beliefPath, type Readout } from '../beliefs/readout.js';
import { trainingSamples } from '../modes/reason.js';
import type { TruthRun } from '../run/folder.js';
import type { Selectable } from './select.js';

/** Of any of the runs; null for a trajectory of none of them. */
export function selectableOf(runs: readonly TruthRun[]): (trajectoryId: string) => Selectable | null {
  const places = new Map(runs.flatMap((run) => run.state.trajectories.map((record) => [record.trajectory.id, { run, record }] as const)));
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
