import { describe, expect, test } from '@jest/globals';
import { deriveSeed, Random } from '../../src/random.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { openTask } from '../../src/tasks/open-task.js';
import { extract } from '../../src/tasks/extract/extract.js';
import { solvedReply } from '../../src/tasks/extract/prompt.js';
import { DOCUMENTS, drawProblem, TIERS } from '../../src/tasks/extract/generate.js';
import {
  type Extraction,
  type ExtractProblem,
  readExtractProblem,
  type Value,
} from '../../src/tasks/extract/problem.js';
import { POOLS } from '../../src/tasks/extract/vocabulary.js';
import { judgeReply } from '../../src/tasks/verdict.js';
import { spelledValues } from '../models/spelled-values.js';

const frozen = (['test', 'dev'] as const).flatMap((name) =>
  frozenSet<ExtractProblem, Extraction>('extract', name).problems.map(({ problem }) => problem),
);
const generated = TIERS.flatMap(({ id }) =>
  Array.from({ length: 200 }, (_, seed) => extract.generate(id, BigInt(seed)) as ExtractProblem),
);
const all = [...frozen, ...generated];
const judge = (problem: ExtractProblem, text: string) =>
  judgeReply(extract, problem, text, 'stop').verdict;
const text = (problem: ExtractProblem): string =>
  extract
    .prompt(problem, 'plain')
    .map(({ content }) => content)
    .join('\n');

const upperFirst = (sentence: string): string =>
  sentence.charAt(0).toUpperCase() + sentence.slice(1);

describe('messages', () => {
  test('tell the value of each key once, in the words of its role, and nothing of a key whose value is null', () => {
    const wrong: string[] = [];
    for (const problem of all) {
      const { message, schema, expected, today, dayFirst } = problem;
      const mentions = spelledValues(message, today, dayFirst);
      const roles = DOCUMENTS.find((document) =>
        schema.every(({ meaning }) => document.roles.some((role) => role.meaning === meaning)),
      )!.roles;
      for (const { key, kind, meaning } of schema) {
        const role = roles.find((candidate) => candidate.meaning === meaning)!;
        const value = expected[key]!;
        const forms = [role.training, role.frozen].flatMap(({ labels, sentences }) => [
          ...labels.map((label) => `${label}: {}`),
          ...sentences,
        ]);
        const says = (words: string, truth?: boolean): boolean =>
          forms.some((form) => {
            const sentence =
              typeof form === 'string'
                ? form
                : truth === undefined
                  ? form.join('|')
                  : form[truth ? 0 : 1]!;
            return message.includes(upperFirst(sentence.replace('{}', words)));
          });
        const complain = (what: string): number =>
          wrong.push(`${problem.tier} ${key} ${JSON.stringify(value)} ${what}: ${message}`);
        if (kind === 'currency') {
          if (mentions.some(({ currency }) => currency !== undefined && currency !== value))
            complain('another currency');
          if (!mentions.some(({ currency }) => currency === value)) complain('no currency');
        } else if (kind === 'boolean') {
          const told = [true, false].filter((truth) => says(truth ? 'yes' : 'no', truth));
          if (value === null ? told.length > 0 : told.length !== 1 || told[0] !== value)
            complain(`told as ${told}`);
        } else if (kind === 'text') {
          if (value === null) {
            const stated = forms.some(
              (form) =>
                typeof form === 'string' &&
                form.split('{}').every((part) => part.length > 1 && message.includes(part)),
            );
            if (stated) complain('is told');
          } else if (message.split(String(value)).length !== 2 || !says(String(value)))
            complain('is not told once');
        } else {
          const told = mentions
            .filter((mention) => mention.kind === kind && says(mention.words))
            .map((mention) => mention.value);
          if (value === null ? told.length > 0 : told.length !== 1 || told[0] !== value)
            complain(`told as ${told}`);
          if (
            value !== null &&
            mentions.filter((mention) => mention.kind === kind && mention.value === value)
              .length !== 1
          )
            complain('several times');
        }
      }
    }
    expect(all).toHaveLength(600 + 1000);
    expect(wrong).toEqual([]);
  });

  test('are harder tier by tier: more keys, more other things of the same kinds, absent values in the last two alone', () => {
    for (const { id, keys } of TIERS) {
      const problems = all.filter(({ tier }) => tier === id);
      for (const { schema } of problems) expect(schema).toHaveLength(keys);
      const absent = problems.filter(({ expected }) =>
        Object.values(expected).includes(null),
      ).length;
      expect(absent > 0).toBe(id === 'X5' || id === 'X6');
      if (id === 'X6') expect(absent).toBe(problems.length);
    }
    expect(TIERS.filter(({ trains }) => !trains).map(({ id }) => id)).toEqual(['X6']);
    expect(new Set(all.flatMap(({ schema }) => schema.map(({ kind }) => kind))).size).toBe(7);
  });

  test('the same seed gives the same problem, another another', () => {
    for (const { id } of TIERS) {
      expect(extract.generate(id, 7n)).toEqual(extract.generate(id, 7n));
      expect(extract.generate(id, 8n)).not.toEqual(extract.generate(id, 7n));
    }
    expect(new Set(generated.map(({ id }) => id)).size).toBe(generated.length);
  });
});

describe('the frozen sets', () => {
  test('share no name, no word of one, no phrase and no key with training', () => {
    for (const pool of Object.keys(POOLS.training) as (keyof typeof POOLS.training)[]) {
      const trained = new Set(Object.values(POOLS.training).flat(2));
      expect(POOLS.frozen[pool].flat().filter((word) => trained.has(word))).toEqual([]);
    }
    for (const { openings, closings, roles } of DOCUMENTS) {
      for (const phrases of [openings, closings])
        expect(phrases.frozen.filter((phrase) => phrases.training.includes(phrase))).toEqual([]);
      const trained = roles.flatMap(({ training: { keys, labels, sentences } }) => [
        ...keys,
        ...labels,
        ...sentences.flat(),
      ]);
      const unseen = roles.flatMap(({ frozen: { keys, labels, sentences } }) => [
        ...keys,
        ...labels,
        ...sentences.flat(),
      ]);
      expect(unseen.filter((phrase) => trained.includes(phrase))).toEqual([]);
    }
  });

  test('no message of theirs is generated, nor any of their names', () => {
    const ids = new Set(frozen.map(({ id }) => id));
    const names = frozen.flatMap(({ schema, expected }) =>
      schema.flatMap(({ key, kind }) =>
        kind === 'text' && expected[key] !== null ? [String(expected[key])] : [],
      ),
    );
    expect(generated.filter(({ id }) => ids.has(id))).toEqual([]);
    expect(generated.filter(({ message }) => names.some((name) => message.includes(name)))).toEqual(
      [],
    );
  });

  test('are what their seeds give: the first test problem of each tier', () => {
    for (const tier of TIERS) {
      const seed = deriveSeed({
        runSeed: 0n,
        purpose: 'frozen test',
        iteration: 0,
        problemId: `extract/${tier.id}`,
        sample: 0,
      });
      expect(drawProblem('extract', tier, new Random(seed), 'frozen')).toEqual(
        frozen.find((problem) => problem.tier === tier.id),
      );
    }
  });
});

describe('the prompt', () => {
  test('names every key once with its kind, and states every rule that its schema and message need', () => {
    for (const problem of all.filter((_, index) => index % 3 === 0)) {
      const { schema, message, today, dayFirst } = problem;
      const prompt = text(problem);
      const first = extract.prompt(problem, 'plain')[0]!.content;
      for (const { key, meaning } of schema)
        expect(
          first.split('\n').filter((line) => line.startsWith(`"${key}": ${meaning} (`)),
        ).toHaveLength(1);
      for (const rule of [
        'exactly these keys, each once',
        'Write null where a message does not say',
        'JSON object only',
      ])
        expect(first).toContain(rule);
      const kinds = new Set(schema.map(({ kind }) => kind));
      expect(first.includes('Copy text exactly')).toBe(kinds.has('text'));
      expect(first.includes('digits without quotes')).toBe(
        kinds.has('integer') || kinds.has('amount'),
      );
      expect(first.includes('YYYY-MM-DD')).toBe(kinds.has('date'));
      expect(first.includes('HH:MM')).toBe(kinds.has('time'));
      expect(first.includes('€ is EUR')).toBe(kinds.has('currency'));
      if (today !== null) expect(first).toContain(`Today is ${today}.`);
      expect(first.includes('03/04/2026')).toBe(dayFirst !== null);
      if (/\d\/\d/.test(message))
        expect(first).toContain(
          `Dates like 03/04/2026 are ${dayFirst ? 'day/month' : 'month/day'}/year.`,
        );
      expect(prompt.endsWith(message)).toBe(true);
      expect(extract.prompt(problem, 'cot')).toEqual(extract.prompt(problem, 'plain'));
    }
  });

  test('gives no answer away: its worked example passes for no problem, and its names stand in no message', () => {
    for (const problem of all) {
      expect(judge(problem, extract.prompt(problem, 'plain')[1]!.content).kind).toBe('fail');
      for (const name of ['Town Inn', 'Ivy Cole', 'Red Door', 'Bob Dean'])
        expect(problem.message).not.toContain(name);
    }
  });
});

describe('verdicts', () => {
  const some = all.filter((_, index) => index % 5 === 0);
  test('a reference passes with score 1, in a fence too, in any order of the keys', () => {
    for (const problem of some) {
      expect(judge(problem, solvedReply(problem))).toEqual({
        kind: 'pass',
        violations: [],
        metrics: { right: problem.schema.length },
        score: 1,
      });
      expect(
        judge(problem, ` \`\`\`json\n${JSON.stringify(problem.expected, null, 2)}\n\`\`\`\n`).kind,
      ).toBe('pass');
      expect(
        judge(
          problem,
          JSON.stringify(Object.fromEntries(Object.entries(problem.expected).reverse())),
        ).kind,
      ).toBe('pass');
    }
  });

  const other = (value: Value): Value =>
    value === null
      ? ''
      : typeof value === 'string'
        ? `${value.slice(0, -1)}\u0001`
        : typeof value === 'number'
          ? value + 0.01
          : !value;

  test('each key that is changed, of another type, missing or not asked for is a violation of its own name', () => {
    for (const problem of some) {
      const size = problem.schema.length;
      for (const { key } of problem.schema) {
        const change = (value: unknown) =>
          judge(problem, JSON.stringify({ ...problem.expected, [key]: value }));
        const changed = change(other(problem.expected[key]!));
        expect([changed.kind, changed.violations.map(({ jobs }) => jobs), changed.score]).toEqual([
          'fail',
          [[key]],
          (size - 1) / size,
        ]);
        if (problem.expected[key] !== null)
          expect(change(null).violations).toMatchObject([{ category: 'value', jobs: [key] }]);
        const type = typeof problem.expected[key] === 'string' ? 5 : 'five';
        if (problem.expected[key] !== null)
          expect(change(type).violations).toMatchObject([{ category: 'type', jobs: [key] }]);
        expect(change(undefined).violations).toMatchObject([{ category: 'missing', jobs: [key] }]);
      }
      const extra = judge(problem, JSON.stringify({ ...problem.expected, note: 1 }));
      expect([extra.violations.map(({ category }) => category), extra.score]).toEqual([
        ['extra'],
        (size - 1) / size,
      ]);
    }
  });

  test.each(extract.exploits.map((exploit) => [exploit.name, exploit] as const))(
    'exploit: %s does not pass',
    (_name, exploit) => {
      const { verdict } = judgeReply(extract, exploit.problem, exploit.text, exploit.finish);
      expect(verdict.kind).toBe('fail');
      expect(verdict.violations.length).toBeGreaterThan(0);
      expect(extract.feedback!(exploit.problem, verdict)).toContain(
        'Reply with the whole JSON object only',
      );
    },
  );

  test('there are 100 exploits and more, all different, and an honest reply to their problem passes', () => {
    expect(extract.exploits.length).toBeGreaterThanOrEqual(100);
    expect(
      new Set(extract.exploits.map(({ text: reply, finish }) => `${finish} ${reply}`)).size,
    ).toBe(extract.exploits.length);
    for (const { problem } of extract.exploits)
      expect(judge(problem, solvedReply(problem)).kind).toBe('pass');
  });

  test('no policy that does not read meanings passes a quarter of the problems of any tier but the first', () => {
    const passed: string[] = [];
    for (const [name, decide] of Object.entries(extract.trivialPolicies))
      for (const { id } of TIERS.slice(1)) {
        const problems = all.filter(({ tier }) => tier === id);
        const hits = problems.filter(
          (problem) => extract.verify(problem, decide(problem)).kind === 'pass',
        ).length;
        if (hits > problems.length / 4)
          passed.push(`${name} on ${id}: ${hits} of ${problems.length}`);
      }
    expect(passed).toEqual([]);
  });

  test('feedback names keys and never a right value', () => {
    for (const problem of frozen.slice(0, 100)) {
      const wrong = judge(
        problem,
        JSON.stringify(Object.fromEntries(problem.schema.map(({ key }) => [key, 'zzz']))),
      );
      const advice = extract.feedback!(problem, wrong);
      for (const { key, kind } of problem.schema) {
        expect(advice).toContain(`"${key}"`);
        if (kind === 'text' && problem.expected[key] !== null)
          expect(advice).not.toContain(String(problem.expected[key]));
      }
    }
  });
});

describe('the most lenient reading', () => {
  test('finds the object in any text around it, also of a reply that was cut off, and passes nothing wrong', async () => {
    const task = await openTask('extract');
    for (const problem of frozen.filter((_, index) => index % 20 === 0)) {
      const good = solvedReply(problem);
      const lenient = async (reply: string) =>
        (await task.judgeLeniently(problem, reply))!.verdict.kind;
      for (const reply of [
        good,
        `Here it is:\n\`\`\`json\n${good}\n\`\`\`\nDone.`,
        `{"answer": ${good}}`,
        `{"a": 1}\n${good} and {"b": `,
      ])
        expect(await lenient(reply)).toBe('pass');
      expect(await lenient(good.replace(/\}$/, ', "note": "x"}'))).toBe('pass');
      expect(await lenient(good.replace(/: (\d[\d.]*)/g, ': "$1"'))).toBe('pass');
      for (const reply of [
        '',
        'none',
        good.slice(0, -1),
        JSON.stringify({ ...problem.expected, [problem.schema[0]!.key]: 'zzz' }),
      ])
        expect(await lenient(reply)).toBe('fail');
    }
    await task.dispose();
  });

  test('passes whatever the strict one passes', () => {
    for (const problem of frozen)
      expect(
        extract.readLeniently!(solvedReply(problem), problem).map(
          (answer) => extract.verify(problem, answer).kind,
        ),
      ).toEqual(['pass']);
  });
});

test('few-shot examples are solved problems of the tier, none of them the question or frozen', async () => {
  const [question] = frozen;
  const messages = await extract.fewShot!(question!, 'plain', 3, 5n);
  expect(messages).toHaveLength(3 * 4);
  expect(messages).toEqual(await extract.fewShot!(question!, 'plain', 3, 5n));
  expect(messages.map(({ content }) => content).join('\n')).not.toContain(question!.message);
  expect(messages.map(({ role }) => role)).toEqual(
    Array.from({ length: 6 }, () => ['user', 'assistant']).flat(),
  );
});

describe('a problem from outside', () => {
  const problem = frozen[0]!;
  const { id: _id, ...content } = problem;
  const key = problem.schema[0]!.key;
  test('is taken as it was written', () => {
    expect(readExtractProblem('extract', JSON.parse(JSON.stringify(problem)))).toEqual(problem);
    expect(readExtractProblem('extract', content)).toEqual(problem);
  });
  test.each<[string, object]>([
    ['of another task', { ...content, task: 'ladder' }],
    ['with another id', { ...problem, message: 'other' }],
    ['without a message', { ...content, message: '' }],
    ['with a key twice', { ...content, schema: [...content.schema, content.schema[0]!] }],
    [
      'with a key of JavaScript',
      { ...content, schema: [{ ...content.schema[0]!, key: '__proto__' }] },
    ],
    ['with a value missing', { ...content, expected: {} }],
    ['with a value too many', { ...content, expected: { ...content.expected, other: 1 } }],
    [
      'with a value of another kind',
      { ...content, expected: { ...content.expected, [key]: true } },
    ],
    ['with a nested value', { ...content, expected: { ...content.expected, [key]: {} } }],
  ])('%s is refused', (_name, value) => {
    expect(() => readExtractProblem('extract', value)).toThrow(
      expect.objectContaining({ code: 'PROBLEM_INVALID' }),
    );
  });
});
