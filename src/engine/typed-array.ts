/**
 * Typed arrays of a caller, copied where they enter. A call goes on after it has returned, on other
 * threads, and until then the caller may transfer, shrink, share or refill what it handed in:
 * nobody else can reach the copy.
 */
import { z } from 'zod';
import { IsoproError } from '../errors.js';

/** @param copy makes one of its own memory from one that `check` knows */
export const copied = <T extends ArrayLike<number>>(
  check: (value: unknown) => value is T,
  copy: new (from: T) => T,
): z.ZodType<T, T> =>
  z.custom<T>(check, `must be a ${copy.name}`).transform((from, context) => {
    try {
      return new copy(from);
    } catch (cause) {
      if (cause instanceof RangeError)
        throw new IsoproError('OUT_OF_MEMORY', `not enough memory to copy ${from.length} values`, {
          cause,
        });
      context.addIssue('its buffer was transferred or is too short');
      return z.NEVER;
    }
  });
