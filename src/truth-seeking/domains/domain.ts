/**
 * A domain: problems of one kind, either written down or drawn by a generator, in two parts that
 * share none.
 */
import { hash } from 'node:crypto';
import { canonicalJson, type Json } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { Random } from '../../random.js';
import type { BinaryProblem, Problem } from '../problem.js';
import { split, type Split } from '../sampler.js';

interface DomainFacts {
  readonly id: string;
  readonly what: string;
  /** Part of the domain that is trained on, in (0, 1). */
  readonly trainShare: number;
}

/**
 * Problems that are written down. Those of one group stay in one part: a statement would give its
 * negation away.
 */
export interface WrittenDomain extends DomainFacts {
  readonly source: 'written';
  readonly kind: Problem['kind'];
  readonly problems: readonly Problem[];
}

/** A domain that draws any number of problems. */
export interface GeneratedDomain extends DomainFacts {
  readonly source: 'generated';
  readonly kind: 'binary';
  /** Rises with every change of what is drawn. */
  readonly version: number;
  /**
   * True if both options are right equally often. False where the right belief is a posterior,
   * which such a choice would change.
   */
  readonly balanced: boolean;
  readonly draw: (random: Random) => BinaryProblem;
}

export type Domain = WrittenDomain | GeneratedDomain;

/** Draws in vain, per problem that is asked for, before a generator counts as exhausted. */
const PATIENCE = 100;
const DIGEST_PROBLEMS = 64;

/** Key that determines the split of a generated problem: its group, or its question. */
const keyOf = ({ group, question }: BinaryProblem): string => group ?? question;

/** The same key falls into the same part whatever the seed. */
const partOf = (key: string, trainShare: number): Split =>
  Number.parseInt(hash('sha256', key).slice(0, 8), 16) / 2 ** 32 < trainShare ? 'train' : 'test';

/**
 * Draws `count` different problems of one split of a generated domain.
 * @throws IsoproError PROBLEM_INVALID if the generator has too few
 */
export function generate(
  domain: GeneratedDomain,
  part: Split,
  count: number,
  seed: bigint,
): BinaryProblem[] {
  const found = generateAtMost(domain, part, count, seed);
  if (found.length < count)
    throw new IsoproError(
      'PROBLEM_INVALID',
      `${domain.id} has fewer than ${count} different problems to ${part}`,
    );
  return found;
}

/**
 * Draws up to `count` different problems.
 * @param without ids of problems that are passed over
 */
export function generateAtMost(
  domain: GeneratedDomain,
  part: Split,
  count: number,
  seed: bigint,
  without: ReadonlySet<string> = new Set(),
): BinaryProblem[] {
  const random = new Random(seed);
  const room = [Math.ceil(count / 2), Math.ceil(count / 2)];
  const asked = new Set<string>();
  const found: BinaryProblem[] = [];
  for (let left = PATIENCE * (count + 1); found.length < count && left > 0; left--) {
    const problem = domain.draw(random);
    const option = problem.correctOption!;
    if (
      partOf(keyOf(problem), domain.trainShare) !== part ||
      asked.has(problem.question) ||
      without.has(problem.id)
    )
      continue;
    if (domain.balanced && room[option] === 0) continue;
    room[option]!--;
    asked.add(problem.question);
    found.push(problem);
  }
  return found;
}

/** Problems that belong together, in the order of the first of each. */
export function groupsOf(problems: readonly Problem[]): Problem[][] {
  const groups = new Map<string, Problem[]>();
  for (const problem of problems) {
    const key = problem.kind === 'binary' ? (problem.group ?? problem.id) : problem.id;
    groups.set(key, [...(groups.get(key) ?? []), problem]);
  }
  return [...groups.values()];
}

/** Both parts of what is written down, by the order of hashes, groups undivided. */
export function parts({
  problems,
  trainShare,
}: WrittenDomain): Readonly<Record<Split, readonly Problem[]>> {
  const members = new Map(groupsOf(problems).map((group) => [group[0]!, group]));
  const { train, test } = split([...members.keys()], trainShare);
  const whole = (first: readonly Problem[]): Problem[] =>
    first.flatMap((each) => members.get(each)!);
  return { train: whole(train), test: whole(test) };
}

/**
 * SHA-256 of the problems as written; of a generator, of its version and of what it draws first.
 */
export function digestOf(domain: Domain): string {
  const { id } = domain;
  if (domain.source === 'written')
    return hash('sha256', canonicalJson({ id, problems: domain.problems } as unknown as Json));
  const random = new Random(0n);
  const problems = Array.from({ length: DIGEST_PROBLEMS }, () => domain.draw(random));
  return hash(
    'sha256',
    canonicalJson({ id, version: domain.version, problems } as unknown as Json),
  );
}
