/**
 * Ablations and controls: the same run with one thing changed, over several seeds, each condition
 * with its own fingerprint.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { asJson, canonicalJson } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { testComparison, type Comparison } from '../run-folder/comparison.js';
import { readRun } from '../run-folder/read-run.js';
import type { RunStart } from '../run-folder/manifest.js';
import {
  mean,
  pairedBootstrap,
  type PairedDifference,
  type PairedOutcome,
  type Summary,
} from '../statistics/index.js';
import type { RunHooks } from '../training/hooks.js';
import type { Failures } from '../tasks/failures.js';
import { readEvaluations } from '../run-folder/read-evaluations.js';
import type { RunResult } from '../training/result.js';
import { run } from './tracked-run.js';
import { withProfile } from '../training/profile.js';
import {
  mergeSettings,
  replaysRollouts,
  resolveSettings,
  statedPaths,
  type RunSettings,
  type RunSettingsInput,
} from '../training/settings.js';

/** Changes of each condition. The controls train on something other than verified successes. */
export const CONDITIONS = {
  full: {},
  'no-cot': { sampling: { style: 'plain' } },
  'no-accumulation': { buffer: { accumulate: false } },
  'random-layers': { layers: { choice: 'random' } },
  'shuffled-verdicts': { buffer: { accept: 'shuffled' } },
  'random-verdicts': { buffer: { accept: 'random' } },
  failures: { buffer: { accept: 'failing' } },
  references: { buffer: { accept: 'references' } },
} as const satisfies Readonly<Record<string, RunSettingsInput>>;
export type Condition = keyof typeof CONDITIONS;
export const CONDITION_NAMES = Object.keys(CONDITIONS) as Condition[];
export const ABLATION_SEEDS = ['42', '123', '456'] as const;

export interface ConditionRun
  extends Pick<RunResult, 'accepted' | 'seconds' | 'tokens' | 'peakRssBytes'> {
  readonly seed: string;
  /** Name below the ablation's own folder. */
  readonly folder: string;
  readonly before: Summary;
  readonly after: Summary;
  /** Over the same problems, by tier too. */
  readonly paired: Comparison;
  readonly adapter: string;
  /** Why test replies did not pass after the run; null where the log does not tell. */
  readonly failures: Failures | null;
  /** SHA-256 over trained tensors and training data. */
  readonly fingerprint: string;
}

export interface ConditionResult {
  readonly condition: Condition;
  readonly changes: RunSettingsInput;
  readonly runs: readonly ConditionRun[];
  /** Mean of the final test means over seeds. */
  readonly mean: number | null;
  /** This condition minus `full`, over the same problems and seeds; null for `full` itself. */
  readonly toFull: PairedDifference | null;
}

export interface Ablation {
  readonly task: string;
  readonly model: string;
  readonly modelSha256: string;
  readonly code: RunStart['code'];
  readonly machine: {
    readonly platform?: string;
    readonly arch: string;
    /** Own kernels with the version of their bits, which are those of every platform. */
    readonly kernels?: 'own';
    readonly version?: number;
    readonly threads: number;
  };
  /** SHA-256 of the test problems, which all conditions share. */
  readonly setSha256: string;
  /** Tiers that no condition trains on. */
  readonly untrained: readonly string[];
  readonly trivialPolicies: Readonly<Record<string, Summary>>;
  readonly seeds: readonly string[];
  readonly conditions: readonly ConditionResult[];
}

export interface AblationOptions extends RunHooks {
  /** Holds a run folder for each condition and seed; what is there is not run again. */
  readonly out: string;
  readonly conditions?: readonly Condition[];
  readonly seeds?: readonly string[];
  readonly signal?: AbortSignal;
  readonly onRun?: (condition: Condition, seed: string, done: number, total: number) => void;
}

/**
 * @throws IsoproError CONDITIONS_EQUAL where two conditions are one under the settings, before any
 *   run, or trained the same tensors on the same data with one seed; INVALID_ARGUMENT where the
 *   settings already change what a condition is to change; and whatever `run` throws
 */
export async function ablate(input: RunSettingsInput, options: AblationOptions): Promise<Ablation> {
  const {
    out,
    conditions = CONDITION_NAMES,
    seeds = ABLATION_SEEDS,
    signal,
    onRun,
    ...hooks
  } = options;
  const wanted = CONDITION_NAMES.filter(
    (condition) => condition === 'full' || conditions.includes(condition),
  );
  const stated = statedPaths(input);
  for (const condition of wanted) {
    const taken = statedPaths(CONDITIONS[condition]).find((path) => stated.includes(path));
    if (taken !== undefined)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `${taken}: the condition ${condition} changes this setting, so you cannot set it for every condition`,
      );
  }
  const whole = await withProfile(input, signal);
  const deciding = new Map<string, Condition>();
  for (const condition of wanted) {
    const decides = decidingSettings(resolveSettings(mergeSettings(whole, CONDITIONS[condition])));
    const twin = deciding.get(decides);
    if (twin !== undefined)
      throw new IsoproError(
        'CONDITIONS_EQUAL',
        `with these settings, the condition ${condition} is the same as ${twin}: what it changes has no effect on the run`,
        {
          remedy: `Leave it out with --conditions, or ${DIFFER[condition] ?? 'choose settings under which they differ'}.`,
        },
      );
    deciding.set(decides, condition);
  }
  const results = new Map<Condition, ConditionRun[]>(wanted.map((condition) => [condition, []]));
  let first: RunResult | null = null;
  let done = 0;
  for (const seed of seeds) {
    const known = new Map<string, Condition>();
    for (const condition of wanted) {
      onRun?.(condition, seed, done++, seeds.length * wanted.length);
      const folder = `${condition}-${seed}`;
      const result = await run(mergeSettings(input, CONDITIONS[condition], { seed }), {
        ...hooks,
        out: path.join(out, folder),
        ...given({ signal }),
      });
      const fingerprint = fingerprintOf(result);
      // without a step all are the base model, whatever was changed
      const trained = result.iterations.some(({ steps }) => steps > 0);
      const twin = known.get(fingerprint);
      if (trained && twin !== undefined)
        throw new IsoproError(
          'CONDITIONS_EQUAL',
          `with seed ${seed}, the conditions ${condition} and ${twin} trained the same tensors on the same data`,
        );
      known.set(fingerprint, condition);
      first ??= result;
      results.get(condition)!.push({
        seed,
        folder,
        ...given(result.test, 'before', 'after'),
        paired: testComparison(readRun(result.folder))!,
        adapter: result.adapter.sha256,
        ...given(result, 'accepted', 'seconds', 'tokens', 'peakRssBytes'),
        failures: result.failures.after,
        fingerprint,
      });
    }
  }
  if (first === null) throw new IsoproError('INVALID_ARGUMENT', 'an ablation needs a seed');
  const {
    tiers,
    manifest: { start },
  } = readRun(first.folder);
  const groupOf = (tier: string): string => tiers.find(({ id }) => id === tier)?.group ?? tier;
  return {
    task: start.task.id,
    model: start.model.name,
    modelSha256: start.model.sha256,
    code: start.code,
    machine: {
      ...('kernels' in start.machine ? start.machine : given(start.machine, 'platform', 'arch')),
      threads: start.evaluation.threads,
    },
    setSha256: start.sets.test.sha256,
    untrained: tiers.filter(({ trains }) => !trains).map(({ id }) => id),
    trivialPolicies: first.trivialPolicies,
    seeds,
    conditions: [...results].map(([condition, runs]) => ({
      condition,
      changes: CONDITIONS[condition],
      runs,
      mean: runs.some(({ after }) => after.mean === null)
        ? null
        : mean(runs.map(({ after }) => after.mean!)),
      toFull:
        condition === 'full' ? null : differenceToFull(out, runs, results.get('full')!, groupOf),
    })),
  };
}

/** Advice for settings under which a condition differs from the full run. */
const DIFFER: Partial<Record<Condition, string>> = {
  'no-accumulation': 'use more than one iteration: the first has no earlier rollouts to train on',
  'no-cot': 'ask for reasoning: --style cot',
};

/** Settings without those that have no effect. */
function decidingSettings(settings: RunSettings): string {
  const { iterations, buffer } = settings;
  const keepsEarlier = iterations > 1 && replaysRollouts(settings);
  return canonicalJson(
    asJson(keepsEarlier ? settings : { ...settings, buffer: { ...buffer, accumulate: true } }),
  );
}

/** Trained tensors and every step's sequences. */
function fingerprintOf({ folder, iterations }: RunResult): string {
  const { submission } = readEvaluations(folder);
  const content = {
    tensors: Object.keys(submission?.targets ?? {}).sort(),
    data: iterations.map(({ data }) => data),
  };
  return createHash('sha256').update(canonicalJson(content)).digest('hex');
}

/**
 * Paired difference to the full condition. The outcomes of a problem over all seeds form one
 * cluster. Problems without a verdict on either side are left out.
 */
function differenceToFull(
  out: string,
  runs: readonly ConditionRun[],
  full: readonly ConditionRun[],
  groupOf: (tier: string) => string,
): PairedDifference {
  const pairs = new Map<string, { stratum: string; before: number[]; after: number[] }>();
  for (const [i, { folder }] of runs.entries()) {
    const [reference, own] = [full[i]!.folder, folder].map(
      (each) =>
        readEvaluations(path.join(out, each)).evaluations.find(
          ({ set, when }) => set === 'test' && when === 'after',
        )!.outcomes,
    );
    const theirs = new Map(own!.map(([id, , verdict]) => [id, verdict]));
    for (const [id, stratum, verdict] of reference!) {
      const other = theirs.get(id);
      if (verdict === 'none' || other === undefined || other === 'none') continue;
      const pair = pairs.get(id) ?? { stratum, before: [], after: [] };
      pair.before.push(verdict === 'pass' ? 1 : 0);
      pair.after.push(other === 'pass' ? 1 : 0);
      pairs.set(id, pair);
    }
  }
  return pairedBootstrap([...pairs.values()] satisfies PairedOutcome[], { seed: 1n, groupOf });
}
