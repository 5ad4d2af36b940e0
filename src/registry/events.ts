/** Events of a registry as its log stores them. state.ts defines their effects and their order. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { gatePolicy, rollbackPolicy } from '../gate/index.js';
import type { LogPayload } from '../log/payload.js';
import type { LogStreams } from '../log/streams.js';
import { alias, slot } from './names.js';
import { adapterRecord, sha256 } from './record.js';

/** One stream in addition to the log's own. */
export const REGISTRY_STREAMS: LogStreams<'registry'> = { codes: { registry: 1, control: 7 } };

const note = z.string().max(2000);
const gateNumber = z.number().int().min(1);

/** Terms under which a name refers to a version that is new to it. */
export const probation = rollbackPolicy.extend({
  /** Share of the keys that get the new version; the others get the one before. */
  share: z.number().gt(0).lte(1),
  /**
   * Problems on which both must be graded without an alarm before every key gets the new version.
   */
  problems: z.number().int().min(1).max(1_000_000),
});
/** Default number of these problems. */
export const PROBATION_PROBLEMS = 100;
export type Probation = z.output<typeof probation>;
export type ProbationInput = z.input<typeof probation>;

export const registryEvent = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('published'), id: sha256, record: adapterRecord }),
  z.strictObject({
    kind: z.literal('moved'),
    slot,
    alias,
    from: sha256.nullable(),
    to: sha256.nullable(),
    cause: z.enum(['promotion', 'assignment', 'rollback']),
    /** Gate that accepted it; null if there was no gate. */
    gate: gateNumber.nullable(),
    forced: z.boolean(),
    /** SHA-256 of the kept trials that decided a rollback; null if a person decided. */
    evidence: sha256.nullable(),
    reason: note,
    /** Caller's name of this move, which makes the call repeatable. */
    transaction: z.string().min(1).max(200).nullable(),
  }),
  z.strictObject({
    kind: z.literal('gate_opened'),
    gate: gateNumber,
    slot,
    alias,
    challenger: sha256,
    /** Null: the base without an adapter. */
    incumbent: sha256.nullable(),
    policy: gatePolicy,
    attempt: z.number().int().min(1),
    alpha: z.number().min(0).max(0.5),
    /** `foreign` refuses a version that was trained on answers of its own line. */
    lineage: z.enum(['any', 'foreign']).default('any'),
  }),
  z.strictObject({
    kind: z.literal('gate_drawn'),
    gate: gateNumber,
    head: z.string().max(20_000),
    draw: z.string().max(20_000),
    seed: sha256,
  }),
  z.strictObject({
    kind: z.literal('gate_decided'),
    gate: gateNumber,
    decision: z.enum([
      'accepted',
      'rejected',
      'inconclusive',
      'invalid',
      'needs-more-trials',
      'infrastructure-error',
    ]),
    reasons: z.array(note).max(1000),
    /** SHA-256 of the file of trials that is kept next to the log. */
    evidence: sha256,
  }),
  /** Starts, changes or (null) ends the probation of a name's version. */
  z.strictObject({
    kind: z.literal('probation'),
    slot,
    alias,
    id: sha256,
    terms: probation.nullable(),
    reason: note,
  }),
  /**
   * Trials of the current version and of the one before, with the result of all of them since the
   * move.
   */
  z.strictObject({
    kind: z.literal('observed'),
    slot,
    alias,
    id: sha256,
    /** Null: the base without an adapter. */
    against: sha256.nullable(),
    decision: z.enum(['keep', 'rollback']),
    /** Problems that count so far. */
    blocks: z.number().int().min(0),
    /** SHA-256 of the file of the trials that came with this event. */
    evidence: sha256,
  }),
  z.strictObject({ kind: z.literal('withdrawn'), id: sha256, reason: note }),
  /** The bytes of these are gone; what is known of them stays. */
  z.strictObject({ kind: z.literal('collected'), ids: z.array(sha256).min(1).max(100_000) }),
  z.strictObject({
    kind: z.literal('fell_back'),
    slot,
    alias,
    reason: note,
    to: sha256.nullable(),
  }),
  /**
   * Nothing but the time: the head that covers it says that everything before it was so by then.
   */
  z.strictObject({ kind: z.literal('witnessed') }),
]);
export type RegistryEvent = z.output<typeof registryEvent>;
export type EventOf<Kind extends RegistryEvent['kind']> = Extract<RegistryEvent, { kind: Kind }>;

/**
 * Reads a record as an event.
 * @throws IsoproError REGISTRY_INVALID if it is not a registry event
 */
export function readEvent(payload: LogPayload, gseq: number): RegistryEvent {
  const parsed = registryEvent.safeParse(payload);
  if (parsed.success) return parsed.data;
  throw new IsoproError(
    'REGISTRY_INVALID',
    `record ${gseq} is not a registry event: ${z.prettifyError(parsed.error).slice(0, 300)}`,
  );
}
