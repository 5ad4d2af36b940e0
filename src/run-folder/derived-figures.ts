/**
 * Derives the figures of a run from the single verdicts in its log. A log has no sums: every reader
 * and the judge derive them here, so that no claim of the run is believed.
 */
import { dictionary, ownValue, type Dictionary } from '../dictionary.js';
import type { HeldOutMeasurement, Measurement } from '../monitor/measurements.js';
import {
  figuresGiven,
  forgettingOf,
  isSignificantDrop,
  meanOverTiers,
  pairedChange,
  summarise,
  SUMMARY_SEED,
  underReading,
  verdictsByTier,
  type FigureName,
  type Forgetting,
  type Outcome,
  type PairedChange,
  type Reading,
  type Summary,
  type TierVerdicts,
} from '../statistics/index.js';
import { FailureTally, type Failures } from '../tasks/failures.js';
import type { VerdictKind } from '../tasks/task.js';
import type { Constrained, ForgettingRecord, HeldOut, Policies } from './evaluation-records.js';

export type { Failure, FailureExample, FailureKind, Failures } from '../tasks/failures.js';

/** Counts of one tier in one iteration. */
export interface TierCounts {
  sampled: number;
  passed: number;
  failed: number;
  undecided: number;
  /**
   * Rollouts that training uses, whatever their verdict, and references, which were not sampled.
   */
  admitted: number;
}

/**
 * Returns true if training uses a rollout: in the replay buffer, in contrast with other samples of
 * its problem, or with a teacher.
 */
export const isTrainedOn = (admission: string): boolean =>
  ['admitted', 'contrasted', 'distilled'].includes(admission);

interface CountedRollout {
  readonly iteration: number;
  readonly problemId: string;
  readonly tier: string;
  readonly verdict: { readonly kind: string };
  readonly admission: string;
}

/** Kinds of verdict of a problem's samples, and whether something of it is trained on. */
interface Group {
  readonly kinds: Set<string>;
  isTrainedOn: boolean;
}

type Objective = NonNullable<Measurement['objective']>;

function meanRate(tiers: readonly TierCounts[]): Objective {
  const rates = tiers.map(({ passed, failed }) => ({
    p: passed / (passed + failed),
    n: passed + failed,
  }));
  return {
    value: rates.reduce((sum, { p }) => sum + p, 0) / rates.length,
    standardError:
      Math.sqrt(rates.reduce((sum, { p, n }) => sum + (p * (1 - p)) / n, 0)) / rates.length,
  };
}

/** Returns the value of a key and creates it if it is missing. */
function at<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const value = map.get(key) ?? make();
  map.set(key, value);
  return value;
}

const addOne = <K>(counts: Map<K, number>, key: K): unknown =>
  counts.set(key, (counts.get(key) ?? 0) + 1);

/** Counts the rollouts stream. */
export class RolloutTally {
  readonly #counts = new Map<number, Map<string, TierCounts>>();
  /** Rollouts for the replay buffer. */
  readonly #buffered = new Map<number, Map<string, number>>();
  /** Groups by iteration and problem. */
  readonly #groups = new Map<number, Map<string, Group>>();
  /** Refused passes by iteration. */
  readonly #refused = new Map<number, Map<string, number>>();
  /** Objectives by iteration, of the records so far. */
  #objectives: Map<number, Objective> | null = null;

  take({ iteration, problemId, tier, verdict: { kind }, admission }: CountedRollout): void {
    this.#objectives = null;
    const counts = this.#countsOf(iteration, tier);
    counts.sampled++;
    counts[kind === 'pass' ? 'passed' : kind === 'fail' ? 'failed' : 'undecided']++;
    if (isTrainedOn(admission)) counts.admitted++;
    if (admission === 'admitted') this.#buffer(iteration, tier);
    if (kind === 'pass' && !isTrainedOn(admission))
      addOne(
        at(this.#refused, iteration, () => new Map<string, number>()),
        admission,
      );
    const groups = at(this.#groups, iteration, () => new Map<string, Group>());
    const group = at(groups, problemId, () => ({ kinds: new Set<string>(), isTrainedOn: false }));
    group.kinds.add(kind);
    group.isTrainedOn ||= isTrainedOn(admission);
  }

  /** Counts a reference, which training uses although it was not sampled and has no verdict. */
  takeReference({ iteration, tier }: Pick<CountedRollout, 'iteration' | 'tier'>): void {
    this.#countsOf(iteration, tier).admitted++;
    this.#buffer(iteration, tier);
  }

  #countsOf(iteration: number, tier: string): TierCounts {
    const none = { sampled: 0, passed: 0, failed: 0, undecided: 0, admitted: 0 };
    const tiers = at(this.#counts, iteration, () => new Map<string, TierCounts>());
    return at(tiers, tier, () => none);
  }

  #buffer(iteration: number, tier: string): void {
    addOne(
      at(this.#buffered, iteration, () => new Map<string, number>()),
      tier,
    );
  }

  /** Counts by iteration and tier, in the order of the log. */
  get counts(): ReadonlyMap<number, ReadonlyMap<string, Readonly<TierCounts>>> {
    return this.#counts;
  }

  /** Passes that training did not take, by what became of them. */
  get refused(): Dictionary<number> {
    const sums = new Map<string, number>();
    for (const of of this.#refused.values())
      for (const [admission, count] of of) sums.set(admission, (sums.get(admission) ?? 0) + count);
    return dictionary(sums);
  }

  /** Returns the passes of one iteration that training did not use. */
  refusedIn(iteration: number): Dictionary<number> {
    return dictionary(this.#refused.get(iteration) ?? []);
  }

  of(iteration: number): ReadonlyMap<string, Readonly<TierCounts>> {
    return this.#counts.get(iteration) ?? new Map();
  }

  /**
   * Returns the train objective of an iteration with its standard error: the mean over tiers of the
   * pass rate, which does not fall when harder tiers get more rollouts; null if the iteration
   * decided nothing. A tier without decisions keeps its last counts: over the others alone the mean
   * would move with the choice of tiers, and rules R1 and R4 would take that for a change of the
   * model. Each tier counts as one, also within a group. The standard error assumes independent
   * replies. Replies to one problem are alike, so it is too small, and rule R1 takes less for
   * progress.
   */
  objective(iteration: number): Objective | null {
    this.#objectives ??= this.#deriveObjectives();
    return this.#objectives.get(iteration) ?? null;
  }

  #deriveObjectives(): Map<number, Objective> {
    const objectives = new Map<number, Objective>();
    const last = new Map<string, TierCounts>();
    for (const [iteration, tiers] of [...this.#counts].sort(([a], [b]) => a - b)) {
      const own = [...tiers].filter(([, { passed, failed }]) => passed + failed > 0);
      for (const [tier] of own) last.delete(tier);
      if (own.length > 0)
        objectives.set(iteration, meanRate([...own.map(([, counts]) => counts), ...last.values()]));
      for (const [tier, counts] of own) last.set(tier, counts);
    }
    return objectives;
  }

  /**
   * Returns the fraction of an iteration's groups that are informative: some samples passed and
   * some failed, or training uses something of them (as where all passed or scores are the reward);
   * null if nothing was sampled.
   */
  informative(iteration: number): number | null {
    const groups = [...(this.#groups.get(iteration)?.values() ?? [])];
    return groups.length === 0
      ? null
      : groups.filter(
          (group) => group.isTrainedOn || (group.kinds.has('pass') && group.kinds.has('fail')),
        ).length / groups.length;
  }

  /**
   * Returns how many rollouts of each tier a buffer with room for `tierCap` of each keeps after an
   * iteration.
   */
  buffer(iteration: number, tierCap: number): Record<string, number> {
    const kept = new Map<string, number>();
    for (const [at, tiers] of [...this.#buffered].sort(([a], [b]) => a - b)) {
      if (at > iteration) break;
      for (const [tier, admitted] of tiers)
        kept.set(tier, Math.min(tierCap, (kept.get(tier) ?? 0) + admitted));
    }
    return dictionary(kept);
  }
}

/** Returns passed over decided, whatever their tiers. */
export function pooledHitRate(
  counts: ReadonlyMap<string, Readonly<Pick<TierCounts, 'passed' | 'failed'>>>,
): number | null {
  const [passed, failed] = [...counts.values()].reduce(
    ([p, f], tier) => [p + tier.passed, f + tier.failed],
    [0, 0],
  );
  return passed + failed === 0 ? null : passed / (passed + failed);
}

/**
 * Returns the loss per labelled token over an iteration's steps; null if there were no steps or one
 * loss was not finite.
 */
export function meanLoss(
  steps: readonly { readonly loss: number; readonly tokens: number }[],
): number | null {
  const tokens = steps.reduce((sum, step) => sum + step.tokens, 0);
  const loss = steps.reduce((sum, step) => sum + step.loss * step.tokens, 0) / tokens;
  return Number.isFinite(loss) ? loss : null;
}

/** Returns what the rules read from an evaluation of the dev problems. */
export const heldOutReading = (
  { mean, n }: Pick<Summary, 'mean' | 'n'>,
  verdicts: readonly TierVerdicts[],
  best: readonly TierVerdicts[],
): HeldOutMeasurement | null => (mean === null ? null : { passRate: mean, n, verdicts, best });

type TierOf = Policies['tiers'][number];

/** Returns the task's tiers as the log names them, and any further ones in its records. */
export function tiersOf(named: readonly TierOf[] | undefined, ids: Iterable<string>): TierOf[] {
  const tiers = [...(named ?? [])];
  const known = new Set(tiers.map(({ id }) => id));
  for (const id of ids) {
    if (known.has(id)) continue;
    known.add(id);
    tiers.push({ id, title: '', trains: true });
  }
  return tiers;
}

type JudgedSet = Pick<HeldOut, 'outcomes' | 'figures' | 'formed' | 'lenient'>;

/** Returns the verdicts of an evaluation with their figures and readings. */
export const verdictsOf = ({ outcomes, figures, formed, lenient }: JudgedSet): Outcome[] =>
  outcomes.map(([, tier, kind], i) => ({
    tier,
    kind,
    ...figures?.[i],
    ...(formed === undefined ? {} : { formed: formed[i]! }),
    ...(lenient === undefined ? {} : { lenient: lenient[i]! }),
  }));

/** Returns the outcomes of an evaluation under another reading; null if it has no such reading. */
export function outcomesUnder(evaluation: JudgedSet, reading: Reading): HeldOut['outcomes'] | null {
  const read = underReading(verdictsOf(evaluation), reading);
  return read === null
    ? null
    : evaluation.outcomes.map(([id, tier], i) => [id, tier, read[i]!.kind]);
}

/**
 * Returns the figures that any verdict of a log's evaluations has: if one has a score, all are
 * measured by it.
 */
export function figuresLogged(
  evaluations: readonly JudgedSet[],
  named: Pick<Policies, 'figures'> | null | undefined,
): FigureName[] {
  return figuresGiven([
    ...evaluations.flatMap(({ figures = [] }) => figures),
    ...Object.values(named?.figures ?? {}).flat(),
  ]);
}

export interface LoggedEvaluation
  extends Omit<HeldOut, 'kind' | 'tokens' | 'finishes' | 'why' | 'examples'> {
  readonly mean: number | null;
  /** Failures of its replies; null if the log does not say. */
  readonly failures: Failures | null;
  /** Summary with intervals, which need a bootstrap. */
  readonly summary: Summary;
}

type Explained = Pick<HeldOut, 'outcomes' | 'formed' | 'finishes' | 'why' | 'examples'>;

/**
 * Counts failures from the single replies; null for a log that does not say of each reply whether
 * an answer was read.
 */
export function failuresLogged({
  outcomes,
  formed,
  finishes,
  why,
  examples = [],
}: Explained): Failures | null {
  if (formed === undefined) return null;
  const said = new Map(examples.map(({ at, ...example }) => [at, example]));
  const tally = new FailureTally();
  for (const [i, [problemId, tier, kind]] of outcomes.entries())
    tally.take({
      problemId,
      tier,
      kind,
      formed: formed[i],
      finish: finishes?.[i],
      why: why?.[i],
      text: null,
      ...said.get(i),
    });
  return tally.failures;
}

/** Returns an evaluation with its figures, which are derived on access. */
export function loggedEvaluation(
  { kind: _, tokens: __, finishes, why, examples, ...evaluation }: HeldOut | Constrained,
  tiers: readonly TierOf[],
  figures: readonly FigureName[],
): LoggedEvaluation {
  return {
    ...evaluation,
    get mean(): number | null {
      return meanOverTiers(verdictsOf(evaluation), tiers);
    },
    get summary(): Summary {
      return summarise(verdictsOf(evaluation), tiers, { seed: SUMMARY_SEED, figures });
    },
    get failures(): Failures | null {
      return failuresLogged({ ...evaluation, finishes, why, examples });
    },
  };
}

/** Returns the sums over the single texts in a log. */
export const loggedForgetting = ({
  english,
  replies,
}: Pick<ForgettingRecord, 'english' | 'replies'>): Forgetting =>
  forgettingOf(
    english,
    replies.map(({ tokenIds, before, after }) => ({ tokens: tokenIds.length, before, after })),
  );

/** Returns true if verdicts can be paired: the same problems and tiers in the same order. */
export const ofSameProblems = (
  a: Pick<HeldOut, 'outcomes'>,
  b: Pick<HeldOut, 'outcomes'>,
): boolean =>
  a.outcomes.length === b.outcomes.length &&
  a.outcomes.every(([id, tier], i) => id === b.outcomes[i]![0] && tier === b.outcomes[i]![1]);

/**
 * Returns why the evaluations of a log cannot be compared; null if those of each set cover the same
 * problems.
 */
export function strayEvaluation(
  evaluations: readonly Pick<HeldOut, 'set' | 'when' | 'iteration' | 'outcomes'>[],
): string | null {
  for (const evaluation of evaluations) {
    const { set, when, iteration } = evaluation;
    const first = evaluations.find((other) => other.set === set)!;
    if (!ofSameProblems(first, evaluation))
      return (
        `the ${set} evaluation ${when === 'iteration' ? `of iteration ${iteration}` : `${when} training`} does not ` +
        `cover the same problems as ` +
        `the first one`
      );
  }
  return null;
}

/** Dev evaluation after an iteration, compared with the best one before it. */
export interface DevComparison {
  readonly evaluation: LoggedEvaluation;
  readonly verdicts: readonly TierVerdicts[];
  readonly best: readonly TierVerdicts[];
  readonly change: PairedChange;
  readonly rolledBack: boolean;
}

/**
 * Compares each dev evaluation with the best one before it, by iteration.
 * @param evaluations none of them stray
 */
export function compareDev(
  evaluations: readonly LoggedEvaluation[],
  tiers: readonly TierOf[],
  { gate, gateLevel }: { readonly gate: boolean; readonly gateLevel: number },
): Map<number, DevComparison> {
  const comparisons = new Map<number, DevComparison>();
  let best: TierVerdicts[] | null = null;
  for (const evaluation of evaluations) {
    if (evaluation.set !== 'dev') continue;
    const verdicts = verdictsByTier(
      evaluation.outcomes.map(([, tier, kind]) => ({ tier, kind })),
      tiers,
    );
    if (best === null) {
      best = verdicts;
      continue;
    }
    const change = pairedChange(best, verdicts);
    const rolledBack = gate && isSignificantDrop(change, gateLevel);
    comparisons.set(evaluation.iteration, { evaluation, verdicts, best, change, rolledBack });
    if (!rolledBack && change.difference >= 0) best = verdicts;
  }
  return comparisons;
}

/**
 * Returns the accuracy of the trivial policies, each derived on access.
 * @param problems outcomes of a model on the same set, for the tiers of its problems
 * @returns null if a policy does not have one verdict per problem
 */
export function policySummaries(
  { outcomes, figures: said, tiers }: Policies,
  problems: HeldOut['outcomes'],
  figures: readonly FigureName[],
): Dictionary<Summary> | null {
  const lists = Object.entries(outcomes);
  if (lists.some(([, kinds]) => kinds.length !== problems.length)) return null;
  const all = tiersOf(
    tiers,
    problems.map(([, tier]) => tier),
  );
  const summaryOf = (policy: string, kinds: readonly VerdictKind[]): Summary =>
    summarise(
      kinds.map((kind, i) => ({
        tier: problems[i]![1],
        kind,
        ...(said && ownValue(said, policy)?.[i]),
      })),
      all,
      { seed: SUMMARY_SEED, figures },
    );
  const summaries = dictionary<Summary>();
  for (const [policy, kinds] of lists)
    Object.defineProperty(summaries, policy, {
      enumerable: true,
      get: () => summaryOf(policy, kinds),
    });
  return summaries;
}
