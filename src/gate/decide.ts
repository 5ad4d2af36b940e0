/**
 * Decides whether a challenger replaces the incumbent: a pure function of the two versions, the
 * evidence and the terms that were fixed beforehand.
 */
import { z } from 'zod';
import { heldGuard, superiority } from './means.js';
import type { Outcome, Statistic } from './outcome.js';
import { pairedT } from './paired-t.js';
import { alphaOf, gateTerms, parsed, type GateTerms, type GateTermsInput } from './terms.js';
import { sign } from './sign.js';
import { pair, trials, type Block, type TrialInput } from './trials.js';

export type Decision =
  | 'accepted'
  | 'rejected'
  | 'inconclusive'
  | 'invalid'
  | 'needs-more-trials'
  | 'infrastructure-error';

/**
 * A version: whatever the caller knows of it, its `id` is what trials name it by (the hash of its
 * bytes, its base and its renderer).
 */
export interface Version {
  readonly id: string;
}

export interface GateEvidence {
  /**
   * The how-manieth gate this is in the life of the name, from 1; one that was begun and left
   * counts.
   */
  readonly attempt: number;
  /** Trials of both versions, on problems that no earlier gate has used. */
  readonly trials: readonly TrialInput[];
  /** By the name of a guard, its trials. */
  readonly guards?: Readonly<Record<string, readonly TrialInput[]>>;
}

export interface GuardDecision {
  readonly name: string;
  readonly state: Outcome['state'];
  readonly reason: string;
  readonly statistic: Statistic;
}

export interface GateDecision {
  readonly decision: Decision;
  /** Why, in sentences. */
  readonly reasons: readonly string[];
  readonly attempt: number;
  /** Alpha spent by this attempt, whatever the decision. */
  readonly alpha: number;
  /** Problems, and pairs of samples on them, that the target counts. */
  readonly blocks: number;
  readonly pairs: number;
  /** Null where the evidence allows none. */
  readonly statistic: Statistic | null;
  readonly guards: readonly GuardDecision[];
}

const version = z.object({ id: z.string().min(1).max(500) });
const gateEvidence = z.strictObject({
  attempt: z.number().int().min(1),
  trials,
  guards: z.map(z.string(), trials).default(new Map()),
});

/** A record as a map: names such as `__proto__` are names like others. */
const withMap = (evidence: unknown): unknown => {
  const { guards } = (evidence ?? {}) as { guards?: unknown };
  if (typeof evidence !== 'object' || typeof guards !== 'object' || guards === null)
    return evidence;
  return { ...evidence, guards: new Map(Object.entries(guards)) };
};

function target(blocks: readonly Block[], terms: GateTerms, alpha: number): Outcome {
  switch (terms.kind) {
    case 'e-process':
      return superiority(blocks, terms, alpha);
    case 'sign':
      return sign(blocks, terms, alpha);
    case 'paired-t':
      return pairedT(blocks, terms, alpha);
  }
}

/**
 * Decides about a challenger. The function is pure: equal arguments give equal answers. Under the
 * default terms it may be called after every trial. docs/gate.md says what the decisions promise.
 * @throws IsoproError GATE_POLICY_INVALID, GATE_EVIDENCE_INVALID where an argument has another
 *   form; evidence of the right form that contradicts itself is the decision `invalid`
 */
export function decide(
  challenger: Version,
  incumbent: Version,
  evidence: GateEvidence,
  terms: GateTermsInput = { kind: 'e-process' },
): GateDecision {
  const asked = parsed(gateTerms, terms, 'policy', 'GATE_POLICY_INVALID');
  const given = parsed(gateEvidence, withMap(evidence), 'evidence', 'GATE_EVIDENCE_INVALID');
  const one = parsed(version, challenger, 'challenger', 'GATE_EVIDENCE_INVALID');
  const other = parsed(version, incumbent, 'incumbent', 'GATE_EVIDENCE_INVALID');
  const alpha = alphaOf(asked, given.attempt);
  const pairing = pair(given.trials, one.id, other.id);
  const guarded = asked.guards.map((guard) => ({
    guard,
    pairing: pair(given.guards.get(guard.name) ?? [], one.id, other.id, guard.ceiling),
  }));
  const of = { attempt: given.attempt, alpha };
  const counts = { blocks: pairing.blocks.length, pairs: pairing.pairs };
  const undecided = (decision: Decision, reasons: readonly string[]): GateDecision => ({
    ...{ decision, reasons, ...of, ...counts, statistic: null, guards: [] },
  });
  /** Faults or errors of the guards' trials, each with the name of its guard. */
  const ofGuards = (what: 'faults' | 'errors'): string[] =>
    guarded.flatMap(({ guard, pairing: own }) =>
      own[what].map((each) => `guard ${guard.name}: ${each}`),
    );

  const faults = [
    ...(one.id === other.id ? ['challenger and incumbent are the same version'] : []),
    ...[...given.guards.keys()]
      .filter((name) => !asked.guards.some((guard) => guard.name === name))
      .map((name) => `the policy has no guard ${name.slice(0, 60)}`),
    ...pairing.faults,
    ...ofGuards('faults'),
  ];
  if (faults.length > 0) return undecided('invalid', faults);
  const errors = [...pairing.errors, ...ofGuards('errors')];
  // a pair that is left out may be missing because of how it would have come out
  if (errors.length > 0) return undecided('infrastructure-error', errors);

  const outcome = target(pairing.blocks, asked, alpha);
  const guards = guarded.map(({ guard, pairing: { blocks } }) => ({
    name: guard.name,
    ...heldGuard(blocks, guard, alpha),
  }));
  const all = [outcome, ...guards];
  const reasons = [outcome.reason, ...guards.map(({ name, reason }) => `guard ${name}: ${reason}`)];
  const state =
    (['invalid', 'refuted', 'inconclusive', 'open'] as const).find((one) =>
      all.some((each) => each.state === one),
    ) ?? 'shown';
  const decision = DECISIONS[state];
  return { decision, reasons, ...of, ...counts, statistic: outcome.statistic, guards };
}

const DECISIONS = {
  invalid: 'invalid',
  refuted: 'rejected',
  inconclusive: 'inconclusive',
  open: 'needs-more-trials',
  shown: 'accepted',
} as const satisfies Record<Outcome['state'], Decision>;
