/** A gate from beginning to end: problems drawn with its seed, both versions asked the same ones, a decision after every batch. */
import { IsoproError } from '../errors.js';
import { gatePolicy, type GatePolicyInput } from '../gate/policy.js';
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

export interface GateMeasureOptions extends MeasureOptions {
  /** Trials of guards that were measured elsewhere, with the seed of the gate. */
  readonly guards?: Pick<GateTrials, 'seed' | 'guards'>;
}

/** The guard that is measured by itself: tokens of a reply. */
const LENGTH = 'length';

/**
 * Asked before a gate begins, so that no attempt is spent. A policy of another form passes: beginning the gate says what is wrong with it.
 * @param measured names of guards whose trials were measured elsewhere
 * @throws IsoproError INVALID_ARGUMENT where it has a guard whose trials come from elsewhere
 */
export function requireMeasurable(policy: GatePolicyInput | undefined, measured: readonly string[] = []): void {
  const asked = gatePolicy.safeParse(policy);
  const known = [LENGTH, ...measured];
  const foreign = asked.success ? asked.data.guards.filter(({ name }) => !known.includes(name)).map(({ name }) => name) : [];
  if (foreign.length > 0)
    throw new IsoproError('INVALID_ARGUMENT', `the trials of guard ${foreign.join(', ')} are not measured with the gate's own`, {
      remedy:
        `Measured here is ${LENGTH}, the tokens of a reply. Begin the gate with --open, measure the others for it (\`truth guards\`) ` +
        'and give them with --guards; or give all trials with --evidence.',
    });
}

/**
 * Measures a gate that is open and decides it, batch by batch; begun anew after an interruption it asks the same problems. A policy that
 * is about scores gets the task's.
 * @throws IsoproError REGISTRY_REFUSED where it is not open; as measureVersions, decideGate
 */
export async function measureGate(
  registry: Registry,
  number: number,
  { guards: elsewhere, ...options }: GateMeasureOptions,
): Promise<GateMeasurement> {
  const reading = await registry.read();
  const { entries, gates } = reading.state;
  const gate = gates[number - 1];
  if (gate?.seed == null || !isOpen(gate)) throw new IsoproError('REGISTRY_REFUSED', `gate ${number} is not open`);
  const { challenger, incumbent, seed, slot, policy } = gate;
  if (elsewhere !== undefined && elsewhere.seed !== seed)
    throw new IsoproError('REGISTRY_REFUSED', `the guards are of the seed ${elsewhere.seed.slice(0, 64)}, and gate ${number} drew ${seed}`);
  const others = Object.entries(elsewhere?.guards ?? {});
  requireMeasurable(
    policy,
    others.map(([name]) => name),
  );
  const versions = {
    scenario: slot.scenario,
    newer: entries.get(challenger)!,
    older: incumbent === null ? null : entries.get(incumbent)!,
  };
  const draw = { seed, purpose: 'gate', round: number, used: problemsUsed(registry, reading, number) };
  const trials: GateTrials['trials'][number][] = [];
  const lengths: GateTrials['trials'][number][] = [];
  const isShort = policy.guards.some(({ name }) => name === LENGTH);
  const guarded = policy.guards.length > 0 && { guards: { ...Object.fromEntries(others), ...(isShort ? { [LENGTH]: lengths } : {}) } };
  const scored = policy.kind !== 'e-process' || policy.measure === 'score';
  let decision: Decided | undefined;
  const problems = await measureVersions(registry, versions, draw, { ...options, scored }, async (batch) => {
    trials.push(...batch.trials);
    lengths.push(...batch.lengths);
    decision = await decideGate(registry, number, { seed, trials, ...guarded });
    return decision.decision !== 'needs-more-trials';
  });
  return { gate, decision: decision!, problems };
}

/** Opens a gate and measures it. */
export async function runGate(registry: Registry, request: GateRequest, options: MeasureOptions): Promise<GateMeasurement> {
  requireMeasurable(request.policy);
  const { gate } = await openGate(registry, request);
  return measureGate(registry, gate, options);
}
