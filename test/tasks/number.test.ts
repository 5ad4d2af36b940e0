/** Numbers as people write them: read whole, with their sign, or not at all. */
import { describe, expect, test } from '@jest/globals';
import { decimalOf, decimalText, isHeld, isNear } from '../../src/decimal.js';
import { lastNumber, readNumber } from '../../src/tasks/data/number.js';
import { Random } from '../../src/random.js';
import { processorMs } from '../models/processor-time.js';

const told = (text: string): string | null => {
  const said = lastNumber(text);
  return said === null ? null : 'number' in said ? String(Number(said.number)) : 'unread';
};

describe('the last number of a text', () => {
  test.each<[string, Record<string, string | null>]>([
    [
      'points and exponents',
      {
        '12.': '12',
        '.75': '0.75',
        '6.02e23': '6.02e+23',
        '1.5E−3': '0.0015',
        '2e3kg': 'unread',
        '7e': '7',
      },
    ],
    [
      'groups',
      {
        '12,345,678': '12345678',
        "2'500'000.5": '2500000.5',
        '3 400 000': '3400000',
        '12 345': '12345',
        '45\u00a0000': '45000',
      },
    ],
    ['groups of India', { '12,34,567.5': '1234567.5', '1,234,56': 'unread', '9,87,65': 'unread' }],
    [
      'decimal commas',
      {
        '3,14': '3.14',
        '0,001': '0.001',
        '1.234.567,8': '1234567.8',
        '007,5': '7.5',
        '1234,567': '1234.567',
      },
    ],
    [
      'LaTeX',
      {
        '\\boxed{12{,}500}': '12500',
        '4\\,096': '4096',
        '4,\\!096': '4096',
        '$x=-8$': '-8',
        '\\boxed{\\text{19}}': '19',
      },
    ],
    [
      'parts of formulas',
      {
        '\\frac{1}{3}': 'unread',
        '2^{10}': 'unread',
        'a_{7}': 'unread',
        '\\sqrt[3]{8}': 'unread',
        '10⁵': 'unread',
      },
    ],
    [
      'signs',
      {
        '-£3': '-3',
        '\u2212\u20ac4.50': '-4.5',
        '\u201312%': '-12',
        '(£1,250.00)': '-1250',
        '(8)': '8',
        '+6': '6',
        '--6': 'unread',
      },
    ],
    [
      'signs of currency',
      {
        '-US$40': '-40',
        'CA$ 7': '7',
        '12€': '12',
        '3€50': 'unread',
        '$5-$9': 'unread',
        '5 $20 notes': '20',
      },
    ],
    [
      'what is no number',
      {
        '7:45': 'unread',
        '3/8': 'unread',
        '2024-02-29': 'unread',
        '10.0.0.1': 'unread',
        '4-6': 'unread',
        '±2': 'unread',
      },
    ],
    [
      'words',
      {
        CO2: null,
        'COVID-19': null,
        '0x2A': null,
        '3rd': '3',
        'a 7-day week': null,
        '18 by UTF-8': '18',
        约42个: '42',
      },
    ],
    [
      'punctuation',
      {
        'It is 9.': '9',
        '8, I think': '8',
        '"31,"': '31',
        '**64.**': '64',
        '5...': 'unread',
        '0.333…': 'unread',
        '8,x': 'unread',
      },
    ],
    [
      'digits of other scripts',
      {
        '\u06f1\u06f2\u06f3': '123',
        '\uff14\uff12': '42',
        '\u096a\u0968': '42',
        '\u0661\u066c\u0662\u0663\u0664': '1234',
      },
    ],
    ['lists', { '1, 2, 3': '3', '4; 5': '5', '1,2,3': 'unread', '2023 600': '600' }],
  ])('%s', (_, replies) => {
    expect(Object.fromEntries(Object.keys(replies).map((reply) => [reply, told(reply)]))).toEqual(
      replies,
    );
  });

  test('whatever stands directly around digits, never a piece of them', () => {
    const random = new Random(35n);
    const marks = [
      ',',
      '.',
      '-',
      '\u2013',
      '$',
      '\u20ac',
      '{',
      '}',
      '{,}',
      "'",
      '/',
      ':',
      '^',
      '_',
      '\u202f',
      '%',
      '(',
      ')',
      '\\,',
      'e',
      'x',
      '½',
    ];
    for (let i = 0; i < (process.env.ISOPRO_FULL === '1' ? 20_000 : 5000); i++) {
      const digits = (): string => String(random.nextInteger(0, 99_999));
      const mark = (): string =>
        random.nextInteger(0, 3) === 0 ? '' : marks[random.nextInteger(0, marks.length - 1)]!;
      const text = `${mark()}${mark()}${digits()}${mark()}${digits()}${mark()}${mark()}`;
      const said = lastNumber(text);
      if (said === null || 'unread' in said) continue;
      // where two numbers stand, letters, parentheses or per cent are between them
      const parts = text.split(/[x%()e]|½/).filter((part) => /\d/.test(part));
      const plain = decimalText({ ...decimalOf(said.number)!, exponent: 0 }).replace('-', '');
      const whole = [text, ...parts].map((part) => part.replace(/\D/g, '').replace(/^0+|0+$/g, ''));
      expect({ text, whole: whole.includes(plain === '0' ? '' : plain) || /e/.test(text) }).toEqual(
        { text, whole: true },
      );
    }
  });

  test('takes as long as the text', () => {
    for (const piece of ['-', '1-', '1 000 ', '1,', '(', '1', '$ ', '1{,}', '{', '. ']) {
      const started = process.cpuUsage();
      lastNumber(piece.repeat(200_000 / piece.length));
      expect(processorMs(started)).toBeLessThan(3000);
    }
  });
});

test('an answer is one number and nothing else', () => {
  for (const text of ['-$27', '($27)', '\u221227', '\u201327', '-27 €'])
    expect(readNumber(text)).toBe('-27');
  expect(['1/2', '3-5', '5 kg', 'x=5', '1 or 2', '', '12:30'].map(readNumber)).toEqual(
    Array(7).fill(null),
  );
  expect(readNumber('1 000 000 %')).toBe('1e6');
});

describe('decimals', () => {
  test('compare by all their digits', () => {
    const near = (a: string, b: string, tolerance: string): boolean =>
      isNear(decimalOf(a)!, decimalOf(b)!, decimalOf(tolerance)!);
    expect(near('9007199254740993', '9007199254740992', '0')).toBe(false);
    expect(near('1234567890123456', '1234567890123457', '0.01')).toBe(false);
    expect(near('2', '1.99', '0.01')).toBe(true);
    expect(near('1e400', '1.0e400', '0')).toBe(true);
    expect(near('-1e-3', '1e-3', '0.002')).toBe(true);
  });

  test('a double holds 17 digits, integers to 2^53, and what it writes itself', () => {
    const held = [
      '0',
      '-0',
      '1.50',
      '0.1',
      '0.10000000000000001',
      '9007199254740992',
      '1e23',
      '100000000000000000000000',
      '1e308',
    ];
    const lost = [
      '9007199254740993',
      '90071992547409931',
      '3.14159265358979323846',
      '1e400',
      '1e-400',
      '-12345678901234567891',
    ];
    expect(held.filter((text) => !isHeld(text))).toEqual([]);
    expect(lost.filter(isHeld)).toEqual([]);
  });

  test('no time is spent on numbers that nobody means', () => {
    expect(decimalOf(`1e${'9'.repeat(6)}`)).toBeNull();
    expect(decimalOf('7'.repeat(100_000))).toBeNull();
  });
});
