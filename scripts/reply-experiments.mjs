/**
 * What decides whether adapters that act from the reply on are recommended (`--adapter-from
 * reply`): `sql` and `extract`, three seeds, rank 8 and 32, each beside an ordinary adapter of the
 * same seed. The steps of measure-reply.mjs, and the paired differences that follow from their
 * files.
 */
import { PRACTICAL } from './real-experiments.mjs';

const SEEDS = ['42', '123', '456'];
const RANKS = [8, 32];
const KINDS = { ordinary: {}, reply: { adapterFrom: 'reply' } };

/** As the published runs of measure:real. */
const PUBLISHED = {
  iterations: 8,
  sampling: { maxTokens: 128 },
  evaluation: { devSize: 10, testSize: 100, forgetting: 200 },
  monitor: { patience: 4 },
};
/** Of --try: the whole path of a step in little time, whose figures mean nothing. */
const TRIED = {
  iterations: 1,
  sampling: { rollouts: 16, samples: 4, maxTokens: 128 },
  optimiser: { stepsPerIteration: 2, batchSize: 4 },
  evaluation: { devSize: 1, testSize: 1, forgetting: 2 },
};

const nameOf = (task, kind, rank, seed) => `${task}-${kind}-${rank}-${seed}`;

/** Pairs follow each other, so that whatever is cut off leaves whole pairs. */
export const replySteps = ({ small = false } = {}) =>
  SEEDS.flatMap((seed) =>
    PRACTICAL.flatMap((task) =>
      RANKS.flatMap((rank) =>
        Object.entries(KINDS).map(([kind, layers]) => ({
          name: nameOf(task, kind, rank, seed),
          task,
          settings: {
            task,
            seed,
            ...(small ? TRIED : PUBLISHED),
            layers: { rank, ...layers },
          },
        })),
      ),
    ),
  );

const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** 97.5 % quantiles of Student's t, by degrees of freedom. */
const T = [NaN, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201];

/** Mean of paired differences with its 95 % interval; null where there are fewer than two. */
function paired(differences) {
  if (differences.length < 2) return null;
  const middle = mean(differences);
  const variance =
    differences.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (differences.length - 1);
  const half = T[differences.length - 1] * Math.sqrt(variance / differences.length);
  return { n: differences.length, mean: middle, low: middle - half, high: middle + half };
}

/**
 * Differences of test accuracy in points and of the divergence on general prompts in nats, reply
 * minus ordinary, over all pairs that are measured, and of accuracy by rank. Recommended where the
 * lower bound of the mean is above -2 points and forgetting is no worse.
 */
export function replySummary(results) {
  const pairs = SEEDS.flatMap((seed) =>
    PRACTICAL.flatMap((task) =>
      RANKS.flatMap((rank) => {
        const [ordinary, reply] = ['ordinary', 'reply'].map(
          (kind) => results[nameOf(task, kind, rank, seed)]?.run,
        );
        if (ordinary === undefined || reply === undefined) return [];
        const of = (run) => ({
          accuracy: 100 * run.test.after.mean,
          // held-out English without a question is the base model's either way
          forgetting: run.forgetting?.divergence?.mean ?? null,
        });
        return [{ task, rank, seed, ordinary: of(ordinary), reply: of(reply) }];
      }),
    ),
  );
  const differences = (name, of = pairs) =>
    of.flatMap(({ ordinary, reply }) =>
      ordinary[name] === null || reply[name] === null ? [] : [reply[name] - ordinary[name]],
    );
  const accuracy = paired(differences('accuracy'));
  const forgetting = paired(differences('forgetting'));
  return {
    pairs,
    accuracy,
    forgetting,
    byRank: Object.fromEntries(
      RANKS.map((rank) => [
        rank,
        paired(
          differences(
            'accuracy',
            pairs.filter((pair) => pair.rank === rank),
          ),
        ),
      ]),
    ),
    recommended:
      pairs.length < SEEDS.length * PRACTICAL.length * RANKS.length || accuracy === null
        ? null
        : accuracy.low > -2 && (forgetting === null || forgetting.mean <= 0),
  };
}
