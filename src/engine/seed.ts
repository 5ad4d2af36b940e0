/** A seed as a caller writes it. */
import { z } from 'zod';

/** 64 bits: a bigint, a whole number below 2^53, or its decimal digits. */
export type Seed = bigint | number | string;

const digits = z
  .string()
  .regex(/^\d{1,20}$/, 'expected the digits of a whole number')
  .transform(BigInt);

/** A Seed; arrives as a bigint. */
export const seed = z
  .union([z.bigint(), z.int().transform(BigInt), digits], {
    error: 'expected a bigint, a whole number or its digits',
  })
  .pipe(
    z
      .bigint()
      .min(0n)
      .max((1n << 64n) - 1n),
  );
