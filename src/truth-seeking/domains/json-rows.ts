/** JSON lines of a user, checked one by one: an error names the line. */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { parseLine } from '../../files.js';

export interface JsonRow<Row> {
  readonly row: Row;
  /** Says what is wrong with this line, in a form to be thrown. */
  readonly wrong: (what: string) => IsoproError;
}

/**
 * Yields the rows of JSON lines; empty lines are skipped.
 * @param what the lines are, for errors
 * @throws IsoproError INVALID_ARGUMENT where a line is not JSON; DATA_INVALID where it is not of
 *   the schema
 */
export function* jsonRows<Schema extends z.ZodType>(
  text: string,
  what: string,
  schema: Schema,
): Generator<JsonRow<z.output<Schema>>> {
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const wrong = (why: string): IsoproError =>
      new IsoproError('DATA_INVALID', `line ${index + 1} of the ${what}: ${why}`);
    const found = schema.safeParse(parseLine(line, index + 1));
    if (!found.success) throw wrong(z.prettifyError(found.error));
    yield { row: found.data, wrong };
  }
}
