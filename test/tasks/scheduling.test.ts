import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { Random } from '../../src/random.js';
import { wilsonInterval } from '../../src/statistics/index.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { solveExactly } from '../../src/tasks/scheduling/exact.js';
import type { GroundTruth } from '../../src/tasks/scheduling/grade.js';
import { dimensionsOf, POLICIES, type Policy } from '../../src/tasks/scheduling/policies.js';
import type { Schedule, SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { scheduling } from '../../src/tasks/scheduling/scheduling.js';
import { judgeReply } from '../../src/tasks/verdict.js';

const generate = (tier: string, seed: number): SchedulingProblem =>
  scheduling.generate(tier, BigInt(seed)) as SchedulingProblem;
const TIERS = scheduling.tiers.map(({ id }) => id);
const test100 = frozenSet<SchedulingProblem, GroundTruth>('scheduling', 'test').problems;
const judge = (problem: SchedulingProblem, text: string) =>
  judgeReply(scheduling, problem, text, 'stop').verdict;
const list = (schedule: Schedule): string =>
  Object.entries(schedule)
    .map(([label, start]) => `${label}: ${start}`)
    .join(', ');
const boxed = (content: string): string => `<answer>${content}</answer>`;

/** The rules once more, step by step, sharing nothing with the verifier. */
function brokenRules(problem: SchedulingProblem, schedule: Schedule): Set<string> {
  const broken = new Set<string>();
  const end = (label: string): number =>
    schedule[label]! + problem.jobs.find((job) => job.label === label)!.duration;
  for (const job of problem.jobs) {
    for (const before of job.after)
      if (end(before) > schedule[job.label]!) broken.add('precedence');
    if (job.deadline !== null && end(job.label) > job.deadline) broken.add('deadline');
    if (end(job.label) > problem.horizon) broken.add('horizon');
  }
  for (let time = 0; time <= 4 * problem.horizon; time++) {
    problem.resources.forEach((resource, index) => {
      const used = problem.jobs.reduce(
        (sum, job) =>
          sum + (schedule[job.label]! <= time && time < end(job.label) ? job.needs[index]! : 0),
        0,
      );
      if (used > resource.capacity) broken.add('resources');
    });
  }
  return broken;
}

describe('problems', () => {
  test.each(TIERS)(
    '%s: feasible, consistent, same for the same seed, and the alphabet is no schedule',
    (tier) => {
      for (let seed = 0; seed < 200; seed++) {
        const problem = generate(tier, seed);
        expect(generate(tier, seed)).toEqual(problem);
        const solution = solveExactly(problem);
        expect(solution).not.toBeNull();
        expect(brokenRules(problem, solution!.schedule).size).toBe(0);
        if (problem.jobs.some((job) => job.after.length > 0))
          expect(problem.jobs.some((job) => job.after.some((before) => before > job.label))).toBe(
            true,
          );
        if (tier !== 'T0' && tier !== 'T3')
          expect(problem.jobs.reduce((sum, job) => sum + job.duration, 0)).toBeGreaterThan(
            problem.horizon,
          );
      }
    },
  );

  test('the families are those of the original: jobs, durations, edges, resources, capacities, needs', () => {
    const expected: Record<string, [number, number, number, number, number, number[]]> = {
      T0: [4, 1, 2, 2, 0, []],
      T1: [5, 1, 3, 2, 0, []],
      T2: [6, 1, 4, 0, 2, [2, 3]],
      T3: [6, 2, 5, 0, 1, [1, 1]],
      T4sr: [8, 1, 4, 4, 2, [2, 4]],
      T4rd: [8, 1, 4, 0, 2, [2, 4]],
      T4sd: [8, 1, 4, 4, 0, []],
      T5: [10, 1, 5, 6, 2, [2, 4]],
    };
    for (const tier of TIERS) {
      const problems = Array.from({ length: 200 }, (_, seed) => generate(tier, seed));
      const durations = problems.flatMap((problem) => problem.jobs.map((job) => job.duration));
      const capacities = problems.flatMap((problem) =>
        problem.resources.map((resource) => resource.capacity),
      );
      const [jobs, shortest, longest, edges, resources, capacity] = expected[tier]!;
      for (const problem of problems) {
        expect([
          problem.jobs.length,
          problem.jobs.reduce((sum, job) => sum + job.after.length, 0),
          problem.resources.length,
        ]).toEqual([jobs, edges, resources]);
      }
      expect([Math.min(...durations), Math.max(...durations)]).toEqual([shortest, longest]);
      if (capacities.length > 0)
        expect([Math.min(...capacities), Math.max(...capacities)]).toEqual(capacity);
    }
    expect(scheduling.tiers.filter(({ trains }) => !trains).map(({ id }) => id)).toEqual(['T5']);
  });

  test('seeds and tiers that differ give problems that differ', () => {
    expect(new Set(Array.from({ length: 500 }, (_, seed) => generate('T5', seed).id)).size).toBe(
      500,
    );
    expect(() => generate('T6', 0)).toThrow(expect.objectContaining({ code: 'TIER_UNKNOWN' }));
  });
});

describe('trivial policies', () => {
  const problems = Object.fromEntries(
    TIERS.map((tier) => [
      tier,
      [
        ...test100.filter(({ problem }) => problem.tier === tier).map(({ problem }) => problem),
        ...Array.from({ length: 400 }, (_, seed) => generate(tier, 1_000 + seed)),
      ],
    ]),
  );
  const rate = (tier: string, policy: Policy, sample = problems[tier]!): number =>
    sample.filter((problem) => scheduling.verify(problem, policy.decide(problem)).kind === 'pass')
      .length / sample.length;
  /**
   * Where nothing limits the jobs but their order, starting as early as possible is the exact
   * solver.
   */
  const exempt = (tier: string, name: string): boolean =>
    ['T1', 'T4sd'].includes(tier) &&
    (name === 'earliest-start' || (name.startsWith('list-') && !name.includes('order-ignored')));

  test.each(TIERS.filter((tier) => tier !== 'T0'))(
    '%s: no policy that ignores a dimension of the tier, nor any one-after-another order, exceeds 20 %%',
    (tier) => {
      const dimensions = dimensionsOf(problems[tier]![0]!);
      for (const [name, policy] of Object.entries(POLICIES) as [string, Policy][]) {
        const blind = policy.ignores.some((dimension) => dimensions.includes(dimension));
        const listed = ['all-zeros', 'serial-alphabetical', 'serial-dependency'].includes(name);
        if ((!blind && !listed) || exempt(tier, name)) continue;
        const passed = rate(tier, policy);
        expect([name, passed, wilsonInterval(Math.round(passed * 500), 500).high < 0.2]).toEqual([
          name,
          passed,
          true,
        ]);
      }
    },
  );

  test('even exact solvers that are blind to one dimension stay below 20 % wherever it exists', () => {
    const blind: Record<string, (problem: SchedulingProblem) => SchedulingProblem> = {
      deadlines: (problem) => ({
        ...problem,
        jobs: problem.jobs.map((job) => ({ ...job, deadline: null })),
      }),
      order: (problem) => ({
        ...problem,
        jobs: problem.jobs.map((job) => ({ ...job, after: [] })),
      }),
      resources: (problem) => ({
        ...problem,
        resources: [],
        jobs: problem.jobs.map((job) => ({ ...job, needs: [] })),
      }),
    };
    for (const tier of TIERS.filter((id) => id !== 'T0')) {
      for (const dimension of dimensionsOf(problems[tier]![0]!)) {
        // exact, see above
        if (dimension === 'deadlines' && ['T1', 'T4sd'].includes(tier)) continue;
        const decide = (problem: SchedulingProblem): Schedule =>
          solveExactly(blind[dimension]!(problem))!.schedule;
        expect([
          tier,
          dimension,
          rate(tier, { ignores: [], decide }, problems[tier]!.slice(0, 60)) < 0.2,
        ]).toEqual([tier, dimension, true]);
      }
    }
  });

  test('earliest start is exact exactly where there are no resources', () => {
    for (const tier of TIERS)
      expect([tier, rate(tier, POLICIES['earliest-start'])]).toEqual([
        tier,
        ['T0', 'T1', 'T4sd'].includes(tier) ? 1 : 0,
      ]);
  });
});

describe('the verifier', () => {
  test('every oracle schedule passes and its ε = 0 grade with it', () => {
    for (const { problem, reference } of test100) {
      const verdict = judge(problem, boxed(list(reference.schedule!)));
      expect(verdict).toEqual({
        kind: 'pass',
        violations: [],
        metrics: { makespan: reference.makespan },
      });
      expect(scheduling.grade!(problem, verdict, reference)).toEqual({
        feasible: 'pass',
        epsilon0: 'pass',
        'epsilon0.1': 'pass',
      });
    }
  });

  test('agrees with a step-by-step evaluator on random schedules, rule by rule', () => {
    const random = new Random(17n);
    const seen: Record<string, number> = {};
    for (let trial = 0; trial < 4_000; trial++) {
      const { problem, reference } = test100[random.nextInteger(0, test100.length - 1)]!;
      const schedule: Record<string, number> = { ...reference.schedule };
      for (let change = random.nextInteger(0, 2); change > 0; change--)
        schedule[problem.jobs[random.nextInteger(0, problem.jobs.length - 1)]!.label] =
          random.nextInteger(0, problem.horizon);
      const verdict = scheduling.verify(problem, schedule);
      const categories = new Set(verdict.violations.map(({ category }) => category));
      expect(categories).toEqual(brokenRules(problem, schedule));
      expect(verdict.kind).toBe(categories.size === 0 ? 'pass' : 'fail');
      for (const category of categories.size === 0 ? ['pass'] : categories)
        seen[category] = (seen[category] ?? 0) + 1;
    }
    for (const category of ['pass', 'precedence', 'deadline', 'horizon', 'resources'])
      expect(seen[category]).toBeGreaterThan(100);
  });

  test('a schedule mutated to break one rule fails with that category, those jobs and that amount', () => {
    const counted: Record<string, number> = {};
    const expectViolation = (
      problem: SchedulingProblem,
      schedule: Record<string, number>,
      wanted: { category: string; jobs: readonly string[]; amount: number },
    ): void => {
      const verdict = scheduling.verify(problem, schedule);
      expect(verdict.kind).toBe('fail');
      expect(
        verdict.violations.map(({ category, jobs, amount }) => ({ category, jobs, amount })),
      ).toContainEqual(wanted);
      for (const { detail } of verdict.violations) expect(detail).toMatch(/^[A-Z].*\.$/);
      counted[wanted.category] = (counted[wanted.category] ?? 0) + 1;
    };
    for (const { problem, reference } of test100) {
      const good = reference.schedule!;
      const [first, last] = [problem.jobs[0]!, problem.jobs.at(-1)!];
      const { [last.label]: _gone, ...without } = good;
      expectViolation(problem, without, { category: 'missing', jobs: [last.label], amount: 1 });
      expectViolation(problem, { ...good, Z: 0 }, { category: 'unknown', jobs: ['Z'], amount: 1 });
      expectViolation(
        problem,
        { ...good, [first.label]: problem.horizon + 3 },
        { category: 'range', jobs: [first.label], amount: 3 },
      );
      expectViolation(
        problem,
        { ...good, [first.label]: -2 },
        { category: 'range', jobs: [first.label], amount: 2 },
      );
      expectViolation(
        problem,
        { ...good, [first.label]: good[first.label]! + 0.5 },
        { category: 'range', jobs: [first.label], amount: 1 },
      );
      expectViolation(
        problem,
        { ...good, [first.label]: problem.horizon - first.duration + 1 },
        { category: 'horizon', jobs: [first.label], amount: 1 },
      );
      for (const job of problem.jobs) {
        for (const before of job.after) {
          const end = good[before]! + problem.jobs.find(({ label }) => label === before)!.duration;
          expectViolation(
            problem,
            { ...good, [job.label]: end - 1 },
            { category: 'precedence', jobs: [before, job.label], amount: 1 },
          );
        }
        if (job.deadline !== null)
          expectViolation(
            problem,
            { ...good, [job.label]: job.deadline - job.duration + 1 },
            { category: 'deadline', jobs: [job.label], amount: 1 },
          );
      }
      problem.resources.forEach((resource, index) => {
        const users = problem.jobs.filter((job) => job.needs[index]! > 0);
        const overload = users.reduce((sum, job) => sum + job.needs[index]!, 0) - resource.capacity;
        if (overload > 0)
          expectViolation(
            problem,
            { ...good, ...Object.fromEntries(users.map((job) => [job.label, 0])) },
            { category: 'resources', jobs: users.map((job) => job.label), amount: overload },
          );
      });
    }
    expect(Object.keys(counted).sort()).toEqual([
      'deadline',
      'horizon',
      'missing',
      'precedence',
      'range',
      'resources',
      'unknown',
    ]);
  });

  test('all violations are listed, not only the first', () => {
    const { problem } = test100.find(({ problem: { tier } }) => tier === 'T5')!;
    const categories = scheduling
      .verify(problem, Object.fromEntries(problem.jobs.map((job) => [job.label, problem.horizon])))
      .violations.map(({ category }) => category);
    expect(categories.filter((category) => category === 'horizon')).toHaveLength(10);
    expect(categories.filter((category) => category === 'deadline')).toHaveLength(10);
    expect(categories.filter((category) => category === 'precedence')).toHaveLength(6);
    expect(categories).toContain('resources');
  });

  test('answers that no parser would return are still judged', () => {
    const { problem, reference } = test100.at(-1)!;
    for (const start of [
      NaN,
      Infinity,
      -Infinity,
      1e300,
      -0.5,
      '3' as unknown as number,
      null as unknown as number,
    ]) {
      expect(
        scheduling.verify(problem, { ...reference.schedule, A: start }).violations[0],
      ).toMatchObject({
        category: 'range',
        jobs: ['A'],
      });
    }
    expect(scheduling.verify(problem, {}).violations).toHaveLength(problem.jobs.length);
    expect(
      scheduling.verify(problem, JSON.parse('{"__proto__": 0, "toString": 1}') as Schedule).kind,
    ).toBe('fail');
  });

  test('verdicts, prompts and problems do not depend on the run, the locale or the time zone', () => {
    const script = `
      import { createHash } from 'node:crypto';
      import { scheduling, schedulingClassic } from ${JSON.stringify(new URL('../../dist/src/index.js', import.meta.url).href)};
      const hash = createHash('sha256');
      for (const task of [scheduling, schedulingClassic]) for (const { id } of task.tiers) for (let seed = 0n; seed < 5n; seed++) {
        const problem = task.generate(id, seed);
        hash.update(JSON.stringify([problem, task.prompt(problem, 'cot')]));
        for (const policy of Object.values(task.trivialPolicies)) hash.update(JSON.stringify(task.verify(problem, policy(problem))));
      }
      for (const { problem, text, name } of scheduling.exploits) hash.update(JSON.stringify([name, scheduling.parse(text, problem)]));
      console.log(hash.digest('hex'));`;
    const run = (environment: Record<string, string>): string =>
      execFileSync(process.execPath, ['--input-type=module', '-e', script], {
        env: { ...process.env, ...environment },
        cwd: fileURLToPath(new URL('../..', import.meta.url)),
        encoding: 'utf8',
      });
    const reference = run({});
    expect(reference).toMatch(/^[0-9a-f]{64}\n$/);
    expect(run({ LC_ALL: 'tr_TR.UTF-8', LANG: 'tr_TR.UTF-8', TZ: 'Pacific/Kiritimati' })).toBe(
      reference,
    );
    expect(
      run({
        LC_ALL: 'ar_EG.UTF-8',
        LANG: 'ar_EG.UTF-8',
        TZ: 'America/St_Johns',
        NODE_ICU_DATA: '',
      }),
    ).toBe(reference);
  });
});

describe('the answer grammar', () => {
  const FORMS: Record<string, (pairs: [string, number][]) => string> = {
    'the form of the prompt': (pairs) =>
      boxed(pairs.map(([label, start]) => `${label}: ${start}`).join(', ')),
    'one per line': (pairs) =>
      boxed(`\n${pairs.map(([label, start]) => `${label}: ${start}`).join('\n')}\n`),
    'Windows line ends': (pairs) =>
      boxed(`\r\n${pairs.map(([label, start]) => `${label}: ${start}`).join('\r\n')}\r\n`),
    'the word Job': (pairs) =>
      boxed(pairs.map(([label, start]) => `Job ${label}: ${start}`).join('\n')),
    bullets: (pairs) =>
      boxed(`\n${pairs.map(([label, start]) => `- ${label}: ${start}`).join('\n')}\n`),
    'starred bullets': (pairs) =>
      boxed(`\n${pairs.map(([label, start]) => `* ${label}: ${start}`).join('\n')}\n`),
    semicolons: (pairs) => boxed(pairs.map(([label, start]) => `${label}: ${start}`).join('; ')),
    'no blanks': (pairs) => boxed(pairs.map(([label, start]) => `${label}:${start}`).join(',')),
    'bold labels': (pairs) =>
      boxed(pairs.map(([label, start]) => `**${label}**: ${start}`).join('\n')),
    'bold labels with the colon': (pairs) =>
      boxed(pairs.map(([label, start]) => `- **Job ${label}:** ${start}`).join('\n')),
    'italic numbers and code': (pairs) =>
      boxed(pairs.map(([label, start]) => `\`${label}\`: _${start}_`).join(', ')),
    'a code fence inside': (pairs) =>
      boxed(
        `\n\`\`\`\n${pairs.map(([label, start]) => `${label}: ${start}`).join('\n')}\n\`\`\`\n`,
      ),
    'a code fence around': (pairs) =>
      `\`\`\`\n${boxed(pairs.map(([label, start]) => `${label}: ${start}`).join(', '))}\n\`\`\``,
    'bold around': (pairs) =>
      `**${boxed(pairs.map(([label, start]) => `${label}: ${start}`).join(', '))}**`,
    'a table': (pairs) =>
      boxed(
        `\n| Job | Start |\n|-----|-------|\n${pairs.map(([label, start]) => `| ${label} | ${start} |`).join('\n')}\n`,
      ),
    'a table with alignment and bold': (pairs) =>
      boxed(
        `\n| **Job** | **Start time** |\n|:---|---:|\n${pairs.map(([label, start]) => `| **${label}** | ${start} |`).join('\n')}\n`,
      ),
    'a table without heading': (pairs) =>
      boxed(`\n${pairs.map(([label, start]) => `| Job ${label} | ${start} |`).join('\n')}\n`),
    JSON: (pairs) => boxed(JSON.stringify(Object.fromEntries(pairs))),
    'indented JSON in a fence': (pairs) =>
      boxed(`\n\`\`\`json\n${JSON.stringify(Object.fromEntries(pairs), null, 2)}\n\`\`\`\n`),
    'a trailing comma': (pairs) => boxed(`${list(Object.fromEntries(pairs))},`),
    'a trailing period': (pairs) => boxed(`${list(Object.fromEntries(pairs))}.`),
    'a period after the block': (pairs) => `${boxed(list(Object.fromEntries(pairs)))}.`,
    'a comma on every line': (pairs) =>
      boxed(`\n${pairs.map(([label, start]) => `${label}: ${start},`).join('\n')}\n`),
    'a period on every line': (pairs) =>
      boxed(`\n${pairs.map(([label, start]) => `- Job ${label}: ${start}.`).join('\n')}\n`),
    'blanks that do not break': (pairs) =>
      boxed(pairs.map(([label, start]) => `Job\u00a0${label}:\u202f${start}`).join(',\u00a0')),
    'numbered lines': (pairs) =>
      boxed(`\n${pairs.map(([label, start], at) => `${at + 1}. ${label}: ${start}`).join('\n')}\n`),
    'numbered lines with brackets and bold': (pairs) =>
      boxed(
        `\n${pairs.map(([label, start], at) => `${at + 1}) **Job ${label}:** ${start},`).join('\n')}\n`,
      ),
    'JSON with starts as strings': (pairs) =>
      boxed(
        JSON.stringify(Object.fromEntries(pairs.map(([label, start]) => [label, String(start)]))),
      ),
    'JSON with single quotes and a comma too many': (pairs) =>
      boxed(`{${pairs.map(([label, start]) => `'${label}': '${start}',`).join(' ')}}.`),
    'pairs of JSON without braces': (pairs) =>
      boxed(pairs.map(([label, start]) => `"${label}": ${start}`).join(',\n')),
    'one string': (pairs) => boxed(`"${list(Object.fromEntries(pairs))}"`),
    'tags quoted in the reasoning': (pairs) =>
      `It goes between \`<answer>\` and "</answer>", as in \`<answer>A: ?, B: ?</answer>\` or ` +
      `“<answer>”.\n${boxed(list(Object.fromEntries(pairs)))}`,
    'upper-case tags and text before': (pairs) =>
      `A takes 3 steps, so B: 3.\n\n<ANSWER>${pairs.map(([label, start]) => `${label}: ${start}`).join(', ')}</ANSWER>\n`,
  };

  test.each(Object.keys(FORMS))('parse(print(schedule)) is the identity: %s', (form) => {
    const random = new Random(23n);
    for (let trial = 0; trial < 200; trial++) {
      const jobs = random.nextInteger(1, 26);
      const schedule = Object.fromEntries(
        random.shuffle(
          Array.from({ length: jobs }, (_, index): [string, number] => [
            String.fromCharCode(65 + index),
            random.nextInteger(0, 99),
          ]),
        ),
      );
      const parsed = scheduling.parse(FORMS[form]!(Object.entries(schedule)), test100[0]!.problem);
      expect(parsed.ok && parsed.answer).toEqual(schedule);
    }
  });

  test.each([
    ['a second reading of a number: 0 or 0.5', 'A: 0.5', '"."'],
    ['a second reading of a number: 0 or 0,5', 'A: 0,5', '","'],
    ['thousands with a blank that does not break', 'A: 1\u00a0000', '"000"'],
    ['a number before a job on the same line', '1. A: 0, 2. B: 3', '","'],
    ['numbers that do not count from 1', '2. A: 0\n3. B: 3', '"2"'],
    ['a number missing', '1. A: 0\nB: 3', '"B"'],
    ['a quote that does not close', '"A: 0, B: 3', '":"'],
    ['a zero-width space', 'A: 0\u200b', 'U+200B'],
    ['a null byte', 'A: 0\0', 'U+0000'],
    ['a lone surrogate', 'A: 0\ud800', 'U+D800'],
    ['a full-width colon', 'A：0', '"：" (U+FF1A)'],
    ['two periods', 'A: 0..', '"."'],
    ['brackets', 'A: 0 (ends at 3)', '"("'],
  ])('%s is refused, and the message names the character', (_, content, named) => {
    const parsed = scheduling.parse(boxed(content), test100[0]!.problem);
    expect(parsed).toMatchObject({
      ok: false,
      category: 'format',
      detail: expect.stringContaining(named),
    });
  });

  test.each([
    [
      'a quoted block with an answer before another one',
      '`<answer>A: 5</answer>` or <answer>A: 0</answer>',
      'exactly one',
    ],
    [
      'an answer between quoted tags before another one',
      '`<answer>` A: 5 `</answer>` <answer>A: 0</answer>',
      'exactly one',
    ],
    ['tags without quotes', 'It goes into <answer> tags. <answer>A: 0</answer>', 'exactly one'],
    ['a tag quoted after the block', '<answer>A: 0</answer> `</answer>`', 'exactly one'],
    ['a word after the block', '<answer>A: 0</answer>. Done', '"D"'],
  ])('%s is refused, and the message says what stands there', (_, text, named) => {
    expect(scheduling.parse(text, test100[0]!.problem)).toMatchObject({
      ok: false,
      category: 'format',
      detail: expect.stringContaining(named),
    });
  });
});
