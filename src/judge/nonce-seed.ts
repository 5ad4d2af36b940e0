import { hash } from 'node:crypto';

/**
 * Derives a seed from a nonce, so that no one can choose it.
 * @param purpose distinguishes the seeds of one nonce
 */
export const nonceSeed = (purpose: string, nonce: string): bigint =>
  hash(
    'sha256',
    Buffer.concat([Buffer.from(purpose, 'latin1'), Buffer.from(nonce, 'hex')]),
    'buffer',
  ).readBigUInt64BE(0);
