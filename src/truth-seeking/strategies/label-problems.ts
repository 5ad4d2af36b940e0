/**
 * Labels problems with a model alone: finds the labels under which each is most likely given the
 * others, which precede it as answers.
 */
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { Random } from '../../random.js';
import { clusteredWilsonInterval, type Interval } from '../../statistics/index.js';
import { logSumExp } from '../beliefs/belief.js';
import { questionText } from '../modes/asking.js';
import { requireCapability, type Message, type Reasoner } from '../reasoner.js';
import type { BinaryProblem, Option } from '../problem.js';
import { seedFor } from '../seed.js';
import { searchLabels } from './label-search.js';

export interface LabelOptions {
  /** Weight of predictability against one contradiction. Default 50. */
  readonly alpha?: number;
  /** Labels drawn at random before the search. Default 8. */
  readonly start?: number;
  /** Default 64. */
  readonly steps?: number;
  readonly seed?: bigint;
  readonly signal?: AbortSignal;
  readonly onStep?: (done: number) => void;
}

export interface RightShare {
  readonly right: number;
  /** Problems that have a label and of which the answer is known. */
  readonly n: number;
}

export interface FoundLabels {
  /** One a problem; null where the search came to none. */
  readonly labels: readonly (Option | null)[];
  readonly utility: number;
  /** Pairs of labels that are left and cannot both be right. */
  readonly contradictions: number;
  /**
   * Accuracy against the known answers, which the search does not see; null if none is known.
   * Jointly searched labels are one draw, all right or all wrong with equal chance, so there is no
   * interval: repeat with other problems and seeds.
   */
  readonly accuracy: RightShare | null;
  /**
   * Accuracy of the likelier label of each problem alone, without the others; the interval is over
   * groups.
   */
  readonly alone: (RightShare & Interval) | null;
  /** Problems that the policy was asked, each with its others; the same ones are asked once. */
  readonly evaluations: number;
}

/**
 * Pairs of related problems, and whether they have the same answer: true for a paraphrase, false
 * for a negation.
 */
export function linkedProblems(
  problems: readonly BinaryProblem[],
): { readonly pair: readonly [number, number]; readonly same: boolean }[] {
  const roles = problems.map(({ about }) => about?.role);
  return problems.flatMap(({ group, options }, i) =>
    problems.flatMap((other, j) => {
      const alike =
        group !== undefined &&
        other.group === group &&
        other.options.every((option, k) => option === options[k]);
      if (j <= i || !alike || typeof roles[i] !== 'string' || typeof roles[j] !== 'string')
        return [];
      return [
        { pair: [i, j] as const, same: (roles[i] === 'negation') === (roles[j] === 'negation') },
      ];
    }),
  );
}

const isPrefix = (a: readonly number[], b: readonly number[]): boolean =>
  a.every((id, i) => b[i] === id);

/**
 * Log-probabilities of both options after the other problems with their labels, in the order of the
 * problems.
 */
async function bothLabels(
  reasoner: Reasoner,
  problems: readonly BinaryProblem[],
  problem: number,
  others: ReadonlyMap<number, Option>,
  signal: AbortSignal | undefined,
): Promise<readonly [number, number]> {
  const asked: Message = { role: 'user', content: questionText(problems[problem]!) };
  const before = [...others]
    .sort(([a], [b]) => a - b)
    .flatMap(([each, label]): Message[] => [
      { role: 'user', content: questionText(problems[each]!) },
      { role: 'assistant', content: problems[each]!.options[label] },
    ]);
  const forms = problems[problem]!.options.map((option) => [...reasoner.textIds(option)]);
  if (isPrefix(forms[0]!, forms[1]!) || isPrefix(forms[1]!, forms[0]!))
    throw new IsoproError(
      'PROBLEM_INVALID',
      `one option is a prefix of the other: ${JSON.stringify(problems[problem]!.options)}`,
    );
  const scores = await reasoner.score(
    [...reasoner.promptIds([...before, asked])],
    forms,
    signal && { signal },
  );
  const sums = scores.map((each) => each.reduce((sum, value) => sum + value, 0));
  const all = logSumExp(sums);
  if (!Number.isFinite(all))
    throw new IsoproError('PROBLEM_INVALID', 'the model gives neither option any probability');
  return [sums[0]! - all, sums[1]! - all];
}

function shareOf(
  problems: readonly BinaryProblem[],
  labels: readonly (Option | null)[],
): (RightShare & Interval) | null {
  const known = problems.flatMap(({ id, group, correctOption }, i) =>
    correctOption === null || labels[i] === null
      ? []
      : [{ isRight: labels[i] === correctOption, cluster: group ?? id }],
  );
  if (known.length === 0) return null;
  const right = known.map(({ isRight }) => isRight);
  const interval = clusteredWilsonInterval(
    right,
    known.map(({ cluster }) => cluster),
  );
  return { right: right.filter(Boolean).length, n: right.length, ...interval };
}

/**
 * Labels problems; equal seeds give equal labels.
 * @throws IsoproError BACKEND_INCAPABLE for a policy without log-probabilities; PROBLEM_INVALID;
 *   CONTEXT_OVERFLOW if the problems do not fit the context; errors of the reasoner
 */
export async function labelProblems(
  reasoner: Reasoner,
  problems: readonly BinaryProblem[],
  { alpha = 50, start = 8, steps = 64, seed = 0n, signal, onStep }: LabelOptions = {},
): Promise<FoundLabels> {
  requireCapability(reasoner, 'logprobs');
  const known = new Map<string, readonly [number, number]>();
  const both = async (problem: number, others: ReadonlyMap<number, Option>) => {
    const key = `${problem}: ${[...others].sort(([a], [b]) => a - b).join(' ')}`;
    const there = known.get(key) ?? (await bothLabels(reasoner, problems, problem, others, signal));
    known.set(key, there);
    return there;
  };
  const alone: Option[] = [];
  for (const i of problems.keys()) {
    const [first, second] = await both(i, new Map());
    alone.push(second > first ? 1 : 0);
  }
  const links = linkedProblems(problems);
  const contradictions = (labels: ReadonlyMap<number, Option>): (readonly [number, number])[] =>
    links
      .filter(
        ({ pair: [a, b], same }) =>
          labels.has(a) && labels.has(b) && (labels.get(a) === labels.get(b)) !== same,
      )
      .map(({ pair }) => pair);
  const found = await searchLabels({
    ...{ problems: problems.length, alpha, start, steps, contradictions },
    random: new Random(seedFor(seed, 'truth labels', '')),
    logprob: async (problem, label, others) => (await both(problem, others))[label],
    related: (problem) =>
      links.flatMap(({ pair: [a, b] }) => (a === problem ? [b] : b === problem ? [a] : [])),
    ...given({ signal, onStep }),
  });
  const labels = problems.map((_, i) => found.labels.get(i) ?? null);
  const together = shareOf(problems, labels);
  return {
    labels,
    utility: found.utility,
    contradictions: contradictions(found.labels).length,
    accuracy: together && { right: together.right, n: together.n },
    alone: shareOf(problems, alone),
    evaluations: known.size,
  };
}
