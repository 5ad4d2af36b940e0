/** The algorithms of `run`, the default one first. */
import type { Algorithm } from './algorithm.js';
import { distill } from './distill.js';
import { grpo } from './grpo.js';
import { rft } from './rft.js';

const LIST = [rft, grpo, distill] as const;

type Listed = (typeof LIST)[number];
export type AlgorithmId = Listed['id'];
type Merged<Shape> = (Shape extends unknown ? (shape: Shape) => void : never) extends (
  shape: infer All,
) => void
  ? All
  : never;

export const ALGORITHMS: readonly Algorithm<AlgorithmId>[] = LIST;
export const ALGORITHM_IDS: readonly AlgorithmId[] = LIST.map(({ id }) => id);

/** Settings that belong to one algorithm or another, by name. */
export const ALGORITHM_SETTINGS = Object.assign(
  {},
  ...LIST.map(({ settings }) => settings.shape),
) as Merged<Listed['settings']['shape']>;

/** Returns the algorithm that the settings name. @param settings naming one of ALGORITHM_IDS */
export function algorithmOf({
  algorithm: { id: named },
}: {
  readonly algorithm: { readonly id: string };
}): Algorithm {
  const found = ALGORITHMS.find(({ id }) => id === named);
  if (found === undefined)
    throw new RangeError(`unknown algorithm ${named}; use one of ${ALGORITHM_IDS.join(', ')}`);
  return found;
}
