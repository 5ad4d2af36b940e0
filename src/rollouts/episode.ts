/**
 * Episodes: what a model was told and what it said, in order, as the exact token ids. Nothing is
 * tokenised again.
 */

export interface Segment {
  /**
   * Who speaks. `user` is all that the model is told, with what its chat template puts around that.
   */
  readonly role: 'user' | 'assistant';
  readonly ids: Int32Array;
  /** Drawn from the model: what log-probabilities are of, and what a loss is taken over. */
  readonly sampled: boolean;
}

export type Episode = readonly Segment[];

/** One question and one reply. */
export const exchange = (promptIds: Int32Array, replyIds: Int32Array): Episode => [
  { role: 'user', ids: promptIds, sampled: false },
  { role: 'assistant', ids: replyIds, sampled: true },
];

/**
 * A reply that did not end the episode: its ids, and those that stand between it and the next one.
 */
interface Exchange {
  readonly replyIds: Int32Array;
  readonly saidIds: Int32Array;
}

/** @param earlier turns before the last reply */
export const episodeOf = (
  promptIds: Int32Array,
  earlier: readonly Exchange[],
  replyIds: Int32Array,
): Episode => {
  const told = [promptIds, ...earlier.map(({ saidIds }) => saidIds)];
  const replies = [...earlier.map((turn) => turn.replyIds), replyIds];
  return told.flatMap((ids, i) => exchange(ids, replies[i]!));
};

export function episodeIds(episode: Episode): Int32Array {
  const all = new Int32Array(episode.reduce((sum, { ids }) => sum + ids.length, 0));
  let at = 0;
  for (const { ids } of episode) {
    all.set(ids, at);
    at += ids.length;
  }
  return all;
}

/** 1 for each sampled token, 0 for the others. */
export const lossMask = (episode: Episode): Uint8Array =>
  Uint8Array.from(episode.flatMap(({ ids, sampled }) => Array.from(ids, () => (sampled ? 1 : 0))));

/** Of a row with one value for each token of the episode, those of the sampled ones. */
export function ofSampled(episode: Episode, row: Float32Array): Float32Array {
  const mask = lossMask(episode);
  return row.filter((_, t) => mask[t] === 1);
}
