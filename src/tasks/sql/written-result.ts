import type { Result } from './results.js';

/** Of a result, so much is written for a reader. */
const ROWS = 8;
const COLUMNS = 8;
const CELL = 40;

function writtenCell(cell: unknown): string {
  if (cell === null) return 'NULL';
  if (Buffer.isBuffer(cell))
    return `x'${cell.subarray(0, CELL / 2).toString('hex')}${cell.length > CELL / 2 ? '…' : ''}'`;
  if (typeof cell !== 'string') return String(cell);
  const text = JSON.stringify(cell.slice(0, CELL).toWellFormed())
    .slice(1, -1)
    .replaceAll('\\"', '"');
  return `'${text.replaceAll("'", "''")}${cell.length > CELL ? '…' : ''}'`;
}

/**
 * A line a row, values as SQLite writes them; what is left out is counted. Control characters in
 * texts are escaped as in JSON.
 */
export function writtenResult({ columns, rows }: Result): string {
  const lines = rows.slice(0, ROWS).map((row) => {
    const cells = row.slice(0, COLUMNS).map(writtenCell);
    return [...cells, ...(row.length > COLUMNS ? [`… ${row.length} columns`] : [])].join(' | ');
  });
  if (rows.length > ROWS) lines.push(`… ${rows.length} rows`);
  return rows.length === 0
    ? `no rows of ${columns} column${columns === 1 ? '' : 's'}`
    : lines.join('\n');
}
