/**
 * Canary problems: the version in use and the one before asked the same fresh ones, and what came
 * of it posted batch by batch.
 */
import { hash } from 'node:crypto';
import { observe, requireNamed, type Observation } from '../../registry/canary.js';
import { CHAMPION, type Slot } from '../../registry/names.js';
import type { Registry } from '../../registry/registry.js';
import { measureVersions, problemsUsed, type MeasureOptions } from './measure-versions.js';

export interface CanaryMeasurement extends Observation {
  /** Number of problems that both versions were asked. */
  readonly problems: number;
}

/**
 * Measures a canary until the previous version is restored. The problems are drawn with the last
 * signed head, which was unknown when the version was trained.
 * @throws IsoproError REGISTRY_REFUSED if the name has no
 *   adapter, or no previous one; as measureVersions, observe
 */
export async function measureCanary(
  registry: Registry,
  { slot, alias = CHAMPION }: { readonly slot: Slot; readonly alias?: string },
  options: MeasureOptions,
): Promise<CanaryMeasurement> {
  const reading = await registry.read();
  const { state, heads, records } = reading;
  const { current } = requireNamed(state, { slot, alias });
  const before = state.rollbackTarget(slot, alias);
  const versions = {
    scenario: slot.scenario,
    newer: state.entries.get(current)!,
    older: before === null ? null : state.entries.get(before)!,
  };
  const draw = {
    seed: hash('sha256', heads.at(-1)!.text),
    purpose: 'canary',
    round: records,
    used: problemsUsed(registry, reading),
  };
  let seen: Observation | undefined;
  const problems = await measureVersions(registry, versions, draw, options, async ({ trials }) => {
    seen = await observe(registry, { slot, alias, trials });
    return seen.decision.decision !== 'keep';
  });
  return { ...seen!, problems };
}
