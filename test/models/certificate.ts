/**
 * A certificate that its own key signed, for 127.0.0.1 and localhost: X.509 (RFC 5280) written out
 * in DER, since Node makes none.
 */
import { createSign, generateKeyPairSync, type KeyObject } from 'node:crypto';

function der(tag: number, ...parts: Uint8Array[]): Buffer {
  const body = Buffer.concat(parts);
  const { length } = body;
  const size =
    length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}
const [SEQUENCE, SET, OID, UTF8, UTC, TIME, BITS, BYTES] = [
  0x30, 0x31, 0x06, 0x0c, 0x17, 0x18, 0x03, 0x04,
];
const hex = (digits: string): Buffer => Buffer.from(digits, 'hex');
const COMMON_NAME = der(OID, hex('550403'));
const ALTERNATIVE_NAME = der(OID, hex('551d11'));
const ECDSA_SHA256 = der(SEQUENCE, der(OID, hex('2a8648ce3d040302')));

export interface TestCertificate {
  readonly cert: string;
  readonly key: string;
  readonly privateKey: KeyObject;
}

export function selfSigned(): TestCertificate {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const name = der(
    SEQUENCE,
    der(SET, der(SEQUENCE, COMMON_NAME, der(UTF8, Buffer.from('isopro-native test')))),
  );
  const names = der(
    SEQUENCE,
    der(0x82, Buffer.from('localhost')),
    der(0x87, Buffer.from([127, 0, 0, 1])),
  );
  const content = der(
    SEQUENCE,
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, Buffer.from([1])), // serial number
    ECDSA_SHA256,
    name,
    der(
      SEQUENCE,
      der(UTC, Buffer.from('200101000000Z')),
      der(TIME, Buffer.from('20991231235959Z')),
    ),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(0xa3, der(SEQUENCE, der(SEQUENCE, ALTERNATIVE_NAME, der(BYTES, names)))),
  );
  const signature = createSign('sha256').update(content).sign(privateKey);
  const whole = der(SEQUENCE, content, ECDSA_SHA256, der(BITS, Buffer.from([0]), signature));
  const lines = whole.toString('base64').replace(/.{64}/g, '$&\n');
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    privateKey,
  };
}
