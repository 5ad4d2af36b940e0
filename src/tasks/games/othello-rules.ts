/** Othello on a board of 6 x 6 or 8 x 8: moves, flips, ends, and boards as text. */

export const SIZES = [6, 8] as const;
export type Size = (typeof SIZES)[number];

/** 1: who moves first (x); -1: the other (o). */
export type Side = 1 | -1;

/** `cells[row * size + column]` is 0 where nobody has a disc. */
export interface Position {
  readonly size: Size;
  readonly cells: readonly (0 | Side)[];
  /** Whose turn it is, passes made; 0: nobody can move. */
  readonly turn: Side | 0;
}

const DIRECTIONS = [-1, 0, 1]
  .flatMap((down) => [-1, 0, 1].map((right) => [down, right] as const))
  .filter(([a, b]) => a !== 0 || b !== 0);

/** Discs of the other side that a disc in a cell would enclose in one direction. */
function enclosed(
  size: Size,
  cells: readonly (0 | Side)[],
  cell: number,
  side: Side,
  down: number,
  right: number,
): number {
  let row = Math.floor(cell / size) + down;
  let column = (cell % size) + right;
  for (
    let count = 0;
    row >= 0 && row < size && column >= 0 && column < size;
    count++, row += down, column += right
  ) {
    const found = cells[row * size + column];
    if (found === 0) return 0;
    if (found === side) return count;
  }
  return 0;
}

function isLegal(size: Size, cells: readonly (0 | Side)[], cell: number, side: Side): boolean {
  if (cells[cell] !== 0) return false;
  for (const [down, right] of DIRECTIONS)
    if (enclosed(size, cells, cell, side, down, right) > 0) return true;
  return false;
}

/** Legal moves of a side, in the order of the cells. */
export function movesOf({ size, cells }: Pick<Position, 'size' | 'cells'>, side: Side): number[] {
  const moves: number[] = [];
  for (let cell = 0; cell < cells.length; cell++)
    if (isLegal(size, cells, cell, side)) moves.push(cell);
  return moves;
}

/** Legal moves of who is to move. */
export const legalMoves = (position: Position): number[] =>
  position.turn === 0 ? [] : movesOf(position, position.turn);

export function startOf(size: Size): Position {
  const cells = new Array<0 | Side>(size * size).fill(0);
  const middle = size / 2;
  const at = (row: number, column: number): number => row * size + column;
  cells[at(middle - 1, middle - 1)] = cells[at(middle, middle)] = -1;
  cells[at(middle - 1, middle)] = cells[at(middle, middle - 1)] = 1;
  return { size, cells, turn: 1 };
}

const canMove = (size: Size, cells: readonly (0 | Side)[], side: Side): boolean =>
  cells.some((_, cell) => isLegal(size, cells, cell, side));

/** After a legal move; null where it is none. Who cannot move passes. */
export function moveTo({ size, cells, turn }: Position, cell: number): Position | null {
  if (turn === 0 || !isLegal(size, cells, cell, turn)) return null;
  const after = [...cells];
  after[cell] = turn;
  for (const [down, right] of DIRECTIONS)
    for (let count = enclosed(size, cells, cell, turn, down, right); count > 0; count--)
      after[cell + count * (down * size + right)] = turn;
  const other = -turn as Side;
  return {
    size,
    cells: after,
    turn: canMove(size, after, other) ? other : canMove(size, after, turn) ? turn : 0,
  };
}

/** Discs of a side less those of the other. */
export const lead = ({ cells }: Position, side: Side): number =>
  side * cells.reduce<number>((sum, cell) => sum + cell, 0);

/** Column as a letter, row as a number from the top, e.g. `d3`. */
export const nameOf = (size: Size, cell: number): string =>
  `${'abcdefgh'[cell % size]}${Math.floor(cell / size) + 1}`;

/** -1 where the name is of no cell of the board. */
export function cellOf(size: Size, name: string): number {
  const [, column, row] = /^([a-h])([1-8])$/.exec(name) ?? [];
  if (column === undefined || row === undefined) return -1;
  const [right, down] = ['abcdefgh'.indexOf(column), Number(row) - 1];
  return right < size && down < size ? down * size + right : -1;
}

/** The board with letters above and numbers before it. */
export function drawBoard({ size, cells }: Position): string {
  const rows = Array.from({ length: size }, (_, row) =>
    [
      row + 1,
      ...cells
        .slice(row * size, (row + 1) * size)
        .map((cell) => (cell === 0 ? '.' : cell === 1 ? 'x' : 'o')),
    ].join(' '),
  );
  return [['  a', ...'bcdefgh'.slice(0, size - 1)].join(' '), ...rows].join('\n');
}
