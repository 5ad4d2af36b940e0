/** Parts of an existing run to recompute, stated as `trajectories=always`. */
import { z } from 'zod';
import {
  RECOMPUTE,
  WORLD_RECOMPUTE,
  type RecomputeRules,
} from '../../truth-seeking/run/evaluation-run.js';

/** Each part with what it takes. */
export const RECOMPUTED = [
  ...['trajectories', 'beliefs', 'trials'].flatMap((part) =>
    RECOMPUTE.map((how) => `${part}=${how}`),
  ),
  ...WORLD_RECOMPUTE.map((how) => `world=${how}`),
];

export const RECOMPUTE_HELP = 'parts to recompute, as PART=HOW';
export const RECOMPUTE_TEXT = 'trajectories=missing beliefs=missing trials=missing world=all';

export const recompute = z
  .array(z.enum(RECOMPUTED))
  .min(1)
  .optional()
  .describe(RECOMPUTE_HELP)
  .meta({ defaultText: RECOMPUTE_TEXT });

export const recomputeRules = (stated: readonly string[] = []): Partial<RecomputeRules> =>
  Object.fromEntries(stated.map((pair) => pair.split('=')));

/** Text on how to continue after an interruption: recomputed parts start from their beginning. */
export const continuing = (stated: readonly string[] = []): string =>
  stated.some((pair) => /=(?:always|upliftblanket)$/.test(pair))
    ? 'Finished work is kept. The same command recomputes everything; without --recompute it continues.'
    : 'Nothing was lost: the same command continues where it was.';
