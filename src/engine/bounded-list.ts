/**
 * Arrays of a caller, whose length is looked at before their elements are: one of length 2^32 - 1
 * takes no memory where it is made, and all of it where it is read.
 */
import { z } from 'zod';

/** More than any request has; a list of token ids is the longest. */
const MOST_ELEMENTS = 2 ** 24;

/**
 * Tests whether every index has an element: an array with holes may have any length. The search
 * ends at the first hole.
 */
function isWhole(list: readonly unknown[]): boolean {
  for (let i = 0; i < list.length; i++) if (!(i in list)) return false;
  return true;
}

/**
 * Returns what is wrong with the form of an array; undefined if nothing is, or for other values.
 */
export function wrongLength(value: unknown): string | undefined {
  if (!Array.isArray(value)) return undefined;
  if (value.length > MOST_ELEMENTS)
    return `has ${value.length} elements, more than the limit of ${MOST_ELEMENTS}`;
  return isWhole(value) ? undefined : 'has holes: an element is missing';
}

/** Returns `list` for arrays that are not too long and have no holes. */
export const bounded = <Element extends z.ZodType>(
  list: z.ZodArray<Element>,
): z.ZodType<z.output<Element>[], readonly z.input<Element>[]> =>
  z
    .custom<unknown>((value) => wrongLength(value) === undefined, {
      error: ({ input }) => wrongLength(input),
      abort: true,
    })
    .pipe(list as z.ZodType<unknown, unknown>) as never;
