/** Figures for the page of a truth run, derived from its records. */
import { groupOf, type BeliefPath } from '../truth-seeking/beliefs/belief.js';
import { beliefPath, type Readout } from '../truth-seeking/beliefs/readout.js';
import { targetOf } from '../truth-seeking/problem.js';
import { groupOfRecord } from '../truth-seeking/run/evaluate.js';
import type { TruthRun } from '../truth-seeking/run/folder.js';
import type { Setup, TrajectoryRecord } from '../truth-seeking/run/records.js';
import type { Forecast } from '../statistics/index.js';
import { setupText } from './setup-text.js';

export interface ShownPath {
  readonly record: TrajectoryRecord;
  readonly path: BeliefPath;
  /** 1 if option 0 is right, null if the answer is unknown. */
  readonly target: 0 | 1 | null;
}

export interface ShownSetup {
  readonly setup: Setup;
  readonly name: string;
  /** Trajectories whose beliefs could all be read. */
  readonly paths: readonly ShownPath[];
  readonly trajectories: number;
}

/**
 * Setups of a run, with the beliefs about questions as they are, without users who have an opinion.
 * @param reader by its id
 */
export const shownSetups = ({ state }: TruthRun, reader?: string): ShownSetup[] =>
  state.setups.map((setup) => {
    const records = state.of(setup, 'plain');
    const paths = records.flatMap((record): ShownPath[] => {
      const readout = state.beliefs(record.trajectory.id, reader)?.readout as Readout | undefined;
      const path = readout === undefined ? 'none' : beliefPath(readout);
      const problem = state.problem(record.trajectory.problemId);
      return typeof path === 'string' || problem?.kind !== 'binary'
        ? []
        : [
            {
              record,
              path: { ...path, group: groupOfRecord(state, record) },
              target: targetOf(problem),
            },
          ];
    });
    return { setup, name: setupText(setup), paths, trajectories: records.length };
  });

/** Belief in what is right, where that is known; else in option 0. */
export const towardsTruth = ({ path: { beliefs }, target }: ShownPath): number[] =>
  beliefs.map((belief) => (target === 0 ? 1 - belief : belief));

/** The groups of the same questions. */
export const forecastGroupsOf = (paths: readonly ShownPath[]): string[] =>
  paths.flatMap(({ path, target }) => (target === null ? [] : [groupOf(path)]));

/** Beliefs before the first step, or after the last, of questions whose answer is known. */
export const forecastsOf = (
  paths: readonly ShownPath[],
  which: 'initial' | 'eventual',
): Forecast[] =>
  paths.flatMap(({ path: { beliefs }, target }) =>
    target === null
      ? []
      : [
          {
            probability: which === 'initial' ? beliefs[0]! : beliefs.at(-1)!,
            outcome: target === 1,
          },
        ],
  );
