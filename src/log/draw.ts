import { hash } from 'node:crypto';
import { IsoproError } from '../errors.js';
import { isRunId, type SignedCheckpoint } from './checkpoint.js';
import { decodeBase64, isSignedBy, parseNote, type SignedNote } from './signed-note.js';
import { WITNESS_KEY_NAME, type TrustedKey } from './trusted-key.js';

/**
 * A random number that a log cannot choose: its records are under a signed head before the witness
 * reveals the nonce of that head, and the witness always reveals the same one.
 */
export interface Draw {
  readonly runId: string;
  /** Size of the head; its root has 64 hex digits. */
  readonly size: number;
  readonly root: string;
  /** 64 hex digits. */
  readonly nonce: string;
}

const FIRST_LINE = 'isopro-native/draw/v1';

/** The text that the witness signs under its own name. */
export const drawText = ({ runId, size, root, nonce }: Draw): string =>
  `${[FIRST_LINE, runId, size, Buffer.from(root, 'hex').toString('base64'), nonce].join('\n')}\n`;

/**
 * Reads the note of a draw; its signature is not checked here.
 * @throws IsoproError CHECKPOINT_INVALID
 */
export function parseDraw(text: string): Draw & { readonly note: SignedNote } {
  const note = parseNote(text);
  const [, runId = '', size = '', root = '', nonce = ''] = note.text.slice(0, -1).split('\n');
  const draw = {
    runId,
    size: Number(size),
    root: decodeBase64(root)?.toString('hex') ?? '',
    nonce,
  };
  const wellFormed =
    isRunId(runId) &&
    Number.isSafeInteger(draw.size) &&
    /^[0-9a-f]{64}$/.test(nonce) &&
    draw.root.length === 64;
  if (!wellFormed || drawText(draw) !== note.text)
    throw new IsoproError('CHECKPOINT_INVALID', 'not a random draw signed by a witness');
  return { ...draw, note };
}

/**
 * Returns the seed that problems are drawn with: SHA-256 of the signed head's text and its nonce,
 * 64 hex digits.
 */
export const drawnSeed = (head: SignedCheckpoint, { nonce }: Draw): string =>
  hash('sha256', Buffer.concat([Buffer.from(head.note.text), Buffer.from(nonce, 'hex')]));

/** Returns true if the draw names that head. */
export const isDrawOf = (draw: Draw, head: SignedCheckpoint): boolean =>
  draw.runId === head.runId && draw.size === head.size && draw.root === head.root;

/** Returns true if the key's owner signed the draw. */
export const isDrawnBy = (draw: { readonly note: SignedNote }, key: TrustedKey | null): boolean =>
  key?.signer !== 'witness' || isSignedBy(draw.note, WITNESS_KEY_NAME, key.publicKey);
