/**
 * Real runs on the model that learns letters, each with one rule that is made to fire and a policy
 * that answers it with one operation. As a program it makes such a run and kills itself at a place:
 * `remedy-runs.js FOLDER CASE effects|checkpoint`.
 */
import { join } from 'node:path';
import {
  run,
  type Policy,
  type RuleConfigInput,
  type RuleId,
  type RunOptions,
  type RunResult,
  type RunSettingsInput,
  type TrainerSettings,
} from '../../src/index.js';
import { LORA } from '../../src/trainees/lora/trainee.js';
import { expectedDirection } from '../../src/monitor/rule-set.js';
import {
  type LoraOperation as RemedyOperation,
  OPERATIONS,
} from '../../src/trainees/lora/operations.js';
import { mergeSettings } from '../../src/training/settings.js';
import { ONE_TIER, writeLetterModel, writeLetterTask } from './letters.js';

interface Answer {
  readonly rule: RuleId;
  /** The iteration after which it is answered. */
  readonly at: number;
  readonly edit: (settings: TrainerSettings) => RemedyOperation[];
}

/** One answer, and what has to be done before for its rule to fire. */
export interface RemedyRun extends Answer {
  readonly before?: readonly Answer[];
  readonly rules: RuleConfigInput;
  /**
   * On the model whose gradients overflow wherever it reads a d, with a task in which it is one
   * right answer of eight.
   */
  readonly fragile?: boolean;
  /** On a task of three tiers, of which one is not trained on; else of one. */
  readonly tiers?: boolean;
  readonly settings?: RunSettingsInput;
}

const ALWAYS: RuleConfigInput = { persistence: 1, coolDown: 0 };
const first = ({ modules }: TrainerSettings): string => Object.keys(modules)[0]!;
const MODULE = 'blk.2.attn_v';
const vanishing = {
  rule: 'R6',
  at: 2,
  rules: { ...ALWAYS, r6: { relativeGradientLow: 1e6, minSteps: 0 } },
} as const;
const exploding = { rule: 'R7', at: 2, rules: { ...ALWAYS, r7: { ratioHigh: 1e-9 } } } as const;
const full = {
  rule: 'R4',
  at: 3,
  rules: {
    ...ALWAYS,
    r1: { updateRatioLow: 1e-12, updateRatioHigh: 1e3 },
    r4: { window: 3, saturationGap: 1e3, rankUse: 1e-9 },
    objectiveTarget: 1,
  },
  settings: { iterations: 4 },
} as const;

const broken: Omit<RemedyRun, 'edit'> = {
  rule: 'R7',
  at: 2,
  rules: ALWAYS,
  fragile: true,
  settings: { optimiser: { batchSize: 2, stepsPerIteration: 8 }, layers: { targets: ['q', 'v'] } },
};

export const REMEDY_RUNS: Readonly<Record<string, RemedyRun>> = {
  'set_lr down': {
    rule: 'R1',
    at: 2,
    rules: { ...ALWAYS, r1: { updateRatioLow: 1e-13, updateRatioHigh: 1e-12 } },
    edit: ({ learningRate }) => [{ op: 'set_lr', from: learningRate, to: learningRate / 3 }],
  },
  'set_lr up': {
    rule: 'R1',
    at: 2,
    rules: { ...ALWAYS, r1: { updateRatioLow: 1e2, updateRatioHigh: 1e3 } },
    edit: ({ learningRate }) => [{ op: 'set_lr', from: learningRate, to: learningRate * 2 }],
  },
  set_batch: {
    rule: 'R2',
    at: 2,
    rules: { ...ALWAYS, r2: { noiseToBatchLow: 1e-12, noiseToBatchHigh: 1e-9 } },
    edit: ({ batchSize }) => [{ op: 'set_batch', from: batchSize, to: 2 * batchSize }],
  },
  stop: {
    rule: 'R3',
    at: 2,
    rules: { ...ALWAYS, r3: { patience: 1, minGain: 0.99, z: 0 } },
    tiers: true,
    edit: ({ lastSoundAdapter }) => [{ op: 'stop', restore: lastSoundAdapter }],
  },
  raise_rank: { ...full, edit: () => [{ op: 'raise_rank', module: MODULE, from: 2, to: 4 }] },
  add_target: {
    ...full,
    settings: { ...full.settings, layers: { targets: ['q', 'v'] } },
    edit: () => [{ op: 'add_target', module: 'blk.1.ffn_down', rank: 2 }],
    // new directions contribute nothing before their first step, as a dead one does
  },
  recycle: {
    rule: 'R5',
    at: 4,
    rules: { ...full.rules, r5: { dormantFraction: 0.4, minSteps: 0 } },
    settings: { iterations: 5, optimiser: { stepsPerIteration: 1 } },
    before: [{ ...full, edit: () => [{ op: 'raise_rank', module: MODULE, from: 2, to: 4 }] }],
    edit: ({ modules }) => [
      { op: 'recycle', module: MODULE, directions: [...modules[MODULE]!.dormantDirections] },
    ],
  },
  lr_mult: {
    ...vanishing,
    edit: (settings) => [{ op: 'lr_mult', module: first(settings), factor: 8 }],
  },
  raise_precision: { ...vanishing, edit: () => [{ op: 'raise_precision', adamEps: 1e-12 }] },
  rebalance: {
    ...vanishing,
    edit: (settings) => [{ op: 'rebalance', module: first(settings), factor: 4 }],
  },
  rescale: {
    ...vanishing,
    edit: (settings) => [{ op: 'rescale', module: first(settings), factor: 4 }],
  },
  set_clip: { ...exploding, edit: () => [{ op: 'set_clip', maxNorm: 1e-3 }] },
  rollback: {
    ...exploding,
    edit: ({ lastSoundAdapter, learningRate }) => [
      { op: 'rollback', to: lastSoundAdapter, learningRate: learningRate / 10, maxNorm: 0.5 },
    ],
  },
  skip_step: { ...broken, edit: () => [{ op: 'skip_step' }] },
  'rollback of what is not finite': {
    ...broken,
    edit: ({ lastSoundAdapter, learningRate }) => [
      { op: 'rollback', to: lastSoundAdapter, learningRate: learningRate / 2, maxNorm: 0.5 },
    ],
  },
};

/** Acts on its rules at their iterations; all else is deferred. */
export const policyOf = ({ before = [], ...last }: RemedyRun): Policy => ({
  name: 'remedy-test',
  decide: ({ rule, evaluations, settings }) => {
    const { iteration, rules } = evaluations.at(-1)!;
    const operations =
      [...before, last]
        .find((answer) => answer.rule === rule && answer.at === iteration)
        ?.edit(settings) ?? [];
    const [operation] = operations;
    return operation === undefined
      ? {
          event_type: 'rule_triggered_no_action',
          cites: [rule],
          justification: 'not this one',
          remedy_direction: 'none',
          edit: [],
          deferral: { until: iteration + 1, reason: 'not this one' },
        }
      : {
          event_type: OPERATIONS[operation.op].event,
          cites: [rule],
          justification: 'as the test says',
          remedy_direction: expectedDirection(LORA.ruleSet, rule, rules[rule].side)!,
          edit: operations,
          deferral: null,
        };
  },
});

export const SETTINGS: RunSettingsInput = {
  seed: '3',
  iterations: 3,
  signer: 'single-process',
  profile: 'downloaded',
  sampling: { rollouts: 32, samples: 4, maxTokens: 4 },
  optimiser: { stepsPerIteration: 4, batchSize: 8, learningRate: 0.01, warmupSteps: 0 },
  layers: { rank: 2, topLayers: 1 },
  evaluation: { devSize: 4, testSize: 2, gate: false },
  model: { threads: 1 },
};

export function writeRemedyInputs(folder: string): void {
  writeLetterModel(join(folder, 'letters.gguf'));
  writeLetterModel(join(folder, 'fragile.gguf'), 1n, ['d']);
  writeLetterTask(join(folder, 'letters.mjs'), { members: ONE_TIER });
  writeLetterTask(join(folder, 'tiers.mjs'));
  writeLetterTask(join(folder, 'fragile.mjs'), {
    verifier: "{ kind: 'pass', violations: [], metrics: {} }",
    members: ONE_TIER,
  });
}

/** @param folder holds what writeRemedyInputs wrote */
export function remedyRun(
  folder: string,
  out: string,
  remedy: RemedyRun,
  options: RunOptions = {},
): Promise<RunResult> {
  const name = remedy.fragile === true ? 'fragile' : 'letters';
  const settings = mergeSettings(SETTINGS, remedy.settings ?? {}, {
    model: { name: join(folder, `${name}.gguf`) },
    task: join(folder, `${remedy.tiers === true ? 'tiers' : name}.mjs`),
  });
  return run(settings, {
    out: join(folder, out),
    policy: policyOf(remedy),
    rules: remedy.rules,
    ...options,
  });
}

if (process.argv[1] === import.meta.filename) {
  const [folder, out, name, place] = process.argv.slice(2) as [string, string, string, string];
  const remedy = REMEDY_RUNS[name]!;
  const die = (here: boolean): void => void (here && process.kill(process.pid, 'SIGKILL'));
  await remedyRun(folder, out, remedy, {
    onRule: ({ iteration }) => die(place === 'effects' && iteration === remedy.at),
    onIteration: ({ iteration }) => die(place === 'checkpoint' && iteration === remedy.at),
  });
}
