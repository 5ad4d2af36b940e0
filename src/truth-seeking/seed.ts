import { deriveSeed } from '../random.js';

/** A seed of what belongs to no iteration. @param sample which of several draws */
export const seedFor = (runSeed: bigint, purpose: string, problemId: string, sample = 0): bigint =>
  deriveSeed({ runSeed, purpose, iteration: 0, problemId, sample });
