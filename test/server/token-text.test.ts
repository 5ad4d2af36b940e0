/**
 * Tokens that begin and end anywhere in a character: their names, and where they stand in a text.
 */
import { expect, test } from '@jest/globals';
import type { HostedModel } from '../../src/host/hosted-model.js';
import { Random } from '../../src/random.js';
import {
  nameById,
  nameByText,
  namesOf,
  TokenOffsets,
  TokensOfText,
  tokenBytes,
} from '../../src/server/openai/token-text.js';

/** The last one is a control token, which no reply says. */
const WORDS = ['a', 'bc', 'é', '漢', '\ufeff', '<end>'].map((text) => Buffer.from(text));
const PARTS = [...Buffer.from('🦄é')].map((byte) => Buffer.of(byte));
const TOKENS = [...PARTS, ...WORDS];
const END = TOKENS.length - 1;
let looks = 0;
const model = {
  bytesOf(id: number) {
    looks++;
    return TOKENS[id]!;
  },
  detokenize: ([id]: readonly number[]) => (id === END ? '' : `${id}`),
} as unknown as HostedModel;
const idOf = (text: string): number => TOKENS.findIndex((bytes) => bytes.toString() === text);

/** What the tokens are as far as their characters are whole. */
const textOf = (ids: readonly number[], isPrompt: boolean): string =>
  new TextDecoder('utf-8', { ignoreBOM: true }).decode(
    Buffer.concat(ids.filter((id) => isPrompt || id !== END).map((id) => TOKENS[id]!)),
    { stream: true },
  );
/** Whole characters, some of them in four parts, and the end between them. */
const drawn = (random: Random): number[] =>
  Array.from({ length: 12 }, () => random.nextInteger(0, 7)).flatMap((kind) =>
    kind < 1 ? [0, 1, 2, 3] : kind < 2 ? [4, 5] : [PARTS.length + kind - 2],
  );

test('a token is named by its text, one of a part of a character by its bytes, or both by their ids', () => {
  expect(nameByText(model, idOf('bc'))).toBe('bc');
  expect(nameByText(model, idOf('\ufeff'))).toBe('\ufeff');
  expect(nameByText(model, END)).toBe('<end>');
  expect(nameByText(model, 0)).toBe('bytes:\\xf0');
  const parts = { bytesOf: () => Buffer.of(0x0a, 0xf0, 0x00), detokenize: () => 'x' };
  expect(nameByText(parts as never, 0)).toBe('bytes:\\x0a\\xf0\\x00');
  expect(nameById(model, 7)).toBe('token_id:7');
  expect(tokenBytes(model, 1)).toEqual([0x9f]);
  expect(namesOf({ return_tokens_as_token_ids: true })).toBe(nameById);
  expect(namesOf({ return_tokens_as_token_ids: false })).toBe(nameByText);
  expect(namesOf({})).toBe(nameByText);
  const before = looks;
  for (let i = 0; i < 9; i++) nameByText(model, 0);
  expect(looks).toBe(before); // a model is asked once for a token
});

test.each([true, false])(
  'a token begins behind the characters before it (prompt: %s)',
  (isPrompt) => {
    const random = new Random(5n);
    for (let round = 0; round < 50; round++) {
      const ids = drawn(random);
      for (const before of [0, 1, 3]) {
        const offsets = new TokenOffsets(model, before);
        expect(ids.map((id) => offsets.next(id, isPrompt))).toEqual(
          ids.map((_, i) => Math.max(0, [...textOf(ids.slice(0, i), isPrompt)].length - before)),
        );
      }
    }
    const offsets = new TokenOffsets(model); // nothing is taken away unless it is said
    expect([offsets.next(idOf('bc'), false), offsets.next(idOf('a'), false)]).toEqual([0, 2]);
  },
);

test('a token is told with the first of its text, however the text comes, and each once', () => {
  const random = new Random(6n);
  for (let round = 0; round < 50; round++) {
    const ids = drawn(random);
    const text = textOf(ids, false);
    const begins = ids.map((_, i) => textOf(ids.slice(0, i), false).length);
    const tokens = new TokensOfText<{ readonly tokenId: number; readonly at: number }>(model);
    let [drawnTo, told] = [0, 0];
    const found: number[] = [];
    while (told < text.length) {
      const end = Math.min(text.length, told + random.nextInteger(0, 3));
      // as many as that text needs, and now and then more
      while (drawnTo < ids.length && (begins[drawnTo]! < end || random.nextInteger(0, 1) === 0))
        tokens.draw({ tokenId: ids[drawnTo]!, at: drawnTo++ });
      found.push(...tokens.tell(text.slice(told, end)).map(({ at }) => at));
      told = end;
      expect(found).toEqual(begins.flatMap((begin, at) => (begin < told ? [at] : [])));
    }
  }
});
