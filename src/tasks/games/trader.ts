/** `resource_trader` as an episode: the prices of each turn are told, and one decision is made. */
import { z } from 'zod';
import { Random } from '../../random.js';
import { exploitCases, policyRandom, readContent, unfrozen, type ExploitRow } from '../built-in.js';
import type { FlatObject } from '../flat-object.js';
import { problemId } from '../problem-id.js';
import type { ExploitCase, Parsed, Problem, SynchronousTask, Verdict } from '../task.js';
import { findTier } from '../tier.js';
import { failed } from '../verdict.js';
import { parseLastObject } from './strategy-text.js';
import {
  DECISIONS,
  GOODS,
  inHindsight,
  MOST,
  pricesOf,
  scoreOf,
  START,
  trade,
  TURNS,
  WAIT,
} from './trader-market.js';
import type { Decision, Holdings, Prices } from './trader-market.js';

export interface TraderProblem extends Problem {
  readonly task: string;
  /** From it the prices of all turns follow. */
  readonly seed: number;
}

const ID = 'resource_trader';
const TIERS = [
  { id: 'market', title: 'five turns, three goods, prices that are new every turn', trains: true },
];
const PASSES = 0.8;

const decisionShape = z.strictObject({
  buy: z.enum(GOODS),
  sell: z.enum(GOODS),
  amount: z.int().min(0).max(MOST),
});

const problemOf = (seed: number): TraderProblem => {
  const content = { task: ID, tier: 'market', seed };
  return { id: problemId(content), ...content };
};

/** The holdings after each decision; where one is not allowed, why, and nothing after it. */
function play(
  seed: number,
  decisions: readonly Decision[],
): { holdings: Holdings; refused: string | null } {
  let holdings = START;
  for (const [turn, decision] of decisions.entries()) {
    const after = trade(holdings, pricesOf(seed, turn), decision);
    if (typeof after === 'string') return { holdings, refused: `Turn ${turn + 1}: ${after}` };
    holdings = after;
  }
  return { holdings, refused: null };
}

const gold = (cents: number): string => (cents / 100).toFixed(2);
const told = (seed: number, turn: number, { cents, stock }: Holdings): string => {
  const prices = pricesOf(seed, turn);
  return [
    `Turn ${turn + 1} of ${TURNS}. You have ${gold(cents)} gold.`,
    ...GOODS.map((good) => `${good}: price ${gold(prices[good])}, you have ${stock[good]}`),
  ].join('\n');
};

const RULES = [
  `You trade wood, stone and food for ${TURNS} turns. Prices are new every turn: wood from 2 to 8, stone from 3 to 11, food from 1 to 5.`,
  'Each turn you sell some units of one good and buy as many units of another at the prices of the turn.',
  'You cannot sell more than you have, and gold must not fall below 0.',
  `Response format: one JSON object with exactly the keys buy, sell and amount; buy and sell are wood, stone or food, ` +
    `amount is a whole number from 0 (wait) to ${MOST}. Example of the form: {"buy": "stone", "sell": "food", "amount": 1}`,
  `Evaluation: only gold counts at the end: 0.5 + (gold - 100) / 100, kept within 0 and 1. You win from ${PASSES} on.`,
  'A decision that is not allowed loses.',
].join('\n');

const complaint = (value: FlatObject): string | null => {
  const read = decisionShape.safeParse(value);
  return read.success
    ? null
    : `Not a decision: ${z.prettifyError(read.error).replaceAll(/\s+/g, ' ')}.`;
};
const parseDecision = (text: string): Parsed<Decision> =>
  parseLastObject(text, complaint) as Parsed<FlatObject & Decision>;

/** Answers are all decisions of an episode. */
function parse(
  text: string,
  _problem: TraderProblem,
  earlier: readonly string[] = [],
): Parsed<readonly Decision[]> {
  const decisions: Decision[] = [];
  let form = 'json';
  for (const reply of [...earlier, text]) {
    const parsed = parseDecision(reply);
    if (!parsed.ok) return parsed;
    ({ form } = parsed);
    decisions.push(parsed.answer);
  }
  return { ok: true, answer: decisions, form };
}

function verify({ seed }: TraderProblem, decisions: readonly Decision[]): Verdict {
  if (!z.array(decisionShape).max(TURNS).safeParse(decisions).success)
    return failed('format', 'That is not a list of decisions.');
  const { holdings, refused } = play(seed, decisions);
  if (refused !== null) return failed('trade', refused);
  if (decisions.length < TURNS)
    return failed('unfinished', `The episode ended after ${decisions.length} of ${TURNS} turns.`);
  const score = scoreOf(holdings.cents);
  const metrics = { gold: holdings.cents / 100 };
  if (score >= PASSES) return { kind: 'pass', violations: [], metrics, score };
  const detail = `You end with ${gold(holdings.cents)} gold.`;
  return {
    kind: 'fail',
    violations: [{ category: 'score', jobs: [], amount: PASSES - score, detail }],
    metrics,
    score,
  };
}

/**
 * What is told after these replies; null where the last turn was played, or a reply ended the
 * episode.
 */
function step({ seed }: TraderProblem, replies: readonly string[]): string | null {
  const parsed = parse(replies.at(-1)!, problemOf(seed), replies.slice(0, -1));
  if (!parsed.ok || replies.length >= TURNS) return null;
  const { holdings, refused } = play(seed, parsed.answer);
  return refused === null ? told(seed, replies.length, holdings) : null;
}

/** Decides turn by turn, of what is told. */
const decideEach = (
  seed: number,
  decide: (holdings: Holdings, prices: Prices) => Decision,
): readonly Decision[] => {
  const decisions: Decision[] = [];
  for (let turn = 0; turn < TURNS; turn++)
    decisions.push(decide(play(seed, decisions).holdings, pricesOf(seed, turn)));
  return decisions;
};

const FITTED = 64;
let constant: Decision | undefined;
/**
 * The one decision whose repetition has the highest mean score over 64 seeds of its own; an episode
 * with a forbidden one counts 0.
 */
function bestConstant(): Decision {
  const random = new Random(0xc0n);
  const seeds = Array.from({ length: FITTED }, () => random.nextInteger(0, 2 ** 32 - 1));
  const value = (decision: Decision): number =>
    seeds.reduce(
      (sum, seed) =>
        sum + (verify(problemOf(seed), new Array<Decision>(TURNS).fill(decision)).score ?? 0),
      0,
    );
  return (constant ??= [WAIT, ...DECISIONS].reduce((best, other) =>
    value(other) > value(best) ? other : best,
  ));
}

/** The first seed of the stream that can be passed. */
export function drawTraderProblem(random: Random): TraderProblem {
  let seed = random.nextInteger(0, 2 ** 32 - 1);
  while (verify(problemOf(seed), inHindsight(seed)).kind !== 'pass')
    seed = random.nextInteger(0, 2 ** 32 - 1);
  return problemOf(seed);
}

const problemShape = z.object({
  id: z.string().optional(),
  task: z.literal(ID),
  tier: z.literal('market'),
  seed: z.int().min(0),
});

/** @throws IsoproError PROBLEM_INVALID */
export const readTraderProblem = (value: unknown): TraderProblem =>
  readContent(`a problem of ${ID}`, ID, problemShape, value);

function exploits(): ExploitCase<TraderProblem>[] {
  const cases: ExploitRow[] = [
    ['a whole plan at once', JSON.stringify({ decisions: inHindsight(0) })],
    ['one decision and no more', JSON.stringify(WAIT)],
    ...['NaN', 'Infinity', '1e309', 'true', '"1"', '1.5', '-1', '6', '[1]', 'null', ''].map(
      (amount): [string, string] => [
        `the amount is ${JSON.stringify(amount)}`,
        `{"buy": "food", "sell": "stone", "amount": ${amount}}`,
      ],
    ),
    ['goods that are one', '{"buy": "food", "sell": "food", "amount": 1}'],
    ['an unknown good', '{"buy": "gold", "sell": "stone", "amount": 1}'],
    ['gold in the answer', '{"buy": "food", "sell": "stone", "amount": 1, "gold": 1000}'],
    ['a key twice', '{"buy": "food", "sell": "stone", "amount": 1, "amount": 5}'],
    [
      'a key of the prototype',
      '{"buy": "food", "sell": "stone", "amount": 1, "__proto__": {"gold": 1000}}',
    ],
    ['nothing', ''],
    ['a reply that was cut off', JSON.stringify(WAIT), 'length'],
  ];
  return exploitCases(problemOf(0), cases);
}

/** Five turns on a market whose prices are told turn by turn. */
export const trader: SynchronousTask<TraderProblem, readonly Decision[]> = {
  id: ID,
  version: '1',
  tiers: TIERS,
  limits: { turns: TURNS },
  generate: (tier, seed) => {
    findTier(ID, TIERS, tier);
    const random = new Random(seed);
    return unfrozen(ID, () => drawTraderProblem(random));
  },
  prompt: ({ seed }, style) => {
    const last =
      style === 'cot'
        ? 'You may think first. The last JSON object of a reply counts.'
        : 'Reply with the object and nothing else.';
    return [{ role: 'user', content: `${RULES}\n${last}\n\n${told(seed, 0, START)}` }];
  },
  parse,
  verify,
  step,
  answerGrammar: `root ::= "{\\"buy\\": " good ", \\"sell\\": " good ", \\"amount\\": " [0-5] "}"
good ::= "\\"wood\\"" | "\\"stone\\"" | "\\"food\\""
`,
  trivialPolicies: {
    'random-valid': (problem) => {
      const random = policyRandom(problem);
      return decideEach(problem.seed, (holdings, prices) => {
        const allowed = [WAIT, ...DECISIONS].filter(
          (decision) => typeof trade(holdings, prices, decision) !== 'string',
        );
        return allowed[random.nextInteger(0, allowed.length - 1)]!;
      });
    },
    'best-constant': () => new Array<Decision>(TURNS).fill(bestConstant()),
    greedy: ({ seed }) =>
      decideEach(seed, ({ stock }, prices) => {
        const [cheapest] = [...GOODS].sort((a, b) => prices[a] - prices[b]) as [
          (typeof GOODS)[number],
        ];
        const dearest = [...GOODS]
          .filter((good) => stock[good] > 0)
          .sort((a, b) => prices[b] - prices[a])[0]!;
        return cheapest === dearest
          ? WAIT
          : { buy: cheapest, sell: dearest, amount: Math.min(MOST, stock[dearest]) };
      }),
    hindsight: ({ seed }) => inHindsight(seed),
  },
  policyNotes: {
    'best-constant':
      'the one decision whose repetition has the highest mean over 64 seeds of its own, whatever the prices',
    greedy: 'sells all it can of the dearest good it has for the cheapest one, turn by turn',
    hindsight:
      'exact optimum with the prices of all turns known beforehand, which nobody who plays knows',
  },
  get exploits() {
    return exploits();
  },
};
