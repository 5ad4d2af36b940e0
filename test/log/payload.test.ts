import { describe, expect, test } from '@jest/globals';
import { canonicalJson } from '../../src/canonical-json.js';
import {
  decodePayload,
  encodePayload,
  isCanonicalPayload,
  type LogPayload,
} from '../../src/log/payload.js';
import { Random } from '../../src/random.js';

test('half a character has no JSON form, which is an error of what was given', () => {
  for (const value of ['\ud800', { '\udc00': 1 }, [['a\ud83d']]])
    expect(() => canonicalJson(value)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
  expect(canonicalJson('😀')).toBe('"😀"');
});

describe('payload text', () => {
  test('is RFC 8785 with marks for what JSON has no form for', () => {
    const payload = {
      kind: 'x',
      b: [NaN, Infinity, -Infinity, -0, 1e21, 1e-7, 5e-324],
      a: { seed: 2n ** 64n, '\u20ac': 'é\u0007', '\r': null },
      c: '#NaN',
      d: '##',
    };
    expect(encodePayload(payload)).toBe(
      '{"a":{"\\r":null,"seed":"#18446744073709551616","€":"é\\u0007"},' +
        '"b":["#NaN","#Infinity","#-Infinity",0,1e+21,1e-7,5e-324],"c":"##NaN","d":"###","kind":"x"}',
    );
    expect(decodePayload(encodePayload(payload))).toEqual({
      ...payload,
      b: [NaN, Infinity, -Infinity, 0, 1e21, 1e-7, 5e-324],
    });
  });

  test.each<[string, unknown]>([
    ['undefined', { kind: 'x', a: undefined }],
    ['a function', { kind: 'x', a: () => 1 }],
    ['a date', { kind: 'x', a: new Date(0) }],
    ['a typed array', { kind: 'x', a: new Float32Array(1) }],
    ['a lone surrogate', { kind: 'x', a: '\ud800' }],
    ['a lone surrogate in a key', { kind: 'x', '\udc00': 1 }],
    ['no kind', { a: 1 }],
    ['an array', [1]],
    ['null', null],
    // biome-ignore lint/suspicious/noSparseArray: a list with a hole is what is refused here
    ['a hole', { kind: 'x', a: [1, , 2] }],
    [
      'a cycle',
      (() => {
        const a: Record<string, unknown> = { kind: 'x' };
        a.a = a;
        return a;
      })(),
    ],
    ['17 MiB', { kind: 'x', a: 'x'.repeat(17 * 1024 * 1024) }],
  ])('refuses %s', (_, payload) => {
    expect(() => encodePayload(payload as LogPayload)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }) as never,
    );
  });

  test('is recognised as canonical in exactly one spelling', () => {
    const canonical = [
      '{"kind":"x"}',
      '{"1":1,"10":2,"9":3,"kind":"x"}',
      '{"__proto__":1,"kind":"\\\\ud800"}',
      '{"a":[{"b":1,"c":2}],"kind":"é"}',
      '{"kind":"\u2028"}',
    ];
    for (const text of canonical) expect([text, isCanonicalPayload(text)]).toEqual([text, true]);
    const others = [
      '',
      '[]',
      '1',
      '{"kind":1}',
      '{"kind":"x"} ',
      ' {"kind":"x"}',
      '{"kind": "x"}',
      '{"kind":"x","a":1}',
      '{"a":1,"a":1,"kind":"x"}',
      '{"a":1.0,"kind":"x"}',
      '{"a":1e0,"kind":"x"}',
      '{"a":-0,"kind":"x"}',
      '{"a":1E3,"kind":"x"}',
      '{"a":1e400,"kind":"x"}',
      '{"a":0.10,"kind":"x"}',
      '{"kind":"\\u00e9"}',
      '{"kind":"\\/"}',
      '{"kind":"\\ud800"}',
      '{"a":[{"c":1,"b":2}],"kind":"x"}',
      '{"10":1,"9":2,"1":3,"kind":"x"}',
      '{"a":10000000000000000000000,"kind":"x"}',
      '{"a":9007199254740993,"kind":"x"}',
    ];
    for (const text of others) expect([text, isCanonicalPayload(text)]).toEqual([text, false]);
  });

  test('of random values survives, is canonical, and equals what the RFC 8785 library writes', () => {
    const random = new Random(9n);
    const value = (depth: number): never => {
      const pick = random.nextInteger(0, depth > 3 ? 4 : 6);
      if (pick === 0) return null as never;
      if (pick === 1) return (random.nextDouble() < 0.5) as never;
      if (pick === 2)
        return ((random.nextDouble() - 0.5) * 10 ** random.nextInteger(-320, 300)) as never;
      if (pick === 3) return random.nextInteger(-1000, 1000) as never;
      if (pick === 4)
        return Array.from({ length: random.nextInteger(0, 5) }, () =>
          String.fromCodePoint(random.nextInteger(0, 0xd7ff)),
        ).join('') as never;
      if (pick === 5)
        return Array.from({ length: random.nextInteger(0, 4) }, () => value(depth + 1)) as never;
      return Object.fromEntries(
        Array.from({ length: random.nextInteger(0, 4) }, () => [
          String.fromCodePoint(random.nextInteger(32, 0x3000)),
          value(depth + 1),
        ]),
      ) as never;
    };
    for (let trial = 0; trial < 2000; trial++) {
      const payload: LogPayload = { kind: 'x', value: value(0) };
      const text = encodePayload(payload);
      expect(decodePayload(text)).toEqual(
        JSON.parse(JSON.stringify(payload), (_, item: unknown) => item),
      ); // -0 becomes 0 on both sides
      expect(isCanonicalPayload(text)).toBe(true);
      expect(canonicalJson(JSON.parse(text) as never)).toBe(text);
    }
  });

  test('agrees with the RFC 8785 library on mutated texts', () => {
    const reference = (text: string): boolean => {
      try {
        const parsed = JSON.parse(text) as { kind?: unknown } | null;
        return (
          typeof parsed === 'object' &&
          parsed !== null &&
          typeof parsed.kind === 'string' &&
          canonicalJson(parsed as never) === text
        );
      } catch {
        return false;
      }
    };
    const seeds = [
      '{"a":[1,2.5,-3e-7,1e+21,{}],"b":{"c":null,"d":[true,false,[]]},"kind":"x \\n\\u0001\\\\\\"é→😀"}',
      '{"10":0,"9":1,"\u20ac":"","kind":""}',
      '{"":5e-324,"kind":"k","l":[[[]]]}',
      '{"a\\nb":1,"kind":"x"}',
    ];
    const alphabet = [...'{}[]":,0123456789.eE+-tfnu\\ \n\u0001\ud83d\ude00kind'];
    const random = new Random(31n);
    const trials = process.env.ISOPRO_FULL === '1' ? 1_000_000 : 60_000;
    const counts = { yes: 0, no: 0 };
    for (let trial = 0; trial < trials; trial++) {
      let text = seeds[trial % seeds.length] as string;
      for (let edits = random.nextInteger(0, 2); edits > 0; edits--) {
        const at = random.nextInteger(0, text.length);
        const piece =
          random.nextDouble() < 0.7
            ? (alphabet[random.nextInteger(0, alphabet.length - 1)] as string)
            : text.slice(at, at + random.nextInteger(0, 6));
        text = text.slice(0, at) + piece + text.slice(at + random.nextInteger(0, 2));
      }
      const expected = reference(text);
      counts[expected ? 'yes' : 'no']++;
      if (isCanonicalPayload(text) !== expected)
        throw new Error(`${JSON.stringify(text)}: the reference says ${expected}`);
    }
    expect(Math.min(counts.yes, counts.no)).toBeGreaterThan(trials / 5);
  });
});
