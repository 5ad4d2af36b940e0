/** Everything that determines a run: one schema, each field documented and a flag of `run`. */
import { z } from 'zod';
import { ALGORITHM_IDS, ALGORITHM_SETTINGS, ALGORITHMS, algorithmOf } from '../algorithms/index.js';
import { ACCEPTANCES } from '../algorithms/algorithm.js';
import { canonicalJson, type Json } from '../canonical-json.js';
import { OF_TRAINING, requireModelName } from '../backends/names.js';
import { IsoproError } from '../errors.js';
import {
  GENERAL_PROMPTS,
  LEAST_PROMPTS,
  promptsForRun,
  TOKENS_PER_PROMPT,
} from '../evaluation/forgetting.js';
import { readJson } from '../files.js';
import { given as stating } from '../given.js';
import { MATMUL_HELP, MATMULS, type NativeModelInfo } from '../engine/addon.js';
import type { Seed } from '../engine/seed.js';
import { didYouMean } from '../nearest.js';
import { deriveSeed } from '../random.js';
import { plainWords } from '../wrong-input.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { recorded, requirePrecision } from '../engine/precision.js';
import { PROFILE_PATIENCE } from '../monitor/rules.js';
import { adapterFrom, LORA_TARGETS, precision } from '../engine/training-request.js';
import { CHECK_HELP } from '../tasks/data/check.js';
import { askingOf } from '../tasks/asking-options.js';
import { dataOptionsOf } from '../tasks/data/options.js';
import { isDataFile } from '../tasks/data/read-rows.js';
import { SET_SIZE } from '../tasks/frozen-sets.js';
import type { OpenTaskOptions } from '../tasks/open-task.js';
import { PROMPT_STYLES } from '../tasks/task.js';
import { POLICY_HELP, policyObjection, readPolicySetting } from './policy-setting.js';

/** No tokeniser of a natural language has fewer tokens; those of the embedded model have 1,088. */
const LANGUAGE_VOCABULARY = 4096;

/** Help texts shared with commands that open a task without settings. */
export const TASK_HELP =
  'a task from `tasks list`, a .js or .ts file, a data file (CSV or JSON Lines, also .gz), or python:MODULE[:NAME]';
export const SYSTEM_HELP = 'system message before every prompt';
export const EXAMPLES_HELP = 'solved examples before every prompt, in rollouts and evaluations';
export const STOP_HELP =
  'text that ends a reply and is not part of it, in rollouts and evaluations; repeatable';
export const VERIFY_SECONDS_HELP = 'max seconds to judge a reply to a row of data; default: 5';
export const TRUNCATED_HELP =
  'judge truncated replies as they are; otherwise they fail as truncated';

const count = (least: number, most = 1_000_000) => z.int().min(least).max(most);

export const LAYER_METHODS = ['activation', 'gradient', 'last', 'random', 'all'] as const;
export type LayerMethod = (typeof LAYER_METHODS)[number];

/** Settings for loading the model and decoding. */
const model = z.strictObject({
  name: z
    .string()
    .min(1)
    .default(EMBEDDED_MODEL)
    .describe('the embedded model, a GGUF file, an alias, or an hf: URI')
    .meta({ names: 'model', first: 2 }),
  threads: count(0, 1024)
    .default(0)
    .describe('threads; 0: the physical cores; fixed for the whole run'),
  matmul: z.enum(MATMULS).default('auto').describe(MATMUL_HELP),
  contextTokens: count(128, 2 ** 26)
    .optional()
    .describe('KV cache in tokens, shared by all running samples'),
  maxSequences: count(1, 253).default(64).describe('samples decoded together'),
});

/** Rollouts: how many, of which problems, drawn how. */
const sampling = z.strictObject({
  rollouts: count(1)
    .default(84)
    .describe('samples per iteration, over all problems')
    .meta({ first: 4 }),
  samples: count(1, 1024).default(4).describe('samples per problem').meta({ first: 5 }),
  temperature: z.number().gt(0).max(10).default(0.8).describe('sampling temperature of rollouts'),
  topP: z.number().gt(0).max(1).default(1).describe('nucleus sampling of rollouts; 1: off'),
  maxTokens: count(1, 100_000)
    .default(512)
    .describe('max tokens per reply, in rollouts and evaluations'),
  turns: count(0, 64)
    .default(0)
    .describe(
      'max replies per episode; 0: set by the task; a single-turn task is asked again with its feedback',
    ),
  system: z.string().min(1).optional().describe(SYSTEM_HELP),
  examples: count(1, 64).optional().describe(EXAMPLES_HELP),
  stop: z.array(z.string().min(1).max(200)).min(1).max(16).optional().describe(STOP_HELP),
  judgeTruncated: z.boolean().optional().describe(TRUNCATED_HELP),
  style: z
    .enum(PROMPT_STYLES as ['cot', 'plain'])
    .default('cot')
    .describe('ask for reasoning before the answer, or for the answer alone'),
  allocation: z
    .enum(['adaptive', 'uniform'])
    .default('adaptive')
    .describe('rollouts per tier: adaptive (more where some but not all succeed), or uniform'),
  allocationFloor: z
    .number()
    .min(0)
    .max(1)
    .default(0.4)
    .describe('smallest part of its uniform share that a tier gets'),
});

/** Which rollouts are kept to train on, and which of them are drawn. */
const buffer = z.strictObject({
  kind: z
    .enum(['balanced', 'classic'])
    .default('balanced')
    .describe(
      'balanced: tiers drawn uniformly, rare successes first; classic: everything accepted so far, once',
    ),
  tierCap: count(1)
    .default(256)
    .describe('max accepted rollouts kept per tier, newest first (balanced)'),
  newShare: z
    .number()
    .min(0)
    .max(1)
    .default(0.5)
    .describe('share of training sequences from the newest rollouts (balanced)'),
  accumulate: z
    .boolean()
    .default(true)
    .describe('replay earlier iterations; false: train on the newest rollouts only'),
  accept: z
    .enum(ACCEPTANCES)
    .default('passing')
    .describe('rollouts to train on: passing; the other values are controls'),
});

/** Algorithm, with the settings that it declares. */
const algorithm = z.strictObject({
  id: z
    .enum(ALGORITHM_IDS)
    .default(ALGORITHMS[0]!.id)
    .describe(ALGORITHMS.map(({ title }) => title).join(', or ')),
  ...ALGORITHM_SETTINGS,
});

/** The steps, whatever the algorithm. */
const optimiser = z.strictObject({
  stepsPerIteration: count(1, 100_000)
    .default(8)
    .describe('optimiser steps per iteration (balanced)'),
  batchSize: count(1, 4096).default(8).describe('sequences per step'),
  learningRate: z
    .number()
    .gt(0)
    .max(1)
    .default(2e-4)
    .describe('learning rate of Adam; constant after warm-up'),
  warmupSteps: count(0).default(4).describe('steps of linear learning-rate warm-up'),
  weightDecay: z
    .number()
    .min(0)
    .max(10)
    .default(0)
    .describe('decoupled weight decay of the adapter, multiplied by the learning rate'),
  maxNorm: z
    .number()
    .gt(0)
    .max(1e6)
    .default(1)
    .describe('max gradient norm over the whole adapter; larger gradients are clipped'),
  precision,
});

/** Trained layers, their adapters and the memory they may use. */
const layers = z.strictObject({
  choice: z
    .string()
    .regex(
      /^(activation|gradient|last|random|all|\d+(,\d+)*)$/,
      `expected ${LAYER_METHODS.join(', ')} or layer numbers like 20,21,22`,
    )
    .default('last')
    .describe(
      'choice of the trained layers: activation, gradient, last, random, all, or numbers like 20,21',
    ),
  topLayers: count(1, 1000)
    .default(8)
    .describe('number of layers that activation, gradient, last and random choose'),
  targets: z
    .array(z.enum(LORA_TARGETS))
    .min(1)
    .default([...LORA_TARGETS])
    .describe('linear maps to adapt in each layer'),
  rank: count(1, 1024).default(16).describe('rank of the LoRA factors'),
  scale: z.number().gt(0).max(1000).default(2).describe('scale of the adapter (alpha / rank)'),
  dropout: z.number().min(0).lt(1).default(0).describe("dropout on the adapter's inputs"),
  adapterFrom,
  trainerMemory: count(0, 2 ** 40)
    .default(600_000_000)
    .describe('memory for activations, gradients and moments, in bytes'),
  boundaryMemory: count(0, 2 ** 40)
    .default(256_000_000)
    .describe('cache of activations below the trained layers, in bytes'),
});

/** Held-out problems, and what their verdicts decide. */
const evaluation = z.strictObject({
  devSize: count(1, 20)
    .default(5)
    .describe('problems per tier in the dev evaluation after each iteration')
    .meta({ first: 6 }),
  testSize: count(1, 100)
    .default(25)
    .describe('problems per tier in the test evaluation before and after the run')
    .meta({ first: 7 }),
  gate: z
    .boolean()
    .default(true)
    .describe('roll back to the best adapter after a significant drop on the dev problems'),
  forgetting: count(0, GENERAL_PROMPTS)
    .optional()
    .describe(
      'general prompts for measuring forgetting, in addition to held-out English; 0: none; ' +
        `${GENERAL_PROMPTS}: all; default for a language model (a vocabulary of ${LANGUAGE_VOCABULARY} or more): one per ` +
        `${TOKENS_PER_PROMPT} rollout tokens, at least ${LEAST_PROMPTS}`,
    ),
  maxForgetting: z
    .number()
    .gt(0)
    .max(100)
    .optional()
    .describe(
      'limit of the loss on held-out English, in nats per token, if it is measured: an adapter that loses more is submitted at reduced ' +
        'strength; default: no limit, or 0.05 with the profile small',
    ),
  constrained: z
    .boolean()
    .default(false)
    .describe(
      "also evaluate the test problems with the task's answer grammar, before and after; doubles the time of both",
    ),
  gateLevel: z
    .number()
    .gt(0)
    .lt(1)
    .default(0.05)
    .describe('significance level of the gate (exact paired test of the mean over tiers)'),
});

/** Policy that answers the rules, and its patience. */
const monitor = z.strictObject({
  patience: count(1, 1000)
    .default(PROFILE_PATIENCE.downloaded)
    .describe('stop after this many evaluations without improvement (rule R3)'),
  policy: z
    .string()
    .min(1)
    .max(1000)
    .superRefine((text, context) => {
      const message = policyObjection(text);
      if (message !== null) context.addIssue({ code: 'custom', message });
    })
    .default('scripted')
    .meta({ names: 'decider' })
    .describe(POLICY_HELP),
  margin: z
    .number()
    .min(0)
    .max(1)
    .optional()
    .describe(
      'with --policy model:NAME: least lead of its choice over the next option, in probability; below it the script answers; default: 0',
    ),
});

/**
 * Settings of a run, by part. Each description is a flag's help (src/operations/flags.ts). Defaults
 * are those for downloaded models; `PROFILES` lists the others.
 */
export const runSettings = z.strictObject({
  task: z
    .string()
    .min(1)
    .default('scheduling')
    .describe(TASK_HELP)
    .meta({ names: 'task', first: 1 }),
  check: z.string().min(1).optional().describe(CHECK_HELP).meta({ names: 'check' }),
  answerTag: z
    .string()
    .regex(/^[A-Za-z][\w-]{0,30}$/, 'expected a name such as answer')
    .optional()
    .describe(
      'for rows of data: the answer is the text between <tag> and </tag>, and prompts say so; default: the whole reply',
    ),
  verifySeconds: z.number().gt(0).max(3600).optional().describe(VERIFY_SECONDS_HELP),
  profile: z
    .enum(['auto', 'embedded', 'small', 'downloaded'])
    .default('auto')
    .describe('set of defaults; auto: chosen by the model; small: under 500M parameters'),
  seed: z
    .string()
    .regex(/^\d{1,20}$/, { error: 'expected a whole number of 0 or more', abort: true })
    .refine((text) => BigInt(text) < 1n << 64n, 'expected a number below 2^64')
    .default('42')
    .describe('64-bit seed of the run')
    .meta({ first: 8 }),
  iterations: count(1, 1000)
    .default(6)
    .describe('rounds of rollouts, verdicts and training')
    .meta({ first: 3 }),
  maxMinutes: z
    .number()
    .gt(0)
    .max(100_000)
    .optional()
    .describe('start no further iteration after this many minutes'),
  signer: z
    .enum(['witness', 'single-process'])
    .default('witness')
    .describe('signer of the log: a separate witness process, or this process (reports say so)'),
  model: model.prefault({}),
  sampling: sampling.prefault({}),
  buffer: buffer.prefault({}),
  algorithm: algorithm.prefault({}),
  optimiser: optimiser.prefault({}),
  layers: layers.prefault({}),
  evaluation: evaluation.prefault({}),
  monitor: monitor.prefault({}),
});

export type RunSettings = z.output<typeof runSettings>;
/** Settings as a caller writes them; a seed may also be a number or a bigint. */
export type RunSettingsInput = Omit<z.input<typeof runSettings>, 'seed'> & {
  readonly seed?: Seed | undefined;
};

/**
 * Differences from the schema's defaults. The rollouts of the embedded model are cheap, so it takes
 * thousands. Patience is the same in `small` and `downloaded`: PROFILE_PATIENCE has two values.
 */
export const PROFILES: Readonly<Record<Exclude<RunSettings['profile'], 'auto'>, RunSettingsInput>> =
  {
    downloaded: {},
    /**
     * Under 500M parameters, to be under 1 GB resident: a KV cache of 8192 tokens, not of a
     * gigabyte, and a third of the trainer's memory. Chosen on rollouts and dev problems of
     * `extract` and `sql` (dev/log.md).
     */
    small: {
      model: {
        contextTokens: 8192,
        maxSequences: 8, // each sample has keys and values of its own, 18 MB for 768 tokens
      },
      sampling: {
        rollouts: 640,
        temperature: 0.7, // at 1 most replies of SmolLM2-135M to sql never end (dev/log.md)
        samples: 4, // right replies to one problem are nearly one text: problems teach, not samples
        maxTokens: 192,
        style: 'plain', // reasoning of so small a model is no help to it, and tokens
        allocationFloor: 0.3, // most tiers are beyond it at first; how much is a guess
      },
      buffer: { tierCap: 512 },
      optimiser: { stepsPerIteration: 12, batchSize: 16, learningRate: 7e-4, warmupSteps: 4 },
      // the harder tiers of `extract` came on faster than with the last 8 of 30 layers, in one run
      // of each (dev/log.md)
      layers: { choice: 'all', rank: 8, trainerMemory: 200_000_000, boundaryMemory: 64_000_000 },
      // two runs of five lost 0.054; at 0.85 of its strength an adapter loses three quarters as
      // much, and a point of accuracy (dev/log.md)
      evaluation: { maxForgetting: 0.05 },
    },
    embedded: {
      model: {
        // two threads spend their time waiting for each other on so small a model (dev/log.md)
        threads: 1,
        contextTokens: 8192,
        maxSequences: 8,
      },
      sampling: {
        rollouts: 448,
        samples: 8,
        maxTokens: 320, // enough for the longest trace of ten jobs
      },
      buffer: { tierCap: 1000 },
      optimiser: { stepsPerIteration: 25, batchSize: 16, learningRate: 1e-3, warmupSteps: 10 },
      layers: { topLayers: 3, boundaryMemory: 64_000_000 },
      evaluation: { devSize: 10, testSize: 100 },
      monitor: { patience: PROFILE_PATIENCE.embedded },
    },
  };

/**
 * Defaults for rows of data, for any model: all held-out rows are evaluated, as in `eval`, since
 * there are few. A tier with fewer rows uses fewer.
 */
export const DATA_DEFAULTS: RunSettingsInput = {
  evaluation: { devSize: SET_SIZE.dev, testSize: SET_SIZE.test },
};

/** Seed of what a run draws once. */
export const seedOf = ({ seed }: Pick<RunSettings, 'seed'>, purpose: string): bigint =>
  deriveSeed({ runSeed: BigInt(seed), purpose, iteration: 0, problemId: '', sample: 0 });

const complain = (problems: readonly string[]): never => {
  throw new IsoproError('INVALID_ARGUMENT', problems.join('; '));
};

const isPart = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** A seed in the form in which settings have it. */
const inDigits = (value: unknown): unknown =>
  typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value))
    ? String(value)
    : value;

/** Settings one over the other, member by member of each part; what is undefined is not stated. */
export function mergeSettings(...all: readonly RunSettingsInput[]): RunSettingsInput {
  const merged: Record<string, unknown> = {};
  for (const given of all) {
    for (const [name, value] of Object.entries(given)) {
      const before = merged[name];
      if (isPart(value)) {
        const stated = Object.entries(value).filter(([, member]) => member !== undefined);
        merged[name] = { ...(isPart(before) ? before : {}), ...Object.fromEntries(stated) };
      } else if (value !== undefined) merged[name] = name === 'seed' ? inDigits(value) : value;
    }
  }
  return merged;
}

/** Paths of the settings that are stated: `seed`, `sampling.temperature`. */
export const statedPaths = (given: RunSettingsInput): string[] =>
  Object.entries(mergeSettings(given)).flatMap(([name, value]) =>
    isPart(value) ? Object.keys(value).map((member) => `${name}.${member}`) : [name],
  );

const memberAt = (value: unknown, path: readonly PropertyKey[]): unknown =>
  path.reduce(
    (of, key) =>
      typeof of === 'object' && of !== null
        ? (of as Readonly<Record<PropertyKey, unknown>>)[key]
        : undefined,
    value,
  );

/** The nearest of the values that a member takes, where it takes few and was given another text. */
function meantValue(issue: z.core.$ZodIssue, given: unknown): string {
  const typed = memberAt(given, issue.path);
  if (typeof typed !== 'string') return '';
  if (issue.code === 'invalid_value') return didYouMean(typed, issue.values.map(String));
  return issue.path.join('.') === 'layers.choice' ? didYouMean(typed, LAYER_METHODS) : '';
}

/** Problems of settings by path, with the given value; a misplaced name is told its place. */
function complaints({ issues }: z.ZodError, given: unknown): string[] {
  return issues.flatMap((issue) => {
    const at = issue.path.join('.');
    if (issue.code !== 'unrecognized_keys')
      return [`${at || 'settings'}: ${issue.message}${meantValue(issue, given)}`];
    return issue.keys.map((key) => {
      const path = at === '' ? key : `${at}.${key}`;
      const meant = Object.entries(runSettings.shape).flatMap(([part, field]) =>
        field instanceof z.ZodPrefault && Object.hasOwn(field.unwrap().shape, key)
          ? [`${part}.${key}`]
          : [],
      );
      const part =
        at === '' ? runSettings : runSettings.shape[at as keyof typeof runSettings.shape];
      const known =
        part instanceof z.ZodPrefault
          ? part.unwrap().shape
          : part instanceof z.ZodObject
            ? part.shape
            : {};
      const instead =
        meant.length === 0 ? didYouMean(key, Object.keys(known)) : `, it is ${meant.join(' or ')}`;
      return `${path}: there is no such setting${instead}`;
    });
  });
}

/**
 * Resolves all settings of a run from the given ones, the profile and the schema's defaults.
 * `model.threads` stays 0 if the machine decides; the run writes the actual number to its manifest.
 * The size of a model is not read here: without a profile, every model but the embedded one counts
 * as downloaded (see `withProfile` in profile.ts).
 * @throws IsoproError INVALID_ARGUMENT naming the paths of fields that are wrong, unknown or
 *   contradict each other
 */
export function resolveSettings(given: RunSettingsInput): RunSettings {
  const merged = isPart(given) ? mergeSettings(given) : given;
  const parsed = runSettings.safeParse(merged, { error: plainWords });
  if (!parsed.success) return complain(complaints(parsed.error, merged));
  const { profile: asked, model: of, algorithm } = parsed.data;
  requireModelName(of.name, OF_TRAINING, 'a run');
  const { teacher } = algorithm as { readonly teacher?: unknown };
  if (typeof teacher === 'string') requireModelName(teacher, ['tokenIds', 'score'], 'distillation');
  const profile = asked !== 'auto' ? asked : of.name === EMBEDDED_MODEL ? 'embedded' : 'downloaded';
  const own = algorithmOf(parsed.data).defaults?.(mergeSettings(given).algorithm ?? {}) ?? {};
  // a number of top layers asks for these, where the profile would train all
  const { choice, topLayers } = given.layers ?? {};
  const top: RunSettingsInput =
    topLayers !== undefined && choice === undefined ? { layers: { choice: 'last' } } : {};
  const rows = isDataFile(parsed.data.task) ? DATA_DEFAULTS : {};
  const settings = runSettings.parse(
    mergeSettings(PROFILES[profile], rows, { algorithm: own }, top, given, { profile }),
  );
  const contradictions = contradictionsOf(settings, statedPaths(given));
  if (contradictions.length > 0) return complain(contradictions);
  const { precision: stated, ...steps } = settings.optimiser;
  return { ...settings, optimiser: { ...steps, ...stating({ precision: recorded(stated) }) } };
}

/** Checks that this machine can train so. @throws IsoproError INVALID_ARGUMENT */
export const requireMachine = ({ optimiser: steps }: RunSettingsInput): void =>
  requirePrecision(steps?.precision, 'optimiser.precision');

/** Checks whether settings are complete, as resolveSettings returns them. */
export function isResolved(given: RunSettingsInput): given is RunSettings {
  const { success, data } = runSettings.safeParse(given);
  return (
    success &&
    data.profile !== 'auto' &&
    canonicalJson(data as unknown as Json) === canonicalJson(given as unknown as Json)
  );
}

/** Checks whether steps draw accepted rollouts from the replay buffer. */
export const replaysRollouts = (settings: RunSettings): boolean =>
  algorithmOf(settings).replays === true;

/** Checks whether layers are given by number or as all, so that none are chosen. */
export const layersAreNamed = ({ layers: { choice } }: RunSettings): boolean =>
  /^\d|^all$/.test(choice);

/** Why an adapter that acts from the reply on does not learn episodes of several turns. */
export const actsWithinTurns = (why: string): string =>
  `layers.adapterFrom: reply is not supported with episodes of several turns, and ${why}`;

function contradictionsOf(settings: RunSettings, stated: readonly string[]): string[] {
  const { algorithm: of, sampling: drawn, buffer: kept, layers: trained } = settings;
  const found: string[] = [];
  if (drawn.rollouts < drawn.samples)
    found.push(
      `sampling.rollouts: ${drawn.rollouts} are fewer than the ${drawn.samples} samples of one problem`,
    );
  const chosen = algorithmOf(settings);
  found.push(...chosen.contradictions(settings));
  for (const other of ALGORITHMS) {
    const strange = Object.keys(other.settings.shape)
      .filter((field) => !(field in chosen.settings.shape))
      .map((field) => `algorithm.${field}`)
      .filter((path) => stated.includes(path));
    found.push(
      ...strange.map((path) => `${path}: a setting of ${other.id}, but the algorithm is ${of.id}`),
    );
  }
  if (kept.kind === 'classic' && stated.includes('optimiser.stepsPerIteration'))
    found.push(
      'optimiser.stepsPerIteration: it has no effect with the classic buffer, which uses everything once',
    );
  if (kept.kind === 'classic' && !kept.accumulate)
    found.push(
      'buffer.accumulate: it cannot be false with the classic buffer, which keeps everything',
    );
  if (layersAreNamed(settings) && stated.includes('layers.topLayers'))
    found.push(
      `layers.topLayers: ${trained.choice === 'all' ? 'all layers are' : 'the layers are named and'} trained already`,
    );
  if (trained.adapterFrom === 'reply' && drawn.turns > 1)
    found.push(actsWithinTurns(`sampling.turns is ${drawn.turns}`));
  if (
    stated.includes('monitor.margin') &&
    readPolicySetting(settings.monitor.policy)?.kind !== 'model'
  )
    found.push('monitor.margin: it has an effect only with a policy model:NAME');
  if (settings.evaluation.forgetting === 0 && stated.includes('evaluation.maxForgetting'))
    found.push(
      'evaluation.maxForgetting: with evaluation.forgetting 0, forgetting is not measured',
    );
  return found;
}

/** Options for judging and prompting a task, without its turns. */
export const askingOptions = (settings: RunSettings): OpenTaskOptions => ({
  ...dataOptionsOf(settings),
  ...askingOf(settings.sampling),
});

export const taskOptions = (settings: RunSettings): OpenTaskOptions => ({
  ...askingOptions(settings),
  ...(settings.sampling.turns === 0 ? {} : { turns: settings.sampling.turns }),
});

/** Max tokens of the rollouts of all iterations. */
const rolloutTokens = ({ iterations, sampling: { rollouts, maxTokens } }: RunSettings): number =>
  iterations * rollouts * maxTokens;

/**
 * Settings in use: with the threads, kernels and turns of model and task, and the forgetting
 * measurement that the vocabulary allows.
 */
export const inUse = (
  settings: RunSettings,
  opened: {
    readonly model: {
      readonly info: Pick<NativeModelInfo, 'threads' | 'matmul' | 'vocabularySize'>;
    };
    readonly task: { readonly turns: number };
  },
): RunSettings => ({
  ...settings,
  evaluation: {
    ...settings.evaluation,
    forgetting:
      settings.evaluation.forgetting ??
      (opened.model.info.vocabularySize < LANGUAGE_VOCABULARY
        ? 0
        : promptsForRun(rolloutTokens(settings))),
  },
  model: {
    ...settings.model,
    threads: opened.model.info.threads,
    matmul: opened.model.info.matmul,
  },
  sampling: { ...settings.sampling, turns: opened.task.turns },
});

/** @throws IsoproError FILE_UNREADABLE; INVALID_ARGUMENT where the file is no JSON object */
export function readSettingsFile(path: string): RunSettingsInput {
  const value = readJson(path);
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new IsoproError('INVALID_ARGUMENT', `${path} must hold one JSON object of settings`);
  return value as RunSettingsInput;
}
