/** Coherence of beliefs, which needs no known answer. */

/** Distance of the beliefs in a statement and its negation from adding up to 1. */
export const negationIncoherence = (statement: number, negation: number): number =>
  Math.abs(statement + negation - 1);

/** Excess of the belief in a conjunction over its less believed part; 0 if there is none. */
export const conjunctionExcess = (conjunction: number, parts: readonly [number, number]): number =>
  Math.max(0, conjunction - Math.min(...parts));

/**
 * Change of a belief in option 0 when the options are swapped; the second one is already converted.
 */
export const orderSensitivity = (inOrder: number, exchanged: number): number =>
  Math.abs(inOrder - exchanged);
