/**
 * What is measured on SmolLM2-135M-Instruct: the steps of `npm run measure:real`, each with its
 * file in results/smollm2-135m, and summary.json, which follows from these files.
 */
import { CONDITIONS } from '../dist/src/operations/ablation.js';

/** Tasks that the goal is set on; all controls are measured on both. */
export const PRACTICAL = ['extract', 'sql'];
const SEEDS = ['42', '123', '456'];
/** Of what is measured with one seed. */
const [FIRST] = SEEDS;
/** Of the runs whose adapters are evaluated further. */
const FURTHER = '456';
/** Members of summary.json by the condition of `ablate`. */
export const CONTROLS = {
  shuffledVerdicts: 'shuffled-verdicts',
  randomVerdicts: 'random-verdicts',
  failures: 'failures',
  references: 'references',
};
/** Measured with one seed, without controls. */
const OTHERS = {
  ladder: 'ladder',
  scheduling: 'scheduling',
  'number-sorting':
    'python:reasoning_gym:number_sorting:min_numbers=3,max_numbers=4/min_numbers=5,max_numbers=6',
};
/** Few-shot's examples; samples of a problem for best-of-k, majority and pass@k. */
const EXAMPLES = 3;
const SAMPLES = 8;

/** Of every run whose test accuracy is published, beside the profile's. */
const PUBLISHED = {
  iterations: 8,
  sampling: { maxTokens: 128 }, // the longest right answer of a test set has 75
  evaluation: { devSize: 10, testSize: 100, forgetting: 200 },
  monitor: { patience: 4 }, // a dev set of 50 or 70 is noise of 5 points
};
/**
 * Of the search, which reads the dev problems alone: one test problem a tier is the least that a
 * run evaluates. Three iterations, a quarter of an hour: from the fourth on all runs of the profile
 * stay where they are.
 */
const SEARCHED = { iterations: 3, maxMinutes: 20, evaluation: { devSize: 20, testSize: 1 } };
/** At most twelve runs, each with one thing changed. */
const SEARCH = {
  profile: {},
  grpo: { algorithm: { id: 'grpo', reward: 'score' }, sampling: { samples: 8 } },
  'layers-last-8': { layers: { choice: 'last', topLayers: 8, rank: 16 } },
  'layers-activation': { layers: { choice: 'activation' } },
  'layers-gradient': { layers: { choice: 'gradient' } },
  'rank-16': { layers: { rank: 16 } },
  'rank-32': { layers: { rank: 32 } },
  'rate-3e-4': { optimiser: { learningRate: 3e-4 } },
  'rate-1e-3': { optimiser: { learningRate: 1e-3 } },
  'samples-8': { sampling: { samples: 8 } },
  'floor-0.1': { sampling: { allocationFloor: 0.1 } },
  'temperature-1': { sampling: { temperature: 1 } },
};
/** Of --try: the whole path of a step in little time, whose figures mean nothing. */
const TRIED = {
  iterations: 1,
  sampling: { rollouts: 16, samples: 4 },
  optimiser: { stepsPerIteration: 2, batchSize: 4 },
  evaluation: { devSize: 1, testSize: 1, forgetting: 2 },
};

const merge = (...parts) => {
  const merged = {};
  for (const part of parts)
    for (const [name, value] of Object.entries(part))
      merged[name] =
        typeof value === 'object' && !Array.isArray(value) ? { ...merged[name], ...value } : value;
  return merged;
};

/**
 * In the order in which they are run. A step is a run (`settings`), or an evaluation (`evaluate`:
 * flags of `eval` beside model and task) of the base model or of the adapter of a run (`adapter`:
 * that step's name).
 */
export function realSteps({ small = false } = {}) {
  const run = (name, task, settings) => ({
    name,
    task,
    settings: merge({ task }, settings, small ? TRIED : {}),
  });
  const evaluation = (name, task, evaluate, adapter) => ({
    name,
    task,
    evaluate: { perTier: small ? 1 : 100, ...evaluate },
    ...(adapter === undefined ? {} : { adapter }),
  });
  const published = (name, task, seed, changes = {}) =>
    run(name, task, merge({ seed }, PUBLISHED, changes));
  const sampled = {
    ...(small ? { samples: 2, k: [1, 2] } : { samples: SAMPLES, k: [1, 2, 4, SAMPLES] }),
    seed: FIRST,
  };
  return [
    ...Object.entries(SEARCH).map(([change, changes]) =>
      run(`search-${change}`, 'extract', merge({ seed: FIRST }, SEARCHED, changes)),
    ),
    ...PRACTICAL.flatMap((task) => [
      evaluation(`${task}-few-shot`, task, { fewShot: EXAMPLES }),
      evaluation(`${task}-samples`, task, sampled),
    ]),
    ...SEEDS.flatMap((seed) =>
      PRACTICAL.map((task) =>
        published(`${task}-full-${seed}`, task, seed, { evaluation: { constrained: true } }),
      ),
    ),
    ...PRACTICAL.flatMap((task) => [
      evaluation(`${task}-samples-${FURTHER}`, task, sampled, `${task}-full-${FURTHER}`),
      ...[...PRACTICAL, 'ladder']
        .filter((other) => other !== task)
        .map((other) =>
          evaluation(`${task}-full-${FURTHER}-on-${other}`, other, {}, `${task}-full-${FURTHER}`),
        ),
    ]),
    ...Object.values(CONTROLS).flatMap((condition) =>
      PRACTICAL.map((task) =>
        published(`${task}-${condition}-${FIRST}`, task, FIRST, CONDITIONS[condition]),
      ),
    ),
    ...Object.entries(OTHERS).map(([name, task]) =>
      published(`${name}-full-${FIRST}`, task, FIRST),
    ),
  ];
}

/** Without members that were not measured. */
const known = (members) =>
  Object.fromEntries(
    Object.entries(members).filter(
      ([, value]) => value != null && (typeof value !== 'object' || Object.keys(value).length > 0),
    ),
  );

/**
 * Minutes of the iterations with their dev evaluations, without the evaluations of the test set.
 */
export const minutesOf = ({ iterations }) =>
  iterations.reduce(
    (sum, { seconds }) => sum + seconds.rollouts + seconds.training + seconds.evaluation,
    0,
  ) / 60;

/** Before and after, where both are known. */
function change(before, after) {
  return before == null || after == null ? null : { before, after };
}

/** summary.json, of the files of the steps by name. What was not measured is absent. */
export function summaryOf(files) {
  const seedOf = (task, seed) => {
    const run = files[`${task}-full-${seed}`]?.run;
    if (run === undefined) return [];
    const { before, after, pairedP, constrained } = run.test;
    return [
      known({
        seed,
        n: before.n,
        before: before.mean,
        after: after.mean,
        pairedP,
        lenient: change(before.lenient?.mean, after.lenient?.mean),
        constrained: change(constrained?.before.mean, constrained?.after.mean),
        format: change(before.format?.mean, after.format?.mean),
        forgettingNats: run.forgetting?.lost.mean,
        minutes: minutesOf(run),
      }),
    ];
  };
  const taskOf = (task) =>
    known({
      seeds: SEEDS.flatMap((seed) => seedOf(task, seed)),
      fewShot: files[`${task}-few-shot`]?.evaluation.accuracy.mean,
      bestOfK: files[`${task}-samples`]?.evaluation.bestOfK?.mean,
      controls: known(
        Object.fromEntries(
          Object.entries(CONTROLS).map(([member, condition]) => [
            member,
            files[`${task}-${condition}-${FIRST}`]?.run.test.after.mean,
          ]),
        ),
      ),
    });
  return {
    tasks: known(Object.fromEntries([...PRACTICAL].reverse().map((task) => [task, taskOf(task)]))),
  };
}
