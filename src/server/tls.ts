/** TLS by files: a certificate with its chain and its private key, in PEM. */
import { createPrivateKey, X509Certificate, type KeyObject } from 'node:crypto';
import { createSecureContext } from 'node:tls';
import { IsoproError } from '../errors.js';
import { readText } from '../files.js';
import { given } from '../given.js';

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** Contents of the files. */
export interface TlsPair {
  readonly cert: string;
  readonly key: string;
}

const wrong = (message: string, cause?: unknown): IsoproError =>
  new IsoproError('INVALID_ARGUMENT', message, {
    remedy: 'Give a certificate and its chain in PEM, and its private key without a passphrase.',
    ...given({ cause }),
  });

/**
 * No error has a key in it.
 * @throws IsoproError FILE_UNREADABLE; INVALID_ARGUMENT where one is not in PEM, they do not belong
 *   together, or OpenSSL refuses them
 */
export function readTls(files: TlsFiles): TlsPair {
  const [cert, key] = [readText(files.cert), readText(files.key)];
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(cert);
  } catch (cause) {
    throw wrong(`${files.cert} is not a certificate: ${(cause as Error).message}`, cause);
  }
  let secret: KeyObject;
  try {
    secret = createPrivateKey(key);
  } catch {
    // what OpenSSL says of a key stays out of it
    const isLocked = /^(-----BEGIN ENCRYPTED|Proc-Type: 4,ENCRYPTED)/m.test(key);
    throw wrong(
      `${files.key} is not a usable private key: ${isLocked ? 'it has a passphrase' : 'it cannot be parsed'}`,
    );
  }
  if (!certificate.checkPrivateKey(secret))
    throw wrong(`the key in ${files.key} does not match the certificate in ${files.cert}`);
  try {
    createSecureContext({ cert, key }); // reads the chain too, and refuses keys that are too short
  } catch (cause) {
    throw wrong(
      `OpenSSL rejects ${files.cert} and ${files.key}: ${(cause as Error).message}`,
      cause,
    );
  }
  return { cert, key };
}
