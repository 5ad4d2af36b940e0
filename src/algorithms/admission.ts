/** What algorithms have in common in deciding what becomes of an iteration's rollouts. */
import type { Admission } from '../run-folder/rollout-records.js';
import type { Fate, Group, Sample, SampledSettings } from './algorithm.js';

/** (passed + 1) / (decided + 2): neither 0 nor 1 whatever the few samples say. */
const smoothedSolveRate = (rollouts: readonly Sample[]): number => {
  const decided = rollouts.filter(({ verdict }) => verdict.kind !== 'none').length;
  return (rollouts.filter(({ verdict }) => verdict.kind === 'pass').length + 1) / (decided + 2);
};

/** What the replay draws by: problems that are seldom solved come first. */
export const rarity = ({ rollouts }: Group<Sample>): number => 1 - smoothedSolveRate(rollouts);

/** No algorithm trains on what nobody could judge, nor on what did not end by itself. */
export const unusable = ({ verdict, finish }: Sample): Admission | null =>
  verdict.kind === 'none' ? 'undecided' : finish !== 'stop' ? 'incomplete' : null;

/**
 * The fate of each, group by group.
 * @param decide of one group; asked for the rollouts that are usable, in their order
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

/** Sentences of the rows that hold. */
export const problems = (rows: readonly (readonly [holds: boolean, problem: string])[]): string[] =>
  rows.flatMap(([holds, problem]) => (holds ? [problem] : []));

/** What an algorithm that compares probabilities of its own samples cannot train with. */
export const onPolicyProblems = (
  id: string,
  { sampling: { topP }, buffer: { accept }, layers: { dropout } }: SampledSettings,
): (readonly [boolean, string])[] => [
  [
    topP < 1,
    `sampling.topP: ${id} needs samples from the whole distribution of the model: set it to 1`,
  ],
  [accept !== 'passing', `buffer.accept: ${id} trains on all verdicts`],
  [dropout > 0, `layers.dropout: ${id} needs probabilities without dropout: set it to 0`],
];
