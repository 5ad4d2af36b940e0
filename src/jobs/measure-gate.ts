/** A gate from beginning to end: problems drawn with its seed, both versions asked the same ones, a decision after every batch. */
import { IsoproError } from '../errors.js';
import { decideGate, openGate, type GateRequest, type GateTrials } from '../registry/gates.js';
import type { Registry } from '../registry/registry.js';
import { isOpen, type GateState } from '../registry/state.js';
import { measureVersions, problemsUsed, type MeasureOptions } from './measure-versions.js';

type Decided = Awaited<ReturnType<typeof decideGate>>;

export interface GateMeasurement {
  readonly gate: GateState;
  readonly decision: Decided;
  /** That both were asked. */
  readonly problems: number;
}

/**
 * Measures a gate that is open and decides it, batch by batch; begun anew after an interruption it asks the same problems.
 * @throws IsoproError REGISTRY_REFUSED where it is not open; as measureVersions, decideGate
 */
export async function measureGate(registry: Registry, number: number, options: MeasureOptions): Promise<GateMeasurement> {
  const reading = await registry.read();
  const { entries, gates } = reading.state;
  const gate = gates[number - 1];
  if (gate?.seed == null || !isOpen(gate)) throw new IsoproError('REGISTRY_REFUSED', `gate ${number} is not open`);
  const { challenger, incumbent, seed, slot } = gate;
  const versions = {
    scenario: slot.scenario,
    newer: entries.get(challenger)!,
    older: incumbent === null ? null : entries.get(incumbent)!,
  };
  const draw = { seed, purpose: 'gate', round: number, used: problemsUsed(registry, reading, number) };
  const trials: GateTrials['trials'][number][] = [];
  let decision: Decided | undefined;
  const problems = await measureVersions(registry, versions, draw, options, async (batch) => {
    trials.push(...batch);
    decision = await decideGate(registry, number, { seed, trials });
    return decision.decision !== 'needs-more-trials';
  });
  return { gate, decision: decision!, problems };
}

/** Opens a gate and measures it. */
export async function runGate(registry: Registry, request: GateRequest, options: MeasureOptions): Promise<GateMeasurement> {
  const { gate } = await openGate(registry, request);
  return measureGate(registry, gate, options);
}
