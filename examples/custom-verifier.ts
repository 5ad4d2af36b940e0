/**
 * A domain of your own: give change with the fewest coins. The file is a complete task.
 *   npx isopro-native tasks generate --task examples/custom-verifier.ts
 *   npx isopro-native tasks baselines --task examples/custom-verifier.ts
 */
import { defineTask, Random } from 'isopro-native';

interface Change {
  readonly coins: readonly number[];
  readonly amount: number;
}

const sum = (coins: readonly number[]): number => coins.reduce((total, coin) => total + coin, 0);

/**
 * Fewest coins for every amount up to the given one; coin 1 is always there, so each amount can be
 * paid.
 */
function fewestCoins({ coins, amount }: Change): number {
  const fewest = [0];
  for (let paid = 1; paid <= amount; paid++)
    fewest.push(
      1 + Math.min(...coins.filter((coin) => coin <= paid).map((coin) => fewest[paid - coin]!)),
    );
  return fewest[amount]!;
}

/** Always the largest coin that fits: the policy that a model must beat. */
function greedy({ coins, amount }: Change): number[] {
  const paid: number[] = [];
  for (let left = amount; left > 0; left -= paid.at(-1)!)
    paid.push(Math.max(...coins.filter((coin) => coin <= left)));
  return paid;
}

export default defineTask<Change, number[]>({
  id: 'fewest-coins',
  version: '1',
  tiers: [
    { id: 'E0', title: 'greedy is right' },
    { id: 'E1', title: 'greedy is wrong' },
  ],

  generate(tier, seed) {
    const random = new Random(seed);
    for (;;) {
      const drawn = [
        1,
        random.nextInteger(2, 6),
        random.nextInteger(5, 9),
        random.nextInteger(10, 15),
      ];
      const problem = {
        coins: [...new Set(drawn)].sort((a, b) => a - b),
        amount: random.nextInteger(11, 40),
      };
      if ((greedy(problem).length === fewestCoins(problem)) === (tier === 'E0')) return problem;
    }
  },

  prompt: ({ coins, amount }) => [
    {
      role: 'user',
      content:
        `Pay exactly ${amount} with coins of ${coins.join(', ')}, as many of each as you like, using as few coins as possible. ` +
        `End your reply with the coins, for example <answer>5 + 1 + 1</answer>.`,
    },
  ],

  parse(text) {
    const match = /<answer>([\d\s+]{1,400})<\/answer>\s*$/.exec(text);
    if (match === null || text.split('<answer>').length !== 2)
      return {
        ok: false,
        category: 'format',
        detail: 'Exactly one answer block must end the reply.',
      };
    const parts = match[1]!.split('+').map((part) => part.trim());
    if (!parts.every((part) => /^[1-9]\d{0,5}$/.test(part)))
      return {
        ok: false,
        category: 'format',
        detail: 'The block must be whole numbers joined by +.',
      };
    return { ok: true, answer: parts.map(Number), form: 'sum' };
  },

  verify(problem, answer) {
    const violations: { category: string; detail: string }[] = [];
    for (const coin of new Set(answer))
      if (!problem.coins.includes(coin))
        violations.push({ category: 'coin', detail: `There is no coin of ${coin}.` });
    if (sum(answer) !== problem.amount)
      violations.push({
        category: 'sum',
        detail: `The coins sum to ${sum(answer)}, not to ${problem.amount}.`,
      });
    const fewest = fewestCoins(problem);
    if (answer.length > fewest)
      violations.push({
        category: 'count',
        detail: `${answer.length} coins are used; fewer are enough.`,
      });
    return {
      kind: violations.length === 0 ? 'pass' : 'fail',
      violations,
      metrics: { coins: answer.length },
    };
  },

  trivialPolicies: { greedy, ones: ({ amount }) => new Array<number>(amount).fill(1) },
  exploits: [
    {
      name: 'no coins at all',
      problem: { coins: [1, 3, 4], amount: 6 },
      text: '<answer></answer>',
    },
  ],
});
