/**
 * A version on probation: part of the keys get it, the same ones each time; trials of it and of the
 * version before, on the same problems, are posted as they come in, and put the version before back
 * as soon as they show that it has become worse.
 */
import { hash } from 'node:crypto';
import { asJson, canonicalJson } from '../canonical-json.js';
import { checked } from '../engine/argument-check.js';
import { IsoproError } from '../errors.js';
import { readJson } from '../files.js';
import type { GateEvidence, RollbackDecision } from '../gate/index.js';
import {
  probation as probationForm,
  type Probation,
  type ProbationInput,
  type RegistryEvent,
} from './events.js';
import { judgeRollback, keepTrials } from './gates.js';
import { aliasText } from './names.js';
import { checkedName, rollbackOf, type AliasName, type Moved, type Registry } from './registry.js';
import {
  observedAgainst,
  policyOf,
  requireLevel,
  type AliasState,
  type RegistryState,
} from './state.js';

/**
 * Returns the place of a key in [0, 1) for one version under one name: the first 52 bits of a
 * SHA-256.
 */
function placeOf({ slot, alias, current }: AliasState, key: string): number {
  const digest = hash('sha256', JSON.stringify([aliasText(slot, alias), current, key]));
  return Number.parseInt(digest.slice(0, 13), 16) / 2 ** 52;
}

export interface Arm {
  /** Id of the version; null for the base model without an adapter. */
  readonly id: string | null;
  readonly arm: 'current' | 'previous';
  /** Other version to compare with in the shadow; undefined if there is none. */
  readonly other: string | null | undefined;
}

/**
 * Returns the version that a key gets: the current one, or the one before if the name is on
 * probation and the key is not in its share. A key gets the same version until the name is moved; a
 * larger share removes no key. Without a key: the current version.
 */
export function armOf(state: RegistryState, named: AliasState, key?: string): Arm {
  const { slot, alias, current, probation } = named;
  const previous = state.before(slot, alias);
  if (
    previous === undefined ||
    probation === null ||
    key === undefined ||
    placeOf(named, key) < probation.share
  )
    return { id: current, arm: 'current', other: previous };
  return { id: previous, arm: 'previous', other: current };
}

/** Returns the state of a name that refers to an adapter. @throws IsoproError REGISTRY_REFUSED */
export function requireNamed(
  state: RegistryState,
  name: AliasName,
): AliasState & { readonly current: string } {
  const { slot, alias } = checkedName(name);
  const found = state.alias(slot, alias);
  if (found === null || found.current === null)
    throw new IsoproError(
      'REGISTRY_REFUSED',
      `${aliasText(slot, alias)} names no adapter, so there is nothing to watch`,
    );
  return { ...found, current: found.current };
}

type Trials = GateEvidence['trials'];

/**
 * Returns the trials of the current version since the name was moved to it.
 * @throws IsoproError REGISTRY_INVALID if kept trials are missing
 */
export function trialsOf({ paths }: Registry, evidence: readonly string[]): Trials {
  return evidence.flatMap((sha256) => {
    const file = paths.trials(sha256);
    const refuse = (cause?: unknown): never => {
      throw new IsoproError('REGISTRY_INVALID', `the trials ${file} are missing or changed`, {
        cause,
      });
    };
    let kept: { trials: Trials };
    try {
      kept = readJson(file) as { trials: Trials };
    } catch (cause) {
      return refuse(cause);
    }
    return hash('sha256', trialsText(kept.trials)) === sha256 ? kept.trials : refuse();
  });
}

const trialsText = (trials: Trials): string => `${canonicalJson(asJson({ trials }))}\n`;

export interface Observation {
  readonly decision: RollbackDecision;
  /** The move; null if the name stays. */
  readonly moved: Moved | null;
  /** Probation of the name from now on. */
  readonly probation: Probation | null;
}

export interface ObserveRequest extends AliasName {
  /**
   * Whole pairs of the version in use and the one before, in the order of time; no problem a second
   * time.
   */
  readonly trials: Trials;
}

/**
 * Adds trials to all that were posted since the name was moved, rolls back if they show that the
 * version before was better, and ends the probation once enough problems have passed. Contradictory
 * trials are rejected.
 * @throws IsoproError REGISTRY_REFUSED if there is nothing to compare, GATE_EVIDENCE_INVALID,
 *   ADAPTER_CORRUPT
 */
export async function observe(
  registry: Registry,
  { trials, ...name }: ObserveRequest,
): Promise<Observation> {
  return registry.write(async ({ reading: { state }, write }) => {
    const named = requireNamed(state, name);
    const { slot, alias, current, probation } = named;
    const against = state.rollbackTarget(slot, alias);
    const earlier = observedAgainst(named, against)?.evidence ?? [];
    const [policy, all] = [policyOf(named), [...trialsOf(registry, earlier), ...trials]];
    const decision = judgeRollback(current, against, { trials: all, policy });
    if (decision.decision === 'invalid') return { decision, moved: null, probation };
    const isWorse = decision.decision === 'rollback';
    if (isWorse) await registry.requireBytesOf(state, against);
    const { blocks } = decision;
    const evidence = await keepTrials(registry, trialsText(trials));
    const place = { slot, alias, id: current };
    const observed = { against, decision: decision.decision, blocks, evidence };
    const events: RegistryEvent[] = [{ kind: 'observed', ...place, ...observed }];
    const hasPassed = !isWorse && probation !== null && blocks >= probation.problems;
    if (hasPassed) {
      const reason = `${blocks} problems passed`;
      events.push({ kind: 'probation', ...place, terms: null, reason });
    }
    if (isWorse) {
      const whole = await keepTrials(
        registry,
        `${canonicalJson(asJson({ trials: all, policy }))}\n`,
      );
      events.push(rollbackOf(slot, alias, current, against, decision.reasons.join('; '), whole));
    }
    await write(events);
    const moved = isWorse ? { alias: aliasText(slot, alias), from: current, to: against } : null;
    return { decision, moved, probation: isWorse || hasPassed ? null : probation };
  });
}

export interface ProbationRequest extends AliasName {
  /** Terms; null ends the probation, and every key gets the current version. */
  readonly terms: ProbationInput | null;
  readonly reason?: string;
}

/**
 * Starts, changes or ends a probation. Alpha and margin of the first look at a version stay for as
 * long as it is in use, even after its probation.
 * @throws IsoproError REGISTRY_REFUSED, CONFLICT
 */
export async function setProbation(
  registry: Registry,
  { terms, reason = '', ...name }: ProbationRequest,
): Promise<Probation | null> {
  const valid = terms === null ? null : checked(probationForm, terms, 'terms');
  return registry.write(async ({ reading: { state }, write }) => {
    const named = requireNamed(state, name);
    const { slot, alias, current } = named;
    if (valid !== null) requireLevel(named, valid);
    await write([{ kind: 'probation', slot, alias, id: current, terms: valid, reason }]);
    return valid;
  });
}
