/** Ratings of judges and graders, in the form of a run's records. */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { canonicalJson } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { readRowText } from '../../files.js';
import { given } from '../../given.js';
import { jsonRows } from '../domains/json-rows.js';
import { gradeSafely } from '../graders/belief-grader.js';
import {
  askedBelief,
  coverageGrader,
  modelBeliefGrader,
  modelGrader,
} from '../graders/model-graders.js';
import { questionText } from '../modes/asking.js';
import type { Reasoner } from '../reasoner.js';
import type { Problem } from '../problem.js';
import { seedFor } from '../seed.js';
import type { Grader } from '../strategies/grader-score.js';
import {
  bootstrapExamples,
  rate,
  type Candidate,
  type Judging,
  type RatedExample,
} from '../strategies/qualitative-judge.js';
import type { GraderKind, Strategy, StrategyOf } from '../strategies/strategy.js';
import { textOf, type Trajectory } from '../trajectory.js';
import type { TruthConfig } from './config.js';
import type { RatingRecord } from './records.js';

/** Strategies whose ratings are measured: a stated belief is there for everybody to read. */
export const isRated = (
  strategy: Strategy,
): strategy is StrategyOf<'qualitative-judge'> | StrategyOf<'grader'> =>
  strategy.name === 'qualitative-judge' ||
  (strategy.name === 'grader' && strategy.kind !== 'belief');

const row = z.object({
  question: z.string().min(1),
  response: z.string().min(1),
  score: z.number().min(0).max(1).optional(),
});

export interface RatedRows {
  readonly sha256: string;
  readonly examples: readonly RatedExample[];
  /** Without a rating: the judge's own join the examples. */
  readonly source: readonly Candidate[];
}

/** @throws IsoproError FILE_UNREADABLE, INVALID_ARGUMENT, DATA_INVALID */
export function readRatedRows(file: string): RatedRows {
  const rows = [...jsonRows(readRowText(file, 'DATA_INVALID'), 'ratings', row)].map(
    (each) => each.row,
  );
  return {
    sha256: hash('sha256', canonicalJson(rows as never)),
    examples: rows.flatMap(({ question, response, score }) =>
      score === undefined ? [] : [{ question, response, score }],
    ),
    source: rows.flatMap(({ question, response, score }, i) =>
      score === undefined ? [{ id: String(i), question, response }] : [],
    ),
  };
}

export type Rated = Omit<RatingRecord, 'kind' | 'strategy' | 'trajectoryId' | 'replaces'>;
/** Rates with `reasoner`, the rater itself or a view of it that waits for others. */
export type Rater = (
  reasoner: Reasoner,
  problem: Problem,
  trajectory: Trajectory,
) => Promise<Rated>;

const seedOf = ({ seed }: Pick<TruthConfig, 'seed'>, strategy: string, id: string): bigint =>
  seedFor(BigInt(seed), `truth rating ${strategy}`, id);

const graderOf = (
  kind: Exclude<GraderKind, 'belief' | 'asked-belief'>,
  judge: Reasoner,
  instruction: string,
  options: { readonly seed: bigint; readonly isBound: boolean },
): Grader =>
  ({
    'model-belief': () => modelBeliefGrader(judge, options),
    rating: () => modelGrader(judge, instruction, options),
    coverage: () => coverageGrader(judge, options),
  })[kind]();

/**
 * Makes the rater of a strategy; examples that the judge adds are made once.
 * @throws IsoproError of the judge; INVALID_ARGUMENT where there are too few candidates for the
 *   examples
 */
export async function raterOf(
  strategy: StrategyOf<'qualitative-judge'> | StrategyOf<'grader'>,
  id: string,
  judge: Reasoner,
  config: Pick<TruthConfig, 'seed' | 'instruction' | 'verdicts'>,
  rows: RatedRows | null,
  signal?: AbortSignal,
): Promise<Rater> {
  const { instruction } = config;
  const isBound = config.verdicts === 'bound';
  if (strategy.name === 'grader') {
    const { kind } = strategy;
    if (kind === 'belief')
      throw new IsoproError('INVALID_ARGUMENT', 'grader: kind belief does not use a judge');
    return async (reasoner, problem, trajectory) => {
      const options = { seed: seedOf(config, id, trajectory.id), isBound };
      const grade = await gradeSafely(() =>
        kind === 'asked-belief'
          ? askedBelief(reasoner, problem, trajectory, options)
          : graderOf(kind, reasoner, instruction, options)(textOf(trajectory), problem),
      );
      const about = { raterId: judge.id, error: null, gradings: 1 };
      return grade.ok
        ? { ...about, score: grade.value, failed: {} }
        : { ...about, score: null, failed: { [grade.reason]: 1 } };
    };
  }
  const { name: _, ...how } = strategy;
  const judging: Omit<Judging, 'seed'> = {
    judge,
    instruction,
    config: how,
    isBound,
    ...given({ signal }),
  };
  const examples = await bootstrapExamples(
    { ...judging, seed: seedOf(config, id, 'examples') },
    rows?.examples ?? [],
    rows?.source ?? [],
  );
  return async (reasoner, problem, trajectory) => {
    const candidate = {
      id: trajectory.id,
      question: questionText(problem),
      response: textOf(trajectory),
    };
    const asking = { ...judging, judge: reasoner, seed: seedOf(config, id, trajectory.id) };
    const { score, error, gradings, failed } = await rate(asking, candidate, examples);
    return { raterId: judge.id, score, error, gradings, failed: { ...failed } };
  };
}
