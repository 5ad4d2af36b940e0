/** Whether this processor trains in a precision, and how a precision is recorded. */
import { IsoproError } from '../errors.js';
import { loadAddon } from './addon.js';
import type { Precision } from './training-request.js';

const LACKING = 'bf16 needs AVX512-BF16, which this processor does not have';

const isLacking = (asked: Precision | undefined, multipliesBf16?: boolean): boolean =>
  asked === 'bf16' && !(multipliesBf16 ?? loadAddon().addon.multipliesBf16);

/** Problem of the setting on this processor, if there is one. @param multipliesBf16 for tests */
export const precisionProblems = (
  asked: Precision | undefined,
  multipliesBf16?: boolean,
): string[] => (isLacking(asked, multipliesBf16) ? [`precision: ${LACKING}; use f32`] : []);

/**
 * Checks that this processor multiplies in the precision.
 * @param path of the setting
 * @param multipliesBf16 for tests
 * @throws IsoproError INVALID_ARGUMENT
 */
export function requirePrecision(
  asked: Precision | undefined,
  path: string,
  multipliesBf16?: boolean,
): void {
  if (isLacking(asked, multipliesBf16))
    throw new IsoproError('INVALID_ARGUMENT', `${path}: ${LACKING}`, {
      remedy: 'Use --precision f32, or leave the setting out.',
    });
}

/** A precision as it is recorded: f32 is what is trained in where nothing is said. */
export const recorded = (asked: Precision | undefined): 'bf16' | undefined =>
  asked === 'bf16' ? asked : undefined;
