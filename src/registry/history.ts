/**
 * Versions in use at a time, and the proof of it for someone who has only the witness's public key.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { isRunId, originOf, parseCheckpoint, type SignedCheckpoint } from '../log/checkpoint.js';
import { decodePayload } from '../log/payload.js';
import { checkExtensionProof, checkRecordProof, LogReader, type RecordProof } from '../log/read.js';
import { isSignedBy } from '../log/signed-note.js';
import type { TrustedKey } from '../log/trusted-key.js';
import { readEvent, REGISTRY_STREAMS, type EventOf } from './events.js';
import type { Placed, Reading } from './ledger.js';
import { aliasText } from './names.js';
import type { Registry } from './registry.js';
import { RegistryState, rootOfAliases, type AliasMap } from './state.js';

export interface Move
  extends Readonly<Pick<EventOf<'moved'>, 'from' | 'to' | 'cause' | 'gate' | 'forced' | 'reason'>> {
  readonly alias: string;
  readonly timeUs: number;
}

const moveOf = ({ event, timeUs }: Pick<Placed, 'event' | 'timeUs'>): Move[] => {
  if (event.kind !== 'moved') return [];
  const { slot, alias, from, to, cause, gate, forced, reason } = event;
  return [{ alias: aliasText(slot, alias), from, to, cause, gate, forced, reason, timeUs }];
};

/** Every move of every alias, oldest first. */
export const movesOf = ({ events }: Pick<Reading, 'events'>): Move[] => events.flatMap(moveOf);

/** Returns the versions of the aliases at a moment, by the times in the log. */
export function aliasesAt({ events }: Pick<Reading, 'events'>, timeUs: number): AliasMap {
  const state = new RegistryState();
  for (const { event, timeUs: at } of events) if (at <= timeUs) state.apply(event, at);
  return state.map();
}

const digest = z.string().regex(/^[0-9a-f]{64}$/);
const recordProof = z.strictObject({
  runId: z.string(),
  record: z.strictObject({
    gseq: z.int(),
    stream: z.string(),
    sseq: z.int(),
    timeUs: z.int(),
    prev: z.string(),
    payload: z.string(),
  }),
  path: z.array(z.string()),
  checkpoint: z.string(),
});
const historyProof = z.strictObject({
  format: z.literal('isopro.history.v1'),
  runId: z.string().refine(isRunId),
  /** Microseconds since 1970. */
  atUs: z.int().min(0),
  /**
   * Last signed head not after the date, with the aliases at that head; null if the date is before
   * the first head.
   */
  before: z
    .strictObject({ head: z.string(), aliases: z.array(z.tuple([z.string(), digest.nullable()])) })
    .nullable(),
  /** First signed head after the date. */
  after: z.string(),
  /** Proof that it continues the head before; null if there is none. */
  extension: z.array(z.string()).nullable(),
  /** Every record between the two heads. */
  records: z.array(recordProof),
});
export type HistoryProof = z.output<typeof historyProof>;

export interface ProvenHistory {
  /**
   * Witness's own times of the two heads; `notBeforeUs` is null if the date is before the first
   * head.
   */
  readonly notBeforeUs: number | null;
  readonly notAfterUs: number;
  /** Aliases at the first of the two heads. */
  readonly aliases: AliasMap;
  /**
   * Moves between the two heads by the registry's own clock; without any, the aliases held for the
   * whole time.
   */
  readonly moves: readonly Move[];
}

const timeOf = ({ stated }: SignedCheckpoint): number => stated?.timeUs ?? -1;

/**
 * Proves what was in use at a moment. If the moment is after the last signed head, a head is signed
 * now.
 * @throws IsoproError INVALID_ARGUMENT for a future time or a registry without a witness
 */
export async function proveAt(registry: Registry, timeUs: number): Promise<HistoryProof> {
  if (!(timeUs >= 0 && timeUs <= Date.now() * 1000))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'the time is in the future, so nothing can be proved about it',
    );
  const isAfter = (head: SignedCheckpoint): boolean => timeOf(head) > timeUs;
  let { heads } = await registry.read();
  if (!heads.some(isAfter)) {
    // the head is signed after the date, not with it
    while (Date.now() * 1000 <= timeUs) await delay(1);
    await registry.write(({ write }) => write([{ kind: 'witnessed' }]));
    ({ heads } = await registry.read());
  }
  const after = heads.find(isAfter);
  if (after === undefined)
    throw new IsoproError(
      'REGISTRY_CLOCK',
      `the witness signed the last head at ${new Date(timeOf(heads.at(-1)!) / 1000).toISOString()}`,
    );
  const before = heads.findLast((head) => head.size < after.size) ?? null;
  using reader = new LogReader(registry.paths.log, REGISTRY_STREAMS);
  if (reader.checkpoints().length === 0)
    throw new IsoproError('INVALID_ARGUMENT', 'the registry has no signed head');
  const { events } = await registry.read();
  const start = before?.size ?? 0;
  const state = new RegistryState();
  for (const { event, gseq, timeUs: at } of events) if (gseq < start) state.apply(event, at);
  return {
    format: 'isopro.history.v1',
    runId: after.runId,
    atUs: timeUs,
    before: before && {
      head: before.text,
      aliases: state.map().map(([alias, id]) => [alias, id]),
    },
    after: after.text,
    extension: before && [...reader.proveExtension(before.size, after.size).path],
    records: Array.from({ length: after.size - start }, (_, i) => {
      const proof = reader.proveRecord(start + i);
      return { ...proof, path: [...proof.path] };
    }),
  };
}

/**
 * Checks a proof with the key alone: two signed heads around the date, each with the root of the
 * alias map; every record between them; and that these records turn the first map into the second.
 * @throws IsoproError INVALID_ARGUMENT that says what does not hold
 */
export function checkHistory(given: unknown, key: TrustedKey): ProvenHistory {
  const refuse = (reason: string): never => {
    throw new IsoproError('INVALID_ARGUMENT', `the proof does not hold: ${reason}`, {
      remedy: 'Request the proof again from its source.',
    });
  };
  const parsed = historyProof.safeParse(given);
  if (!parsed.success) return refuse(z.prettifyError(parsed.error).slice(0, 300));
  if (key.signer !== 'witness')
    return refuse('a registry without a witness proves nothing to others');
  const { runId, atUs, before, after: afterText, extension, records } = parsed.data;
  const headOf = (text: string, which: string): SignedCheckpoint => {
    const head = parseCheckpoint(text);
    if (head.runId !== runId || !isSignedBy(head.note, originOf(runId), key.publicKey))
      refuse(`the head ${which} is not signed by this key`);
    if (head.stated === undefined) refuse(`the head ${which} has no time`);
    return head;
  };
  const first = before === null ? null : headOf(before.head, 'before');
  const last = headOf(afterText, 'after');
  if ((first !== null && timeOf(first) > atUs) || timeOf(last) <= atUs)
    refuse('the date is not between the two heads');
  const start = first?.size ?? 0;
  if (first !== null) {
    if (
      extension === null ||
      !checkExtensionProof({ runId, path: extension, from: first.text, to: last.text }, key)
    )
      refuse('the later head does not continue the earlier one');
    if (rootOfAliases(before!.aliases) !== first.stated?.state)
      refuse('the aliases do not match the earlier head');
  }
  if (records.length !== last.size - start)
    refuse(
      `${last.size - start} records are between the heads, but the proof shows ${records.length}`,
    );
  const aliases = new Map(before?.aliases ?? []);
  const moves: Move[] = [];
  records.forEach((proof, i) => {
    const { record, checkpoint } = proof as RecordProof;
    if (record.gseq !== start + i) refuse(`record ${start + i} is not shown`);
    if (checkpoint !== last.text || !checkRecordProof(proof, key, REGISTRY_STREAMS))
      refuse(`record ${record.gseq} is not in the log`);
    if (record.stream !== 'registry') return;
    const event = readEvent(decodePayload(record.payload), record.gseq);
    for (const move of moveOf({ event, timeUs: record.timeUs })) {
      if ((aliases.get(move.alias) ?? null) !== move.from)
        refuse(`record ${record.gseq} moves ${move.alias} from a version that it did not point to`);
      aliases.set(move.alias, move.to);
      moves.push(move);
    }
  });
  const result = [...aliases].sort(([a], [b]) => (a < b ? -1 : 1));
  if (rootOfAliases(result) !== last.stated?.state)
    refuse('the moves do not give the aliases of the later head');
  return {
    notBeforeUs: first === null ? null : timeOf(first),
    notAfterUs: timeOf(last),
    aliases: before?.aliases ?? [],
    moves,
  };
}
