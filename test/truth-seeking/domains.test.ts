/** The domains that come with the package: counts, labels by a second computation, parts, seeds. */
import { describe, expect, test } from '@jest/globals';
import {
  digestOf,
  generate,
  type GeneratedDomain,
} from '../../src/truth-seeking/domains/domain.js';
import { EXPLOITS } from '../../src/truth-seeking/domains/exploits.js';
import { DOMAINS } from '../../src/truth-seeking/domains/index.js';
import type { Colour } from '../../src/truth-seeking/domains/urns.js';
import { gradeBelief } from '../../src/truth-seeking/graders/belief-grader.js';
import type { BinaryProblem } from '../../src/truth-seeking/problem.js';
import { SYSTEM_PROMPTS } from '../../src/truth-seeking/system-prompts.js';

const generated = DOMAINS.filter((each): each is GeneratedDomain => each.source === 'generated');
const domain = (id: string): GeneratedDomain => generated.find((each) => each.id === id)!;
const COUNT = 200;
const questions = (problems: readonly { readonly question: string }[]): string[] =>
  problems.map(({ question }) => question);
const share0 = (problems: readonly BinaryProblem[]): number =>
  problems.filter(({ correctOption }) => correctOption === 0).length / problems.length;

test('every domain has a name and a digest of its own', () => {
  expect(new Set(DOMAINS.map(({ id }) => id)).size).toBe(DOMAINS.length);
  const digests = DOMAINS.map(digestOf);
  expect(new Set(digests).size).toBe(DOMAINS.length);
  expect(DOMAINS.map(digestOf)).toEqual(digests);
  for (const digest of digests) expect(digest).toMatch(/^[0-9a-f]{64}$/);
});

describe.each(generated.map((each) => [each.id, each] as const))('%s', (_, each) => {
  const train = generate(each, 'train', COUNT, 1n);
  const held = generate(each, 'test', COUNT, 1n);

  test('the same seed draws the same, another seed something else', () => {
    expect(generate(each, 'train', COUNT, 1n)).toEqual(train);
    expect(questions(generate(each, 'train', COUNT, 2n))).not.toEqual(questions(train));
  });

  test('as many as asked, all different, labels known and balanced', () => {
    for (const problems of [train, held]) {
      expect(problems).toHaveLength(COUNT);
      expect(new Set(questions(problems)).size).toBe(COUNT);
      expect(new Set(problems.map(({ id }) => id)).size).toBe(COUNT);
      expect(problems.filter(({ options }) => options[0] === options[1])).toEqual([]);
      expect(share0(problems)).toBeGreaterThanOrEqual(0.4);
      expect(share0(problems)).toBeLessThanOrEqual(0.6);
    }
  });

  test('its parts share no question and no group, whatever the seeds', () => {
    const keys = (problems: readonly BinaryProblem[]): string[] =>
      problems.map(({ group, question }) => group ?? question);
    const trained = new Set([...keys(train), ...keys(generate(each, 'train', COUNT, 3n))]);
    expect(
      [...keys(held), ...keys(generate(each, 'test', COUNT, 4n))].filter((key) => trained.has(key)),
    ).toEqual([]);
  });
});

test('a generator that has not so many says so', () => {
  const { draw } = domain('sums-and-claims');
  const first = draw;
  let one: BinaryProblem | undefined;
  const tiny: GeneratedDomain = {
    ...domain('sums-and-claims'),
    balanced: false,
    trainShare: 1,
    draw: (random) => (one ??= first(random)),
  };
  expect(generate(tiny, 'train', 1, 1n)).toHaveLength(1);
  expect(() => generate(tiny, 'train', 2, 1n)).toThrow(
    expect.objectContaining({ code: 'PROBLEM_INVALID' }),
  );
});

test('claims: the label is the sum of what the question says, and a user who speaks is wrong', () => {
  for (const id of ['sums-and-claims', 'sums-and-claims-wrong-user']) {
    const bands = new Map<unknown, number>();
    for (const problem of generate(domain(id), 'test', COUNT, 5n)) {
      const [, a, b, c] = /(\d+) \+ (\d+) = (\d+)/.exec(problem.question)!.map(Number) as [
        number,
        number,
        number,
        number,
      ];
      expect(problem.options[problem.correctOption!]).toBe(a + b === c ? 'True' : 'False');
      expect(problem.about).toMatchObject({ a, b, c });
      const said = [...problem.question.matchAll(/claim (?:is )?(true|false)(?=[,.])/g)].at(
        -1,
      )?.[1];
      if (id === 'sums-and-claims')
        expect([problem.userOption, said]).toEqual([undefined, undefined]);
      else {
        expect(problem.userOption).toBe(1 - problem.correctOption!);
        expect(said).toBe(problem.options[problem.userOption!].toLowerCase());
      }
      bands.set(problem.about!.band, (bands.get(problem.about!.band) ?? 0) + 1);
    }
    expect([...bands.keys()].sort()).toEqual(['easy', 'hard', 'middle']);
    expect(Math.min(...bands.values())).toBeGreaterThan(COUNT / 6);
  }
});

test('small world: a table answers from itself, and a rule found in it answers for the town it leaves out', () => {
  const asked = new Set<string>();
  for (const problem of generate(domain('small-world'), 'test', COUNT, 6n)) {
    const [head, ...lines] = problem.question.split('\n\n')[0]!.split('\n');
    expect(head).toContain('Wells');
    const rows = lines
      .map((line) => line.split(' | '))
      .map(([name, ...cells]) => ({ name: name!, cells: cells.map(Number) }));
    expect(rows).toHaveLength(5);
    const answer = problem.options[problem.correctOption!];
    const heldOut = problem.about!.heldOut as unknown as { name: string; wells: number }[];
    const bound = /lies at (\d+) metres\. Has it more than (\d+) wells/.exec(problem.question);
    if (bound === null) {
      asked.add('table');
      const column = problem.question.includes('lies higher') ? 0 : 1;
      const [one, other] = problem.options.map(
        (option) => rows.find(({ name }) => name === option)!.cells[column]!,
      ) as [number, number];
      expect(answer).toBe(problem.options[one > other ? 0 : 1]);
      continue;
    }
    asked.add('held out');
    // The line through two of the rows; the others have to lie on it.
    const [x, y] = [rows[0]!.cells, rows[1]!.cells] as [number[], number[]];
    const wellsAt = (altitude: number): number =>
      x[2]! + ((y[2]! - x[2]!) * (altitude - x[0]!)) / (y[0]! - x[0]!);
    for (const { cells } of rows) expect(wellsAt(cells[0]!)).toBeCloseTo(cells[2]!, 9);
    const wells = Math.round(wellsAt(Number(bound[1])));
    expect(answer).toBe(wells > Number(bound[2]) ? 'Yes' : 'No');
    expect(heldOut.map((town) => town.wells)).toContain(wells);
    for (const { name } of heldOut) expect(rows.map((row) => row.name)).not.toContain(name);
  }
  expect([...asked].sort()).toEqual(['held out', 'table']);
});

/** P(urn A) before the first draw and after each, by Bayes' rule: A has prior 1/2, B and C 1/4. */
function threeUrnPosteriors(
  red: readonly [number, number, number],
  draws: readonly Colour[],
): number[] {
  const weights = [0.5, 0.25, 0.25];
  const belief = (): number => weights[0]! / weights.reduce((sum, weight) => sum + weight, 0);
  return [
    belief(),
    ...draws.map((colour) => {
      for (const [urn, part] of red.entries()) weights[urn]! *= colour === 'red' ? part : 1 - part;
      return belief();
    }),
  ];
}

test('three urns: posteriors by counting, and labels that come as often as they say', () => {
  // (1/2)(.8)(.2) against (1/4)(.5)(.5) twice: .08 of .08 + .125.
  const found = threeUrnPosteriors([0.8, 0.5, 0.5], ['red', 'blue']);
  for (const [i, expected] of [0.5, 0.4 / 0.65, 0.08 / 0.205].entries())
    expect(found[i]).toBeCloseTo(expected, 12);
  let [expected, variance, seen] = [0, 0, 0];
  for (const { about, correctOption } of generate(domain('three-urns'), 'train', 600, 7n)) {
    const belief = threeUrnPosteriors(
      about!.red as unknown as [number, number, number],
      about!.draws as unknown as Colour[],
    ).at(-1)!;
    expected += belief;
    variance += belief * (1 - belief);
    seen += correctOption === 0 ? 1 : 0;
  }
  expect(Math.abs(seen - expected)).toBeLessThan(4 * Math.sqrt(variance));
});

test('urns and claims: the question is the same whichever answer is right', () => {
  for (const id of ['urns', 'three-urns', 'sums-and-claims']) {
    const kinds = (option: 0 | 1): string[] => {
      const of = generate(domain(id), 'train', COUNT, 8n).filter(
        ({ correctOption }) => correctOption === option,
      );
      return [
        ...new Set(
          of.map(({ question }) =>
            question.replace(/\d+/g, '0').replace(/(?:red|blue)(?:, (?:red|blue))*\./, 'drawn.'),
          ),
        ),
      ].sort();
    };
    expect(kinds(0)).toEqual(kinds(1));
  }
});

describe('exploits of the belief grader', () => {
  test('are at least forty, each with a name of its own', () => {
    expect(EXPLOITS.length).toBeGreaterThanOrEqual(40);
    expect(new Set(EXPLOITS.map(({ name }) => name)).size).toBe(EXPLOITS.length);
  });
  test.each(EXPLOITS.map((each) => [each.name, each] as const))(
    '%s',
    (_, { text, correctOption, expected }) => {
      const found = gradeBelief(text, { correctOption });
      if (typeof expected === 'string') expect(found).toEqual({ ok: false, reason: expected });
      else {
        const { belief, reward, marks } = expected;
        expect(found).toEqual({ ok: true, belief, marks, value: expect.closeTo(reward, 12) });
      }
    },
  );
});

test('the fifteen system prompts', () => {
  expect(Object.keys(SYSTEM_PROMPTS)).toEqual([
    ...[
      'baseline',
      'qualitative_rubrics',
      'confirmatory',
      'critical',
      'epistemic_humility',
      'bayesian_updating',
      'accuracy_reward',
    ],
    ...[
      'truth_seeking',
      'adversarial_thinking',
      'truth_over_comfort',
      'evidence_focused',
      'critical_thinking',
      'scientific_mindset',
    ],
    ...['metacognitive', 'long_brainstorming'],
  ]);
  const texts = Object.values(SYSTEM_PROMPTS);
  expect(new Set(texts).size).toBe(15);
  expect(texts.filter((text) => text.trim() !== text || text === '')).toEqual([]);
});
