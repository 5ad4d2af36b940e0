import { describe, expect, test } from '@jest/globals';
import {
  checkpointText,
  originOf,
  parseCheckpoint,
  type Checkpoint,
} from '../../src/log/checkpoint.js';
import {
  decodeBase64,
  Ed25519Signer,
  ed25519PublicKey,
  formatNote,
  isSignedBy,
  parseNote,
  parseVerifierKey,
} from '../../src/log/signed-note.js';
import { formatTrustedKey, parseTrustedKey } from '../../src/log/trusted-key.js';
import { IsoproError } from '../../src/errors.js';
import { Random } from '../../src/random.js';

const RUN = '0123456789abcdef'.repeat(2);
const signer = new Ed25519Signer(Buffer.alloc(32, 1));
const sign = (checkpoint: Checkpoint): string => {
  const text = checkpointText(checkpoint);
  return formatNote(text, [signer.sign(text, originOf(checkpoint.runId))]);
};
const checkpoint: Checkpoint = {
  runId: RUN,
  size: 77,
  root: 'ab'.repeat(32),
  final: true,
  revealed: { size: 75, nonce: 'cd'.repeat(32) },
};

describe('signed notes', () => {
  // the example of Go's golang.org/x/mod/sumdb/note, which https://c2sp.org/signed-note describes
  const KEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW';
  const NOTE =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n" +
    '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n';

  test('accept the published example and no other text under it', () => {
    const { name, material } = parseVerifierKey(KEY);
    const key = ed25519PublicKey(material.subarray(1));
    expect(isSignedBy(parseNote(NOTE), name, key)).toBe(true);
    expect(isSignedBy(parseNote(NOTE.replace('problem is', 'problem was')), name, key)).toBe(false);
    expect(isSignedBy(parseNote(NOTE), 'Somebody', key)).toBe(false);
    expect(isSignedBy(parseNote(NOTE), name, signer.publicKey)).toBe(false);
  });

  test('ed25519 signs as RFC 8032 §7.1 test 1 says', () => {
    const rfc = new Ed25519Signer(
      Buffer.from('9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60', 'hex'),
    );
    expect(rfc.publicKey.bytes.toString('hex')).toBe(
      'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    );
    expect(rfc.sign('', 'x').signature.toString('hex')).toBe(
      'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
    );
  });

  test('base64 has one spelling', () => {
    expect(decodeBase64('AA==')).toEqual(Buffer.of(0));
    for (const text of ['AB==', 'AA', 'AA=', 'A A=', 'AA==\n', '-_8='])
      expect(decodeBase64(text)).toBeNull();
  });
});

describe('verifier keys', () => {
  test('go through their text, of both kinds', () => {
    for (const key of [
      { signer: 'witness', publicKey: signer.publicKey },
      { signer: 'single-process', master: Buffer.alloc(32, 5) },
    ] as const) {
      const text = formatTrustedKey(key);
      expect(formatTrustedKey(parseTrustedKey(text))).toBe(text);
    }
  });

  test.each([
    '',
    'a+b',
    'name+00000000+AQ==',
    `isopro-native/witness+00000000+${Buffer.alloc(33, 1).toString('base64')}`,
    'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq',
  ])('%j is refused', (text) => {
    expect(() => parseTrustedKey(text)).toThrow(
      expect.objectContaining({ code: 'WITNESS_KEY_INVALID' }) as never,
    );
  });
});

describe('checkpoints', () => {
  test('have the C2SP form', () => {
    expect(checkpointText(checkpoint)).toBe(
      `isopro-native/run/${RUN}\n77\n${Buffer.alloc(32, 0xab).toString('base64')}\nrevealed 75 ${'cd'.repeat(32)}\nfinal\n`,
    );
    expect(sign(checkpoint)).toMatch(
      /\n\n— isopro-native\/run\/[0-9a-f]{32} [A-Za-z0-9+/]{91}=\n$/u,
    );
  });

  test.each([
    checkpoint,
    { ...checkpoint, final: false },
    { ...checkpoint, revealed: null },
    { ...checkpoint, size: 0 },
  ])('go through their text: %j', (each) => {
    const parsed = parseCheckpoint(sign(each));
    expect(parsed).toMatchObject(each);
    expect(isSignedBy(parsed.note, originOf(RUN), signer.publicKey)).toBe(true);
  });

  const good = sign(checkpoint);
  test.each([
    ['empty', ''],
    ['no signature', checkpointText(checkpoint)],
    ['another origin', good.replace('isopro-native/run/', 'example.com/')],
    ['a size with a leading zero', good.replace('\n77\n', '\n077\n')],
    ['a negative size', good.replace('\n77\n', '\n-7\n')],
    ['a huge size', good.replace('\n77\n', '\n99999999999999999999\n')],
    ['a short root', good.replace(/\n[A-Za-z0-9+/=]{44}\n/, '\nAAAA\n')],
    ['an unknown extension', good.replace('\nfinal\n', '\nfinale\n')],
    ['final twice', good.replace('\nfinal\n', '\nfinal\nfinal\n')],
    ['extensions in another order', good.replace(/\n(revealed.*)\nfinal\n/, '\nfinal\n$1\n')],
    ['a carriage return', good.replace('\n77', '\r\n77')],
    ['no last newline', good.slice(0, -1)],
    ['a very long line', `${'x'.repeat(20_000)}${good}`],
  ])('%s is refused', (_, text) => {
    expect(() => parseCheckpoint(text)).toThrow(
      expect.objectContaining({ code: 'CHECKPOINT_INVALID' }) as never,
    );
  });

  test('fuzz: mutated checkpoints give typed errors, and none that changed verifies', () => {
    const random = new Random(3n);
    const trials = process.env.ISOPRO_FULL === '1' ? 200_000 : 20_000;
    let parsed = 0;
    for (let trial = 0; trial < trials; trial++) {
      const bytes = Buffer.from(good);
      let mutated = bytes;
      for (let edits = random.nextInteger(1, 4); edits > 0; edits--) {
        const at = random.nextInteger(0, Math.max(0, mutated.length - 1));
        switch (random.nextInteger(0, 3)) {
          case 0:
            mutated = Buffer.concat([
              mutated.subarray(0, at),
              mutated.subarray(at + random.nextInteger(1, 20)),
            ]);
            break;
          case 1:
            mutated = Buffer.concat([
              mutated.subarray(0, at),
              Buffer.of(random.nextInteger(0, 255)),
              mutated.subarray(at),
            ]);
            break;
          case 2:
            mutated = Buffer.concat([
              mutated.subarray(0, at),
              bytes.subarray(random.nextInteger(0, bytes.length - 1)),
            ]);
            break;
          default:
            mutated = Buffer.from(mutated);
            if (mutated.length > 0) mutated[at] = random.nextInteger(0, 255);
        }
      }
      const text = mutated.toString('utf8');
      try {
        const result = parseCheckpoint(text);
        parsed++;
        if (
          isSignedBy(result.note, originOf(result.runId), signer.publicKey) &&
          !text.startsWith(good.slice(0, good.indexOf('\n\n') + 1))
        ) {
          throw new Error(`a changed text verifies: ${JSON.stringify(text)}`);
        }
      } catch (error) {
        if (!(error instanceof IsoproError) || error.code !== 'CHECKPOINT_INVALID') throw error;
      }
    }
    expect(parsed).toBeGreaterThan(0); // the mutations also reach the checks behind the parser
  });
});
