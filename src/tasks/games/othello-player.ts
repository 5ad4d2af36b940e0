/**
 * The fixed opponent: alpha-beta (Knuth and Moore 1975) to a fixed depth, the first of equal moves.
 */
import { lead, legalMoves, moveTo, movesOf, type Position, type Side } from './othello-rules.js';

const CORNER = 10;
const OVER = 1_000;

/**
 * Worth of a position for a side: corners and legal moves while the game lasts, discs when it is
 * over.
 */
function worth(position: Position, side: Side): number {
  if (position.turn === 0) {
    const discs = lead(position, side);
    return Math.sign(discs) * OVER + discs;
  }
  const { size, cells } = position;
  const corners = [0, size - 1, size * (size - 1), size * size - 1].reduce(
    (sum, cell) => sum + side * cells[cell]!,
    0,
  );
  return (
    CORNER * corners + movesOf(position, side).length - movesOf(position, -side as Side).length
  );
}

/** @param depth moves that are looked ahead, passes not counted */
function search(
  position: Position,
  side: Side,
  depth: number,
  alpha: number,
  beta: number,
): number {
  if (depth === 0 || position.turn === 0) return worth(position, side);
  const own = position.turn === side;
  let best = own ? -Infinity : Infinity;
  let [low, high] = [alpha, beta];
  for (const cell of legalMoves(position)) {
    const value = search(moveTo(position, cell)!, side, depth - 1, low, high);
    best = own ? Math.max(best, value) : Math.min(best, value);
    if (own) low = Math.max(low, best);
    else high = Math.min(high, best);
    if (low >= high) break;
  }
  return best;
}

/** The move of whose turn it is. @param depth at least 1 */
export function bestMove(position: Position, depth: number): number {
  let best = { cell: -1, value: -Infinity };
  for (const cell of legalMoves(position)) {
    const value = search(
      moveTo(position, cell)!,
      position.turn as Side,
      depth - 1,
      best.value,
      Infinity,
    );
    if (value > best.value) best = { cell, value };
  }
  return best.cell;
}
