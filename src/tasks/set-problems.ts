import { frozenSet, type SetName } from './frozen-sets.js';
import type { OpenTask, Problem } from './task.js';

/**
 * Returns the committed problems of a task, or the held-out rows of a data file.
 * @throws IsoproError INVALID_ARGUMENT if it has neither
 */
export const setProblems = (
  { id, rows }: Pick<OpenTask, 'id' | 'rows'>,
  set: SetName,
): readonly Problem[] =>
  rows?.heldOut[set] ?? frozenSet(id, set).problems.map(({ problem }) => problem);
