/**
 * What becomes of an iteration's rollouts: which ones are trained on, in which direction, and how often they are drawn. It follows from
 * their verdicts, ends and tokens alone, so that a run decides by it and its judge decides again.
 */
import { Random, deriveSeed } from '../random.js';

/** What becomes of a rollout. */
export const ADMISSIONS = [
  'admitted', // into the replay buffer: its likelihood is raised where it is drawn
  'contrasted', // with the other samples of its problem: trained on with its advantage, up or down
  'failed', // by the verdict, or by what a control trains on instead of it
  'undecided',
  'incomplete', // it did not end by itself: training on it would teach to stop anywhere
  'contradictory', // its reasoning contradicts the problem
  'duplicate', // of an earlier sample of its problem
  'uninformative', // no sample of its problem has the other verdict: there is nothing to contrast it with
] as const;
export type Admission = (typeof ADMISSIONS)[number];

/** A rollout as it was sampled, and as it stands in a log. */
export interface Sample {
  readonly tokenIds: ArrayLike<number>;
  readonly finish: string;
  readonly verdict: { readonly kind: string };
}

/** All samples of one problem, in their order. */
export interface Group<S extends Sample> {
  readonly rollouts: readonly S[];
}

/** Added to the standard deviation of a group's rewards. */
const EPSILON = 1e-6;

/**
 * What a policy gradient learns from (GRPO, arXiv 2402.03300 §4.1.2): (reward - mean) / (standard deviation + epsilon) within each group;
 * reward 1 for a pass, 0 for a failure, none without a verdict.
 */
export function advantages(rewards: readonly (0 | 1 | null)[]): (number | null)[] {
  const known: number[] = rewards.filter((reward) => reward !== null);
  const mean = known.reduce((sum, reward) => sum + reward, 0) / known.length;
  const deviation = Math.sqrt(known.reduce((sum, reward) => sum + (reward - mean) ** 2, 0) / known.length);
  return rewards.map((reward) => (reward === null ? null : (reward - mean) / (deviation + EPSILON)));
}

/** Groups whose samples differ in verdict; the others have no gradient. */
export function informativeGroups<G extends Group<Sample>>(groups: readonly G[]): G[] {
  return groups.filter(({ rollouts }) => ['pass', 'fail'].every((kind) => rollouts.some(({ verdict }) => verdict.kind === kind)));
}

/** The rollouts that are trained on, with their advantages. One that was cut off counts in its group's mean, but is not trained on. */
export function contrasts<S extends Sample>(groups: readonly Group<S>[]): ReadonlyMap<S, number> {
  const found = new Map<S, number>();
  for (const { rollouts } of informativeGroups(groups)) {
    const values = advantages(rollouts.map(({ verdict }) => (verdict.kind === 'none' ? null : verdict.kind === 'pass' ? 1 : 0)));
    for (const [index, rollout] of rollouts.entries()) {
      const advantage = values[index];
      if (typeof advantage === 'number' && rollout.finish === 'stop') found.set(rollout, advantage);
    }
  }
  return found;
}

/** Two samples of one problem are near-duplicates when this part of their runs of five tokens is common (Jaccard). */
const SIMILAR = 0.9;
const SHINGLE = 5;

function shingles(tokenIds: ArrayLike<number>): Set<string> {
  const ids = Array.from(tokenIds);
  const set = new Set<string>();
  for (let at = 0; at + SHINGLE <= ids.length || at === 0; at++) set.add(ids.slice(at, at + SHINGLE).join());
  return set;
}

function similar(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  let common = 0;
  for (const each of a) if (b.has(each)) common++;
  return common >= SIMILAR * (a.size + b.size - common);
}

/** (passed + 1) / (decided + 2): neither 0 nor 1 whatever the few samples say. */
const smoothedSolveRate = (rollouts: readonly Sample[]): number => {
  const decided = rollouts.filter(({ verdict }) => verdict.kind !== 'none').length;
  return (rollouts.filter(({ verdict }) => verdict.kind === 'pass').length + 1) / (decided + 2);
};

/** The settings that decide. */
export interface AdmissionRules {
  readonly algorithm: 'rft' | 'grpo';
  readonly accept: 'passing' | 'shuffled' | 'failing';
  readonly buffer: 'balanced' | 'classic';
}

export interface Fate {
  readonly admission: Admission;
  /** Of a contrasted one. */
  readonly advantage?: number;
  /** 1 - smoothed solve rate of its problem; what the replay draws by. */
  readonly weight: number;
}

/** Whether the reasoning of a rollout is held against its problem before it is trained on. */
export const readsReasoning = ({ algorithm, accept }: AdmissionRules, { finish, verdict }: Sample): boolean =>
  algorithm === 'rft' && accept === 'passing' && finish === 'stop' && verdict.kind === 'pass';

interface AdmissionOptions<S> {
  readonly rules: AdmissionRules;
  readonly iteration: number;
  readonly runSeed: bigint;
  /** Of those whose reasoning is read. */
  readonly contradicts: (rollout: S) => boolean;
}

/** @param groups of one iteration, in the order in which they were sampled */
export function fates<S extends Sample>(
  groups: readonly (Group<S> & { readonly tier: string })[],
  options: AdmissionOptions<S>,
): Map<S, Fate> {
  const { algorithm, accept, buffer } = options.rules;
  const wanted =
    accept === 'shuffled'
      ? shuffledVerdicts(groups, options)
      : ({ verdict }: Sample): boolean => verdict.kind === (accept === 'failing' ? 'fail' : 'pass');
  const contrasted = algorithm === 'grpo' ? contrasts(groups) : null;
  const found = new Map<S, Fate>();
  for (const { rollouts } of groups) {
    const weight = accept === 'passing' ? 1 - smoothedSolveRate(rollouts) : 1;
    const kept: Set<string>[] = [];
    const admissionOf = (rollout: S): Admission => {
      if (rollout.verdict.kind === 'none') return 'undecided';
      if (rollout.finish !== 'stop') return 'incomplete';
      if (contrasted !== null) return contrasted.has(rollout) ? 'contrasted' : 'uninformative';
      if (!wanted(rollout)) return 'failed';
      if (readsReasoning(options.rules, rollout) && options.contradicts(rollout)) return 'contradictory';
      if (buffer === 'classic') return 'admitted'; // the original removes no duplicates
      const own = shingles(rollout.tokenIds);
      if (kept.some((other) => similar(own, other))) return 'duplicate';
      kept.push(own);
      return 'admitted';
    };
    for (const rollout of rollouts) {
      const advantage = contrasted?.get(rollout);
      found.set(rollout, { admission: admissionOf(rollout), ...(advantage === undefined ? {} : { advantage }), weight });
    }
  }
  return found;
}

/** Control: as many rollouts of each tier as passed, drawn among the complete ones whatever their verdict. */
function shuffledVerdicts<S extends Sample>(
  groups: readonly (Group<S> & { readonly tier: string })[],
  { iteration, runSeed }: AdmissionOptions<S>,
): (rollout: S) => boolean {
  const chosen = new Set<S>();
  for (const tier of new Set(groups.map((group) => group.tier))) {
    const complete = groups
      .filter((group) => group.tier === tier)
      .flatMap(({ rollouts }) => rollouts.filter(({ finish, verdict }) => finish === 'stop' && verdict.kind !== 'none'));
    const passed = complete.filter(({ verdict }) => verdict.kind === 'pass').length;
    const random = new Random(deriveSeed({ runSeed, purpose: 'shuffled verdicts', iteration, problemId: tier, sample: 0 }));
    for (const rollout of random.shuffle(complete).slice(0, passed)) chosen.add(rollout);
  }
  return (rollout) => chosen.has(rollout);
}
