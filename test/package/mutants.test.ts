/**
 * What `npm run test:mutants` changes: places by operator, of TypeScript and C++, and draws that a
 * seed repeats.
 */
import path from 'node:path';
import { expect, test } from '@jest/globals';

interface Place {
  readonly operator: string;
  readonly start: number;
  readonly end: number;
  readonly after: string;
}
interface Mutant {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly before: string;
  readonly after: string;
  readonly text: string;
  readonly whole: string;
}

const root = path.resolve();
const module = <T>(name: string): Promise<T> =>
  import(path.join(root, 'scripts', 'mutants', `${name}.mjs`)) as Promise<T>;

async function changes(language: 'typescript' | 'cpp', text: string): Promise<string[]> {
  const { placesOf } = await module<{ placesOf: (text: string) => Place[] }>(language);
  return placesOf(text).map(
    ({ operator, start, end, after }) => `${operator}: ${text.slice(start, end)} -> ${after}`,
  );
}

test.each([
  [
    'const é = (a: number) => a <= 2;',
    ['comparison: a <= 2 -> a < 2', 'constant: 2 -> (3)', 'constant: 2 -> (1)'],
  ],
  [
    '// naïve 漢字 🙂\nif (one && two) f(one, two);',
    [
      'statement removed: f(one, two); -> ;',
      'condition negated: one && two -> !(one && two)',
      'argument swapped: f(one, two) -> f(two, one)',
    ],
  ],
  ['let x: 3 | 4 = -y as 3;', ['sign: -y -> (y)']],
  [
    "total += n; text += 'ü'; const t = 'a' + b;",
    [
      'statement removed: total += n; -> ;',
      'sign: total += n -> total -= n',
      "statement removed: text += 'ü'; -> ;",
    ],
  ],
  [
    'function f(...all: string[]) { g(...all, 1n); return all; }',
    [
      'statement removed: g(...all, 1n); -> ;',
      'constant: 1n -> (1n + 1n)',
      'constant: 1n -> (1n - 1n)',
    ],
  ],
  [
    "switch (a) { case 'x': break; default: f(); break; }",
    ['statement removed: break; -> ;', 'statement removed: f(); -> ;'],
  ],
  ["switch (a) { case 'x': { break; } }", []],
  [
    'Math.max(a, b); Math.pow(a, b)',
    [
      ...['Math.max(a, b);', 'Math.pow(a, b)'].map((all) => `statement removed: ${all} -> ;`),
      'argument swapped: Math.pow(a, b) -> Math.pow(b, a)',
    ],
  ],
])('of TypeScript: %s', async (text, expected) => {
  expect((await changes('typescript', text)).sort()).toEqual([...expected].sort());
});

test.each([
  ['if (a < b) return; // a < b', ['comparison: < -> <=', 'condition negated: a < b -> !(a < b)']],
  [
    'f(std::vector<int>{}, "a, b (");',
    ['argument swapped: std::vector<int>{}, "a, b (" -> "a, b (", std::vector<int>{}'],
  ],
  ['x = std::min(a, b);', []],
  [
    'void f(int a, float b); x = 1.5f;',
    [
      'statement removed: x = 1.5f; -> ;',
      'constant: 1.5f -> (1.5f + 1)',
      'constant: 1.5f -> (1.5f - 1)',
    ],
  ],
  [
    '{ for (i = n; i != m; ++i) sum -= y; }',
    [
      'comparison: != -> ==',
      'sign: ++ -> --',
      'sign: -= -> +=',
      'condition negated: i != m -> !(i != m)',
    ],
  ],
])('of C++: %s', async (text, expected) => {
  expect((await changes('cpp', text)).sort()).toEqual([...expected].sort());
});

test('a seed draws the same changes again, each of one place and none twice; another seed draws others', async () => {
  const { mutantsOf } = await module<{
    mutantsOf: (root: string, seed: string) => { drawn: Iterable<Mutant> };
  }>('draw');
  const drawn = (seed: string): Mutant[] => {
    const mutants: Mutant[] = [];
    for (const mutant of mutantsOf(root, seed).drawn) if (mutants.push(mutant) === 300) break;
    return mutants;
  };
  const [one, again, other] = [drawn('0123abcd'), drawn('0123abcd'), drawn('0123abce')];
  expect(again).toEqual(one);
  expect(new Set(one.map(({ text }) => text)).size).toBe(300);
  expect(
    other.filter(({ text }) => one.some((mutant) => mutant.text === text)).length,
  ).toBeLessThan(30);
  expect(new Set(one.map(({ file }) => file.split('/').slice(0, 2).join('/')))).toEqual(
    new Set([
      'native/training',
      ...['gate', 'host', 'jobs', 'registry', 'server', 'statistics', 'training'].map(
        (name) => `src/${name}`,
      ),
    ]),
  );
  for (const { text, whole, before, after, line, column } of one) {
    expect(whole.split('\n')[line - 1]!.slice(column - 1)).toMatch(/^\S/);
    expect(text).not.toBe(whole);
    expect(text.length - whole.length).toBe(after.length - before.length);
  }
});

test('the nearest suites are there for every source, those of functions alone first', async () => {
  const { nearestSuites } = await module<{
    nearestSuites: (root: string) => (file: string) => string[][];
  }>('nearest');
  const nearest = nearestSuites(root);
  expect(nearest('src/server/fair-queue.ts')[0]).toContain('server/fair-queue');
  expect(nearest('src/server/openai/chat.ts').flat()).not.toContain('server/fair-queue');
  expect(nearest('src/jobs/kinds.ts')).toEqual([
    ['jobs/kinds', 'jobs/store'],
    ['jobs/states'],
    ['jobs/queue'],
    ['server/jobs'],
    ['server/fine-tuning'],
  ]);
});
