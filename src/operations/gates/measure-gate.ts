/**
 * A gate from beginning to end: problems drawn with its seed, both versions asked the same ones, a
 * decision after every batch.
 */
import { IsoproError } from '../../errors.js';
import { gateTerms, type GateTermsInput } from '../../gate/terms.js';
import type { TrialInput } from '../../gate/trials.js';
import { decideGate, openGate, type GateRequest, type GateTrials } from '../../registry/gates.js';
import { earlierLooks } from '../../registry/looks.js';
import type { Registry } from '../../registry/registry.js';
import { isOpen, type GateState } from '../../registry/state.js';
import { measureVersions, problemsUsed, type MeasureOptions } from './measure-versions.js';

type Decided = Awaited<ReturnType<typeof decideGate>>;

export interface GateMeasurement {
  readonly gate: GateState;
  readonly decision: Decided;
  /** Number of problems that both versions were asked. */
  readonly problems: number;
}

export interface GateMeasureOptions extends MeasureOptions {
  /** Trials of guards that were measured elsewhere, with the seed of the gate. */
  readonly guards?: Pick<GateTrials, 'seed' | 'guards'>;
}

/**
 * Trials of a gate as they come in: one that came out stays as it is, one that failed gives way to
 * its repetition.
 */
class Measured {
  readonly all: TrialInput[];
  readonly #gate: number;
  readonly #places: Map<string, number>;

  constructor(gate: number, before: readonly TrialInput[]) {
    this.#gate = gate;
    this.all = [...before];
    this.#places = new Map(before.map((trial, i) => [this.#placeOf(trial), i]));
  }

  #placeOf = ({ problem, version }: TrialInput): string => JSON.stringify([problem, version]);

  /** Ids of their problems. */
  failed(): string[] {
    return this.all.filter(({ score }) => score === undefined).map(({ problem }) => problem);
  }

  /** @throws IsoproError GATE_EVIDENCE_INVALID */
  take(batch: readonly TrialInput[]): void {
    for (const trial of batch) {
      const [first] = this.all;
      if (first !== undefined && (first.epoch !== trial.epoch || first.verifier !== trial.verifier))
        throw new IsoproError(
          'GATE_EVIDENCE_INVALID',
          `the first trials of gate ${this.#gate} have the epoch ${first.epoch} and the verifier ${first.verifier}, ` +
            `but these have ${trial.epoch} and ${trial.verifier}`,
          {
            remedy:
              'Continue the gate with the same model, task and flags as for its first problems.',
          },
        );
      const place = this.#places.get(this.#placeOf(trial));
      if (place === undefined) this.#places.set(this.#placeOf(trial), this.all.push(trial) - 1);
      else if (this.all[place]!.score === undefined) this.all[place] = trial;
    }
  }
}

/** The guard that is measured by itself: tokens of a reply. */
const LENGTH = 'length';

/**
 * Asked before a gate begins, so that no attempt is spent. A policy of another form passes:
 * beginning the gate says what is wrong with it.
 * @param measured names of guards whose trials were measured elsewhere
 * @throws IsoproError INVALID_ARGUMENT where it has a guard whose trials come from elsewhere
 */
export function requireMeasurable(
  policy: GateTermsInput | undefined,
  measured: readonly string[] = [],
): void {
  const asked = gateTerms.safeParse(policy);
  const known = [LENGTH, ...measured];
  const foreign = asked.success
    ? asked.data.guards.filter(({ name }) => !known.includes(name)).map(({ name }) => name)
    : [];
  if (foreign.length > 0)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the trials of guard ${foreign.join(', ')} cannot be measured here`,
      {
        remedy:
          `Only ${LENGTH}, the tokens of a reply, is measured here. Open the gate with --open, measure the other ` +
          `guards (\`truth guards\`) ` +
          'and pass them with --guards; or pass all trials with --evidence.',
      },
    );
}

/**
 * Measures an open gate and decides it batch by batch. After an interruption it continues from the
 * kept trials and asks again where one failed. A policy on scores gets the scores of the task.
 * @throws IsoproError REGISTRY_REFUSED where it is not open; GATE_EVIDENCE_INVALID where it was
 *   measured in another way before; as measureVersions, decideGate
 */
export async function measureGate(
  registry: Registry,
  number: number,
  { guards: elsewhere, ...options }: GateMeasureOptions,
): Promise<GateMeasurement> {
  const reading = await registry.read();
  const { entries, gates } = reading.state;
  const gate = gates[number - 1];
  if (gate?.seed == null || !isOpen(gate))
    throw new IsoproError('REGISTRY_REFUSED', `gate ${number} is not open`);
  const { challenger, incumbent, seed, slot, policy } = gate;
  if (elsewhere !== undefined && elsewhere.seed !== seed)
    throw new IsoproError(
      'REGISTRY_REFUSED',
      `the guards were measured with seed ${elsewhere.seed.slice(0, 64)}, but gate ${number} has seed ${seed}`,
    );
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
  const earlier = earlierLooks(registry, number, reading.events);
  const isShort = policy.guards.some(({ name }) => name === LENGTH);
  const trials = new Measured(number, earlier.trials(null));
  const lengths = new Measured(number, isShort ? earlier.trials(LENGTH) : []);
  const failed = new Set([...trials.failed(), ...lengths.failed()]);
  const answered = new Set(
    trials.all.map(({ problem }) => problem).filter((problem) => !failed.has(problem)),
  );
  const draw = {
    seed,
    purpose: 'gate',
    round: number,
    used: problemsUsed(registry, reading, number),
    answered,
  };
  const guarded = policy.guards.length > 0 && {
    guards: { ...Object.fromEntries(others), ...(isShort ? { [LENGTH]: lengths.all } : {}) },
  };
  const scored = policy.kind !== 'e-process' || policy.measure === 'score';
  let decision: Decided | undefined;
  const problems = await measureVersions(
    registry,
    versions,
    draw,
    { ...options, scored },
    async (batch) => {
      trials.take(batch.trials);
      lengths.take(batch.lengths);
      decision = await decideGate(registry, number, { seed, trials: trials.all, ...guarded });
      return decision.decision !== 'needs-more-trials';
    },
  );
  return { gate, decision: decision!, problems };
}

/** Opens a gate and measures it. */
export async function runGate(
  registry: Registry,
  request: GateRequest,
  options: MeasureOptions,
): Promise<GateMeasurement> {
  requireMeasurable(request.policy);
  const { gate } = await openGate(registry, request);
  return measureGate(registry, gate, options);
}
