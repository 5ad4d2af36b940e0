/** What is measured of truth-seeking: the steps of `npm run measure:truth`, each with its file in results/truth. */
import { DOMAINS } from '../dist/src/truth-seeking/domains/index.js';

export const PROMPTS = ['confirmatory', 'critical'];
export const MODES = ['direct', 'chain-of-thought', 'self-debate:turns=2', 'bootstrap-interview:questions=2'];
/** Who reasons, with who predicts its answers (mutual predictability): another model, and none that would take longer than all the rest. */
const MODELS = { tiny: null, 'smollm2-135m': 'tiny' };
export const STRATEGIES = [
  'accuracy:mode=initial',
  'accuracy:mode=eventual',
  'accuracy:mode=difference',
  'martingale',
  'sycophancy',
  'sycophancy:measure=quality-change',
  'sycophancy:measure=asymmetry',
  'mutual-predictability:trials=1',
  'world-in-the-loop',
  'coherence',
  'qualitative-judge:redTeam=none,order=none,selfAnswer=false',
  'grader',
];
const PROBLEMS = 10;
const MAX_TOKENS = 96;
const SEED = '42';

/** An adapter trained by 1 - Brier of what is read, measured on held-out questions before and after. */
const TRAINED = {
  model: 'smollm2-135m',
  domain: ['urns', 'sums-and-claims'],
  seeds: ['42', '123', '456'],
  flags: { steps: 20, questions: 4, group: 4, maxTokens: 48, trainCutOff: true, measure: 40, matmul: 'auto' },
};

/** The urn oracle, whose figures are those of no model (flags of `truth oracle`). */
const ORACLE = { samples: 500, seed: SEED };

/** Of --try: the whole path of a step in little time, whose figures mean nothing. */
const TRIED = { problems: 2, maxTokens: 8 };
const TRIED_ORACLE = { samples: 2 };
const TRIED_TRAINING = { steps: 1, questions: 2, group: 2, maxTokens: 8, measure: 2 };

/**
 * In the order in which they are run: the urn oracle; a run of each model on each domain, every mode under every prompt,
 * every strategy (`settings` of
 * `truth run`); then trainings, a seed each (`train`: flags of `truth train`).
 */
export function truthSteps({ small = false } = {}) {
  const runs = Object.entries(MODELS).flatMap(([model, predictor]) =>
    DOMAINS.map(({ id: domain }) => ({
      name: `${model}-${domain}`,
      model,
      predictor,
      settings: {
        domain: [domain],
        mode: MODES,
        systemPrompt: PROMPTS,
        eval: STRATEGIES,
        problems: PROBLEMS,
        maxTokens: MAX_TOKENS,
        matmul: 'auto',
        seed: SEED,
        ...(small ? TRIED : {}),
      },
    })),
  );
  const trainings = TRAINED.seeds.map((seed) => ({
    name: `trained-${seed}`,
    model: TRAINED.model,
    train: { domain: TRAINED.domain, ...TRAINED.flags, ...(small ? TRIED_TRAINING : {}), seed },
  }));
  return [{ name: 'oracle', oracle: { ...ORACLE, ...(small ? TRIED_ORACLE : {}) } }, ...runs, ...trainings];
}
