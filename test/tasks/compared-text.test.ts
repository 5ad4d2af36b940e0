/** Texts as the checks compare them: any label is itself, and what looks the same is the same. */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import {
  compared,
  contains,
  namedChoices,
  normalised,
} from '../../src/tasks/data/compared-text.js';
import { fenced, fenceLanguage } from '../../src/tasks/fence.js';

const PIECES = [
  ...Array.from({ length: 128 }, (_, i) => String.fromCharCode(i)),
  ...[
    'e\u0301',
    '\u0301',
    'ä',
    'a\u0308',
    'ß',
    'ẞ',
    'İ',
    'ı',
    'ﬁ',
    'ſ',
    'Σ',
    'ς',
    'ก่',
    '\u0e48',
    'न्',
    'ﷺ',
    'שלום',
    'مرحبا',
    '\u200f',
    '\u202e',
  ],
  ...[
    '👍🏽',
    '👨‍👩‍👧',
    '✔️',
    '1️⃣',
    '🇩🇪',
    '\u200b',
    '\ufeff',
    '\u2028',
    '\u00a0',
    '\u{10ffff}',
    '\ud800',
    '\udc00',
    '\u3000',
    '漢字',
    '½',
    'Å',
  ],
  ...['\\d', '(?:', '[^', '{2,}', '$&', '\\u0041', '\\', '-', 'no', 'New York'],
];

describe('labels', () => {
  test('of up to 40 characters match themselves, whatever they are made of and whatever the others are', () => {
    const random = new Random(2035n);
    const label = (): string => {
      let text = '';
      const length = random.nextInteger(1, 40);
      while (text.length < length) text += PIECES[random.nextInteger(0, PIECES.length - 1)]!;
      return text.slice(0, 40);
    };
    for (let i = 0; i < (process.env.ISOPRO_FULL === '1' ? 20_000 : 700); i++) {
      const own = label();
      if (compared(own).trim() === '') continue;
      const beginning = own.slice(0, random.nextInteger(1, own.length));
      const others = [
        label(),
        beginning,
        `${own}${label()}`,
        ...PIECES.slice(random.nextInteger(0, 100)).slice(0, 5),
      ];
      const choices = [own, ...others].filter(
        (choice, at, all) =>
          compared(choice).trim() !== '' &&
          all.findIndex((each) => compared(each).trim() === compared(choice).trim()) === at,
      );
      expect({ own, choices, found: namedChoices(own, choices) }).toEqual({
        own,
        choices,
        found: [own],
      });
    }
  });

  test.each<[readonly string[], Record<string, readonly string[]>]>([
    [
      ['check-in', 'check-out'],
      {
        'Check-In, please': ['check-in'],
        'check-in or check-out': ['check-in', 'check-out'],
        checkin: [],
      },
    ],
    [['C', 'C++', 'C#'], { 'C++': ['C++'], 'it is C#.': ['C#'], '(C)': ['C'] }],
    [['a^b', 'a|b', '[x]'], { 'a|b': ['a|b'], '[X]': ['[x]'], 'a^b': ['a^b'] }],
    [['ใช่', 'ไม่'], { ไม่ใช่: [], ใช่ค่ะ: [] }],
    [['cafe', 'café'], { 'cafe\u0301': ['café'], 'cafe\u0323': [], café: ['café'] }],
    [['1', '2'], { '1.': ['1'], '1.5': [], '1,000': [], 'Answer: 2, not 3': ['2'] }],
    [['✔', '✘'], { '✔\ufe0f': ['✔'] }],
  ])('%j', (choices, replies) => {
    for (const [reply, named] of Object.entries(replies))
      expect({ reply, named: namedChoices(reply, choices) }).toEqual({ reply, named });
  });
});

test('a text contains another where no further mark stands on its last letter', () => {
  expect(contains(compared('Mu\u0308ller'), compared('Müll'))).toBe(true);
  expect(contains('x\u0304 and y', 'x')).toBe(false);
  expect(contains('x\u0304 and x', 'x')).toBe(true);
  expect(contains('ก่', 'ก')).toBe(false);
});

test('marks alone are compared as they are, and around words aside', () => {
  expect(new Set(['?', '!', '...', '"', "''", '_', '* *'].map(normalised)).size).toBe(7);
  expect(normalised('“Yes!”')).toBe('yes');
});

test('one kind of line end', () => {
  expect(compared('a\r\nb\rc\n')).toBe('a\nb\nc\n');
});

describe('fences', () => {
  test('name their language in whatever case', () => {
    for (const line of ['```JSON', '``` Json ', ' ```json\r', '```json\t'])
      expect(fenceLanguage(line)).toBe('json');
    for (const line of ['``', '```json {', 'so: ```', '````'])
      expect(fenceLanguage(line)).toBeNull();
    expect(fenceLanguage('```')).toBe('');
  });

  test('are the whole of a text, or none', () => {
    expect(fenced('\n```JSON\r\n{"a": 1}\r\n```\n', ['json'])).toBe('{"a": 1}\r\n');
    expect(fenced('```Python\n1\n```', ['', 'json'])).toBeNull();
    expect(fenced('so\n```\n1\n```')).toBeNull();
    expect(fenced('```\n```')).toBe('');
    expect(fenced('```')).toBeNull();
  });
});
