/** Shared parts of the decision about an iteration's rollouts. */
import type { Admission } from '../run-folder/rollout-records.js';
import type { Fate, Group, Sample, SampledSettings } from './algorithm.js';

/** (passed + 1) / (decided + 2): neither 0 nor 1 whatever the few samples say. */
const smoothedSolveRate = (rollouts: readonly Sample[]): number => {
  const decided = rollouts.filter(({ verdict }) => verdict.kind !== 'none').length;
  return (rollouts.filter(({ verdict }) => verdict.kind === 'pass').length + 1) / (decided + 2);
};

/** Returns the replay weight of a problem: rarely solved problems weigh more. */
export const rarity = ({ rollouts }: Group<Sample>): number => 1 - smoothedSolveRate(rollouts);

/**
 * Returns why no algorithm trains on a rollout: it has no verdict or did not end by itself; null if
 * it is usable.
 */
export const unusable = ({ verdict, finish }: Sample): Admission | null =>
  verdict.kind === 'none' ? 'undecided' : finish !== 'stop' ? 'incomplete' : null;

/**
 * Returns the fate of each rollout, group by group.
 * @param decide called once per group; `fateOf` is called for the usable rollouts in their order
 */
export function fates<S extends Sample>(
  groups: readonly Group<S>[],
  decide: (group: Group<S>) => {
    readonly weight: number;
    readonly fateOf: (rollout: S) => Omit<Fate, 'weight'>;
  },
): Map<S, Fate> {
  const found = new Map<S, Fate>();
  for (const group of groups) {
    const { weight, fateOf } = decide(group);
    for (const rollout of group.rollouts) {
      const admission = unusable(rollout);
      found.set(rollout, { ...(admission === null ? fateOf(rollout) : { admission }), weight });
    }
  }
  return found;
}

/** Returns the sentences of the rows that hold. */
export const problems = (rows: readonly (readonly [holds: boolean, problem: string])[]): string[] =>
  rows.flatMap(([holds, problem]) => (holds ? [problem] : []));

/** Settings that contradict an algorithm that compares probabilities of its own samples. */
export const onPolicyProblems = (
  id: string,
  { sampling: { topP }, buffer: { accept }, layers: { dropout } }: SampledSettings,
): (readonly [boolean, string])[] => [
  [topP < 1, `sampling.topP: ${id} needs samples from the model's full distribution; set it to 1`],
  [
    accept !== 'passing',
    `buffer.accept: ${id} trains on replies with any verdict; leave it at passing`,
  ],
  [dropout > 0, `layers.dropout: ${id} needs probabilities without dropout: set it to 0`],
];
