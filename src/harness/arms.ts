/** The deciders that are compared, opened as a run opens them. */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../canonical-json.js';
import { Closers } from '../closers.js';
import { loadModel } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { observe } from '../monitor/policy.js';
import type { TableChoices } from '../monitor/policies/table.js';
import { scripted } from '../trainees/lora/scripted.js';
import { openDecider } from '../training/deciders.js';
import { namedPolicy, OWN_MODELS, readPolicySetting } from '../training/policy-setting.js';
import { resolveSettings } from '../training/settings.js';
import type { MonitoredRunOptions } from './monitored-run.js';
import { SCENARIO_MODEL } from './scenario-model.js';

export interface Arm extends AsyncDisposable {
  readonly name: string;
  /** SHA-256 of the table that it looks up; empty for others: another table is another decider. */
  readonly table: string;
  /** @param seed of the draw: a decider that draws draws anew for each */
  open(seed: bigint): Promise<MonitoredRunOptions['policy']>;
}

/**
 * @param setting as `run --policy` takes it; a model by its file or alias, since what a scenario
 *   trains knows no language
 * @throws IsoproError INVALID_ARGUMENT, MODEL_NOT_FOUND, …
 */
export function openArm(
  setting: string,
  options: {
    readonly table?: TableChoices;
    readonly feedback?: string;
    readonly signal?: AbortSignal;
  } = {},
): Arm {
  const read = readPolicySetting(setting);
  if (
    read === null ||
    read.kind === 'human' ||
    (read.kind === 'model' && OWN_MODELS.includes(read.model))
  )
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `policy: ${setting} cannot answer scenarios; give scripted, observe, random, table, model:FILE or model:SERVICE`,
    );
  const closers = new Closers();
  let kept: Promise<MonitoredRunOptions['policy']> | null = null;
  const opened = async (seed: bigint): Promise<MonitoredRunOptions['policy']> => {
    const model = await loadModel(SCENARIO_MODEL, { threads: 1 });
    closers.add(() => model.dispose());
    return openDecider(resolveSettings({ monitor: { policy: setting }, seed: seed.toString() }), {
      model,
      adapter: () => null,
      closers,
      ...options,
    });
  };
  return {
    name: namedPolicy(setting),
    table:
      read.kind === 'table' && options.table !== undefined
        ? createHash('sha256').update(canonicalJson(options.table)).digest('hex')
        : '',
    open(seed) {
      if (read.kind === 'scripted') return Promise.resolve(scripted);
      if (read.kind === 'observe') return Promise.resolve(observe);
      return read.kind === 'random' ? opened(seed) : (kept ??= opened(seed));
    },
    [Symbol.asyncDispose]: () => closers.close(),
  };
}
