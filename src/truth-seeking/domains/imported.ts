/** Results of importers of user files. */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import type { BinaryProblem, Problem } from '../problem.js';
import type { Skipped } from '../score.js';
import type { WrittenDomain } from './domain.js';

export interface Imported<P extends Problem> {
  readonly problems: readonly P[];
  /** Lines that are sound but not asked, by reason. */
  readonly skipped: Skipped;
  /** Under which terms the user has the data. */
  readonly licence: string;
}

/** Texts longer than these characters are asked of no model. */
export const LONGEST_QUESTION = 128_000;

export const importOptions = z.object({
  /** Under which terms the data may be used; a file without them is not read. */
  licence: z.string().trim().min(1).max(2000),
  /** Characters of a question, at most. */
  longest: z.int().min(1).max(LONGEST_QUESTION).default(LONGEST_QUESTION),
});

/**
 * Part of the problems whose first option is right.
 * @throws IsoproError DATA_INVALID where that is none or all of them
 */
export function bothWays(problems: readonly BinaryProblem[], what: string): number {
  const first = problems.filter(({ correctOption }) => correctOption === 0).length;
  if (first === 0 || first === problems.length)
    throw new IsoproError(
      'DATA_INVALID',
      `${problems.length} ${what} are left, and all have the same outcome`,
    );
  return first / problems.length;
}

/** @throws IsoproError DATA_INVALID where nothing is left */
export function someLeft<P extends Problem>(problems: readonly P[], what: string): readonly P[] {
  if (problems.length === 0)
    throw new IsoproError('DATA_INVALID', `no ${what} are left after filtering`);
  return problems;
}

/** Problems of a user as a domain. @param problems at least one, of one kind */
export const importedDomain = (
  id: string,
  what: string,
  problems: readonly Problem[],
): WrittenDomain => ({
  source: 'written',
  kind: problems[0]!.kind,
  id,
  what,
  trainShare: 0.5,
  problems,
});
