/** Trials of two versions, `new` and `old`, for the tests of the gate. */
import {
  decide,
  type GateDecision,
  type GateEvidence,
  type GatePolicyInput,
  type TrialInput,
} from '../../src/gate/index.js';

export const NEW = { id: 'new' };
export const OLD = { id: 'old' };

/** A trial of each version on one problem. */
export function both(
  problem: string,
  challenger: number,
  incumbent: number,
  more: Partial<TrialInput> = {},
): TrialInput[] {
  const trial = (version: string, score: number): TrialInput => ({
    version,
    task: 'sql',
    epoch: 'epoch 1',
    verifier: 'digest 1',
    problem,
    score,
    ...more,
  });
  return [trial(NEW.id, challenger), trial(OLD.id, incumbent)];
}

/**
 * So many problems that only the challenger solves, that only the incumbent solves, and that both
 * do.
 */
export function verdicts(wins: number, losses: number, ties = 0): TrialInput[] {
  return Array.from({ length: wins + losses + ties }, (_, i) =>
    both(`problem ${i}`, i < wins || i >= wins + losses ? 1 : 0, i < wins ? 0 : 1),
  ).flat();
}

/** Problems by the difference of the scores, which may be up to 1 in either direction. */
export const scored = (
  differences: readonly number[],
  more: Partial<TrialInput> = {},
  name = 'problem',
): TrialInput[] =>
  differences.flatMap((difference, i) =>
    both(`${name} ${i}`, Math.max(0, difference), Math.max(0, -difference), more),
  );

export const decided = (
  trials: readonly TrialInput[],
  policy?: GatePolicyInput,
  more: Partial<GateEvidence> = {},
): GateDecision => decide(NEW, OLD, { attempt: 1, trials, ...more }, policy);
