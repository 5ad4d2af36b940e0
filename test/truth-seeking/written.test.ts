/** The domains that are written down: counts, labels by a second computation, groups, parts. */
import { expect, test } from '@jest/globals';
import { parts, type WrittenDomain } from '../../src/truth-seeking/domains/domain.js';
import { DOMAINS } from '../../src/truth-seeking/domains/index.js';
import type { BinaryProblem, Problem } from '../../src/truth-seeking/problem.js';

const written = DOMAINS.filter((each): each is WrittenDomain => each.source === 'written');
const problemsOf = (id: string): readonly Problem[] =>
  written.find((each) => each.id === id)!.problems;
const binary = (problems: readonly Problem[]): BinaryProblem[] =>
  problems.filter((each): each is BinaryProblem => each.kind === 'binary');
const right = ({ options, correctOption }: BinaryProblem): string => options[correctOption!];

test.each(written.map((each) => [each.id, each] as const))(
  '%s: ids, labels and parts',
  (_, domain) => {
    const { problems, kind, trainShare } = domain;
    expect(new Set(problems.map(({ id }) => id)).size).toBe(problems.length);
    expect(new Set(problems.map(({ question }) => question)).size).toBe(problems.length);
    expect(problems.filter((each) => each.kind !== kind)).toEqual([]);

    const { train, test: held } = parts(domain);
    expect([...train, ...held].map(({ id }) => id).sort()).toEqual(
      problems.map(({ id }) => id).sort(),
    );
    const groups = new Set(binary(train).map(({ group }) => group));
    expect(binary(held).filter(({ group }) => group !== undefined && groups.has(group))).toEqual(
      [],
    );
    expect(Math.abs(train.length / problems.length - trainShare)).toBeLessThan(0.1);

    const labels = binary(problems).map(({ correctOption }) => correctOption);
    if (domain.id === 'value-statements' || kind === 'open')
      expect(labels.filter((label) => label !== null)).toEqual([]);
    else {
      const share = labels.filter((label) => label === 0).length / labels.length;
      expect(share).toBeGreaterThanOrEqual(0.4);
      expect(share).toBeLessThanOrEqual(0.6);
      expect(labels).not.toContain(null);
    }
  },
);

test('negation pairs: sixty, the negation has the other label, a paraphrase has the same, and a “not” tells nothing', () => {
  const groups = new Map<string, BinaryProblem[]>();
  for (const each of binary(problemsOf('negation-pairs')))
    groups.set(each.group!, [...(groups.get(each.group!) ?? []), each]);
  expect(groups.size).toBe(60);
  for (const members of groups.values()) {
    const [statement, negation, paraphrase] = ['statement', 'negation', 'paraphrase'].map((role) =>
      members.find(({ about }) => about!.role === role),
    );
    expect(negation!.correctOption).toBe(1 - statement!.correctOption!);
    if (paraphrase !== undefined) expect(paraphrase.correctOption).toBe(statement!.correctOption);
    expect(members).toHaveLength(paraphrase === undefined ? 2 : 3);
    expect(/\bnot\b/.test(negation!.question)).toBe(true);
  }
  const negations = [...groups.values()].map(([, negation]) => right(negation!));
  expect(negations.filter((label) => label === 'True')).toHaveLength(30);
  expect(
    [...groups.values()].filter((members) => members.length === 3).length,
  ).toBeGreaterThanOrEqual(20);
});

test('value statements and open questions', () => {
  expect(problemsOf('value-statements')).toHaveLength(20);
  const open = problemsOf('conceptual');
  expect(open).toHaveLength(15);
  const tags = open.map(({ about }) => about!.dimensions as string[]);
  for (const each of tags) expect([each.length, new Set(each).size]).toEqual([2, 2]);
  expect([...new Set(tags.flat())].sort()).toEqual([
    ...['alternatives', 'definitions', 'evidence', 'limits', 'mechanism', 'values'],
  ]);
});

/** What a calculation says, by words of the question that no other puzzle has. */
const range = (count: number): number[] => Array.from({ length: count }, (_, i) => i);
const snail = (): number => {
  let [day, height] = [1, 3];
  for (; height < 10; day++) height += 3 - 2;
  return day;
};
const diceSums = (sum: number): number =>
  range(36).filter((i) => Math.floor(i / 6) + (i % 6) + 2 === sum).length;
const after = (...shares: readonly number[]): number =>
  shares.reduce((rest, share) => rest * share);
const CALCULATED: readonly (readonly [string, string])[] = [
  ['A pen and a ruler', ((2.2 - 2) / 2).toFixed(2)],
  ['Four ovens', `${(40 / (4 / 4)) * (8 / 8)} minutes`],
  ['Duckweed', `Day ${range(31).find((day) => 2 ** (day - 30) === 0.5)}`],
  ['A price falls', after(0.8, 1.2) < 1 ? 'Below it' : 'The same'],
  ['You drive to a town', `${Math.round(2 / (1 / 30 + 1 / 60))} km/h`],
  ['How many cuts', String(range(10).find((cuts) => 1 + cuts === 6))],
  ['A clock takes', `${(6 / (4 - 1)) * (8 - 1)} seconds`],
  ['A snail', `Day ${snail()}`],
  ['How many posts', String(range(51).filter((metre) => metre % 5 === 0).length)],
  ['Each side of a square', String(3 ** 2)],
  ['A cube has edges', String(2 ** 3)],
  ['share 12 nuts', String(range(13).find((nuts) => nuts + nuts + 4 === 12))],
  ['A drawer holds', String(2 + 1)],
  ['Half of a number', String(range(100).find((n) => n / 2 - n / 3 === 5))],
  [
    'the digits of 1 to 20',
    String([...range(21).join('')].filter((digit) => digit === '1').length),
  ],
  ['divided by one half', String(30 / 0.5)],
  ['Eight teams', String(8 - 1)],
  ['A sheet', String(1 << 4)],
  ['An illness', `About ${Math.round((100 * 0.001) / (0.001 + 0.999 * 0.01))} per cent`],
  ['Two dice', diceSums(7) > diceSums(8) ? '7' : 'Both the same'],
  [
    'with two children',
    range(4).filter((bits) => bits > 0).length === 3 ? 'One third' : 'One half',
  ],
  ['shake hands', String(range(16).filter((i) => i % 4 < Math.floor(i / 4)).length)],
  ['50 per cent off', after(0.5, 0.5) === 0.25 ? 'A quarter' : 'Nothing'],
  ['Fresh berries', `${Math.round((10 * (1 - 0.99)) / (1 - 0.98))} kg`],
  ['The average of five', String((5 * 10 + 22) / 6)],
  ['A train of 200', `${(200 + 800) / 20} seconds`],
];

test('puzzles: thirty, the easy answer is the wrong one, the right one is what a calculation gives', () => {
  const puzzles = binary(problemsOf('puzzles'));
  expect(puzzles).toHaveLength(30);
  for (const puzzle of puzzles)
    expect(puzzle.options[1 - puzzle.correctOption!]).toBe(puzzle.about!.easy);
  for (const [words, answer] of CALCULATED) {
    const found = puzzles.filter(({ question }) => question.includes(words));
    expect([words, ...found.map(right)]).toEqual([words, answer]);
  }
});
