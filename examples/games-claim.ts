/** When a demonstration on a scenario may say that a model improved. */

/**
 * Mean score of uniformly random valid strategies for grid_ctf: what a trained model has to exceed
 * before anybody speaks of skill.
 */
export const RANDOM_CHOICE = 0.661;

/** Scores on the held-out seeds, an answer that is invalid counted 0. */
export interface Line {
  readonly who: string;
  readonly n: number;
  readonly mean: number;
  /** 95 % interval of the mean. */
  readonly low: number;
  readonly high: number;
  /** Of the valid answers alone; null where there is none. */
  readonly validMean: number | null;
  readonly valid: number;
  /** Wilson's 95 % interval of the part that is valid. */
  readonly validLow: number;
  readonly validHigh: number;
}

export interface Claim {
  readonly improved: boolean;
  readonly text: string;
}

/** @param random random valid strategies on the same seeds */
export function claim({ who, low }: Pick<Line, 'who' | 'low'>, random: Pick<Line, 'mean'>): Claim {
  const short: string[] = [];
  if (!(low > RANDOM_CHOICE))
    short.push(`it is not above ${RANDOM_CHOICE}, random choice as published`);
  if (!(low > random.mean))
    short.push(`it is not above ${random.mean.toFixed(3)}, random choice on these seeds`);
  const bound = `the lower 95 % bound of ${who} is ${low.toFixed(3)}`;
  return short.length === 0
    ? { improved: true, text: `improved: ${bound}, above random choice` }
    : { improved: false, text: `no improvement shown: ${bound}, and ${short.join('; ')}` };
}
