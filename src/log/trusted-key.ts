import { IsoproError } from '../errors.js';
import { FORWARD_MAC_TYPE } from './forward-mac.js';
import {
  ED25519,
  ed25519PublicKey,
  formatVerifierKey,
  parseVerifierKey,
  type Ed25519PublicKey,
} from './signed-note.js';

/** Key that a log is verified with: a witness's public key, or k_0 of a run without a witness. */
export type TrustedKey =
  | { readonly signer: 'witness'; readonly publicKey: Ed25519PublicKey }
  | { readonly signer: 'single-process'; readonly master: Buffer };

export type SignerKind = TrustedKey['signer'];

export const WITNESS_KEY_NAME = 'isopro-native/witness';
const SINGLE_PROCESS_KEY_NAME = 'isopro-native/single-process';

/**
 * Formats a key as one line, `name+keyid+base64`. A single-process key is a secret: its owner can
 * forge the log.
 */
export function formatTrustedKey(key: TrustedKey): string {
  return key.signer === 'witness'
    ? formatVerifierKey(WITNESS_KEY_NAME, Buffer.concat([Buffer.of(ED25519), key.publicKey.bytes]))
    : formatVerifierKey(SINGLE_PROCESS_KEY_NAME, Buffer.concat([FORWARD_MAC_TYPE, key.master]));
}

/** @throws IsoproError WITNESS_KEY_INVALID */
export function parseTrustedKey(text: string): TrustedKey {
  const { material } = parseVerifierKey(text);
  if (material[0] === ED25519)
    return { signer: 'witness', publicKey: ed25519PublicKey(material.subarray(1)) };
  if (
    material.subarray(0, FORWARD_MAC_TYPE.length).equals(FORWARD_MAC_TYPE) &&
    material.length === FORWARD_MAC_TYPE.length + 32
  ) {
    return {
      signer: 'single-process',
      master: Buffer.from(material.subarray(FORWARD_MAC_TYPE.length)),
    };
  }
  throw new IsoproError(
    'WITNESS_KEY_INVALID',
    'the key is neither an ed25519 key nor a single-process key of isopro-native',
  );
}
