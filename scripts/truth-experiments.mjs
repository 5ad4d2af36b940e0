/**
 * What is measured of truth-seeking: the steps of `npm run measure:truth`, each with its file in
 * results/truth.
 */
import { DOMAINS } from '../dist/src/truth-seeking/domains/index.js';

export const PROMPTS = ['confirmatory', 'critical'];
export const MODES = [
  'direct',
  'chain-of-thought',
  'self-debate:turns=2',
  'bootstrap-interview:questions=2',
];
/** Who reasons, with who predicts its answers (mutual predictability) and forecasts outcomes. */
const MODELS = { tiny: 'smollm2-135m', 'smollm2-135m': 'tiny' };
/** Each is asked under every mode and prompt, thrice. */
const PROBLEMS = 6;
export const STRATEGIES = [
  'accuracy:mode=initial',
  'accuracy:mode=eventual',
  'accuracy:mode=difference',
  'accuracy:metric=cross-entropy,mode=initial',
  'accuracy:metric=cross-entropy,mode=eventual',
  'accuracy:metric=cross-entropy,mode=difference',
  'martingale',
  'martingale:granularity=ends',
  'martingale:change=log-odds',
  'martingale:change=sign',
  'sycophancy',
  'sycophancy:measure=quality-change',
  'sycophancy:measure=asymmetry',
  'mutual-predictability:trials=1',
  'mutual-predictability:trials=1,target=random-other,context=evaluated-question',
  'mutual-predictability:trials=1,scoring=conditional',
  'mutual-predictability:trials=1,scoring=judge',
  'world-in-the-loop',
  'world-in-the-loop:template=rephrase,per=outcome',
  'world-in-the-loop:template=toolcall',
  'coherence',
  'qualitative-judge:redTeam=none,order=none,selfAnswer=false',
  'grader:kind=asked-belief',
  'grader:kind=model-belief',
  'grader:kind=rating',
];
const COSTS =
  'replies of up to 512 tokens each before the verdict: longer than all the rest of a domain';
const NO_EXAMPLES =
  'no domain here has solved ratings (--examples), and without them all orders are one';
const MIXED = 'by lot one of the two others, which stand for themselves';
const PEERS =
  'the other model would have to reason about every question too, and a model of a megabyte says little worth predicting';
/** Values of options that are not measured, each with its reason. */
export const LEFT_OUT = {
  'grader:kind=belief':
    'a reply has to end with it, which neither model does when it is asked to: asked-belief asks afterwards',
  'grader:kind=coverage': 'no problem that comes with the package has a reference answer',
  'mutual-predictability:predictor=evaluated':
    'the answers are its own, and a trial in which somebody predicts himself says nothing',
  'mutual-predictability:predictor=random-any': MIXED,
  'mutual-predictability:predicted=random-other': PEERS,
  'mutual-predictability:predicted=random-any': PEERS,
  'mutual-predictability:target=random-any': MIXED,
  'qualitative-judge:redTeam=red': COSTS,
  'qualitative-judge:redTeam=red-blue': COSTS,
  'qualitative-judge:redTeam=red-blue-resolution': COSTS,
  'qualitative-judge:order=static': NO_EXAMPLES,
  'qualitative-judge:order=permuted': NO_EXAMPLES,
};
const MAX_TOKENS = 96;
const SEED = '42';

/**
 * An adapter trained by 1 - Brier of what is read, measured on held-out questions before and after.
 */
const TRAINED = {
  model: 'smollm2-135m',
  domain: ['urns', 'sums-and-claims'],
  seeds: ['42', '123', '456'],
  flags: {
    steps: 20,
    questions: 4,
    group: 4,
    maxTokens: 48,
    trainCutOff: true,
    measure: 40,
    matmul: 'auto',
  },
};

/** The urn oracle, whose figures are those of no model (flags of `truth oracle`). */
const ORACLE = { samples: 500, seed: SEED };

/** Of --try: the whole path of a step in little time, whose figures mean nothing. */
const TRIED = { problems: 2, maxTokens: 8 };
const TRIED_ORACLE = { samples: 2 };
const TRIED_TRAINING = { steps: 1, questions: 2, group: 2, maxTokens: 8, measure: 2 };

/**
 * In the order in which they are run: the urn oracle; a run of each model on each domain, every
 * mode under every prompt, every strategy (`settings` of `truth run`); then trainings, a seed each
 * (`train`: flags of `truth train`).
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
        verdicts: 'bound',
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
  return [
    { name: 'oracle', oracle: { ...ORACLE, ...(small ? TRIED_ORACLE : {}) } },
    ...runs,
    ...trainings,
  ];
}
