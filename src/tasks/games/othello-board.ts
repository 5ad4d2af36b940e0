/** `othello-board`: Othello played out on a board against a fixed player, one move a turn. */
import { z } from 'zod';
import { Random } from '../../random.js';
import { trimBlanks } from '../blanks.js';
import { exploitCases, policyRandom, readContent, unfrozen, type ExploitRow } from '../built-in.js';
import { refused } from '../flat-object.js';
import { problemId } from '../problem-id.js';
import type { ExploitCase, Parsed, Problem, SynchronousTask, Verdict } from '../task.js';
import { findTier } from '../tier.js';
import { failed } from '../verdict.js';
import { bestMove } from './othello-player.js';
import {
  cellOf,
  drawBoard,
  lead,
  legalMoves,
  moveTo,
  nameOf,
  type Position,
  type Side,
  type Size,
  startOf,
} from './othello-rules.js';

export interface OthelloProblem extends Problem {
  readonly task: string;
  readonly size: Size;
  /** Moves of both sides before the model's first, e.g. `d3`. */
  readonly opening: readonly string[];
}

const ID = 'othello-board';
export const TIERS = [
  { id: '6x6', title: 'a board of 6 x 6, from the 9th move on', trains: true, size: 6 as Size },
  { id: '8x8', title: 'a board of 8 x 8, from the 9th move on', trains: true, size: 8 as Size },
];
const OPENING = 8;
/** Moves that the opponent looks ahead, and the policy that is to beat it. */
const [DEPTH, DEEPER] = [2, 3];
/** No game has more moves of one side. */
const TURNS = 60;

const problemOf = (tier: string, size: Size, opening: readonly string[]): OthelloProblem => {
  const content = { task: ID, tier, size, opening };
  return { id: problemId(content), ...content };
};

/** The position after some moves; null where one is not legal. */
function replay(size: Size, moves: readonly string[]): Position | null {
  let position: Position | null = startOf(size);
  for (const move of moves)
    position = position === null ? null : moveTo(position, cellOf(size, move));
  return position;
}

/** A game so far: every move in order, and where it stands. */
interface Game {
  readonly position: Position;
  readonly moves: readonly { readonly side: Side; readonly name: string }[];
  /** The reply that was not legal, if any; nothing follows it. */
  readonly illegal: string | null;
}

/**
 * What the opponent plays in positions that it met before: the same game is replayed turn after
 * turn.
 */
const answers = new Map<string, number>();
const MOST_ANSWERS = 20_000;

function opponentMove(position: Position): number {
  const key = `${position.size} ${position.turn} ${position.cells.join('')}`;
  const known = answers.get(key);
  if (known !== undefined) return known;
  if (answers.size >= MOST_ANSWERS) answers.clear();
  const move = bestMove(position, DEPTH);
  answers.set(key, move);
  return move;
}

/** The side that the model plays: whose turn it is after the opening. */
const openingOf = ({ size, opening }: OthelloProblem): Position & { turn: Side } =>
  replay(size, opening) as Position & { turn: Side };

/**
 * A game after one more move of the model and what the opponent answers to it, until the model is
 * to move again.
 */
function advance({ position, moves }: Game, name: string, side: Side): Game {
  const { size } = position;
  let after = position.turn === side ? moveTo(position, cellOf(size, name)) : null;
  if (after === null) return { position, moves, illegal: name };
  const played = [...moves, { side, name }];
  while (after.turn === -side) {
    const cell = opponentMove(after);
    played.push({ side: -side as Side, name: nameOf(size, cell) });
    after = moveTo(after, cell)!;
  }
  return { position: after, moves: played, illegal: null };
}

/** Plays a game with the model's moves. */
function play(problem: OthelloProblem, replies: readonly string[]): Game {
  const start = openingOf(problem);
  let game: Game = { position: start, moves: [], illegal: null };
  for (const name of replies) {
    game = advance(game, name, start.turn);
    if (game.illegal !== null) break;
  }
  return game;
}

const disc = (side: Side): string => (side === 1 ? 'x' : 'o');

/**
 * Moves in order with the side of each, and the discs at the end, e.g. `x d3, o c5; x 20, o 16`.
 */
function replayText({ position, moves }: Game): string {
  const count = (side: Side): number => position.cells.filter((cell) => cell === side).length;
  return `${moves.map(({ side, name }) => `${disc(side)} ${name}`).join(', ')}; x ${count(1)}, o ${count(-1)}`;
}

const boardText = (position: Position): string =>
  `${drawBoard(position)}\nYour moves: ${legalMoves(position)
    .map((cell) => nameOf(position.size, cell))
    .join(' ')}`;

function parseMove(text: string): Parsed<string> {
  const line = trimBlanks(text).split('\n').at(-1)!.replace(/\.$/, '');
  const move = trimBlanks(line);
  return /^[a-h][1-8]$/.test(move)
    ? { ok: true, answer: move, form: 'move' }
    : refused('The last line of the reply is not a move.');
}

/** Answers are all moves of the model. */
function parse(
  text: string,
  _problem: OthelloProblem,
  earlier: readonly string[] = [],
): Parsed<readonly string[]> {
  const moves: string[] = [];
  for (const reply of [...earlier, text]) {
    const parsed = parseMove(reply);
    if (!parsed.ok) return parsed;
    moves.push(parsed.answer);
  }
  return { ok: true, answer: moves, form: 'move' };
}

/**
 * The lead in discs, as a part of the board, from 0 (all are the opponent's) over 0.5 (as many
 * each) to 1; more discs pass.
 */
function verify(problem: OthelloProblem, answer: readonly string[]): Verdict {
  if (!z.array(z.string()).max(TURNS).safeParse(answer).success)
    return failed('format', 'That is not a list of moves.');
  const game = play(problem, answer);
  const { position, illegal } = game;
  if (illegal !== null) return failed('illegal', `${illegal.slice(0, 8)} is not a legal move.`);
  if (position.turn !== 0)
    return failed('unfinished', `The game is not over after ${answer.length} moves.`);
  const discs = lead(position, openingOf(problem).turn);
  const score = 0.5 + discs / (2 * problem.size ** 2);
  const results = { found: replayText(game), expected: `more ${disc(openingOf(problem).turn)}` };
  const common = { metrics: { lead: discs }, score, results };
  if (discs > 0) return { kind: 'pass', violations: [], ...common };
  const detail = discs === 0 ? 'The game is a draw.' : `The opponent has ${-discs} more discs.`;
  return {
    kind: 'fail',
    violations: [{ category: 'score', jobs: [], amount: 1 - discs, detail }],
    ...common,
  };
}

/** The opponent's answer and the board; null where the game is over, or a reply ended it. */
function step(problem: OthelloProblem, replies: readonly string[]): string | null {
  const parsed = parse(replies.at(-1)!, problem, replies.slice(0, -1));
  if (!parsed.ok) return null;
  const { position, moves, illegal } = play(problem, parsed.answer);
  if (illegal !== null || position.turn === 0) return null;
  const own = moves.findLastIndex(({ side }) => side === position.turn);
  const answered = moves.slice(own + 1).map(({ name }) => name);
  return `${answered.length === 0 ? 'I pass.' : `I play ${answered.join(' and ')}.`}\n${boardText(position)}`;
}

const RULES = [
  'We play Othello. You place a disc so that it and another of yours enclose discs of mine in a line, straight or diagonal, without a gap;',
  'all that are enclosed turn over and are yours. Who has no such move passes. When nobody has one, who has more discs wins.',
  'The score is 0.5 and your lead in discs over twice the number of squares. A move that is not legal loses.',
].join(' ');

/** Plays the model's side by a policy. */
function playOut(
  problem: OthelloProblem,
  choose: (position: Position) => number,
): readonly string[] {
  const start = openingOf(problem);
  const chosen: string[] = [];
  for (let game: Game = { position: start, moves: [], illegal: null }; game.position.turn !== 0; ) {
    chosen.push(nameOf(problem.size, choose(game.position)));
    game = advance(game, chosen.at(-1)!, start.turn);
  }
  return chosen;
}

/** Random moves of both sides from the start. */
export function drawOthelloProblem(
  { id, size }: (typeof TIERS)[number],
  random: Random,
): OthelloProblem {
  for (;;) {
    const opening: string[] = [];
    let position = startOf(size);
    while (opening.length < OPENING && position.turn !== 0) {
      const moves = legalMoves(position);
      const cell = moves[random.nextInteger(0, moves.length - 1)]!;
      opening.push(nameOf(size, cell));
      position = moveTo(position, cell)!;
    }
    if (position.turn !== 0) return problemOf(id, size, opening);
  }
}

const problemShape = z.object({
  id: z.string().optional(),
  task: z.literal(ID),
  tier: z.string(),
  size: z.literal([6, 8]),
  opening: z.array(z.string()).max(64),
});

/**
 * Checks a problem that came from outside: shape, legal moves, a game that is not over.
 * @throws IsoproError PROBLEM_INVALID
 */
export const readOthelloProblem = (value: unknown): OthelloProblem =>
  readContent(`a problem of ${ID}`, ID, problemShape, value, ({ tier, size, opening }, invalid) => {
    if (!TIERS.some((one) => one.id === tier && one.size === size))
      invalid(`${JSON.stringify(tier)} has no board of ${size} x ${size}`);
    const position = replay(size, opening);
    if (position === null) invalid('a move of its opening is not legal');
    if (position?.turn === 0) invalid('its game is over');
  });

function exploits(): ExploitCase<OthelloProblem>[] {
  const problem = drawOthelloProblem(TIERS[0]!, new Random(0n));
  const start = openingOf(problem);
  const legal = nameOf(6, legalMoves(start)[0]!);
  const taken = nameOf(
    6,
    start.cells.findIndex((cell) => cell !== 0),
  );
  const free = nameOf(
    6,
    start.cells.findIndex((cell, at) => cell === 0 && moveTo(start, at) === null),
  );
  const cases: ExploitRow[] = [
    ['one legal move and no more', legal],
    ['a whole game at once', playOut(problem, (position) => bestMove(position, DEEPER)).join(' ')],
    [
      'a whole game on lines of its own',
      `${playOut(problem, (position) => bestMove(position, DEEPER)).join('\n')}\n`,
    ],
    ['a square that is taken', taken],
    ['a square that encloses nothing', free],
    ['a square outside the board', 'g1'],
    ['a square of no board', 'z9'],
    ['two moves', `${legal} ${legal}`],
    ['a pass', 'pass'],
    ['a claim', 'I win 36 to 0.'],
    ['letters of another alphabet', legal.replace(/./, 'а')],
    ['a capital letter', legal.toUpperCase()],
    ['nothing', ''],
    ['a reply that was cut off', legal, 'length'],
  ];
  return exploitCases(problem, cases);
}

/** Othello on a real board, against a player that looks two moves ahead. */
export const othelloBoard: SynchronousTask<OthelloProblem, readonly string[]> = {
  id: ID,
  version: '1',
  tiers: TIERS.map(({ id, title, trains }) => ({ id, title, trains })),
  limits: { turns: TURNS },
  generate: (tier, seed) => {
    const shape = findTier(ID, TIERS, tier);
    const random = new Random(seed);
    return unfrozen(ID, () => drawOthelloProblem(shape, random));
  },
  prompt: (problem, style) => {
    const start = openingOf(problem);
    const last =
      style === 'cot'
        ? 'You may think first. The last line of a reply is your move'
        : 'Reply with your move and nothing else';
    const asked = `You are ${disc(start.turn)}. ${last}, a letter and a number such as a1.`;
    return [{ role: 'user', content: `${RULES}\n${asked}\n\n${boardText(start)}` }];
  },
  parse,
  verify,
  step,
  answerGrammar: 'root ::= [a-h] [1-8]\n',
  trivialPolicies: {
    'random-valid': (problem) => {
      const random = policyRandom(problem);
      return playOut(problem, (position) => {
        const moves = legalMoves(position);
        return moves[random.nextInteger(0, moves.length - 1)]!;
      });
    },
    'first-legal': (problem) => playOut(problem, (position) => legalMoves(position)[0]!),
    'most-discs': (problem) => playOut(problem, (position) => bestLead(position)),
    'deeper-search': (problem) => playOut(problem, (position) => bestMove(position, DEEPER)),
  },
  policyNotes: {
    'first-legal': 'the first legal move of the list, whatever the board',
    'deeper-search': 'the opponent’s own search, three moves ahead instead of two',
  },
  get exploits() {
    return exploits();
  },
};

/** The first move that leaves the most discs. */
function bestLead(position: Position): number {
  const side = position.turn as Side;
  const value = (cell: number): number => lead(moveTo(position, cell)!, side);
  return legalMoves(position).reduce((best, cell) => (value(cell) > value(best) ? cell : best));
}
