/**
 * A task for the loop: a two-option question, a reply that ends with the probability of the first
 * option, and a score of 1 minus its Brier score. A reply passes on the right side of one half.
 * Always answering one half scores 0.75 and never passes.
 */
import { Random } from '../../random.js';
import { brierScore } from '../../statistics/index.js';
import { defineTask } from '../../tasks/define-task.js';
import { isRight } from '../beliefs/belief.js';
import { generate, type GeneratedDomain } from '../domains/domain.js';
import { EXPLOITS } from '../domains/exploits.js';
import { DOMAINS } from '../domains/index.js';
import { askingForBelief, statedBelief } from '../graders/belief-grader.js';
import { binaryProblem, targetOf, type BinaryProblem, type Option } from '../problem.js';

/** Without the ids that a host gives. */
interface Content {
  readonly question: string;
  readonly options: readonly [string, string];
  readonly correctOption: Option;
}

const GENERATED = DOMAINS.filter(
  (domain): domain is GeneratedDomain => domain.source === 'generated',
);
/** Shown what training does elsewhere. */
const HELD_OUT = ['sums-and-claims-wrong-user', 'small-world'];

const asked = ({ question, options, correctOption }: Content): BinaryProblem =>
  binaryProblem({ question, options, correctOption });
/** Draws a problem of the train split; the test split is reserved for measurements. */
const drawn = (domain: GeneratedDomain, seed: bigint): Content => {
  const [{ question, options, correctOption }] = generate(domain, 'train', 1, seed) as [
    BinaryProblem,
  ];
  return { question, options, correctOption: correctOption! };
};

const LONGEST_EXPLOIT = 10_000;
const exploited = drawn(GENERATED[0]!, 0n);

export default defineTask<Content, number>({
  id: 'beliefs',
  version: '1',
  tiers: GENERATED.map(({ id, what }) => ({ id, title: what, trains: !HELD_OUT.includes(id) })),

  generate: (tier, seed) =>
    drawn(GENERATED.find(({ id }) => id === tier)!, new Random(seed).nextUint64()),

  prompt: (problem, style) => [
    {
      role: 'user',
      content:
        askingForBelief(asked(problem)) +
        (style === 'cot' ? '\n\nThink step by step before you do.' : ''),
    },
  ],

  parse(text) {
    const stated = statedBelief(text);
    if (stated.ok) return { ok: true, answer: stated.belief, form: 'mark' };
    return {
      ok: false,
      category: stated.reason,
      detail: `The reply states no belief: ${stated.reason}.`,
    };
  },

  verify(problem, probability) {
    const target = targetOf(problem)!;
    const forecast = { probability, outcome: target === 1 };
    const passed = isRight(probability, target);
    const detail = `The belief ${probability} is not on the side of “${problem.options[problem.correctOption]}”.`;
    return {
      kind: passed ? 'pass' : 'fail',
      violations: passed ? [] : [{ category: 'wrong side', detail }],
      score: 1 - brierScore(forecast),
      forecast,
    };
  },

  trivialPolicies: {
    'one half': () => 0.5,
    'always the first': () => 1,
    'always the second': () => 0,
  },

  exploits: EXPLOITS.filter(
    ({ text, expected }) =>
      typeof expected === 'string' &&
      expected !== 'no answer known' &&
      text.length <= LONGEST_EXPLOIT,
  ).map(({ name, text }) => ({ name, text, problem: exploited, source: 'domains/exploits.ts' })),
});
