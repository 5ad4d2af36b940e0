/**
 * Split file next to a data file, which lists the held-out rows, so that later runs keep the same
 * ones even if the data grow.
 */
import { existsSync, readFileSync } from 'node:fs';
import { writeFileAtomically } from '../engine/atomic-file.js';
import type { OpenTask } from '../tasks/task.js';

/**
 * A folder that cannot be written is no reason not to train: the split follows from the rows as
 * long as they stay the same.
 */
export async function keepSplit({ rows }: OpenTask, notice: (text: string) => void): Promise<void> {
  if (rows === undefined) return;
  const { duplicates, split } = rows;
  if (duplicates > 0)
    notice(
      duplicates === 1
        ? '1 row of the data is a duplicate and is left out'
        : `${duplicates} rows of the data are duplicates and are left out`,
    );
  const { rows: near, heldOut, example } = rows.nearDuplicates();
  if (example !== null)
    notice(
      `${near} of the ${heldOut} held-out rows are nearly identical to a training row, such as rows ` +
        `${example.heldOut} and ${example.train}: results on them may be memorised`,
    );
  try {
    if (existsSync(split.file) && readFileSync(split.file, 'utf8') === split.text) return;
    await writeFileAtomically(split.file, [Buffer.from(split.text)]);
  } catch (error) {
    notice(`the split could not be written: ${(error as Error).message}`);
  }
}
