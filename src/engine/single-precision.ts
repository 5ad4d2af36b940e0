/** Numbers that the addon computes with in single precision. */
import { z } from 'zod';

/**
 * The least that is not subnormal, and the greatest: a smaller one divides to infinity or becomes
 * 0, a greater one is infinite.
 */
const LEAST = 2 ** -126;
const GREATEST = (2 - 2 ** -23) * 2 ** 127;

/** 0, or a number of either sign that single precision holds in full. */
export const single = z
  .number()
  .refine((value) => value === 0 || (Math.abs(value) >= LEAST && Math.abs(value) <= GREATEST), {
    error: 'must be 0 or have a magnitude between 1.2e-38 and 3.4e38 (single precision)',
  });

/**
 * As `single`, for what means the same with 0 as with a number that is nearly 0: a temperature, a
 * probability, a penalty that is added.
 */
export const singleOrZero = z
  .number()
  .max(GREATEST)
  .min(-GREATEST)
  .overwrite((value) => (Math.abs(value) < LEAST ? 0 : value));
