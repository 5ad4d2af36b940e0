/** Curation of training examples by the scores of their rows. */
import { refusedRow, type NamedExample } from '../../fine-tuning/training-examples.js';
import { dedupe, elite, type Repeatable } from '../../tasks/curation/curate.js';
import {
  lossWeights,
  qualityBucket,
  qualityLine,
  type Weighting,
} from '../../tasks/curation/quality.js';

export interface Curation {
  readonly dedupe?: number | undefined;
  readonly elite: number;
  readonly weightByScore: Weighting;
  readonly scoreConditioned: boolean;
}

export const NO_CURATION: Curation = {
  elite: 1,
  weightByScore: 'uniform',
  scoreConditioned: false,
};

/** Counts of examples that were left out. */
export interface CurationCounts {
  readonly rows: number;
  readonly repeated: number;
  readonly near: number;
  readonly belowElite: number;
}

export interface Curated {
  readonly examples: readonly (NamedExample & { readonly weight?: number })[];
  /** Null if no curation was requested. */
  readonly counts: CurationCounts | null;
}

const readsScores = ({ elite: share, weightByScore, scoreConditioned }: Curation): boolean =>
  share < 1 || weightByScore !== 'uniform' || scoreConditioned;
export const isCurated = (curation: Curation): boolean =>
  curation.dedupe !== undefined || readsScores(curation);

function scoreOf({ score, name }: NamedExample): number {
  if (typeof score === 'number' && score >= 0 && score <= 1) return score;
  throw refusedRow(name, 'expected a "score" from 0 to 1, which curation by score needs');
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
    throw refusedRow(
      name,
      'the row is plain text, so it has no prompt to which its quality could be added',
    );
  const said = example.prompt.flatMap(({ role, content }) => (role === 'system' ? [content] : []));
  const others = example.prompt.filter(({ role }) => role !== 'system');
  const content = [qualityLine(qualityBucket(scoreOf(each))), ...said].join('\n\n');
  return { ...each, example: { ...example, prompt: [{ role: 'system', content }, ...others] } };
}

/** @throws IsoproError INVALID_ARGUMENT naming the row whose score is needed and missing */
export function curate(all: readonly NamedExample[], curation: Curation): Curated {
  if (!isCurated(curation)) return { examples: all, counts: null };
  const byScore = readsScores(curation);
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
