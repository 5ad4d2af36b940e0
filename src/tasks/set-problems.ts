import { frozenSet, type SetName } from './frozen-sets.js';
import type { OpenTask, Problem } from './task.js';

/**
 * The committed problems of a task, or the rows that a data file keeps from training.
 * @throws IsoproError INVALID_ARGUMENT where it has neither
 */
export const setProblems = (
  { id, rows }: Pick<OpenTask, 'id' | 'rows'>,
  set: SetName,
): readonly Problem[] =>
  rows?.heldOut[set] ?? frozenSet(id, set).problems.map(({ problem }) => problem);
