import { spawnSync } from 'node:child_process';
import {
  appendFileSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, describe, expect, test } from '@jest/globals';
import { refuseNondeterminism, refuseUnsteadyVerdicts } from '../../src/tasks/determinism.js';
import { openTask } from '../../src/tasks/open-task.js';
import type { OpenTask } from '../../src/tasks/task.js';

const folder = mkdtempSync(join(tmpdir(), 'isopro-task-'));
const open: OpenTask[] = [];
afterAll(async () => {
  for (const task of open) await task.dispose();
  rmSync(folder, { recursive: true });
});

const MEMBERS: Record<string, string> = {
  id: `'addition'`,
  version: `'1'`,
  tiers: `[{ id: 'small' }]`,
  generate: `(tier, seed) => ({ a: Number(seed % 10n), b: 3 })`,
  prompt: `(problem) => [{ role: 'user', content: problem.a + ' + ' + problem.b }]`,
  parse: `(text) => ({ ok: true, answer: Number(text), form: 'number' })`,
  verify: `(problem, answer) => ({ kind: answer === problem.a + problem.b ? 'pass' : 'fail', violations: [], metrics: {} })`,
  trivialPolicies: `{ zero: () => 0 }`,
  exploits: `[]`,
};

let files = 0;
const write = (content: string, extension = 'js'): string => {
  const path = join(folder, `task-${++files}.${extension}`);
  writeFileSync(path, content);
  return path;
};
const source = (changes: Record<string, string | null> = {}, before = ''): string =>
  `${before}\nexport default {\n${Object.entries({ ...MEMBERS, ...changes })
    .flatMap(([name, value]) => (value === null ? [] : [`  ${name}: ${value},`]))
    .join('\n')}\n};\n`;
const load = async (path: string): Promise<OpenTask> => {
  const task = await openTask(path);
  open.push(task);
  return task;
};

test('a process that disposes of a task while a verdict comes in goes on', () => {
  const script = `
    import { openTask } from ${JSON.stringify(pathToFileURL(join(process.cwd(), 'dist/src/tasks/open-task.js')).href)};
    import { setImmediate } from 'node:timers/promises';
    for (let i = 0; i < 12; i++) {
      const task = await openTask(process.argv[1]);
      const problem = await task.generate('small', 1n);
      await task.judge(problem, '4', 'stop');
      task.judge(problem, '4', 'stop').catch(() => undefined);
      await setImmediate();
      const until = performance.now() + 30; // the verdict is there and was not taken
      while (performance.now() < until);
      await task.dispose();
    }
    console.log('went on');`;
  const { status, stdout } = spawnSync(
    process.execPath,
    ['--input-type=module', '-e', script, write(source())],
    { encoding: 'utf8' },
  );
  expect([status, stdout]).toEqual([0, 'went on\n']);
}, 60_000);

describe('a task file that gives two results for the same arguments is refused, and the member is named', () => {
  test.each([
    ['generate', { generate: `(tier, seed) => ({ a: 1, b: Math.random() })` }, /differ in b/],
    [
      'generate',
      { generate: `(tier, seed) => ({ a: Number(seed % 10n), b: salt })` },
      /differ in b/,
    ],
    ['generate', { generate: `(tier, seed) => ({ a: calls++, b: 3 })` }, /differ in a/],
    ['generate', { generate: `(tier, seed) => ({ a: 1, b: 3, at: Date.now() })` }, /differ in at/],
    [
      'prompt',
      { prompt: `() => [{ role: 'user', content: String(Math.random()) }]` },
      /two different prompts/,
    ],
    [
      'verify',
      {
        verify: `() => ({ kind: Math.random() < 0.5 ? 'pass' : 'fail' })`,
        tiers: `Array.from({ length: 10 }, (_, i) => ({ id: 't' + i }))`,
      },
      /policy zero/,
    ],
    [
      'verify',
      {
        verify: `() => ({ kind: calls++ % 2 === 0 ? 'pass' : 'fail' })`,
        trivialPolicies: `{}`,
        exploits: `[{ name: 'x', problem: { a: 1 }, text: '1' }, { name: 'y', problem: { a: 2 }, text: '2' }]`,
      },
      /pass and fail|fail and pass/,
    ],
  ])('%s, %j', async (member, changes, message) => {
    const task = await load(write(source(changes, 'const salt = Math.random(); let calls = 0;')));
    await expect(refuseNondeterminism(task, 'plain')).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringMatching(
        new RegExp(`"${member}" is not deterministic.*${message.source}`),
      ),
    });
  });

  test('a deterministic one is not, nor one whose verifier finds no verdict at times', async () => {
    await refuseNondeterminism(await load(write(source())), 'cot');
    await refuseNondeterminism(
      await load(
        write(
          source(
            { verify: `() => ({ kind: calls++ % 2 === 0 ? 'pass' : 'none' })` },
            'let calls = 0;',
          ),
        ),
      ),
      'cot',
    );
    await refuseNondeterminism(await openTask('scheduling'), 'cot');
  });

  test('replies of the model show a verifier that no policy has shown', async () => {
    const task = await load(
      write(
        source(
          {
            verify: `(problem, answer) => ({ kind: answer === 5 && calls++ % 2 === 0 ? 'pass' : 'fail' })`,
          },
          'let calls = 0;',
        ),
      ),
    );
    await refuseNondeterminism(task, 'plain');
    const problem = await task.generate('small', 1n);
    const replies = [
      {
        problem,
        text: '5',
        finish: 'stop' as const,
        judgement: await task.judge(problem, '5', 'stop'),
      },
    ];
    await expect(refuseUnsteadyVerdicts(task, replies)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('pass and fail'),
    });
  });

  test.each([
    [
      'the violations of a reply',
      'verify',
      {
        verify: `() => ({ kind: 'fail', violations: [{ category: calls++ % 2 === 0 ? 'low' : 'high', detail: 'other' }] })`,
      },
    ],
    [
      'the forms of a reply',
      'verify',
      {
        parse: `(text) => ({ ok: true, answer: 1, form: calls++ % 2 === 0 ? 'number' : 'word' })`,
        verify: `() => ({ kind: 'fail' })`,
      },
    ],
    [
      'the findings in a reply that passes',
      'checkTrace',
      {
        verify: `() => ({ kind: 'pass' })`,
        checkTrace: `() => (calls++ % 2 === 0 ? [] : [{ category: 'claim', claimed: '1', actual: '2', excerpt: 'one' }])`,
      },
    ],
  ])(
    '%s, where they are others the second time: a judge holds the log against them too',
    async (_, member, changes) => {
      const task = await load(write(source(changes, 'let calls = 0;')));
      const problem = await task.generate('small', 1n);
      const replies = [
        {
          problem,
          text: '5',
          finish: 'stop' as const,
          judgement: await task.judge(problem, '5', 'stop'),
        },
      ];
      await expect(refuseUnsteadyVerdicts(task, replies)).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringContaining(`"${member}" is not deterministic`),
      });
    },
  );
});

describe("a user's task file", () => {
  test('JavaScript: problems with content hashes, prompts, verdicts, policies', async () => {
    const task = await load(write(source()));
    const problem = await task.generate('small', 14n);
    expect(problem).toMatchObject({ a: 4, b: 3, tier: 'small' });
    expect(problem.id).toMatch(/^[0-9a-f]{64}$/);
    expect((await task.generate('small', 24n)).id).toBe(problem.id);
    expect(await task.prompt(problem, 'plain')).toEqual([{ role: 'user', content: '4 + 3' }]);
    expect((await task.judge(problem, '7', 'stop')).verdict.kind).toBe('pass');
    expect((await task.judge(problem, '8', 'stop')).verdict.kind).toBe('fail');
    expect((await task.judge(problem, '7', 'length')).verdict.violations[0]!.category).toBe(
      'truncated',
    );
    expect((await task.applyPolicy('zero', problem)).kind).toBe('fail');
    expect(task.source).toMatchObject({ kind: 'file' });
  });

  test('its most lenient reading passes where any answer in a reply does, cut off or not; its grammar is there to decode by', async () => {
    const readLeniently = `(text) => (text === 'malformed' ? 7 : (text.match(/-?\\d+/g) ?? []).map(Number))`;
    const verify = `(problem, answer) => {
      if (answer < 0) throw new Error('below zero');
      return { kind: answer === problem.a + problem.b ? 'pass' : 'fail', violations: [] };
    }`;
    const task = await load(
      write(source({ readLeniently, verify, answerGrammar: `'root ::= [0-9]+'` })),
    );
    const problem = await task.generate('small', 14n);
    const kind = async (text: string) => (await task.judgeLeniently(problem, text))!.verdict.kind;
    expect(await task.judgeLeniently(problem, 'It is 6, no, 7 or 8, so')).toMatchObject({
      verdict: { kind: 'pass' },
      form: 'lenient',
    });
    expect(await kind('6 or 8')).toBe('fail');
    expect(await kind('6 or -1')).toBe('none');
    expect(await kind('-1 or 7')).toBe('pass');
    expect(await kind(`${'1 '.repeat(15)}7`)).toBe('pass');
    expect(await kind(`${'1 '.repeat(16)}7`)).toBe('fail');
    expect(await task.judgeLeniently(problem, 'seven')).toMatchObject({
      verdict: { kind: 'fail' },
      form: null,
    });
    await expect(task.judgeLeniently(problem, 'malformed')).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('readLeniently'),
    });
    expect(task.answerGrammar).toBe('root ::= [0-9]+');
    const without = await load(write(source()));
    expect([await without.judgeLeniently(problem, '7'), without.answerGrammar]).toEqual([
      null,
      null,
    ]);
    await expect(openTask(write(source({ answerGrammar: `''` })))).rejects.toMatchObject({
      code: 'TASK_INVALID',
    });
  });

  test('its references are solved examples where it has none of its own, of other questions', async () => {
    const task = await load(
      write(source({ referenceReply: `(problem) => String(problem.a + problem.b)` })),
    );
    const problem = await task.generate('small', 4n);
    const examples = (await task.fewShot(problem, 'plain', 3, 1n))!;
    expect(examples.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    const asked = examples.flatMap(({ role, content }) => (role === 'user' ? [content] : []));
    expect(new Set([...asked, '4 + 3']).size).toBe(4);
    for (const [i, question] of asked.entries())
      expect(Number(examples[2 * i + 1]!.content)).toBe(Number(question[0]) + 3);
    expect(await task.fewShot(problem, 'plain', 3, 1n)).toEqual(examples);
    expect(await (await load(write(source()))).fewShot(problem, 'plain', 1, 1n)).toBeNull();
  });

  test('a problem that was borrowed from another task is of the tier that was asked for', async () => {
    const task = await load(
      write(source({ generate: `() => ({ a: 1, b: 3, tier: 'T0', id: 'borrowed' })` })),
    );
    expect(await task.generate('small', 1n)).toMatchObject({
      tier: 'small',
      id: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
  });

  test('TypeScript that imports from isopro-native, in fewer than 40 lines', async () => {
    const text = `import { defineTask, Random } from 'isopro-native';
interface Sum { a: number; b: number }
export default defineTask<Sum, number>({
  id: 'addition',
  version: '1',
  tiers: [{ id: 'small' }],
  generate(_tier: string, seed: bigint): Sum {
    const random = new Random(seed);
    return { a: random.nextInteger(0, 9), b: random.nextInteger(0, 9) };
  },
  prompt: ({ a, b }) => [{ role: 'user', content: \`What is \${a} + \${b}?\` }],
  parse: (text) =>
    /^\\d+$/.test(text)
      ? { ok: true, answer: Number(text), form: 'number' }
      : { ok: false, category: 'format', detail: 'not a number' },
  verify: ({ a, b }, answer) => ({ kind: answer === a + b ? 'pass' : 'fail' }),
});
`;
    const task = await load(write(text, 'ts'));
    const problem = (await task.generate('small', 1n)) as unknown as {
      a: number;
      b: number;
      id: string;
      tier: string;
    };
    expect((await task.judge(problem, String(problem.a + problem.b), 'stop')).verdict.kind).toBe(
      'pass',
    );
    expect((await task.judge(problem, 'seven', 'stop')).verdict.violations[0]!.category).toBe(
      'format',
    );
  });

  /** A task whose verdict is a package's and whose problems are a neighbour's. */
  const imported = (at: string, { verdict = 'pass', words = '["x"]' } = {}): string => {
    const put = (file: string, content: string): void => {
      mkdirSync(dirname(join(at, file)), { recursive: true });
      writeFileSync(join(at, file), content);
    };
    put('node_modules/verdicts/package.json', '{"name":"verdicts","main":"lib.js"}');
    put(
      'node_modules/verdicts/lib.js',
      `const { basename } = require('path'); exports.kind = '${verdict}'; exports.file = basename(__filename);`,
    );
    put(
      'words/words.ts',
      `import list from './list.json' with { type: 'json' };\nexport const words: string[] = list;\nexport const place = import.meta.url;`,
    );
    put('words/list.json', words);
    put(
      'task.ts',
      source(
        {
          generate: `() => ({ a: 1, b: 2, word: words[0], place, file })`,
          verify: `(problem, answer) => (Number.isNaN(answer) ? process.exit(0) : { kind })`,
        },
        `import { kind, file } from 'verdicts';\nimport { words, place } from './words/words.js';`,
      ),
    );
    return join(at, 'task.ts');
  };
  const hashOf = async (path: string): Promise<string> =>
    ((await load(path)).source as { sha256: string }).sha256;

  test('is one with everything that it imports: files, JSON, packages in ESM and CommonJS, each at its own place', async () => {
    const path = imported(join(folder, 'imports'));
    const task = await load(path);
    const problem = await task.generate('small', 1n);
    expect(problem).toMatchObject({
      word: 'x',
      file: 'lib.js',
      place: pathToFileURL(join(folder, 'imports', 'words', 'words.ts')).href,
    });
    expect((await task.judge(problem, '1', 'stop')).verdict.kind).toBe('pass');
  });

  test("has a hash that covers its imports, and no folder's name", async () => {
    const own = await hashOf(imported(join(folder, 'own')));
    expect(await hashOf(imported(join(folder, 'elsewhere', 'deeper')))).toBe(own);
    const changed = [
      await hashOf(imported(join(folder, 'helper'), { words: '["y"]' })),
      await hashOf(imported(join(folder, 'package'), { verdict: 'fail' })),
    ];
    expect(new Set([own, ...changed]).size).toBe(3);
    const misnamed = imported(join(folder, 'misnamed'));
    renameSync(
      join(folder, 'misnamed', 'words', 'words.ts'),
      join(folder, 'misnamed', 'words', 'other.ts'),
    );
    await expect(openTask(misnamed)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringMatching(/words\/words\.js.*task\.ts/s),
    });
  });

  test('has a hash that covers a native addon of its packages, which is loaded from where it lies', async () => {
    const [at, addon] = [join(folder, 'native'), join(folder, 'native', 'node_modules', 'addon')];
    mkdirSync(addon, { recursive: true });
    copyFileSync(
      createRequire(import.meta.url).resolve('better-sqlite3/build/Release/better_sqlite3.node'),
      join(addon, 'addon.node'),
    );
    writeFileSync(
      join(addon, 'index.js'),
      `exports.size = Object.keys(require('./addon.node')).length;`,
    );
    writeFileSync(
      join(at, 'task.mjs'),
      source({ generate: `() => ({ a: 1, b: 2, size })` }, `import { size } from 'addon';`),
    );
    const task = await load(join(at, 'task.mjs'));
    expect(
      ((await task.generate('small', 1n)) as unknown as { size: number }).size,
    ).toBeGreaterThan(0);
    appendFileSync(join(addon, 'addon.node'), 'x');
    expect(await hashOf(join(at, 'task.mjs'))).not.toBe((task.source as { sha256: string }).sha256);
  });

  test(
    'does not change under a run: a file that is exchanged later is not read, even where its thread has to be started ' +
      'anew',
    async () => {
      const at = join(folder, 'exchanged');
      const task = await load(imported(at));
      imported(at, { verdict: 'fail', words: '["y"]' });
      writeFileSync(join(at, 'task.ts'), source({ verify: `() => ({ kind: 'fail' })` }));
      const problem = await task.generate('small', 1n);
      expect(problem).toMatchObject({ word: 'x' });
      expect((await task.judge(problem, 'end', 'stop')).verdict).toMatchObject({
        kind: 'none',
        reason: expect.stringContaining('thread'),
      });
      expect((await task.judge(problem, '1', 'stop')).verdict.kind).toBe('pass');
    },
  );

  test.each(['id', 'version', 'tiers', 'generate', 'prompt', 'parse', 'verify'])(
    'a file without %s is refused by name',
    async (member) => {
      await expect(openTask(write(source({ [member]: null })))).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringContaining(`"${member}"`),
      });
    },
  );

  test('a file that throws, does not parse, exports nothing or is absent is a typed error', async () => {
    await expect(openTask(write(source({}, `throw new Error('no luck');`)))).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('no luck'),
    });
    await expect(openTask(write('export default {'))).rejects.toMatchObject({
      code: 'TASK_INVALID',
    });
    await expect(openTask(write('export const other = 1;'))).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('default'),
    });
    await expect(openTask(join(folder, 'absent.ts'))).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
    });
    await expect(openTask('no-such-task')).rejects.toMatchObject({ code: 'TASK_UNKNOWN' });
    const place = join(folder, 'place');
    mkdirSync(place);
    for (const name of ['sums.ts', 'types.d.ts', 'rows.csv', 'old.py', 'notes.md'])
      writeFileSync(join(place, name), '');
    await expect(openTask(place)).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
      message: `${place} is a folder; a task is a single file`,
      remedy: `Name the file: python:${join(place, 'old.py')}, ${join(place, 'rows.csv')}, ${join(place, 'sums.ts')}.`,
    });
    await expect(openTask(join(place, 'sums'))).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
      message: `there is no ${join(place, 'sums')}, but there is ${join(place, 'sums.ts')}`,
      remedy: `Name the file: ${join(place, 'sums.ts')}.`,
    });
    await expect(openTask(join(place, 'old.py'))).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
      remedy: `Name the task python:${join(place, 'old.py')}.`,
    });
    await expect(openTask(join(place, 'rows.xlsx'))).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
      remedy: expect.stringContaining('CSV'),
    });
    await expect(openTask(write(source({}, `process.exit(3);`)))).rejects.toMatchObject({
      code: 'TASK_INVALID',
    });
  });

  test('a built-in task cannot be impersonated', async () => {
    await expect(openTask(write(source({ id: `'scheduling'` })))).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('"id"'),
    });
  });

  test('an unknown tier is a typed error', async () => {
    const task = await load(write(source()));
    await expect(task.generate('huge', 1n)).rejects.toMatchObject({ code: 'TIER_UNKNOWN' });
    const builtIn = await openTask('scheduling');
    await expect(builtIn.generate('T9', 1n)).rejects.toMatchObject({ code: 'TIER_UNKNOWN' });
  });

  test('an exception inside parse or verify is no verdict, with its message', async () => {
    const verifying = await load(
      write(source({ verify: `() => { throw new Error('division by zero'); }` })),
    );
    expect(
      (await verifying.judge(await verifying.generate('small', 1n), '7', 'stop')).verdict,
    ).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('division by zero'),
    });
    expect(
      await verifying.applyPolicy('zero', await verifying.generate('small', 1n)),
    ).toMatchObject({ kind: 'none' });
    const parsing = await load(write(source({ parse: `() => { throw 'a string'; }` })));
    expect(
      (await parsing.judge(await parsing.generate('small', 1n), '7', 'stop')).verdict,
    ).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('a string'),
    });
  });

  test.each([
    ['verify', `() => ({ kind: 'maybe' })`, 'verdict.kind'],
    ['verify', `() => true`, 'verdict'],
    ['verify', `() => ({ kind: 'fail', violations: [{}] })`, 'verdict.violations.0.category'],
    ['verify', `() => undefined`, 'verdict'],
    ['parse', `() => 'seven'`, 'parsed'],
  ])(
    'a malformed result of %s is a typed error that names the member',
    async (member, code, place) => {
      const task = await load(write(source({ [member]: code })));
      await expect(task.judge(await task.generate('small', 1n), '7', 'stop')).rejects.toMatchObject(
        {
          code: 'TASK_INVALID',
          message: expect.stringMatching(new RegExp(`"${member}".*${place}`, 's')),
        },
      );
    },
  );

  test('what it throws is shown once for a place, by file and line as it was written, and not where prints are not shown', () => {
    mkdirSync(join(folder, 'thrown'), { recursive: true });
    writeFileSync(
      join(folder, 'thrown', 'helper.ts'),
      `interface Sum { a: number }\n\nexport function of(sum: Sum): never {\n  throw new RangeError('no ' + sum.a);\n}\n`,
    );
    const file = join(folder, 'thrown', 'task.ts');
    const members = {
      verify: `(problem) => of(problem)`,
      generate: `(_, seed) => { if (seed === 9n) throw new Error('odd'); return { a: 1 } }`,
    };
    writeFileSync(file, source(members, `import { of } from './helper.ts';`));
    const script = `
      import { openTask } from ${JSON.stringify(pathToFileURL(join(process.cwd(), 'dist/src/tasks/open-task.js')).href)};
      const task = await openTask(process.argv[1], { silent: process.argv[2] === 'silent' });
      const problem = await task.generate('small', 1n);
      for (const text of ['1', '2']) console.log((await task.judge(problem, text, 'stop')).verdict.reason);
      await task.generate('small', 9n).catch(({ message }) => console.log(message));
      await task.dispose();`;
    const ran = (...flags: string[]) =>
      spawnSync(process.execPath, ['--input-type=module', '-e', script, file, ...flags], {
        encoding: 'utf8',
      });
    const shown = ran();
    expect(shown.stderr).toBe(
      'helper.ts:4: verify threw RangeError: no 1 (further errors from this line are not shown)\n',
    );
    expect(shown.stdout.split('\n')).toEqual([
      'verify threw: no 1',
      'verify threw: no 1',
      `${file}: member "generate" threw: odd (task.ts:6)`,
      '',
    ]);
    expect(ran('silent')).toMatchObject({ stderr: '', stdout: shown.stdout });
  });

  test('what it posts from its thread, throws without words, or says with half a character does no harm', async () => {
    const before = `import { parentPort } from 'node:worker_threads';\nparentPort.postMessage(null); parentPort.postMessage(7);`;
    const verify = `(problem, answer) => {
      parentPort.postMessage(undefined);
      if (answer === 1) throw Object.create(null);
      return { kind: 'fail', violations: [{ category: 'half \\ud83d', jobs: [], amount: 1, detail: 'x' }] };
    }`;
    const task = await load(
      write(
        source(
          {
            verify,
            step: `(problem, replies) => 'You said ' + replies[0].slice(0, 3)`,
            limits: `{ turns: 2 }`,
          },
          before,
        ),
      ),
    );
    const problem = await task.generate('small', 1n);
    expect((await task.judge(problem, '1', 'stop')).verdict).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('verify threw'),
    });
    expect((await task.judge(problem, '2', 'stop')).verdict.violations[0]!.category).toBe(
      'half \ufffd',
    );
    expect(await task.step(problem, ['ab😀'])).toBe('You said ab\ufffd');
  });

  test('generate and prompt that throw or return nonsense are typed errors that name the member', async () => {
    for (const generate of [
      `() => { throw new Error('x'); }`,
      `() => 7`,
      `() => ({ f() {} })`,
      `() => ({ big: 1n })`,
      `() => ({ nan: NaN })`,
    ]) {
      const task = await load(write(source({ generate })));
      await expect(task.generate('small', 1n)).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringContaining('"generate"'),
      });
    }
    const task = await load(write(source({ prompt: `() => 'What?'` })));
    await expect(task.prompt(await task.generate('small', 1n), 'cot')).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('"prompt"'),
    });
  });

  test('a verifier that hangs, exhausts its memory or ends its thread has no verdict, and the next reply is judged', async () => {
    const verify = `(problem, answer) => {
      if (answer === 1) for (;;);
      if (answer === 2) process.exit(0);
      if (answer === 3) { const hoard = []; for (;;) hoard.push(new Array(1e6).fill(answer)); }
      return { kind: 'pass' };
    }`;
    const task = await load(write(source({ verify })));
    const problem = await task.generate('small', 1n);
    for (const reply of ['1', '2', '3']) {
      expect((await task.judge(problem, reply, 'stop')).verdict).toMatchObject({
        kind: 'none',
        reason: expect.stringContaining('no verdict'),
      });
      expect((await task.judge(problem, '4', 'stop')).verdict.kind).toBe('pass');
    }
  });

  test('generate that hangs is a typed error after 5 seconds', async () => {
    const task = await load(write(source({ generate: `() => { for (;;); }` })));
    const started = performance.now();
    await expect(task.generate('small', 1n)).rejects.toMatchObject({
      code: 'TASK_TIMEOUT',
      message: expect.stringContaining('"generate"'),
    });
    expect(performance.now() - started).toBeLessThan(8_000);
  });
});

(process.env.ISOPRO_FULL === '1' ? test : test.skip)(
  'a file that hangs while it is loaded is told from a member that does',
  async () => {
    await expect(load(write(`for (;;);${source()}`))).rejects.toMatchObject({
      code: 'TASK_TIMEOUT',
      message: expect.stringMatching(/did not load: it took longer than 60 seconds$/),
      remedy: expect.stringContaining('while it loads'),
    });
  },
);

describe('a verifier that takes its time', () => {
  /**
   * What happens depends on the answer; the verdict says in which thread, and how often this thread
   * was told to stop.
   */
  const TIMED = {
    limits: `{ verifySeconds: 0.5 }`,
    verify: `async (problem, answer, { signal }) => {
      const wait = (ms) => new Promise((resume) => setTimeout(resume, ms));
      if (answer === 1) { await new Promise((resume) => signal.addEventListener('abort', resume)); told++; }
      if (answer === 2) await new Promise(() => undefined);
      if (answer === 3) for (;;);
      if (answer === 4) for (const end = Date.now() + 800; Date.now() < end; );
      if (answer === 5) throw new Error('no such table');
      if (answer >= 10) await wait(answer);
      return { kind: 'pass', metrics: { told, thread: threadId, answer } };
    }`,
  };
  const timed = (changes: Record<string, string> = {}): string =>
    write(
      source(
        { ...TIMED, ...changes },
        `import { threadId } from 'node:worker_threads';\nlet told = 0;`,
      ),
    );

  test('may be a promise, and one that is rejected is no verdict', async () => {
    const task = await load(timed());
    const problem = await task.generate('small', 1n);
    expect((await task.judge(problem, '20', 'stop')).verdict.kind).toBe('pass');
    expect((await task.judge(problem, '5', 'stop')).verdict).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('no such table'),
    });
    expect((await task.applyPolicy('zero', problem)).kind).toBe('pass');
  });

  test('has no verdict past the limit that the task declares: one that listens to its signal keeps its thread', async () => {
    const task = await load(timed());
    const problem = await task.generate('small', 1n);
    const before = (await task.judge(problem, '20', 'stop')).verdict.metrics;
    expect((await task.judge(problem, '1', 'stop')).verdict).toEqual({
      kind: 'none',
      violations: [],
      metrics: {},
      reason: 'the verifier gave no verdict: it took longer than 0.5 seconds',
    });
    expect((await task.judge(problem, '20', 'stop')).verdict.metrics).toEqual({
      ...before,
      told: 1,
    });
  });

  test.each([
    ['never settles', '2'],
    ['never gives its thread back', '3'],
  ])('and one that %s loses its thread soon after', async (_, reply) => {
    const task = await load(timed());
    const problem = await task.generate('small', 1n);
    const { thread } = (await task.judge(problem, '20', 'stop')).verdict.metrics;
    const started = performance.now();
    expect((await task.judge(problem, reply, 'stop')).verdict).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('0.5 seconds'),
    });
    expect(performance.now() - started).toBeLessThan(4_000);
    const next = (await task.judge(problem, '20', 'stop')).verdict;
    expect(next.kind).toBe('pass');
    expect(next.metrics.thread).not.toBe(thread);
  });

  test('and a verdict that comes too late is none, although it came', async () => {
    const task = await load(timed());
    expect((await task.judge(await task.generate('small', 1n), '4', 'stop')).verdict.kind).toBe(
      'none',
    );
  });

  test('is told when nobody waits any more, and the next reply is judged', async () => {
    const task = await load(timed({ limits: `{ verifySeconds: 60 }` }));
    const problem = await task.generate('small', 1n);
    await task.judge(problem, '20', 'stop');
    for (const reply of ['1', '2']) {
      const controller = new AbortController();
      const judging = [
        task.judge(problem, reply, 'stop', { signal: controller.signal }),
        task.judge(problem, '20', 'stop'),
      ] as const;
      setTimeout(() => controller.abort(), 50);
      await expect(judging[0]).rejects.toMatchObject({ code: 'ABORTED' });
      // the second had to have its thread ended
      expect((await judging[1]).verdict.metrics.told).toBe(reply === '1' ? 1 : 0);
    }
    await expect(
      task.judge(problem, '20', 'stop', { signal: AbortSignal.abort() }),
    ).rejects.toMatchObject({ code: 'ABORTED' });
  });

  test.each([
    `{ verifySeconds: 0 }`,
    `{ verifySeconds: NaN }`,
    `{ verifySeconds: 1e9 }`,
    `{ verifyMs: 5 }`,
  ])('a limit of %s is a typed error', async (limits) => {
    await expect(openTask(timed({ limits }))).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('"limits"'),
    });
  });

  test('several threads judge at once, and their verdicts come out in the order of the replies', async () => {
    const task = await openTask(timed({ limits: `{ verifySeconds: 20 }` }), { verifierThreads: 3 });
    open.push(task);
    const problem = await task.generate('small', 1n);
    const replies = [900, 10, 300, 11, 1, 12, 13].map(String); // the fifth waits until it is told
    const cut = new AbortController();
    const order: string[] = [];
    const threads = new Set<number>();
    const judging = replies.map((reply) =>
      task
        .judge(problem, reply, 'stop', reply === '1' ? { signal: cut.signal } : {})
        .then(({ verdict: { metrics } }) => void threads.add(metrics.thread!))
        .catch(() => undefined)
        .then(() => order.push(reply)),
    );
    setTimeout(() => cut.abort(), 1_500);
    await Promise.all(judging);
    expect(order).toEqual(replies);
    expect(threads.size).toBe(3);
  });
});

describe('the figures of a verdict', () => {
  const verdictOf = async (verdict: string): Promise<unknown> => {
    const task = await load(write(source({ verify: `() => (${verdict})` })));
    return (await task.judge(await task.generate('small', 1n), '7', 'stop')).verdict;
  };

  test.each([
    `{ kind: 'fail', score: 0.25 }`,
    `{ kind: 'pass', score: 1 }`,
    `{ kind: 'fail', score: 0 }`,
    `{ kind: 'pass', forecast: { probability: 0.75, outcome: true } }`,
  ])('%s is a verdict', async (verdict) => {
    expect(await verdictOf(verdict)).toMatchObject(new Function(`return ${verdict}`)() as object);
  });

  test.each([
    [`{ kind: 'pass', score: 1.5 }`, 'verdict.score'],
    [`{ kind: 'pass', score: -0.1 }`, 'verdict.score'],
    [`{ kind: 'pass', score: NaN }`, 'verdict.score'],
    [`{ kind: 'pass', score: '1' }`, 'verdict.score'],
    [`{ kind: 'none', score: 0 }`, 'verdict.score'],
    [`{ kind: 'none', forecast: { probability: 0.5, outcome: true } }`, 'verdict.forecast'],
    [
      `{ kind: 'pass', forecast: { probability: 75, outcome: true } }`,
      'verdict.forecast.probability',
    ],
    [
      `{ kind: 'pass', forecast: { probability: NaN, outcome: true } }`,
      'verdict.forecast.probability',
    ],
    [`{ kind: 'pass', forecast: { probability: 0.5, outcome: 1 } }`, 'verdict.forecast.outcome'],
    [`{ kind: 'pass', forecast: { probability: 0.5 } }`, 'verdict.forecast.outcome'],
  ])('%s is a typed error at %s', async (verdict, place) => {
    await expect(verdictOf(verdict)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringMatching(new RegExp(`"verify" ${place.replaceAll('.', '\\.')}: `)),
    });
  });

  test.each([
    ['score', `({ kind: 'pass', score: calls++ % 2 === 0 ? 0.5 : 0.6 })`],
    [
      'forecast',
      `({ kind: 'pass', forecast: { probability: calls++ % 2 === 0 ? 0.5 : 0.6, outcome: true } })`,
    ],
  ])(
    'a %s that differs the second time is refused: a judge holds the log against it',
    async (_, verdict) => {
      const task = await load(write(source({ verify: `() => ${verdict}` }, 'let calls = 0;')));
      const problem = await task.generate('small', 1n);
      const replies = [
        {
          problem,
          text: '5',
          finish: 'stop' as const,
          judgement: await task.judge(problem, '5', 'stop'),
        },
      ];
      await expect(refuseUnsteadyVerdicts(task, replies)).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringMatching(/"verify" is not deterministic.*0\.5.*0\.6/),
      });
    },
  );
});
