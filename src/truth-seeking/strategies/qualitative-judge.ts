/**
 * A judge that rates responses: it may answer first, attacks and defends the response, resolves,
 * and ends with a verdict. Solved ratings may precede it, in all their orders, and its own ratings
 * may extend them.
 */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { Random } from '../../random.js';
import { mean } from '../../statistics/index.js';
import { overWordings } from '../beliefs/belief.js';
import type { InferOptions, Message, Reasoner } from '../reasoner.js';
import { meanScore, SkipCount, type Groups, type Score } from '../score.js';
import { bootstrapSizes, FEW_SHOT_ORDERS, gradings } from './judging.js';
import { askVerdict, BOUND_VERDICT, VERDICT_FORM, type Verdict } from './verdict.js';

/** Stages between the candidate and the verdict; each includes the earlier ones. */
export const RED_TEAM_MODES = ['none', 'red', 'red-blue', 'red-blue-resolution'] as const;

export const qualitativeConfig = z.strictObject({
  redTeam: z.enum(RED_TEAM_MODES).default('red-blue-resolution'),
  order: z.enum(FEW_SHOT_ORDERS).default('permuted'),
  /** Whether the judge first answers the question, which separates easy insights from hard ones. */
  selfAnswer: z.boolean().default(true),
  /** Number of times that each order of the examples is asked. */
  rounds: z.int().min(1).max(100).default(1),
  /** Number of rounds in which the judge's own ratings join the examples. */
  bootstrapRounds: z.int().min(0).max(4).default(0),
  /** Whether bootstrap rounds also ask in all orders. */
  bootstrapPermuted: z.boolean().default(false),
});
export type QualitativeConfig = z.output<typeof qualitativeConfig>;

/** All orders of more examples than these would be asked are too many: as many are drawn. */
const MOST_ORDERS = 120;

/** What is rated. */
export interface Candidate {
  readonly id: string;
  readonly question: string;
  /** Response to rate. */
  readonly response: string;
}

export interface RatedExample {
  readonly question: string;
  readonly response: string;
  /** In [0, 1]. */
  readonly score: number;
}

export interface Judging {
  readonly judge: Reasoner;
  /** Rating instruction: what earns 1 and what earns 0. */
  readonly instruction: string;
  readonly config: QualitativeConfig;
  readonly seed: bigint;
  /** Max tokens of each reply of the judge. Default 512. */
  readonly maxTokens?: number;
  /** Whether to bind the verdict, but no earlier stage, to its format. Default: false. */
  readonly isBound?: boolean;
  readonly signal?: AbortSignal;
}

const task = ({ question, response }: Pick<Candidate, 'question' | 'response'>): string =>
  `Question:\n${question}\n\nResponse:\n${response}`;

/**
 * One grading: every stage is a reply of the judge to all that was said before.
 * @throws IsoproError of the judge
 */
async function gradeOnce(
  of: Judging,
  candidate: Candidate,
  examples: readonly RatedExample[],
  seed: bigint,
): Promise<Verdict> {
  const { judge, instruction, config, maxTokens = 512, isBound = false, signal } = of;
  const options: InferOptions = { seed, maxTokens, ...given({ signal }) };
  const messages: Message[] = [{ role: 'system', content: `You rate responses. ${instruction}` }];
  for (const example of examples)
    messages.push(
      { role: 'user', content: `${task(example)}\n\nRate the response. ${VERDICT_FORM}` },
      { role: 'assistant', content: JSON.stringify({ score: example.score }) },
    );
  const stage = async (content: string): Promise<void> => {
    messages.push({ role: 'user', content });
    const { text } = await judge.infer(messages, options);
    messages.push({ role: 'assistant', content: text });
  };
  if (config.selfAnswer)
    await stage(`First answer this yourself, in a few sentences.\n\n${candidate.question}`);
  const stages = RED_TEAM_MODES.indexOf(config.redTeam);
  const asked = task(candidate);
  if (stages >= 1)
    await stage(`${asked}\n\nAttack the response: name its errors, gaps and unsupported claims.`);
  if (stages >= 2)
    await stage('Defend the response against that: which objections do not hold, and why?');
  if (stages >= 3)
    await stage('Weigh both sides: which objections remain, and how much do they matter?');
  messages.push({
    role: 'user',
    content: `${stages === 0 ? `${asked}\n\n` : ''}Rate the response. ${VERDICT_FORM}`,
  });
  return askVerdict(judge, messages, { ...options, ...(isBound ? BOUND_VERDICT : {}) });
}

/**
 * All orders of `count` items; if there are too many, as many different ones as are allowed are
 * drawn.
 */
export function ordersOf(count: number, random: Random): number[][] {
  const places = Array.from({ length: count }, (_, i) => i);
  const all = (rest: readonly number[]): number[][] =>
    rest.length === 0
      ? [[]]
      : rest.flatMap((first) =>
          all(rest.filter((each) => each !== first)).map((tail) => [first, ...tail]),
        );
  if (gradings(count, 'permuted', 1) <= MOST_ORDERS) return all(places);
  const drawn = new Map<string, number[]>();
  while (drawn.size < MOST_ORDERS) {
    const order = random.shuffle(places);
    drawn.set(order.join(), order);
  }
  return [...drawn.values()];
}

export interface Rating {
  /** Mean of the gradings that came to a verdict; null where none did. */
  readonly score: number | null;
  /**
   * Standard error of that mean over gradings: how much the judge disagrees with itself; null for
   * fewer than two.
   */
  readonly error: number | null;
  readonly gradings: number;
  /** Gradings without a verdict, by reason. */
  readonly failed: Score['skipped'];
}

/**
 * Rates a candidate with every order of the examples, `rounds` times each.
 * @throws IsoproError of the judge
 */
export async function rate(
  of: Judging,
  candidate: Candidate,
  examples: readonly RatedExample[] = [],
): Promise<Rating> {
  const { config, seed } = of;
  const orders =
    config.order === 'permuted'
      ? ordersOf(examples.length, new Random(seed))
      : [config.order === 'none' ? [] : [...examples.keys()]];
  const scores: number[] = [];
  const failed = new SkipCount();
  for (let round = 0; round < config.rounds; round++)
    for (const [i, order] of orders.entries()) {
      of.signal?.throwIfAborted();
      const ordered = order.map((place) => examples[place]!);
      const verdict = await gradeOnce(
        of,
        candidate,
        ordered,
        BigInt.asUintN(64, seed + BigInt(round * orders.length + i)),
      );
      if (verdict.ok) scores.push(verdict.score);
      else failed.add(verdict.error);
    }
  return {
    score: scores.length === 0 ? null : mean(scores),
    error: scores.length === 0 ? null : (overWordings(scores).error ?? null),
    gradings: config.rounds * orders.length,
    failed: failed.counts,
  };
}

/**
 * Adds examples that the judge rates itself: each round rates the next of `source` with all
 * examples so far, and doubles the examples. A candidate without a verdict is skipped.
 * @throws IsoproError INVALID_ARGUMENT where the source is too small; of the judge
 */
export async function bootstrapExamples(
  of: Judging,
  examples: readonly RatedExample[],
  source: readonly Candidate[],
): Promise<RatedExample[]> {
  const { config } = of;
  const sizes = bootstrapSizes(examples.length, config.bootstrapRounds);
  const order = config.bootstrapPermuted || config.order === 'none' ? config.order : 'static';
  let known = [...examples];
  let next = 0;
  for (const size of sizes.slice(1)) {
    const found: RatedExample[] = [];
    while (known.length + found.length < size) {
      const candidate = source[next++];
      if (candidate === undefined)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `bootstrap: ${source.length} candidates are not enough for ${sizes.at(-1)} examples`,
        );
      const { score } = await rate({ ...of, config: { ...config, order } }, candidate, known);
      if (score !== null)
        found.push({ question: candidate.question, response: candidate.response, score });
    }
    known = [...known, ...found];
  }
  return known;
}

export interface QualitativeScore extends Score {
  readonly ratings: ReadonlyMap<string, Rating>;
  /** Examples, including those that the judge added. */
  readonly examples: readonly RatedExample[];
}

/**
 * Mean rating of candidates, higher is better; those without a verdict are counted.
 * @throws IsoproError of the judge
 */
export async function qualitativeScore(
  of: Judging,
  candidates: readonly Candidate[],
  {
    examples: known = [],
    source = [],
    groups,
  }: {
    readonly examples?: readonly RatedExample[];
    readonly source?: readonly Candidate[];
    readonly groups?: Groups;
  } = {},
): Promise<QualitativeScore> {
  const examples = await bootstrapExamples(of, known, source);
  const ratings = new Map<string, Rating>();
  const [perTrajectory, skipped] = [new Map<string, number>(), new SkipCount()];
  for (const candidate of candidates) {
    const rating = await rate(of, candidate, examples);
    ratings.set(candidate.id, rating);
    if (rating.score === null) skipped.add('no verdict');
    else perTrajectory.set(candidate.id, rating.score);
  }
  return {
    ...meanScore('higher', perTrajectory, skipped, { range: [0, 1], ...given({ groups }) }),
    ratings,
    examples,
  };
}
