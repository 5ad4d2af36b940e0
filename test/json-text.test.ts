/** What the text of JSON says and its value does not. */
import { describe, expect, test } from '@jest/globals';
import type { Json } from '../src/canonical-json.js';
import { readRowJson } from '../src/fine-tuning/row-json.js';
import {
  comparable,
  comparedJson,
  digitsOf,
  readJsonText,
  textsOf,
  withDigits,
  writtenJson,
} from '../src/json-text.js';
import { Random } from '../src/random.js';

const written = (text: string): [string, string, boolean][] =>
  readJsonText(text).numbers.map(({ path, text: number, held }) => [path.join('.'), number, held]);

const equal = (a: string, b: string): boolean => {
  const [x, y] = [a, b].map((text) => {
    const json = comparable(readJsonText(text));
    return comparedJson(withDigits(json), digitsOf(json.numbers));
  });
  return x === y;
};

describe('numbers', () => {
  test('whose text is another than their value has are named by their place', () => {
    expect(
      written(
        '{"a": [1, 1.50, {"b": 9007199254740993}], "c": 1e400, "s": "2.50 \\" 9.0", "d": -0.0}',
      ),
    ).toEqual([
      ['a.1', '1.50', true],
      ['a.2.b', '9007199254740993', false],
      ['c', '1e400', false],
      ['d', '-0.0', true],
    ]);
    expect(written('12345678901234567891')).toEqual([['', '12345678901234567891', false]]);
    expect(written('{"a": {}, "b": [[], "x", 2.0]}')).toEqual([['b.2', '2.0', true]]);
  });

  test('are compared by all their digits', () => {
    expect(equal('{"id": 9007199254740993}', '{"id": 9007199254740993.0}')).toBe(true);
    expect(equal('{"id": 9007199254740993}', '{"id": 9007199254740992}')).toBe(false);
    expect(equal('{"id": 9007199254740993}', '{"id": "9007199254740993"}')).toBe(false);
    expect(equal('[1.50, 1e3]', '[1.5, 1000]')).toBe(true);
    expect(equal('[3.14159265358979323846]', '[3.14159265358979323847]')).toBe(false);
    expect(equal('1e400', '10e399')).toBe(true);
  });

  test('a name may be anything', () => {
    const json = readJsonText('{"__proto__": {"a/b~": 9007199254740993}, "constructor": 1}');
    expect(digitsOf(json.numbers)).toEqual({ '/__proto__/a~1b~0': '9007199254740993' });
    expect(JSON.stringify(withDigits(json))).toBe(
      '{"__proto__":{"a/b~":"9007199254740993"},"constructor":1}',
    );
  });

  test('are written again as they were', () => {
    const random = new Random(4n);
    const numbers = [
      '1',
      '1.50',
      '-0',
      '0.0',
      '1e5',
      '1E+2',
      '9007199254740993',
      '1e400',
      '3.141592653589793238',
      '-7',
    ];
    const value = (depth: number): string => {
      const kind = random.nextInteger(0, depth > 3 ? 1 : 3);
      const members = (): number[] => Array.from({ length: random.nextInteger(0, 4) }, (_, i) => i);
      if (kind === 0) return numbers[random.nextInteger(0, numbers.length - 1)]!;
      if (kind === 1) return ['"a\\"1.50"', 'true', 'null', '"\\\\"'][random.nextInteger(0, 3)]!;
      if (kind === 2)
        return `[${members()
          .map(() => value(depth + 1))
          .join(',')}]`;
      return `{${members()
        .map((i) => `"k${i}":${value(depth + 1)}`)
        .join(',')}}`;
    };
    for (let i = 0; i < 2000; i++) {
      const text = value(0);
      const json = readJsonText(text);
      expect(writtenJson(json.value, textsOf(json.numbers))).toBe(text);
    }
  });
});

test('a member that stands there twice is named, and the last one counts', () => {
  const twice = (text: string): string | null => readJsonText(text).twice;
  expect(twice('{"a": 1, "b": {"a": 1}}')).toBeNull();
  expect(twice('[{"a": 1}, {"a": 1}]')).toBeNull();
  expect(twice('{"a": {"b": 1, "\\u0062": 2}}')).toBe('b');
  expect(readJsonText('{"a": 1.50, "a": 2}').numbers).toEqual([]);
  expect(
    written('{"a": {"x": 1.0, "x": 2.0}, "b": 3.0, "a": {"y": 4.0, "y": [5.0]}, "c": 6.0, "b": 7}'),
  ).toEqual([
    ['a.y.0', '5.0', true],
    ['c', '6.0', true],
  ]);
  expect(
    written('[{"a": 1.0, "a": 2}, {"a": 3.0}, {"a": {}, "a": {"b": 4.0}}]').map(([place]) => place),
  ).toEqual(['1.a', '2.a.b']);
});

test('members that stand there twice, many times over, take no longer than others', () => {
  const count = 50_000;
  const text = (name: (i: number) => string): string =>
    `{"x": [${'1.0,'.repeat(count)}2], ${Array.from({ length: count }, (_, i) => `"${name(i)}": 1.0`).join()}}`;
  const milliseconds = (json: string, numbers: number): number => {
    const started = performance.now();
    expect(readJsonText(json).numbers).toHaveLength(numbers);
    return performance.now() - started;
  };
  const different = milliseconds(
    text((i) => `a${i}`),
    2 * count,
  );
  expect(
    milliseconds(
      text(() => 'a'),
      count + 1,
    ),
  ).toBeLessThan(20 * different);
});

describe('rows that are trained on', () => {
  const refuse = (index: number | null, what: string): never => {
    throw new Error(`${index}: ${what}`);
  };
  const read = (text: string): Json => readRowJson(text, refuse) as Json;

  test('have the answer of the file, letter by letter', () => {
    expect(read('{"prompt": "p", "answer": 1.50}')).toEqual({ prompt: 'p', answer: '1.50' });
    expect(read('{"prompt": "p", "answer": 90071992547409931}')).toEqual({
      prompt: 'p',
      answer: '90071992547409931',
    });
    expect(read('{"prompt": "p", "answer": {"total": 2.00, "id": 9007199254740993}}')).toEqual({
      prompt: 'p',
      answer: '{"total":2.00,"id":9007199254740993}',
    });
    expect(read('[{"answer": 1.5}, {"answer": 1.0, "score": 0.50}]')).toEqual([
      { answer: 1.5 },
      { answer: '1.0', score: 0.5 },
    ]);
  });

  test('are refused where a number that is rendered would change, and not where it is no part of them', () => {
    expect(() => read('{"messages": [], "tools": [{"maximum": 9007199254740993}]}')).toThrow(
      /^null: tools\.0\.maximum is 9007199254740993/,
    );
    expect(() => read('[{"answer": "a"}, {"functions": [1e999]}]')).toThrow(
      /^1: functions\.0 is 1e999/,
    );
    expect(read('{"id": 9007199254740993, "answer": "a"}')).toEqual({
      id: '9007199254740993',
      answer: 'a',
    });
  });
});
