/**
 * What the suites show of each architecture: `npm run docs:architectures` runs them with
 * ISOPRO_COVERED naming a file, and makes the table of docs/own-model.md of what they write there.
 */
import { appendFileSync } from 'node:fs';

/** Columns of the table. */
export const COLUMNS = ['generate', 'score', 'train', 'merge', 'export'] as const;
export type Column = (typeof COLUMNS)[number];

/** Called at the end of a test that passes only where the architecture can do this. */
export function covered(architecture: string, ...columns: readonly Column[]): void {
  const file = process.env.ISOPRO_COVERED;
  if (file === undefined) return;
  for (const column of columns)
    appendFileSync(file, `${JSON.stringify({ architecture, column })}\n`);
}
