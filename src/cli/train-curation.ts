/** How `train` curates its examples by the scores of their rows: flags, and what comes of them. */
import { isDeepStrictEqual } from 'node:util';
import type { Options } from 'yargs';
import { refusedRow, type NamedExample } from '../engine/training-examples.js';
import { dedupe, elite, type Repeatable } from '../tasks/curation/curate.js';
import {
  BEST_QUALITY,
  lossWeights,
  qualityBucket,
  qualityLine,
  WEIGHTINGS,
  type Weighting,
} from '../tasks/curation/quality.js';
import { UsageError } from './output.js';

export const curationOptions = {
  dedupe: {
    type: 'number',
    describe:
      'leave out examples that repeat another, the best of them stays: 1: the same answer to the same prompt; below 1, of answers to one ' +
      'prompt that share this part of their runs of four characters too',
  },
  elite: {
    type: 'number',
    default: 1,
    describe: 'train on this share of the examples, by the "score" of their rows (0 to 1)',
  },
  'weight-by-score': {
    choices: WEIGHTINGS,
    default: 'uniform' as const,
    describe:
      'how much an example counts: all alike, linear from 0.1 to 1 between the lowest and the highest score, or softmax; the mean is 1',
  },
  'score-conditioned': {
    type: 'boolean',
    default: false,
    describe:
      `tell the model of each example how good it is, 0 to ${BEST_QUALITY} by its score; asking for the best then is ` +
      `--system "${qualityLine(BEST_QUALITY)}"`,
  },
} as const satisfies Record<string, Options>;

export interface Curation {
  readonly dedupe: number | undefined;
  readonly elite: number;
  readonly weightByScore: Weighting;
  readonly scoreConditioned: boolean;
}

export const NO_CURATION: Curation = {
  dedupe: undefined,
  elite: 1,
  weightByScore: 'uniform',
  scoreConditioned: false,
};

/** What was left out, and of how many. */
export interface CurationCounts {
  readonly rows: number;
  readonly repeated: number;
  readonly near: number;
  readonly belowElite: number;
}

export interface Curated {
  readonly examples: readonly (NamedExample & { readonly weight?: number })[];
  /** Null where nothing was asked for. */
  readonly counts: CurationCounts | null;
}

/** The members of parsed flags, checked. @throws UsageError */
export function curationOf({
  dedupe: threshold,
  elite: share,
  weightByScore,
  scoreConditioned,
}: Curation): Curation {
  if (threshold !== undefined && !(threshold > 0 && threshold <= 1))
    throw new UsageError('--dedupe: expected a number above 0, at most 1');
  if (!(share > 0 && share <= 1))
    throw new UsageError('--elite: expected a share above 0, at most 1');
  return { dedupe: threshold, elite: share, weightByScore, scoreConditioned };
}

export const isCurated = (curation: Curation): boolean => !isDeepStrictEqual(curation, NO_CURATION);

function scoreOf({ score, name }: NamedExample): number {
  if (typeof score === 'number' && score >= 0 && score <= 1) return score;
  throw refusedRow(name, 'expected a "score" from 0 to 1, as curation by score reads it');
}

const repeatable = ({ example }: NamedExample): Repeatable =>
  'text' in example
    ? { prompt: null, answer: example.text }
    : { prompt: JSON.stringify(example.prompt), answer: example.answer };

/**
 * The quality is the system's message, before the example's own, as `--system` says it of a task.
 */
function conditioned(each: NamedExample): NamedExample {
  const { example, name } = each;
  if ('text' in example)
    throw refusedRow(name, 'a plain text has no prompt that could say how good it is');
  const said = example.prompt.flatMap(({ role, content }) => (role === 'system' ? [content] : []));
  const others = example.prompt.filter(({ role }) => role !== 'system');
  const content = [qualityLine(qualityBucket(scoreOf(each))), ...said].join('\n\n');
  return { ...each, example: { ...example, prompt: [{ role: 'system', content }, ...others] } };
}

/** @throws IsoproError INVALID_ARGUMENT naming the row whose score is needed and missing */
export function curate(all: readonly NamedExample[], curation: Curation): Curated {
  if (!isCurated(curation)) return { examples: all, counts: null };
  const byScore =
    curation.elite < 1 || curation.weightByScore !== 'uniform' || curation.scoreConditioned;
  const scored = byScore ? scoreOf : () => 0; // without scores the first of equal ones stays
  if (byScore) for (const each of all) scoreOf(each);
  const { kept, repeated, near } =
    curation.dedupe === undefined
      ? { kept: all, repeated: 0, near: 0 }
      : dedupe(all, { of: repeatable, scoreOf: scored, threshold: curation.dedupe });
  const best = elite(kept, curation.elite, scored);
  const weights = lossWeights(best.map(scored), curation.weightByScore);
  const weighted = best.map((each, i) => ({
    ...(curation.scoreConditioned ? conditioned(each) : each),
    ...(curation.weightByScore === 'uniform' ? {} : { weight: weights[i]! }),
  }));
  return {
    examples: weighted,
    counts: { rows: all.length, repeated, near, belowElite: kept.length - best.length },
  };
}

/** Examples to measure on: asked as those that are trained on, and none left out. */
export const curatedToMeasure = (
  all: readonly NamedExample[],
  { scoreConditioned }: Curation,
): readonly NamedExample[] => curate(all, { ...NO_CURATION, scoreConditioned }).examples;

/** A line of what was left out. */
export function curationText({ rows, repeated, near, belowElite }: CurationCounts): string {
  return `of ${rows} rows ${repeated} repeat another, ${near} nearly do, ${belowElite} are below the best that are taken`;
}
