/**
 * Games of several turns, a market and a board: what is told follows from the replies; a broken
 * rule ends the game without a score.
 */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../../src/random.js';
import { frozenSet } from '../../../src/tasks/frozen-sets.js';
import {
  type OthelloProblem,
  othelloBoard,
  readOthelloProblem,
} from '../../../src/tasks/games/othello-board.js';
import { bestMove } from '../../../src/tasks/games/othello-player.js';
import {
  cellOf,
  drawBoard,
  lead,
  legalMoves,
  moveTo,
  nameOf,
  type Position,
  type Side,
  startOf,
} from '../../../src/tasks/games/othello-rules.js';
import { readTraderProblem, trader, type TraderProblem } from '../../../src/tasks/games/trader.js';
import {
  type Decision,
  DECISIONS,
  inHindsight,
  pricesOf,
  scoreOf,
  START,
  trade,
  TURNS,
} from '../../../src/tasks/games/trader-market.js';
import { openTask } from '../../../src/tasks/open-task.js';
import type { Problem, SynchronousTask, Verdict } from '../../../src/tasks/task.js';

const FULL = process.env.ISOPRO_FULL === '1';

/** Replies until the task has nothing more to say, and the verdict on the episode. */
function converse<P extends Problem, A>(
  task: SynchronousTask<P, A>,
  problem: P,
  reply: (told: string) => string,
): { told: string[]; verdict: Verdict } {
  const told = [task.prompt(problem, 'plain')[0]!.content];
  const replies: string[] = [];
  for (let next: string | null = told[0]!; next !== null; ) {
    replies.push(reply(next));
    next = task.step!(problem, replies);
    if (next !== null) told.push(next);
  }
  const parsed = task.parse(replies.at(-1)!, problem, replies.slice(0, -1));
  if (!parsed.ok)
    return {
      told,
      verdict: { kind: 'fail', violations: [], metrics: {}, reason: parsed.category },
    };
  return { told, verdict: task.verify(problem, parsed.answer) };
}

describe('resource_trader', () => {
  const problem = readTraderProblem({ task: 'resource_trader', tier: 'market', seed: 0 });
  const sell: Decision = { buy: 'food', sell: 'stone', amount: 1 };

  test('one decision five times gives the published scores; a second unit is refused on turn 3', () => {
    const scores = [sell, { buy: 'stone', sell: 'food', amount: 1 } as const].map((decision) => {
      const { verdict } = converse(trader, problem, () => JSON.stringify(decision));
      return [verdict.score, verdict.metrics.gold];
    });
    expect(scores).toEqual([
      [0.7053, 120.53],
      [0.2947, 79.47],
    ]);
    const refused = converse(trader, problem, () => JSON.stringify({ ...sell, amount: 2 }));
    expect(refused.told).toHaveLength(3);
    expect([refused.verdict.kind, refused.verdict.score]).toEqual(['fail', undefined]);
    expect(refused.verdict.violations[0]).toMatchObject({
      category: 'trade',
      detail: 'Turn 3: You have 1 stone, not 2.',
    });
  });

  test('whoever trades by nothing but what is told gets what the gold says', () => {
    for (const { problem: own } of frozenSet<TraderProblem, null>('resource_trader', 'dev')
      .problems) {
      let cents = 10_000;
      const { told, verdict } = converse(trader, own, (text) => {
        const lines = [
          ...text.matchAll(/^(wood|stone|food): price ([\d.]+), you have (\d+)$/gm),
        ].map(([, good, price, stock]) => ({
          good: good!,
          price: Math.round(100 * Number(price)),
          stock: Number(stock),
        }));
        expect(lines).toHaveLength(3);
        expect(Math.round(100 * Number(/You have ([\d.]+) gold/.exec(text)![1]))).toBe(cents);
        const cheap = lines.reduce((a, b) => (b.price < a.price ? b : a));
        const dear = lines
          .filter(({ stock }) => stock > 0)
          .reduce((a, b) => (b.price > a.price ? b : a));
        const amount = cheap === dear ? 0 : Math.min(5, dear.stock);
        cents += amount * (dear.price - cheap.price);
        return JSON.stringify({ buy: cheap.good, sell: dear.good, amount });
      });
      expect(told).toHaveLength(TURNS);
      expect(verdict.score).toBeCloseTo(Math.min(1, 0.5 + (cents - 10_000) / 10_000), 10);
      expect(verdict).toEqual(trader.verify(own, trader.trivialPolicies.greedy!(own)));
    }
  });

  test('hindsight is the best of all decisions: no random ones are better, nor greedy ones', () => {
    for (const seed of [1, 2, 3]) {
      const value = (decisions: readonly Decision[]): number => {
        let holdings = START;
        for (const [turn, decision] of decisions.entries()) {
          const after = trade(holdings, pricesOf(seed, turn), decision);
          if (typeof after === 'string') return -1;
          holdings = after;
        }
        return holdings.cents;
      };
      const best = value(inHindsight(seed));
      const random = new Random(BigInt(seed));
      for (let drawn = 0; drawn < 2_000; drawn++)
        expect(
          value(
            Array.from(
              { length: TURNS },
              () => DECISIONS[random.nextInteger(0, DECISIONS.length - 1)]!,
            ),
          ) <= best,
        ).toBe(true);
      expect(value(trader.trivialPolicies.greedy!({ ...problem, seed }))).toBeLessThanOrEqual(best);
    }
  });

  test('policies: looking at the prices beats the best constant by 0.2 on held-out seeds', () => {
    const problems = frozenSet<TraderProblem, null>('resource_trader', 'test').problems.map(
      (row) => row.problem,
    );
    const mean = (name: string): number =>
      problems.reduce(
        (sum, own) => sum + (trader.verify(own, trader.trivialPolicies[name]!(own)).score ?? 0),
        0,
      ) / problems.length;
    const [random, constant, greedy, hindsight] = [
      'random-valid',
      'best-constant',
      'greedy',
      'hindsight',
    ].map(mean) as [number, number, number, number];
    expect(random).toBeLessThan(constant);
    expect(greedy - constant).toBeGreaterThan(0.2);
    expect(hindsight).toBeGreaterThan(greedy);
  });

  test('every exploit ends the episode or is no answer; scores stay within 0 and 1', () => {
    for (const { name, text, problem: own } of trader.exploits) {
      const parsed = trader.parse(text, own);
      const verdict = parsed.ok ? trader.verify(own, parsed.answer) : null;
      expect([name, verdict?.kind ?? 'fail', verdict?.score]).toEqual([name, 'fail', undefined]);
      if (!parsed.ok) expect(trader.step!(own, [text])).toBeNull();
    }
    expect([scoreOf(0), scoreOf(10_000), scoreOf(15_000), scoreOf(40_000)]).toEqual([0, 0.5, 1, 1]);
    for (const value of [null, {}, [sell], [{ ...sell, amount: NaN }], new Array(6).fill(sell)])
      expect([
        trader.verify(problem, value as never).kind,
        trader.verify(problem, value as never).score,
      ]).toEqual(['fail', undefined]);
  });

  test('a problem from outside is checked', () => {
    const fresh = trader.generate('market', 3n) as TraderProblem;
    expect(readTraderProblem(fresh)).toEqual(fresh);
    for (const value of [
      { ...fresh, seed: 1.5 },
      { ...fresh, seed: fresh.seed + 1 },
      { ...fresh, task: 'ladder' },
      null,
    ])
      expect(() => readTraderProblem(value)).toThrow(
        expect.objectContaining({ code: 'PROBLEM_INVALID' }),
      );
  });
});

/**
 * Othello once more, in another way: boards as text with a border, lines as regular expressions.
 */
function slowMove(size: number, board: string, cell: number, side: 'x' | 'o'): string | null {
  const other = side === 'x' ? 'o' : 'x';
  if (board[cell] !== '.') return null;
  const turned = new Set<number>();
  const [row, column] = [Math.floor(cell / size), cell % size];
  for (const [down, right] of [
    [0, 1],
    [0, -1],
    [1, 0],
    [-1, 0],
    [1, 1],
    [1, -1],
    [-1, 1],
    [-1, -1],
  ] as const) {
    const ray: number[] = [];
    for (
      let step = 1;
      row + step * down >= 0 &&
      row + step * down < size &&
      column + step * right >= 0 &&
      column + step * right < size;
      step++
    )
      ray.push((row + step * down) * size + column + step * right);
    const found = new RegExp(`^(${other}+)${side}`).exec(ray.map((at) => board[at]).join(''));
    for (const at of ray.slice(0, found?.[1]?.length ?? 0)) turned.add(at);
  }
  if (turned.size === 0) return null;
  return [...board].map((disc, at) => (at === cell || turned.has(at) ? side : disc)).join('');
}
const asText = ({ cells }: Position): string =>
  cells.map((cell) => (cell === 0 ? '.' : cell === 1 ? 'x' : 'o')).join('');

describe('the rules of Othello', () => {
  /**
   * Positions that are reached by so many moves, passes not counted, with their moves; leaves are
   * counted once a path.
   */
  const paths = (position: Position, depth: number): number =>
    depth === 0 || position.turn === 0
      ? 1
      : legalMoves(position).reduce(
          (sum, cell) => sum + paths(moveTo(position, cell)!, depth - 1),
          0,
        );

  test('8 x 8 has the published numbers of games of 1 to 6 moves', () => {
    expect([1, 2, 3, 4, 5, 6].map((depth) => paths(startOf(8), depth))).toEqual([
      4, 12, 56, 244, 1396, 8200,
    ]);
  });

  test.each([6, 8] as const)(
    'random games on %i x %i are what a second implementation makes of them',
    (size) => {
      const random = new Random(BigInt(size));
      let passes = 0;
      for (let game = 0; game < (FULL ? 1_000 : 20); game++) {
        let position = startOf(size);
        while (position.turn !== 0) {
          const side = position.turn === 1 ? 'x' : 'o';
          const board = asText(position);
          const expected = [...board].flatMap((_, cell) =>
            slowMove(size, board, cell, side) === null ? [] : [cell],
          );
          if (JSON.stringify(legalMoves(position)) !== JSON.stringify(expected))
            throw new Error(`moves of ${side} on ${board}`);
          const cell = expected[random.nextInteger(0, expected.length - 1)]!;
          const next = moveTo(position, cell)!;
          if (asText(next) !== slowMove(size, board, cell, side))
            throw new Error(`${side} at ${cell} on ${board}`);
          const canMove = (who: 'x' | 'o'): boolean =>
            [...asText(next)].some((_, at) => slowMove(size, asText(next), at, who) !== null);
          const other = side === 'x' ? 'o' : 'x';
          const turn = canMove(other) ? -position.turn : canMove(side) ? position.turn : 0;
          expect(next.turn).toBe(turn);
          if (turn === position.turn) passes++;
          position = next;
        }
      }
      expect(passes).toBeGreaterThan(0);
    },
  );

  test('names, boards and squares that are none', () => {
    for (let cell = 0; cell < 36; cell++) expect(cellOf(6, nameOf(6, cell))).toBe(cell);
    for (const name of ['', 'a0', 'a7', 'g1', 'A1', 'a1 ', 'a11', '1a'])
      expect(cellOf(6, name)).toBe(-1);
    expect(drawBoard(startOf(6))).toBe(
      '  a b c d e f\n1 . . . . . .\n2 . . . . . .\n3 . . o x . .\n4 . . x o . .\n5 . . . . . .\n6 . . . . . .',
    );
    expect(moveTo(startOf(6), -1)).toBeNull();
  });

  test('alpha-beta finds what the whole tree says, cutting nothing that matters', () => {
    const random = new Random(4n);
    for (let drawn = 0; drawn < 6; drawn++) {
      let position = startOf(6);
      for (let ply = 0; ply < 26 && position.turn !== 0; ply++) {
        const moves = legalMoves(position);
        position = moveTo(position, moves[random.nextInteger(0, moves.length - 1)]!)!;
      }
      if (position.turn === 0) continue;
      // so near the end the search sees the end: minimax over whole games, discs for all they are
      // worth
      const outcome = (at: Position, side: Side): number => {
        if (at.turn === 0) return lead(at, side);
        const values = legalMoves(at).map((cell) => outcome(moveTo(at, cell)!, side));
        return at.turn === side ? Math.max(...values) : Math.min(...values);
      };
      const side = position.turn;
      expect(outcome(moveTo(position, bestMove(position, 20))!, side)).toBe(
        outcome(position, side),
      );
    }
  });
});

describe('othello-board', () => {
  const problem = othelloBoard.generate('6x6', 1n) as OthelloProblem;

  test('whoever plays by nothing but what is told plays a whole game; the replay is a game', () => {
    for (const tier of ['6x6', '8x8']) {
      const own = othelloBoard.generate(tier, 7n) as OthelloProblem;
      const { verdict, told } = converse(
        othelloBoard,
        own,
        (text) => /Your moves: (\S+)/.exec(text)![1]!,
      );
      expect(verdict).toEqual(
        othelloBoard.verify(own, othelloBoard.trivialPolicies['first-legal']!(own)),
      );
      expect(told.slice(1).every((text) => /^I (play|pass)/.test(text))).toBe(true);
      const [moves, discs] = verdict.results!.found.split('; ') as [string, string];
      let position = own.opening.reduce(
        (at, name) => moveTo(at, cellOf(own.size, name))!,
        startOf(own.size),
      );
      const side = position.turn as Side;
      for (const move of moves.split(', ')) {
        const [disc, name] = move.split(' ') as [string, string];
        expect(disc).toBe(position.turn === 1 ? 'x' : 'o');
        position = moveTo(position, cellOf(own.size, name))!;
      }
      expect(position.turn).toBe(0);
      expect(discs).toBe(
        `x ${asText(position).split('x').length - 1}, o ${asText(position).split('o').length - 1}`,
      );
      expect(verdict.score).toBe(0.5 + lead(position, side) / (2 * own.size ** 2));
      expect(verdict.kind).toBe(lead(position, side) > 0 ? 'pass' : 'fail');
    }
  });

  test('a move that is not legal, a text and a cut game have no score', async () => {
    const [legal] = othelloBoard.trivialPolicies['first-legal']!(problem) as [string];
    const taken = problem.opening[0]!;
    expect(othelloBoard.verify(problem, [taken]).violations[0]!.category).toBe('illegal');
    expect(othelloBoard.verify(problem, [legal]).violations[0]!.category).toBe('unfinished');
    expect([othelloBoard.step!(problem, [taken]), othelloBoard.step!(problem, ['I pass'])]).toEqual(
      [null, null],
    );
    expect(othelloBoard.step!(problem, [legal])).toMatch(/^I p/);
    for (const value of [null, 'a1', [1], [NaN], new Array(61).fill('a1')])
      expect([
        othelloBoard.verify(problem, value as never).kind,
        othelloBoard.verify(problem, value as never).score,
      ]).toEqual(['fail', undefined]);
    await using task = await openTask('othello-board');
    for (const { name, problem: own, text, finish } of othelloBoard.exploits) {
      const { verdict } = await task.judge(own, text, finish);
      expect([name, verdict.kind, verdict.score]).toEqual([name, 'fail', undefined]);
    }
  });

  test('its policies play legal games to the end; searching deeper wins more than chance', () => {
    const problems = frozenSet<OthelloProblem, null>('othello-board', 'dev').problems.map(
      (row) => row.problem,
    );
    const scores = (policy: string): number[] =>
      problems
        .filter(({ size }) => size === 6)
        .map((own) => othelloBoard.verify(own, othelloBoard.trivialPolicies[policy]!(own)).score!);
    const mean = (values: readonly number[]): number =>
      values.reduce((sum, value) => sum + value, 0) / values.length;
    const [random, deeper] = [scores('random-valid'), scores('deeper-search')];
    expect(
      [...random, ...deeper, ...scores('most-discs')].every((score) => score >= 0 && score <= 1),
    ).toBe(true);
    expect(mean(deeper) - mean(random)).toBeGreaterThan(0.15);
  });

  test('a problem from outside is checked', () => {
    expect(readOthelloProblem(JSON.parse(JSON.stringify(problem)))).toEqual(problem);
    const over: string[] = [];
    for (let position = startOf(6); position.turn !== 0; ) {
      over.push(nameOf(6, legalMoves(position)[0]!));
      position = moveTo(position, legalMoves(position)[0]!)!;
    }
    const { id: _id, ...rest } = problem;
    for (const value of [
      { ...problem, opening: [] },
      { ...rest, opening: ['a1'] },
      { ...rest, opening: over },
      { ...rest, opening: [...rest.opening.slice(0, -1), '💥'] },
      { ...rest, size: 8 },
      { ...rest, size: 7 },
      { ...rest, tier: '8x8' },
      { ...rest, task: 'othello' },
    ])
      expect(() => readOthelloProblem(value)).toThrow(
        expect.objectContaining({ code: 'PROBLEM_INVALID' }),
      );
  });
});
