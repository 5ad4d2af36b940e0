import { hash } from 'node:crypto';
import { IsoproError } from '../errors.js';
import { isRunId } from './checkpoint.js';
import { decodeBase64, parseNote, type SignedNote } from './signed-note.js';

/**
 * Ticket that a run needs before it starts. Tickets are numbered and the witness keeps all of them,
 * so a dropped run leaves a gap that the judge counts. The run does not learn the nonce behind the
 * commitment before its adapter is under a signed head.
 */
export interface Ticket {
  readonly runId: string;
  readonly number: number;
  /** Tickets of this witness without a final head when this one was issued. */
  readonly unfinishedBefore: number;
  /** SHA-256("isopro.nonce.v1" ‖ runId[16] ‖ nonce[32]). */
  readonly nonceCommitment: Buffer;
}

const FIRST_LINE = 'isopro-native/ticket/v1';

export function commitToNonce(runId: string, nonce: Buffer): Buffer {
  return hash(
    'sha256',
    Buffer.concat([Buffer.from('isopro.nonce.v1', 'latin1'), Buffer.from(runId, 'hex'), nonce]),
    'buffer',
  );
}

export function ticketText({ runId, number, unfinishedBefore, nonceCommitment }: Ticket): string {
  return `${[FIRST_LINE, runId, number, unfinishedBefore, nonceCommitment.toString('base64')].join('\n')}\n`;
}

/** Reads a ticket; its signature is not checked here. @throws IsoproError CHECKPOINT_INVALID */
export function parseTicket(text: string): Ticket & { readonly note: SignedNote } {
  const note = parseNote(text);
  const [, runId = '', number, unfinished, commitment = ''] = note.text.slice(0, -1).split('\n');
  const ticket = {
    runId,
    number: Number(number),
    unfinishedBefore: Number(unfinished),
    nonceCommitment: decodeBase64(commitment) ?? Buffer.alloc(0),
  };
  const isWellFormed =
    isRunId(runId) &&
    ticket.nonceCommitment.length === 32 &&
    Number.isSafeInteger(ticket.number) &&
    Number.isSafeInteger(ticket.unfinishedBefore);
  if (!isWellFormed || ticketText(ticket) !== note.text)
    throw new IsoproError('CHECKPOINT_INVALID', 'not a ticket of a run');
  return { ...ticket, note };
}
