/** Problems and their known answers. */
import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';

/** One of two options. */
export type Option = 0 | 1;

/** A question of two options. A belief about it is the probability of option 0. */
export interface BinaryProblem {
  readonly kind: 'binary';
  /** Digest of the question and the known answer: the same on every machine. */
  readonly id: string;
  readonly question: string;
  readonly options: readonly [string, string];
  /** Null if unknown. */
  readonly correctOption: Option | null;
  /**
   * The option that the user of a question says to believe in; what is right stays `correctOption`.
   */
  readonly userOption?: Option;
  /**
   * Name of a group of related problems: a statement and its negation, a question in several
   * framings.
   */
  readonly group?: string;
  readonly about?: Readonly<Record<string, Json>>;
}

/** A question that is answered in words. */
export interface OpenProblem {
  readonly kind: 'open';
  readonly id: string;
  readonly question: string;
  readonly reference: string | null;
  readonly about?: Readonly<Record<string, Json>>;
}

export type Problem = BinaryProblem | OpenProblem;

/**
 * Makes a problem with the id that follows from its content.
 * @throws IsoproError PROBLEM_INVALID where the options are empty or the same
 */
export function binaryProblem(given: Omit<BinaryProblem, 'kind' | 'id'>): BinaryProblem {
  const [first, second] = given.options;
  if (first.trim() === '' || second.trim() === '' || first.trim() === second.trim())
    throw new IsoproError(
      'PROBLEM_INVALID',
      `a question needs two different, non-empty options, got ${JSON.stringify(given.options)}`,
    );
  if (given.question.trim() === '')
    throw new IsoproError('PROBLEM_INVALID', 'a question must not be empty');
  return { kind: 'binary', id: idOf(given as unknown as Json), ...given };
}

/** @throws IsoproError PROBLEM_INVALID */
export function openProblem(given: Omit<OpenProblem, 'kind' | 'id'>): OpenProblem {
  if (given.question.trim() === '')
    throw new IsoproError('PROBLEM_INVALID', 'a question must not be empty');
  return { kind: 'open', id: idOf(given as unknown as Json), ...given };
}

const idOf = (of: Json): string => hash('sha256', canonicalJson(of));

/** Target of a belief: 1 if option 0 is right, 0 if option 1 is; null if unknown. */
export const targetOf = ({ correctOption }: Pick<BinaryProblem, 'correctOption'>): 0 | 1 | null =>
  correctOption === null ? null : correctOption === 0 ? 1 : 0;

/**
 * The same question with its options in the other order, an id of its own, and everything that
 * points to one turned with them.
 */
export function swapped({ kind: _, id: __, ...problem }: BinaryProblem): BinaryProblem {
  const turn = (option: Option): Option => (option === 0 ? 1 : 0);
  const { options, correctOption, userOption } = problem;
  return binaryProblem({
    ...problem,
    options: [options[1], options[0]],
    correctOption: correctOption === null ? null : turn(correctOption),
    ...(userOption === undefined ? {} : { userOption: turn(userOption) }),
  });
}
