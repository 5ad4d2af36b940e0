/** Measures what strategies need in addition to beliefs, for all trajectories of a run. */
import { given } from '../../given.js';
import { requireCapability, type Reasoner } from '../reasoner.js';
import { STRATEGIES, type Strategy, type StrategyOf } from '../strategies/strategy.js';
import { forecastOutcomes } from '../strategies/world-in-the-loop.js';
import { together } from '../joint-sampling.js';
import { judgeOf, raterFor, readerOf } from './belief-source.js';
import {
  drawnFrom,
  judgedTrials,
  mutualTrials,
  NO_OTHER_REASONER,
  type KnownScores,
  type Peers,
} from './measure.js';
import { interviewQuestions } from './plan.js';
import { reasonAt } from './reasoning.js';
import type { NamedReasoner, TruthReasoners } from './reasoners.js';
import { isRated, raterOf, readRatedRows, type Rated } from './rating.js';
import { setupKey, type MutualTrialsRecord, type TrajectoryRecord } from './records.js';
import { digestOfRecord, replacing } from './state.js';
import { answerIn, plainIn, step, type Plain, type Work } from './run-context.js';
import type { Investigator } from './worlds.js';

/**
 * Trajectories that a judge is asked about at once: of prompts that begin alike the beginning is
 * evaluated once.
 */
const JUDGED_AT_ONCE = 64;

const named = <N extends Strategy['name']>(
  strategies: readonly string[],
  name: N,
): StrategyOf<N>[] =>
  strategies
    .map((each) => STRATEGIES.parse(each))
    .filter((each): each is StrategyOf<N> => each.name === name);

/**
 * Ids of trajectories to measure: those without a measurement, and if there are any or several
 * measurers, also those measured by others, so that no score mixes two.
 */
function dueFor(
  all: readonly Plain[],
  whose: (trajectoryId: string) => string | undefined,
  own: string,
): ReadonlySet<string> {
  const by = new Map(
    all.map(({ record: { trajectory } }) => [trajectory.id, whose(trajectory.id)]),
  );
  const isOne = new Set(by.values()).size === 1;
  return new Set(
    [...by].flatMap(([id, who]) => (who === undefined || (!isOne && who !== own) ? [id] : [])),
  );
}

/**
 * Predictors of a record for `dueFor`: `own` if nobody else predicted, undefined if a model that
 * exists now was missing.
 */
function predictedBy(
  { evaluated, predictor }: TruthReasoners,
  { predictor: asked }: StrategyOf<'mutual-predictability'>,
  own: string,
) {
  const parties = [
    ...(asked === 'random-other' ? [] : [evaluated]),
    ...(asked === 'evaluated' || predictor === null ? [] : [predictor]),
  ];
  const ids = new Set(parties.map(({ id }) => id));
  return (made: MutualTrialsRecord | null): string | undefined => {
    if (made === null || (predictor !== null && made.unmeasured.includes(NO_OTHER_REASONER)))
      return undefined;
    const strangers = made.trials
      .map(({ predictorId }) => predictorId)
      .filter((id) => !ids.has(id));
    return strangers.length === 0 ? own : [...new Set(strangers)].sort().join(' ');
  };
}

/** Measures all trajectories for each strategy in turn. */
export async function measureAll(
  work: Work,
  strategies: readonly string[],
  investigator: Investigator,
): Promise<void> {
  const { config, recompute, session } = work;
  const { state } = session;
  const plain = plainIn(state);
  const mutual = recompute.trials === 'never' ? [] : named(strategies, 'mutual-predictability');
  const world = named(strategies, 'world-in-the-loop');
  const rated =
    recompute.trials === 'never'
      ? []
      : strategies.map((each) => STRATEGIES.parse(each)).filter(isRated);
  const total = plain.length * (mutual.length + world.length + rated.length);
  const counts = { done: 0, total };
  const known: KnownScores = new Map();
  if (mutual.some(({ predicted }) => predicted !== undefined)) await reasonPeers(work, plain);
  for (const strategy of mutual) {
    const isJudged = strategy.scoring === 'judge';
    if (strategy.predictor !== 'random-other' && !isJudged)
      requireCapability(work.policies.evaluated, 'logprobs');
    if (isJudged) await judgeTrials(work, plain, strategy, counts);
    else await scoreTrials(work, plain, strategy, { counts, known });
  }
  for (const strategy of rated) {
    const id = STRATEGIES.format(strategy);
    const by = raterFor(strategy, work.policies);
    const due = dueFor(plain, (trajectoryId) => state.rating(id, trajectoryId)?.raterId, by.id);
    if (due.size === 0 && recompute.trials === 'missing') continue;
    const rows =
      config.examples === undefined || strategy.name === 'grader'
        ? null
        : readRatedRows(config.examples);
    const rater = await raterOf(strategy, id, by, config, rows, work.options.signal);
    await rateAll(work, { plain, due, strategy: id, by, counts }, (reasoner, { record }) => {
      const { problem, trajectory } = answerIn(state, record);
      return rater(reasoner, problem, trajectory);
    });
  }
  for (const strategy of world) {
    const forecaster = work.policies.predictor ?? readerOf(work.policies);
    const id = STRATEGIES.format(strategy);
    const due = dueFor(
      plain,
      (trajectoryId) => state.forecasts(id, trajectoryId)?.forecasterId,
      forecaster.id,
    );
    // what is forecast of a problem without anybody's claims is the same for all trajectories about
    // it
    const bases = new Map<string, Map<string, readonly number[]>>();
    for (const { record } of plain) {
      step(work, 'measurements', counts.done++, total);
      const { id: trajectoryId, problemId } = record.trajectory;
      const base = bases.get(problemId) ?? new Map<string, readonly number[]>();
      bases.set(problemId, base);
      await lookAndForecast(work, strategy, record, forecaster, investigator, {
        isDue: due.has(trajectoryId),
        known: base,
      });
    }
  }
  step(work, 'measurements', total, total);
}

interface Counts {
  done: number;
  readonly total: number;
}

/** The other policy reasons about the same problems in the same ways, once. */
async function reasonPeers(work: Work, plain: readonly Plain[]): Promise<void> {
  const { session, config, policies, domains } = work;
  const { state } = session;
  const { predictor: other } = policies;
  if (other === null) return;
  const most = other.inferMany === undefined ? 1 : config.batch;
  const questions = new Map(
    state.setups.map((setup) => [setupKey(setup), interviewQuestions(config, setup, domains)]),
  );
  for (let from = 0; from < plain.length; from += most) {
    step(work, 'measurements', 0, plain.length);
    const due = plain
      .slice(from, from + most)
      .filter(
        ({ setup, record }) => state.peer(other.id, setup, record.trajectory.problemId) === null,
      );
    const made = await together(other, due.length, (reasoner, i) => {
      const { setup, record } = due[i]!;
      return reasonAt(
        work,
        reasoner,
        { setup, asked: state.problems.get(record.trajectory.problemId)! },
        questions.get(setupKey(setup))!,
      );
    });
    await session.write(
      ...made.flatMap((each) =>
        each.kind === 'failure' ? [] : [{ ...each, kind: 'peer' as const }],
      ),
    );
  }
}

/** Answers of the other reasoner under the same setup. */
const peersOf =
  ({ policies: { predictor }, session: { state } }: Work, { setup }: Plain): Peers =>
  (problemId) =>
    predictor === null ? null : (state.peer(predictor.id, setup, problemId)?.trajectory ?? null);

async function scoreTrials(
  work: Work,
  plain: readonly Plain[],
  strategy: StrategyOf<'mutual-predictability'>,
  { counts, known }: { readonly counts: Counts; readonly known: KnownScores },
): Promise<void> {
  const { session, config, policies, recompute } = work;
  const { state } = session;
  const id = STRATEGIES.format(strategy);
  const predicted = predictedBy(policies, strategy, 'own');
  const due = dueFor(plain, (trajectoryId) => predicted(state.trials(id, trajectoryId)), 'own');
  const parties = { evaluated: policies.evaluated, other: policies.predictor };
  for (const each of plain) {
    const { record, answers } = each;
    step(work, 'measurements', counts.done++, counts.total);
    if (!due.has(record.trajectory.id) && recompute.trials === 'missing') continue;
    const how = {
      ...drawnFrom(config.seed, id, each.setup),
      ...given({ signal: work.options.signal }),
      known,
      peers: peersOf(work, each),
    };
    const found = await mutualTrials(answerIn(state, record), answers, parties, strategy, how);
    const trials = found.trials.map((trial) => ({
      ...trial,
      contextAnswers: [...trial.contextAnswers],
      conditional: [...trial.conditional],
      base: [...trial.base],
    }));
    const about = { strategy: id, trajectoryId: record.trajectory.id };
    await session.write(
      replacing(state, { kind: 'mutual_trials', ...about, trials, unmeasured: found.unmeasured }),
    );
  }
}

async function judgeTrials(
  work: Work,
  plain: readonly Plain[],
  strategy: StrategyOf<'mutual-predictability'>,
  counts: Counts,
): Promise<void> {
  const { session, config, policies } = work;
  const { state } = session;
  const id = STRATEGIES.format(strategy);
  const by = judgeOf(policies);
  const due = dueFor(plain, (trajectoryId) => state.rating(id, trajectoryId)?.raterId, by.id);
  const isBound = config.verdicts === 'bound';
  await rateAll(work, { plain, due, strategy: id, by, counts }, async (judge, each) => {
    const parties = { evaluated: policies.evaluated, other: policies.predictor, judge };
    const how = {
      ...drawnFrom(config.seed, id, each.setup),
      ...given({ signal: work.options.signal }),
      isBound,
      peers: peersOf(work, each),
    };
    const answer = answerIn(state, each.record);
    const found = await judgedTrials(answer, each.answers, parties, strategy, how);
    return { raterId: by.id, error: null, ...found };
  });
}

interface Ratings {
  readonly plain: readonly Plain[];
  readonly due: ReadonlySet<string>;
  readonly strategy: string;
  readonly by: NamedReasoner;
  readonly counts: Counts;
}

/** Rates trajectories in batches, which are written together. */
async function rateAll(
  work: Work,
  { plain, due, strategy, by, counts }: Ratings,
  rating: (reasoner: Reasoner, of: Plain) => Promise<Rated>,
): Promise<void> {
  const { session, recompute } = work;
  const most = by.inferMany === undefined ? 1 : JUDGED_AT_ONCE;
  // by their places in the whole, so that a run that is gone on with asks the same ones together
  for (let from = 0; from < plain.length; from += most) {
    step(work, 'measurements', counts.done, counts.total);
    const some = plain.slice(from, from + most);
    const asked = some.filter(
      ({ record }) => recompute.trials === 'always' || due.has(record.trajectory.id),
    );
    const found = await together(by, asked.length, (reasoner, i) => rating(reasoner, asked[i]!));
    const records = asked.map(({ record: { trajectory } }, i) =>
      replacing(session.state, {
        ...{ kind: 'rating', strategy, trajectoryId: trajectory.id, ...found[i]! },
      }),
    );
    await session.write(...records);
    counts.done += some.length;
  }
}

async function lookAndForecast(
  { session, recompute: { world }, options: { signal } }: Work,
  strategy: StrategyOf<'world-in-the-loop'>,
  record: TrajectoryRecord,
  forecaster: Reasoner,
  investigator: Investigator,
  { isDue, known }: { readonly isDue: boolean; readonly known: Map<string, readonly number[]> },
): Promise<void> {
  const { state } = session;
  const id = STRATEGIES.format(strategy);
  const trajectoryId = record.trajectory.id;
  const answer = answerIn(state, record);
  const [seen, forecast] = [state.observations(trajectoryId), state.forecasts(id, trajectoryId)];
  const looks =
    world === 'all'
      ? seen === null || forecast === null
      : world === 'investigation' && seen === null;
  if (looks) {
    const observations = await investigator.investigate(answer.problem, answer.trajectory, signal);
    if (observations === null) return;
    const made = {
      kind: 'observations',
      trajectoryId,
      investigator: investigator.id,
      observations: observations.map(({ question, outcome }) => ({ question, outcome })),
    } as const;
    await session.write(replacing(state, made));
  }
  const now = state.observations(trajectoryId);
  if (world === 'investigation' || now === null) return;
  if (!looks && !isDue && world !== 'upliftblanket') return;
  const { problem, trajectory } = answer;
  const { template } = strategy;
  const how = { known, ...given({ signal }) };
  const outcomes = now.observations;
  const found = await forecastOutcomes(forecaster, template, problem, trajectory, outcomes, how);
  const forecasts = found
    .filter((each) => typeof each !== 'string')
    .map(({ conditional, base }) => ({ conditional: [...conditional], base: [...base] }));
  const made = {
    kind: 'forecasts',
    strategy: id,
    trajectoryId,
    forecasterId: forecaster.id,
    observations: digestOfRecord(now),
    forecasts,
    unmeasured: found.filter((each) => typeof each === 'string'),
  } as const;
  await session.write(replacing(state, made));
}
