/** Whether beliefs fit together, which needs no answer to be known. */

/** How far beliefs in a statement and in its negation are from adding up to 1. */
export const negationIncoherence = (statement: number, negation: number): number =>
  Math.abs(statement + negation - 1);

/**
 * How much more a conjunction is believed than the less believed of its parts; 0 where it is not.
 */
export const conjunctionExcess = (conjunction: number, parts: readonly [number, number]): number =>
  Math.max(0, conjunction - Math.min(...parts));

/**
 * How much a belief in option 0 changes when the options are exchanged; the second one is turned
 * back already.
 */
export const orderSensitivity = (inOrder: number, exchanged: number): number =>
  Math.abs(inOrder - exchanged);
