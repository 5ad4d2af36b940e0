/**
 * What could stand solved before every question, and does not: rows of data, or problems of a task
 * that has solved ones.
 */
export type Unshown = 'rows' | 'problems';

/** Hints on how to show them. */
export const SHOWING: Readonly<Record<Unshown, string>> = {
  rows: '--examples 3 puts three rows with their answers before each question',
  problems: '--examples 3 puts three of them before each question',
};
