import { deriveSeed } from '../random.js';

/** Returns the seed of a draw that belongs to no iteration of a run. */
export const seedOf = (runSeed: bigint, purpose: string, problemId: string, sample = 0): bigint =>
  deriveSeed({ runSeed, purpose, iteration: 0, problemId, sample });
