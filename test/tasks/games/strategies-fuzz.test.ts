/**
 * Replies close to right, soup and monsters to the readers of strategies: no exception, and no
 * score that an oracle does not find too.
 */
import { expect, test } from '@jest/globals';
import { Random } from '../../../src/random.js';
import { type OthelloProblem, othelloBoard } from '../../../src/tasks/games/othello-board.js';
import { type ScenarioProblem, taskOf } from '../../../src/tasks/games/scenario-task.js';
import { shippedScenario } from '../../../src/tasks/games/shipped.js';
import { trader, type TraderProblem } from '../../../src/tasks/games/trader.js';
import { judgeReply } from '../../../src/tasks/verdict.js';

const TEXTS = process.env.ISOPRO_FULL === '1' ? 100_000 : 10_000;

const PIECES = [
  ...'{}[]":,.\'`\\+-e0123456789 \n\t',
  ...[
    '```json\n',
    '\n```',
    'NaN',
    'Infinity',
    '1e309',
    '-0',
    '1e-3',
    'true',
    'null',
    '"0.5"',
    '__proto__',
    '\\u0061',
    '\ud800',
    '\u2028',
    '💥',
  ],
  ...[
    '{"',
    '": ',
    ', "',
    '"aggression": 1',
    '"defense": 0.4',
    '"path_bias": 1',
    ', "aggression": 0',
    '9'.repeat(400),
    '{'.repeat(500),
  ],
];
const KEYS = ['aggression', 'defense', 'path_bias'];

/**
 * Scores, rounded, of every run of braces without braces in it that is a strategy: formula and
 * rules as the prompt states them.
 */
function possibleScores(text: string, noise: number): number[] {
  return [...text.matchAll(/\{[^{}]*\}/g)].flatMap(([candidate]) => {
    let value: Record<string, unknown>;
    try {
      value = JSON.parse(candidate) as Record<string, unknown>;
    } catch {
      return [];
    }
    if (candidate.split('"').length !== 7 || Object.keys(value).sort().join() !== KEYS.join())
      return [];
    const numbers = KEYS.map((key) => value[key]);
    if (!numbers.every((number) => typeof number === 'number' && number >= 0 && number <= 1))
      return [];
    const [a, d, p] = numbers as [number, number, number];
    if (a + d > 1.4 + 1e-9) return [];
    const clamp = (x: number): number => Math.min(1, Math.max(0, x));
    return [
      0.6 * clamp(0.55 * a + 0.45 * p + noise) +
        0.25 * clamp(1 - 0.4 * a + 0.4 * d) +
        0.15 * clamp(1 - 0.3 * a + 0.1 * d),
    ];
  });
}

const bare = (text: string): string => text.replace(/^[ \t\r\n]+/, '').replace(/[ \t\r\n]+$/, '');

test(`${TEXTS} replies`, async () => {
  const random = new Random(11n);
  const scenario = shippedScenario('grid_ctf');
  const task = taskOf(scenario);
  const problem = task.generate('match', 0n) as ScenarioProblem;
  // both are the seed's first draw
  const noise = -0.07 + (0.14 * (problem.observation.enemy_spawn_bias! - 0.25)) / 0.5;
  const piece = (): string => PIECES[random.nextInteger(0, PIECES.length - 1)]!;
  const number = (): string =>
    random.nextInteger(0, 9) === 0 ? piece() : String(random.nextInteger(0, 10) / 10);
  const strategy = (): string =>
    `{${random
      .shuffle(KEYS)
      .map((key) => `"${key}": ${number()}`)
      .join(', ')}}`;
  const mutated = (text: string): string => {
    const at = random.nextInteger(0, text.length);
    return random.nextInteger(0, 1) === 0
      ? text.slice(0, at) + piece() + text.slice(at)
      : text.slice(0, at) + text.slice(at + random.nextInteger(1, 5));
  };
  const game = othelloBoard.generate('6x6', 0n) as OthelloProblem;
  const market = trader.generate('market', 0n) as TraderProblem;
  let [scored, refused] = [0, 0];
  for (let made = 0; made < TEXTS; made++) {
    let text = strategy();
    const kind = random.nextInteger(0, 5);
    if (kind === 0) text = Array.from({ length: random.nextInteger(0, 40) }, piece).join('');
    else if (kind === 1) text = `${piece()}${text}${piece()}${strategy()}${piece()}`;
    else if (kind < 5)
      for (let edit = random.nextInteger(0, 2); edit > 0; edit--) text = mutated(text);
    else if (made % 97 === 0)
      text = [piece().repeat(3_000), text.repeat(200), `{"a": "${piece().repeat(900)}"}${text}`][
        random.nextInteger(0, 2)
      ]!;
    const { verdict } = judgeReply(task, problem, text, 'stop');
    const possible = possibleScores(text, noise);
    if (verdict.score === undefined) {
      refused++;
      if (verdict.kind !== 'fail') throw new Error(`passed without a score: ${text}`);
      // a strategy and nothing else is never refused
      if (possible.length === 1 && /^\{[^{}]*\}$/.test(text)) throw new Error(`refused: ${text}`);
    } else {
      scored++;
      // the observation is rounded to 3 decimals, the noise to 1.4e-4 of its range with it
      if (!possible.some((score) => Math.abs(score - verdict.score!) < 4e-4))
        throw new Error(`scored ${verdict.score}: ${text}`);
      if ((verdict.kind === 'pass') !== verdict.score >= 0.55)
        throw new Error(`${verdict.kind} with ${verdict.score}`);
    }
    for (const answer of task.readLeniently!(text, problem)) task.verify(problem, answer);
    const move = othelloBoard.parse(text, game);
    const last = bare(bare(text).split('\n').at(-1)!.replace(/\.$/, ''));
    if (move.ok !== /^[a-h][1-8]$/.test(last)) throw new Error(`a move: ${text}`);
    const decision = trader.parse(
      text.replaceAll('aggression', 'buy').replaceAll('defense', 'sell'),
      market,
    );
    if (decision.ok) throw new Error(`a decision without goods: ${text}`);
    if (
      trader.step!(market, [text]) !== null ||
      (othelloBoard.step!(game, [text]) !== null && !move.ok)
    )
      throw new Error(`goes on: ${text}`);
  }
  expect(scored).toBeGreaterThan(TEXTS / 5);
  expect(refused).toBeGreaterThan(TEXTS / 5);
});
