import { hash } from 'node:crypto';

/**
 * A seed that nobody could choose: it follows from a nonce.
 * @param purpose tells seeds of one nonce apart
 */
export const nonceSeed = (purpose: string, nonce: string): bigint =>
  hash(
    'sha256',
    Buffer.concat([Buffer.from(purpose, 'latin1'), Buffer.from(nonce, 'hex')]),
    'buffer',
  ).readBigUInt64BE(0);
