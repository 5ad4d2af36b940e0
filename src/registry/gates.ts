/**
 * Gates on record: the question and the fact that it is asked are under a signed head before anyone
 * can know the problems.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { asJson, canonicalJson } from '../canonical-json.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { checked } from '../engine/argument-check.js';
import { IsoproError } from '../errors.js';
import {
  alphaOf,
  decide,
  decideRollback,
  gatePolicy,
  rollbackPolicy,
  type GateDecision,
  type GateEvidence,
  type GatePolicyInput,
  type RollbackDecision,
  type RollbackPolicyInput,
} from '../gate/index.js';
import { given as stated } from '../given.js';
import type { SignedCheckpoint } from '../log/checkpoint.js';
import { drawnSeed, parseDraw } from '../log/draw.js';
import type { EventOf } from './events.js';
import type { Ledger } from './ledger.js';
import { requireWhole } from './looks.js';
import { alias as aliasForm, aliasText, CHAMPION, slot as slotForm } from './names.js';
import { sha256 } from './record.js';
import { checkedName, rollbackOf, type AliasName, type Moved, type Registry } from './registry.js';
import { isOpen, requireLevel, type GateState } from './state.js';

/** Name of the incumbent in trials if it is the base model without an adapter. */
export const BASE_VERSION = 'base';

export interface GateRequest extends AliasName {
  /** Id of a published adapter. */
  readonly challenger: string;
  readonly policy?: GatePolicyInput;
  /**
   * `foreign` refuses a challenger that was trained on answers of its own line: its own, the
   * incumbent's, or those of the versions that either was trained from. Default `any`, since a run
   * is a loop on its own answers.
   */
  readonly lineage?: 'any' | 'foreign';
}

/** Evidence that decides a gate; see `decide` for trials and guards. */
export interface GateTrials extends Pick<GateEvidence, 'trials' | 'guards'> {
  /** The gate's own: the problems were drawn with it. */
  readonly seed: string;
}

const gateRequest = z.strictObject({
  slot: slotForm,
  alias: aliasForm.default(CHAMPION),
  challenger: sha256,
  policy: gatePolicy.default(() => gatePolicy.parse({ kind: 'e-process' })),
  lineage: z.enum(['any', 'foreign']).default('any'),
});

/** Draws the seed that the witness reveals for the first signed head over a record. */
async function draw({ log, write }: Ledger, gate: number, head: SignedCheckpoint): Promise<string> {
  const note = await log.draw(head.size);
  const seed = drawnSeed(head, parseDraw(note));
  await write([{ kind: 'gate_drawn', gate, head: head.text, draw: note, seed }]);
  return seed;
}

/**
 * Opens a gate and draws its seed. The gate counts as an attempt, whatever its outcome.
 * @throws IsoproError REGISTRY_REFUSED, CONFLICT, GATE_POLICY_INVALID
 */
export async function openGate(registry: Registry, request: GateRequest): Promise<GateState> {
  const { slot, alias, challenger, policy, lineage } = checked(gateRequest, request, 'request');
  return registry.write(async (ledger) => {
    const { state } = ledger.reading;
    const attempt = state.attempts(slot, alias) + 1;
    const event: EventOf<'gate_opened'> = {
      kind: 'gate_opened',
      gate: state.gates.length + 1,
      slot,
      alias,
      challenger,
      incumbent: state.alias(slot, alias)?.current ?? null,
      policy,
      attempt,
      alpha: alphaOf(policy, attempt),
      lineage,
    };
    await draw(ledger, event.gate, await ledger.write([event]));
    return state.gates[event.gate - 1]!;
  });
}

/**
 * Draws the seed of a gate whose opening a crash interrupted; it is the one that the gate would
 * have had.
 * @throws IsoproError REGISTRY_REFUSED
 */
export async function drawGate(registry: Registry, gate: number): Promise<string> {
  return registry.write(async (ledger) => {
    const { state, events, heads } = ledger.reading;
    const found = state.gate(gate);
    if (found.seed !== null) return found.seed;
    const opened = events.find(({ event }) => event.kind === 'gate_opened' && event.gate === gate)!;
    const head = heads.find(({ size }) => size > opened.gseq) ?? (await ledger.write([]));
    return draw(ledger, gate, head);
  });
}

/**
 * Returns the decision of `decide` on a gate's trials without writing anything.
 * @throws IsoproError GATE_EVIDENCE_INVALID, REGISTRY_REFUSED
 */
export function judgeGate(
  { gate, challenger, incumbent, attempt, policy, seed }: GateState,
  { seed: of, trials, guards }: GateTrials,
): GateDecision {
  if (seed === null || of !== seed)
    throw new IsoproError(
      'REGISTRY_REFUSED',
      `the trials use the seed ${String(of).slice(0, 64)}, but gate ${gate} drew ${seed ?? 'none yet'}`,
    );
  const evidence = { attempt, trials, ...stated({ guards }) };
  return decide({ id: challenger }, { id: incumbent ?? BASE_VERSION }, evidence, policy);
}

/** Returns the text that a gate's evidence is kept as. */
export const trialsText = (gate: number, { seed, trials, guards }: GateTrials): string =>
  `${canonicalJson(asJson({ gate, seed, trials, ...stated({ guards }) }))}\n`;

/** Stores trials. @returns the SHA-256 that they are stored under */
export async function keepTrials(registry: Registry, text: string): Promise<string> {
  const evidence = hash('sha256', text);
  await writeFileAtomically(registry.paths.trials(evidence), [Buffer.from(text)]);
  return evidence;
}

/**
 * Decides a gate from its trials, records the decision and keeps the trials. After
 * `needs-more-trials` and `infrastructure-error` more trials may follow: give all of them together,
 * those of earlier looks unchanged except trials that failed.
 * @throws IsoproError GATE_EVIDENCE_INVALID, REGISTRY_REFUSED
 */
export async function decideGate(
  registry: Registry,
  gate: number,
  given: GateTrials,
): Promise<GateDecision> {
  return registry.write(async ({ reading: { state, events }, write }) => {
    const found = state.gate(gate);
    const decision = judgeGate(found, given);
    if (isOpen(found)) requireWhole(registry, gate, events, given);
    const evidence = await keepTrials(registry, trialsText(gate, given));
    const reasons = decision.reasons.slice(0, 1000);
    await write([{ kind: 'gate_decided', gate, decision: decision.decision, reasons, evidence }]);
    return decision;
  });
}

export interface RollbackRequest extends AliasName {
  /** Trials of the version in use and of the one before, in the order of time. */
  readonly trials: GateEvidence['trials'];
  readonly policy?: RollbackPolicyInput;
}

/**
 * Returns the decision of `decideRollback` on the current version and the one that a rollback would
 * restore.
 */
export const judgeRollback = (
  from: string | null,
  to: string | null,
  { trials, policy }: Pick<RollbackRequest, 'trials' | 'policy'>,
): RollbackDecision =>
  decideRollback({ id: from ?? BASE_VERSION }, { id: to ?? BASE_VERSION }, trials, policy);

/**
 * Restores the version before if the trials show that the current one has become worse; the trials
 * are kept. If the version was watched, alpha and margin are those of its first look.
 * @throws IsoproError REGISTRY_REFUSED if there is no version before or the policy has another
 *   level; GATE_EVIDENCE_INVALID, GATE_POLICY_INVALID
 */
export async function rollbackByEvidence(
  registry: Registry,
  given: RollbackRequest,
): Promise<{ readonly decision: RollbackDecision; readonly moved: Moved | null }> {
  const { slot, alias } = checkedName(given);
  return registry.write(async ({ reading: { state }, write }) => {
    const named = state.alias(slot, alias);
    const from = named?.current ?? null;
    const to = state.rollbackTarget(slot, alias);
    const { trials, policy = named?.observed?.policy ?? {} } = given;
    const decision = judgeRollback(from, to, { trials, policy });
    if (named !== null) requireLevel(named, rollbackPolicy.parse(policy));
    if (decision.decision !== 'rollback') return { decision, moved: null };
    await registry.requireBytesOf(state, to);
    const evidence = await keepTrials(registry, `${canonicalJson(asJson({ trials, policy }))}\n`);
    await write([rollbackOf(slot, alias, from, to, decision.reasons.join('; '), evidence)]);
    return { decision, moved: { alias: aliasText(slot, alias), from, to } };
  });
}
