import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { isRunId } from './checkpoint.js';
import { genesis } from './leaf.js';
import { decodePayload, type LogValue } from './payload.js';
import { parseTicket, type Ticket } from './ticket.js';
import type { SignedNote } from './signed-note.js';

/** Record 0. Its `prev` is the genesis over run id, nonce commitment and digests. */
const sessionStart = z.object({
  kind: z.literal('session_start'),
  format: z.literal('isopro.log.v1'),
  runId: z.string().refine(isRunId),
  signer: z.enum(['witness', 'single-process']),
  ticket: z.string(),
  digests: z.record(z.string(), z.string().regex(/^[0-9a-f]{64}$/)),
  runConfig: z.custom<LogValue>((value) => value !== undefined),
});

export type SessionStart = Omit<z.infer<typeof sessionStart>, 'ticket'> & {
  readonly ticket: Ticket & { readonly note: SignedNote };
  readonly genesis: string;
};

/** Reads a payload's text as a session start. @throws IsoproError LOG_UNREADABLE */
export function parseSessionStart(text: string): SessionStart {
  const refuse = (reason: string, cause?: unknown): never => {
    throw new IsoproError('LOG_UNREADABLE', reason, { cause });
  };
  const parsed = sessionStart.safeParse(decodePayload(text));
  if (!parsed.success) return refuse('the first record is not a session start');
  let ticket: SessionStart['ticket'];
  try {
    ticket = parseTicket(parsed.data.ticket);
  } catch (error) {
    return refuse('the session start has no ticket', error);
  }
  if (ticket.runId !== parsed.data.runId)
    refuse('the ticket in the session start belongs to another run');
  return {
    ...parsed.data,
    ticket,
    genesis: genesis(Buffer.from(ticket.runId, 'hex'), ticket.nonceCommitment, parsed.data.digests),
  };
}
