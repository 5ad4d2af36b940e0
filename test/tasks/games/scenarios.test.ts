/**
 * Scenarios as data: published tables come out again, what is no strategy has no score, and what
 * the self-tests promise holds.
 */
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../../src/random.js';
import { frozenSet } from '../../../src/tasks/frozen-sets.js';
import { readScenario, resolvePrompt, type Scenario } from '../../../src/tasks/games/document.js';
import { mulberry32, openGenerator, roundTo } from '../../../src/tasks/games/generators.js';
import {
  type ScenarioProblem,
  readScenarioProblem,
  scenarioTask,
  taskOf,
} from '../../../src/tasks/games/scenario-task.js';
import {
  checkStrategy,
  drawSeed,
  scoreStrategy,
  type Strategy,
} from '../../../src/tasks/games/score.js';
import {
  bestConstant,
  gridSearch,
  randomStrategy,
  upperBound,
} from '../../../src/tasks/games/search.js';
import { badStrategies, testScenario } from '../../../src/tasks/games/self-test.js';
import { SHIPPED, shippedScenario } from '../../../src/tasks/games/shipped.js';
import { judgeReply } from '../../../src/tasks/verdict.js';
import type { Parsed } from '../../models/parsed.js';

const FULL = process.env.ISOPRO_FULL === '1';
const [ctf, othello] = [shippedScenario('grid_ctf'), shippedScenario('othello')];
const pointed = ({ document }: Scenario, point: readonly number[]): Strategy =>
  Object.fromEntries(document.parameters.map(({ name }, at) => [name, point[at]!]));
const scoreAt = (scenario: Scenario, seed: number, point: readonly number[]): number =>
  scoreStrategy(scenario, drawSeed(scenario, seed), pointed(scenario, point))!.score;

describe('generators', () => {
  test('mt19937 draws what CPython 3 draws, from seeds of one word and of two', () => {
    const small = openGenerator('mt19937', 1);
    expect([small.next(), small.next()]).toEqual([0.13436424411240122, 0.8474337369372327]);
    const large = openGenerator('mt19937', 2 ** 40 + 5);
    expect([large.next(), large.next(), large.next()]).toEqual([
      0.5043802970418443, 0.2686044399723282, 0.9257865475671585,
    ]);
    expect([0, 1, 2, 3].map((seed) => openGenerator('mt19937', seed).integer(8, 14))).toEqual([
      14, 9, 14, 9,
    ]);
  });

  test('mulberry32 gives the scores that were published with it', () => {
    const scores = [0, 1, 2, 3].map((seed) => {
      const noise = -0.07 + 0.14 * mulberry32(seed)();
      return scoreStrategy(
        ctf,
        { environment: { enemy_spawn_bias: 0, resource_density: 0 }, noise: [noise] },
        pointed(ctf, [0.5, 0.5, 0.5]),
      )!.score;
    });
    expect(scores).toEqual([0.6654, 0.6957, 0.7047, 0.7035]);
  });

  test('what lies exactly between two goes to the even one', () => {
    expect([0.03125, 0.09375, 0.53125, 0.59375].map((value) => roundTo(value, 4))).toEqual([
      0.0312, 0.0938, 0.5312, 0.5938,
    ]);
    expect([roundTo(0.00005, 4), roundTo(2.5, 0), roundTo(3.5, 0), roundTo(-0.03125, 4)]).toEqual([
      0.0001, 2, 4, -0.0312,
    ]);
  });
});

describe('grid_ctf', () => {
  test.each([
    [0, 0.0482190592, [0.7139, 0.901, 0.4289, 0.9089], 0.672, 0.706],
    [1, -0.0511890058, [0.6543, 0.8703, 0.4, 0.8493], 0.317, 0.778],
    [2, 0.0638447981, [0.7233, 0.901, 0.4383, 0.9183], 0.728, 0.858],
    [3, -0.0366849522, [0.663, 0.879, 0.4, 0.858], 0.369, 0.535],
  ])('A1: seed %i gives the golden table', (seed, noise, scores, spawn, density) => {
    const draw = drawSeed(ctf, seed);
    expect(draw.noise[0]).toBeCloseTo(noise, 10);
    expect(draw.environment).toEqual({ enemy_spawn_bias: spawn, resource_density: density });
    const points = [
      [0.5, 0.5, 0.5],
      [1, 0.4, 1],
      [0, 0, 0],
      [0.7, 0.7, 1],
    ];
    expect(points.map((point) => scoreAt(ctf, seed, point))).toEqual(scores);
  });

  test.each([
    [
      [0.5, 0.5, 0.5],
      [0.643, 0.685, 0.727],
    ],
    [
      [1, 0.4, 1],
      [0.859, 0.901, 0.901],
    ],
    [
      [0.25, 0.9, 0.1],
      [0.4675, 0.5095, 0.5515],
    ],
    [
      [0, 0, 0],
      [0.4, 0.4, 0.442],
    ],
  ])('A1: %j without a generator', (point, scores) => {
    const environment = { enemy_spawn_bias: 0.5, resource_density: 0.5 };
    expect(
      [-0.07, 0, 0.07].map(
        (noise) => scoreStrategy(ctf, { environment, noise: [noise] }, pointed(ctf, point))!.score,
      ),
    ).toEqual(scores);
  });

  test('no random strategy exceeds the optimum worked out by hand, and the bound lies just above it', () => {
    const random = new Random(3n);
    for (const seed of [0, 1, 2, 3]) {
      const draw = drawSeed(ctf, seed);
      const [noise] = draw.noise as [number];
      const a = noise > 0 ? 1 - noise / 0.55 : 1;
      const optimum =
        0.6 * Math.min(1, 0.55 * a + 0.45 + noise) +
        0.25 * (1 - 0.4 * a + 0.4 * (1.4 - a)) +
        0.15 * (1 - 0.3 * a + 0.1 * (1.4 - a));
      if (seed === 0) expect(optimum).toBeCloseTo(0.9238, 4);
      let most = 0;
      for (let drawn = 0; drawn < (FULL ? 25_000 : 1_000); drawn++)
        most = Math.max(most, scoreStrategy(ctf, draw, randomStrategy(ctf, random))!.score);
      expect(most).toBeLessThanOrEqual(optimum + 5e-5);
      const bound = upperBound(ctf, draw);
      expect(bound).toBeGreaterThanOrEqual(optimum);
      expect(bound).toBeLessThan(optimum + 0.04);
    }
  });
});

test('othello: the published scores, with and without a generator', () => {
  expect([0, 1].map((seed) => scoreAt(othello, seed, [0.5, 0.5, 0.5]))).toEqual([0.5344, 0.4634]);
  expect(drawSeed(othello, 0).environment).toEqual({
    legal_move_count: 14,
    stability_index: 0.431,
  });
  const score = (point: number[], noise: number): number =>
    scoreStrategy(
      othello,
      { environment: { legal_move_count: 8, stability_index: 0.5 }, noise: [noise] },
      pointed(othello, point),
    )!.score;
  expect([score([1, 1, 1], 0), score([0.5, 0.5, 0.5], 0), score([0.2, 0.9, 0.4], -0.05)]).toEqual([
    1, 0.5, 0.48,
  ]);
});

describe.each(SHIPPED)('%s', (name) => {
  const scenario = shippedScenario(name);
  const task = taskOf(scenario);
  const problems = frozenSet<ScenarioProblem, null>(name, 'test').problems.map(
    ({ problem }) => problem,
  );
  const judge = (problem: ScenarioProblem, text: string) =>
    judgeReply(task, problem, text, 'stop').verdict;
  const good = (problem: ScenarioProblem): Strategy =>
    gridSearch(scenario, drawSeed(scenario, problem.seed)).strategy;

  test('passes its self-tests', () =>
    testScenario(scenario, { strategies: FULL ? 100_000 : 2_000 }));

  test('A3b: what is no strategy is invalid, has no score and counts 0', () => {
    const problem = problems[0]!;
    for (const [what, value] of badStrategies(good(problem))) {
      const verdict = task.verify(problem, value as never);
      expect([what, verdict.kind, verdict.score]).toEqual([what, 'fail', undefined]);
    }
    for (const { name: what, text, finish, problem: own } of task.exploits) {
      const { verdict } = judgeReply(task, own, text, finish);
      expect([what, verdict.kind, verdict.score]).toEqual([what, 'fail', undefined]);
    }
    for (const own of new Set(task.exploits.map((exploit) => exploit.problem)))
      expect(judge(own, task.referenceReply!(own, 'plain') as string).kind).toBe('pass');
  });

  test('the example in its prompt wins nothing', () => {
    const won = problems.filter((problem) => {
      const example = /\{.*\}/.exec(task.prompt(problem, 'plain')[0]!.content)![0];
      const verdict = judge(problem, example);
      expect(verdict.score).toBeDefined();
      return verdict.kind === 'pass';
    });
    expect(won.length).toBeLessThanOrEqual(2);
  });

  test('the prompt tells the observation, and the observation is what the seed draws', () => {
    const problem = problems[1]!;
    const prompt = task.prompt(problem, 'cot')[0]!.content;
    for (const [key, value] of Object.entries(problem.observation))
      expect(prompt).toContain(`${key}: ${value}\n`);
    expect(prompt).toMatch(/^Rules: .*\nResponse format: .*\nEvaluation: /);
    const { id: _id, ...rest } = problem;
    expect(readScenarioProblem(scenario, rest)).toEqual(problem);
    const refused = (value: object) => () => readScenarioProblem(scenario, value);
    const [first] = Object.keys(problem.observation) as [string];
    for (const value of [
      { ...problem, seed: problem.seed + 1 },
      { ...rest, observation: { ...problem.observation, [first]: 0.123456 } },
      { ...rest, task: 'ladder' },
      { ...rest, seed: -1 },
      { ...rest, seed: 0.5 },
      { ...rest, tier: 'other' },
      { ...problem, id: '0'.repeat(64) },
    ])
      expect(refused(value)).toThrow(expect.objectContaining({ code: 'PROBLEM_INVALID' }));
  });

  test('policies are valid, better informed ones better, and the same every time', () => {
    const mean = (policy: string): number =>
      problems.reduce(
        (sum, problem) => sum + task.verify(problem, task.trivialPolicies[policy]!(problem)).score!,
        0,
      ) / problems.length;
    const [random, constant, search] = ['random-valid', 'best-constant', 'grid-search'].map(
      mean,
    ) as [number, number, number];
    expect(random).toBeLessThan(constant);
    expect(constant).toBeLessThanOrEqual(search);
    expect(mean('random-valid')).toBe(random);
    for (const problem of problems)
      expect(task.verify(problem, task.trivialPolicies['grid-search']!(problem)).kind).toBe('pass');
    // the scenarios of our own: whoever does not look at the observation loses at least 0.2, on
    // seeds that nothing was fitted to
    if (name === 'irrigation' || name === 'convoy') expect(search - constant).toBeGreaterThan(0.2);
  });

  test('no training seed is frozen', () => {
    const ids = new Set(problems.map(({ id }) => id));
    for (let seed = 0n; seed < 50n; seed++)
      expect(ids.has((task.generate('match', seed) as ScenarioProblem).id)).toBe(false);
    const [first] = problems as [ScenarioProblem];
    const fresh = task.generate('match', 5n) as ScenarioProblem;
    const without = taskOf(scenario, { isFrozen: (id) => id === fresh.id });
    expect((without.generate('match', 5n) as ScenarioProblem).id).not.toBe(fresh.id);
    expect(task.generate('match', 5n)).toEqual(fresh);
    expect(() => task.generate('none', 1n)).toThrow(
      expect.objectContaining({ code: 'TIER_UNKNOWN' }),
    );
    expect(first.tier).toBe('match');
  });
});

describe('in the scenarios of our own the optimum follows from the observation', () => {
  test('irrigation: water is dryness less half the rain, shade is heat', () => {
    const scenario = shippedScenario('irrigation');
    for (let seed = 0; seed < 50; seed++) {
      const draw = drawSeed(scenario, seed);
      const { dryness, rain, heat } = draw.environment as {
        dryness: number;
        rain: number;
        heat: number;
      };
      const exact = { water: Number((dryness - rain / 2).toFixed(4)), shade: heat };
      const { score } = scoreStrategy(scenario, draw, exact)!;
      expect(score).toBeGreaterThanOrEqual(0.98);
      expect(score).toBeGreaterThanOrEqual(gridSearch(scenario, draw).score - 1e-4);
    }
  });
  test('convoy: everything over the road with the smallest risk', () => {
    const scenario = shippedScenario('convoy');
    for (let seed = 0; seed < 50; seed++) {
      const draw = drawSeed(scenario, seed);
      const roads = ['north', 'east', 'south', 'west'];
      const risks = roads.map((road) => draw.environment[`${road}_risk`]!);
      const all = Object.fromEntries(
        roads.map((road, at) => [road, at === risks.indexOf(Math.min(...risks)) ? 1 : 0]),
      );
      expect(scoreStrategy(scenario, draw, all)!.score).toBeCloseTo(1 - Math.min(...risks), 10);
      expect(gridSearch(scenario, draw).score).toBeCloseTo(1 - Math.min(...risks), 10);
    }
  });
});

describe('the reader of replies', () => {
  const task = taskOf(ctf);
  const problem = task.generate('match', 1n) as ScenarioProblem;
  const strategy = { aggression: 1, defense: 0.4, path_bias: 1 };
  const json = JSON.stringify(strategy);
  const other = JSON.stringify({ ...strategy, aggression: 0.5 });
  const read = (text: string): unknown => {
    const parsed = task.parse(text, problem);
    return parsed.ok ? parsed.answer : parsed.category;
  };

  test.each([
    ['alone', json],
    ['in a fence', `Here:\n\`\`\`json\n${json}\n\`\`\``],
    [
      'between prose with stray braces',
      `I use {braces and } like this {\n${json}\nand then } or {.`,
    ],
    ['with a stray brace before it on its line', `{ ${json}`],
    ['after an object that is none', `{"aggression": 2} ${json} {}`],
    ['after another that is valid', `${other}\n${json}`],
    ['before one that is out of range', `${json}\n{"aggression": 9, "defense": 0, "path_bias": 0}`],
    [
      'before one with a key twice',
      `${json} {"aggression": 0, "aggression": 0, "defense": 0, "path_bias": 0}`,
    ],
  ])('A4: %s', (_name, text) => expect(read(text)).toEqual(strategy));

  test.each([
    ['truncated', json.slice(0, -1)],
    ['in an object', `{"strategy": ${json}}`],
    ['in quotes of an object', `{"strategy": "${json.replaceAll('"', '\\"')}"}`],
    ['in a list of an object', `{"all": [${json}]}`],
    ['nothing', ''],
    ['too long', `${json}${' '.repeat(20_000)}`],
  ])('A4: %s is no answer', (_name, text) => expect(read(text)).toBe('format'));

  test('a last object that breaks a constraint is the answer, and is invalid', () => {
    const verdict = judgeReply(
      task,
      problem,
      `${json} {"aggression": 1, "defense": 1, "path_bias": 1}`,
      'stop',
    ).verdict;
    expect([verdict.kind, verdict.violations[0]!.category, verdict.score]).toEqual([
      'fail',
      'constraint',
      undefined,
    ]);
    // decimals add up to what they say
    expect(checkStrategy(ctf, { aggression: 0.9, defense: 0.5, path_bias: 0.7 }).ok).toBe(true);
  });

  test('a valid strategy that loses has a score beside its failure', () => {
    const verdict = judgeReply(
      task,
      problem,
      '{"aggression": 0, "defense": 0, "path_bias": 0}',
      'stop',
    ).verdict;
    expect(verdict.kind).toBe('fail');
    expect(verdict.violations[0]!.category).toBe('score');
    expect(verdict.score).toBeCloseTo(0.4, 1);
    expect(task.feedback!(problem, verdict)).toContain(String(verdict.score));
  });

  test('the most lenient reading takes numbers in quotes and leaves out other keys', () => {
    const [answer] = task.readLeniently!(
      '{"aggression": "1", "defense": 0.4, "path_bias": 1, "why": "speed"} {',
      problem,
    );
    expect(answer).toEqual(strategy);
    expect(task.readLeniently!('no {"a"} object', problem)).toEqual([]);
  });
});

describe('a document', () => {
  const { document } = ctf;
  const changed = (change: (copy: Record<string, Parsed>) => void): unknown => {
    const copy = JSON.parse(JSON.stringify(document)) as Record<string, Parsed>;
    change(copy);
    return copy;
  };

  test('A2: the prompt, else the description, else the labelled lines; one that is empty is refused', () => {
    const lines = { rules: 'r', response: 's', evaluation: 'e' };
    expect(resolvePrompt({ ...lines, prompt: 'p', description: 'd' })).toBe('p');
    expect(resolvePrompt({ ...lines, description: 'd' })).toBe('d');
    expect(resolvePrompt(lines)).toBe('Rules: r\nResponse format: s\nEvaluation: e');
    expect(resolvePrompt({ response: 's' })).toBe('Response format: s');
    expect(() => readScenario(changed((copy) => (copy.texts = { rules: '' })))).toThrow(
      expect.objectContaining({
        code: 'TASK_INVALID',
        message: expect.stringContaining('empty prompt'),
      }),
    );
  });

  test('has a digest over rules, generator and scores; a task of it has it in its version', () => {
    const digest = (change: (copy: Record<string, Parsed>) => void): string =>
      readScenario(changed(change)).digest;
    const digests = [
      ctf.digest,
      digest((copy) => (copy.texts.rules += ' ')),
      digest((copy) => (copy.generator.name = 'mulberry32')),
      digest((copy) => (copy.generator.noise = 'continues')),
      digest((copy) => (copy.components[0].weight = 0.61)),
      digest((copy) => (copy.constraints = [])),
    ];
    expect(new Set(digests).size).toBe(digests.length);
    expect(digest(() => undefined)).toBe(ctf.digest);
    expect(scenarioTask(document).version).toBe(`1+${ctf.digest.slice(0, 12)}`);
  });

  test.each<[string, (copy: Record<string, Parsed>) => void, string]>([
    [
      'a weight that is not the published one',
      (copy) => (copy.components[1].weight = 0.26),
      'case 1',
    ],
    ['a case that is wrong', (copy) => (copy.cases[3].score = 0.46), 'case 4'],
    [
      'a case that breaks a constraint',
      (copy) => (copy.cases[0].strategy.aggression = 1),
      'case 1 is not a valid strategy',
    ],
    ['a case without its noise', (copy) => (copy.cases[0].noise = []), 'noise values'],
    [
      'constraints that leave nothing',
      (copy) => (copy.constraints[0].atMost = -1),
      'no strategy satisfies',
    ],
    ['a score that nothing reaches', (copy) => (copy.score.passes = 1), 'no strategy reaches'],
    [
      'a parameter of the name of an observation',
      (copy) => (copy.environment[0].name = 'defense'),
      'is used twice',
    ],
    [
      'two components of one name',
      (copy) => (copy.components[1].name = 'capture'),
      'is used twice',
    ],
    [
      'a term of something unknown',
      (copy) => (copy.components[0].terms[0].of = ['speed']),
      'speed',
    ],
    [
      'a constraint on an observation',
      (copy) => (copy.constraints[0].terms[0].of = 'resource_density'),
      'not a parameter',
    ],
    [
      'a product of parameters',
      (copy) => (copy.components[0].terms[0].of = ['aggression', 'aggression']),
      'two parameters',
    ],
    ['a range that is upside down', (copy) => (copy.parameters[0].low = 2), 'low is above high'],
    ['an integer between fractions', (copy) => (copy.environment[0].kind = 'integer'), 'integer'],
    ['a member that nobody knows', (copy) => (copy.script = 'x'), 'script'],
    ['a number that is none', (copy) => (copy.components[0].weight = 'NaN'), 'weight'],
    ['a number that is too large', (copy) => (copy.components[0].weight = 1e300), 'weight'],
    ['another generator', (copy) => (copy.generator.name = 'lcg'), 'generator'],
  ])('with %s is refused', (_name, change, message) => {
    expect(() => scenarioTask(changed(change))).toThrow(
      expect.objectContaining({ code: 'TASK_INVALID', message: expect.stringContaining(message) }),
    );
  });

  test('with products of observations, integers and whole ranges elsewhere is scored as it says', () => {
    const own = readScenario({
      ...document,
      id: 'own',
      generator: { name: 'xoshiro256**', noise: 'continues' },
      environment: [{ name: 'wind', low: 2, high: 4, kind: 'integer', decimals: 0 }],
      parameters: [{ name: 'sail', low: -5, high: 5 }],
      constraints: [],
      components: [
        {
          name: 'speed',
          weight: 1,
          constant: 0.1,
          terms: [
            { weight: 0.05, of: ['wind', 'sail'] },
            { weight: 0.01, of: ['wind'] },
          ],
        },
      ],
      score: { offset: 0, decimals: 4, passes: 0.5 },
      cases: [{ environment: { wind: 3 }, noise: [], strategy: { sail: 2 }, score: 0.43 }],
    });
    testScenario(own);
    expect(bestConstant(own)).toEqual({ sail: 5 });
    const winds = new Set(
      Array.from({ length: 50 }, (_, seed) => drawSeed(own, seed).environment.wind),
    );
    expect([...winds].sort()).toEqual([2, 3, 4]);
    expect(upperBound(own, drawSeed(own, 1))).toBeGreaterThanOrEqual(
      gridSearch(own, drawSeed(own, 1)).score,
    );
  });
});
