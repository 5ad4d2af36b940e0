/**
 * Tasks in Python: the contract of a module, what a hostile or broken one may not do, and the
 * identity of its code.
 */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { hasEnded } from '../../src/files.js';
import { judgeRun } from '../../src/judge/judge.js';
import { refuseNondeterminism } from '../../src/tasks/determinism.js';
import { openTask } from '../../src/tasks/open-task.js';
import type { OpenTask, Verdict } from '../../src/tasks/task.js';
import { run } from '../../src/training/loop.js';
import { shortestRun, writeLetterModel } from '../models/letters.js';

const PYTHON = process.platform === 'win32' ? 'python' : 'python3';
const hasPython =
  spawnSync(PYTHON, ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']).status === 0;
if (!hasPython) console.warn('skipped: Python 3.10 is not here');
const suite = hasPython ? describe : describe.skip;

/** The packages are large: they are tried where the interpreter that a user would name has them. */
const has = (module: string): boolean => {
  const found =
    spawnSync(process.env.ISOPRO_PYTHON || PYTHON, ['-c', `import ${module}`]).status === 0;
  if (!found) console.warn(`skipped: ${module} is not installed for ISOPRO_PYTHON or ${PYTHON}`);
  return found;
};

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-python-'));
const open: OpenTask[] = [];
beforeAll(() => {
  process.env.ISOPRO_HOME = path.join(folder, 'home');
});
afterAll(async () => {
  delete process.env.ISOPRO_HOME;
  for (const task of open) await task.dispose();
  rmSync(folder, { recursive: true });
});

const FUNCTIONS: Record<string, string> = {
  tiers: `def tiers():\n    return ["small", {"id": "large", "trains": False}]`,
  problem: `def problem(tier, seed):\n    return {"a": seed % 10, "b": 3 if tier == "small" else 30}`,
  prompt: `def prompt(problem):\n    return f"{problem['a']} + {problem['b']} = ?"`,
  verify: `def verify(problem, reply):
    if not reply.strip().isdigit():
        return {"outcome": "fail", "category": "format", "reason": "no number"}
    return int(reply) == problem["a"] + problem["b"]`,
};
const source = (changes: Record<string, string> = {}, before = ''): string =>
  `${before}\n\n${Object.values({ ...FUNCTIONS, ...changes }).join('\n\n')}\n`;
let files = 0;
const write = (content: string): string => {
  const file = path.join(folder, `task_${++files}.py`);
  writeFileSync(file, content);
  return file;
};
const load = async (file: string, verifierThreads = 1): Promise<OpenTask> => {
  const task = await openTask(`python:${file}`, { verifierThreads });
  open.push(task);
  return task;
};
/** A task whose verifier runs `body` for the reply `now`, and is right about everything else. */
const tempted = (body: string, before: string, seconds: number): Promise<OpenTask> =>
  load(
    write(
      source(
        {
          verify: `def verify(problem, reply):\n    if reply == "now":\n        ${body}\n    return reply == "yes"`,
        },
        `${before}\nVERIFY_SECONDS = ${seconds}`,
      ),
    ),
  );
const verdictOf = async (task: OpenTask, text: string): Promise<Verdict> => {
  const problem = await task.generate('small', 1n);
  return (await task.judge(problem, text, 'stop')).verdict;
};
const ends = async (pid: number): Promise<boolean> => {
  for (let i = 0; i < 400 && !hasEnded(pid); i++) await new Promise((next) => setTimeout(next, 50));
  return hasEnded(pid);
};

suite('a module', () => {
  test('gives problems under the hash of their content, prompts, verdicts and what kind of answer it read', async () => {
    const task = await load(write(source()));
    expect(task.tiers).toEqual([
      { id: 'small', title: 'small', trains: true },
      { id: 'large', title: 'large', trains: false },
    ]);
    expect(task.version).toMatch(/^[0-9a-f]{12}$/);
    const problem = await task.generate('small', 2n ** 64n - 1n);
    expect(problem).toMatchObject({ a: 5, b: 3, tier: 'small' }); // 18446744073709551615
    expect(await task.generate('small', 5n)).toEqual(problem);
    expect((await task.generate('large', 5n)).id).not.toBe(problem.id);
    expect(await task.prompt(problem, 'cot')).toEqual([{ role: 'user', content: '5 + 3 = ?' }]);
    expect(await task.judge(problem, '8', 'stop')).toEqual({
      verdict: { kind: 'pass', violations: [], metrics: {} },
      form: 'answer',
    });
    expect(await task.judge(problem, '9', 'stop')).toMatchObject({
      verdict: { kind: 'fail' },
      form: 'answer',
    });
    expect(await task.judge(problem, 'eight', 'stop')).toMatchObject({
      verdict: { kind: 'fail', violations: [{ category: 'format', detail: 'no number' }] },
      form: null,
    });
    expect(await task.judge(problem, '8', 'length')).toMatchObject({
      verdict: { violations: [{ category: 'truncated' }] },
      form: null,
    });
    expect(await task.readAnswer(problem, ' 8\n')).toBe('"8"');
    expect(await task.readAnswer(problem, 'eight')).toBeNull();
    await expect(task.generate('huge', 1n)).rejects.toMatchObject({ code: 'TIER_UNKNOWN' });
  });

  test('may score, decide nothing, name its own id, version, policies and solutions', async () => {
    const task = await load(
      write(
        source(
          {
            verify: `def verify(problem, reply):
    if reply == "unsure":
        return {"outcome": "none", "reason": "two readings"}
    return {"outcome": "pass" if reply == "8" else "fail", "score": 0.25, "answer": [reply.lower()]}`,
            prompt: `def prompt(problem, style):\n    return [{"role": "user", "content": f"{style} {problem['a']}"}]`,
          },
          `ID = "sums"\nVERSION = "7"\nPOLICIES = {"eight": lambda problem: "8"}\ndef solution(problem): return "8"`,
        ),
      ),
    );
    expect([task.id, task.version, task.policies]).toEqual(['sums', '7', ['eight']]);
    const problem = await task.generate('small', 5n);
    expect((await task.judge(problem, '8', 'stop')).verdict).toMatchObject({
      kind: 'pass',
      score: 0.25,
    });
    expect((await task.judge(problem, '9', 'stop')).verdict).toMatchObject({
      kind: 'fail',
      score: 0.25,
    });
    expect((await task.judge(problem, 'unsure', 'stop')).verdict).toMatchObject({
      kind: 'none',
      reason: 'two readings',
    });
    expect(await task.readAnswer(problem, 'EIGHT')).toBe('["eight"]');
    expect(await task.applyPolicy('eight', problem)).toMatchObject({ kind: 'pass' });
    expect(await task.prompt(problem, 'plain')).toEqual([{ role: 'user', content: 'plain 5' }]);
    const examples = (await task.fewShot(problem, 'cot', 2, 1n))!;
    expect(examples.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    expect(await task.fewShot(problem, 'cot', 2, 1n)).toEqual(examples);
    expect(await task.referenceReply(problem, 'cot')).toBe('8');
  });

  test('of the examples judges by what a Roman numeral is', async () => {
    const task = await load('examples/own_task.py');
    await refuseNondeterminism(task, 'cot');
    const problem = { ...(await task.generate('thousands', 1n)), number: 1994 };
    for (const [reply, kind, form] of [
      ['MCMXCIV', 'pass', 'answer'],
      ['MCMXCVI', 'fail', 'answer'],
      ['1994', 'fail', null],
    ] as const)
      expect(await task.judge(problem, reply, 'stop')).toMatchObject({ verdict: { kind }, form });
    expect(await task.fewShot(problem, 'cot', 2, 1n)).toHaveLength(4);
  });

  test('is a part of a file where it is named so, made first where it is a class', async () => {
    const file = write(
      `class Sums:\n    ID = "in a class"\n${Object.values(FUNCTIONS)
        .join('\n\n')
        .replace(/def (\w+)\(/g, 'def $1(self, ')
        .replaceAll(', )', ')')
        .replace(/^(?=.)/gm, '    ')}\n`,
    );
    const task = await openTask(`python:${file}:Sums`);
    open.push(task);
    expect(task.id).toBe('in a class');
    expect(await verdictOf(task, '4')).toMatchObject({ kind: 'pass' });
    await expect(openTask(`python:${file}:Absent`)).rejects.toMatchObject({ code: 'TASK_UNKNOWN' });
  });

  test('that draws from a global generator gives the same each time, and one that reads the clock is refused', async () => {
    const random = await load(
      write(
        source(
          {
            problem: `def problem(tier, seed):\n    return {"a": random.randrange(1000), "b": 3, "c": str({"x", "y", "z"})}`,
          },
          'import random',
        ),
      ),
    );
    await random.generate('small', 2n);
    const first = await random.generate('small', 1n);
    expect(await random.generate('small', 1n)).toEqual(first);
    await refuseNondeterminism(random, 'cot');
    const dates = [
      'import time',
      'import datetime',
      'from datetime import date, datetime as moment',
    ].join('\n');
    const made = (a: string) =>
      load(
        write(
          source({ problem: `def problem(tier, seed):\n    return {"a": ${a}, "b": 3}` }, dates),
        ),
      );
    await refuseNondeterminism(
      await made(
        '(moment(2024, 1, 1) + datetime.timedelta(days=seed % 9)).day * isinstance(moment.fromtimestamp(0), moment)',
      ),
      'cot',
    );
    for (const read of [
      'time.time_ns() % 10**9',
      'date.today().year',
      'moment.now().year',
      'int(time.strftime("%Y"))',
      'time.gmtime().tm_year',
    ])
      await expect(refuseNondeterminism(await made(read), 'cot')).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringContaining('"generate" is not deterministic'),
      });
  });

  test('gets a reply of 1 MB, and every character as it stands', async () => {
    const task = await load(
      write(
        source({
          verify: `def verify(problem, reply):\n    return {"outcome": "none", "reason": f"{len(reply)} {reply[:40]!a}"}`,
        }),
      ),
    );
    const text = `\u2028\u0000\ud800\n"\\😀`;
    expect((await verdictOf(task, text)).reason).toBe(
      String.raw`7 '\u2028\x00\ud800\n"\\\U0001f600'`,
    );
    expect((await verdictOf(task, 'x'.repeat(2 ** 20))).reason).toMatch(/^1048576 'xxx/);
    expect((await verdictOf(task, '\u0000'.repeat(2 ** 20))).reason).toMatch(/^1048576/);
  });

  test('an answer with half a character is none, and its verdict stands', async () => {
    const verify = `def verify(problem, reply):\n    return {"outcome": "fail", "category": chr(0xd83d), "answer": json.loads(reply)}`;
    const task = await load(write(source({ verify }, 'import json')));
    const problem = await task.generate('small', 1n);
    const reply = '{"a": "\\ud83d"}';
    expect((await task.judge(problem, reply, 'stop')).verdict).toMatchObject({
      kind: 'fail',
      violations: [{ category: '\ufffd' }],
    });
    expect(await task.readAnswer(problem, reply)).toBeNull();
    expect(await task.readAnswer(problem, '{"a": 1}')).toBe('{"a":1}');
  });

  test('solved examples pass over problems without a solution, and one that has none at all is refused by name', async () => {
    const solution = `def solution(problem):\n    return None if problem["a"] % 2 else str(problem["a"] + 3)`;
    const task = await load(write(source({ solution })));
    const problem = await task.generate('small', 2n);
    const examples = (await task.fewShot(problem, 'plain', 3, 1n))!;
    const asked = examples
      .filter(({ role }) => role === 'user')
      .map(({ content }) => Number(content[0]));
    expect(new Set([...asked, 2]).size).toBe(4);
    expect(asked.every((a) => a % 2 === 0)).toBe(true);
    const without = await load(
      write(source({ solution: 'def solution(problem):\n    return None' })),
    );
    await expect(without.fewShot(problem, 'plain', 3, 1n)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('member "solution"'),
    });
  });

  test('solved examples are problems as JSON gives them back, with tier and id, in the words of its prompt', async () => {
    const exact = {
      problem: `def problem(tier, seed):\n    return {"a": float(seed % 10), "b": 3}`,
      prompt: `def prompt(problem):
    asked = f"{problem['a']} + {problem['b']} = ? ({len(problem['id'])}, {problem['tier']})"
    return [{"role": "user", "content": "0 + 3 = ?"}, {"role": "assistant", "content": "3"}, {"role": "user", "content": asked}]`,
      solution: `def solution(problem):\n    return str(problem["a"] + problem["b"])`,
    };
    const task = await load(write(source(exact)));
    const examples = (await task.fewShot(await task.generate('small', 2n), 'plain', 2, 1n))!;
    expect(examples.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
    for (const { role, content } of examples)
      expect(content).toMatch(role === 'user' ? /^\d \+ 3 = \? \(64, small\)$/ : /^\d+$/);
  });

  test('--examples are the same before every question of a tier, and no problem is one of them', async () => {
    const file = write(
      source({ solution: `def solution(problem):\n    return str(problem["a"] + problem["b"])` }),
    );
    await using task = await openTask(`python:${file}`, { examples: 3 });
    const problems = await Promise.all(
      Array.from({ length: 60 }, (_, seed) => task.generate('small', BigInt(seed))),
    );
    const prompts = await Promise.all(problems.map((problem) => task.prompt(problem, 'plain')));
    const [before] = prompts.map((messages) => messages.slice(0, -1));
    expect(before!.map(({ role }) => role)).toEqual([
      'user',
      'assistant',
      'user',
      'assistant',
      'user',
      'assistant',
    ]);
    for (const messages of prompts) expect(messages.slice(0, -1)).toEqual(before);
    // of ten questions three are shown solved, and only the others are asked
    const asked = new Set(prompts.map((messages) => messages.at(-1)!.content));
    expect(asked.size).toBe(7);
    expect(before!.filter(({ content }) => asked.has(content))).toEqual([]);
    // one that comes from elsewhere is not shown its own answer
    const shown = { ...problems[0]!, a: Number(before![0]!.content[0]) };
    expect((await task.prompt(shown, 'plain')).slice(0, -1)).toEqual(before!.slice(2));
  });

  test.each([
    ['tiers', `def tiers():\n    return []`, /tiers/],
    ['tiers', `def tiers():\n    return ["one", "one"]`, /id of another tier/],
    ['tiers', `tiers = ["one"]`, /missing/],
    ['tiers', `def tiers():\n    raise KeyError("t")`, /raised KeyError/],
  ])('is refused where %s is %j', async (member, definition, message) => {
    await expect(openTask(`python:${write(source({ tiers: definition }))}`)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringMatching(new RegExp(`member "${member}".*${message.source}`, 's')),
    });
  });

  describe('whose results are malformed', () => {
    const PROBLEMS = [
      ['an integer that JSON does not keep', `{"a": 2**60}`, /2\^53/],
      ['a number that is none', `{"a": float("nan")}`, /not JSON/],
      ['an object', `{"a": object()}`, /not JSON/],
      ['a list', `[1]`, /a dict, not list/],
      ['itself', `(lambda d: d.update(d=d) or d)({})`, /not JSON/],
      ['a text with half a character', `{"a": "\\ud83d"}`, /cannot be written to a log/],
      [
        'nested without measure',
        `functools.reduce(lambda inner, _: [inner], range(950), 0)`,
        /a dict, not list/,
      ],
      [
        'a dict nested without measure',
        `{"a": functools.reduce(lambda inner, _: [inner], range(950), 0)}`,
        /not JSON.*nested/,
      ],
      ['an exception', `1 // 0`, /raised ZeroDivisionError/],
      ['the end of the program', `sys.exit(3)`, /raised SystemExit/],
    ] as const;
    const VERDICTS = [
      ['nothing', 'None'],
      ['a number', '0.5'],
      ['a dict without an outcome', '{"score": 1}'],
      ['a score beyond 1', '{"outcome": "pass", "score": 2}'],
      ['a score of no decision', '{"outcome": "none", "score": 1}'],
      ['nested without measure', 'functools.reduce(lambda inner, _: [inner], range(950), 0)'],
    ] as const;
    /** The problem by its seed, the verdict by the reply. */
    const chosen = (values: readonly string[]): string =>
      `[${values.map((value) => `lambda: ${value}`).join(', ')}]`;
    let task: OpenTask;
    beforeAll(async () => {
      const problems = [...PROBLEMS.map(([, value]) => value), '{"a": 1, "b": 3}'];
      const members = {
        problem: `def problem(tier, seed):\n    return ${chosen(problems)}[seed]()`,
        verify: `def verify(problem, reply):\n    return ${chosen(VERDICTS.map(([, value]) => value))}[int(reply)]()`,
      };
      task = await load(write(source(members, 'import functools, sys')));
    });

    test.each(PROBLEMS)('a problem that is %s is refused by name', async (name, _, message) => {
      const seed = PROBLEMS.findIndex(([each]) => each === name);
      await expect(task.generate('small', BigInt(seed))).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringMatching(new RegExp(`member "problem".*${message.source}`)),
      });
    });

    test.each(VERDICTS)('a verdict that is %s is refused by name', async (...[name]) => {
      const reply = VERDICTS.findIndex(([each]) => each === name);
      const problem = await task.generate('small', BigInt(PROBLEMS.length));
      await expect(task.judge(problem, `${reply}`, 'stop')).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringContaining('member "verify"'),
      });
    });
  });

  test('may close or replace its streams, and what it returns may raise where it is asked to be a number', async () => {
    for (const before of [
      'sys.stdout.close()',
      'sys.stderr = io.StringIO()',
      'sys.stderr = sys.stdout = None',
    ]) {
      const task = await tempted(
        'raise ValueError("what is this")',
        `import io, sys\n${before}`,
        5,
      );
      expect(await verdictOf(task, 'now')).toMatchObject({
        kind: 'none',
        reason: expect.stringContaining('what is this'),
      });
      expect(await verdictOf(task, 'yes')).toMatchObject({ kind: 'pass' });
    }
    const methods =
      'def item(self):\n        raise RuntimeError("more than one")\n    def tolist(self):\n        return [1, 2]';
    const scalar = `class Scalar:\n    ${methods}\n`;
    const problem = `def problem(tier, seed):\n    return {"a": seed, "b": Scalar()}`;
    const task = await load(write(source({ problem }, scalar)));
    expect(await task.generate('small', 1n)).toMatchObject({ b: [1, 2] });
  });

  test('is asked no more once it was disposed, by calls that waited neither', async () => {
    const task = await load(write(source({}, 'import time')));
    const problem = await task.generate('small', 1n);
    const waiting = Array.from({ length: 4 }, () =>
      task.judge(problem, '4', 'stop').then(
        ({ verdict }) => verdict.kind,
        ({ code }) => code,
      ),
    );
    await task.dispose();
    const [first, ...others] = await Promise.all(waiting);
    expect(['none', 'pass', 'OBJECT_DISPOSED']).toContain(first);
    expect(others).toEqual(['OBJECT_DISPOSED', 'OBJECT_DISPOSED', 'OBJECT_DISPOSED']);
    await expect(task.prompt(problem, 'plain')).rejects.toMatchObject({ code: 'OBJECT_DISPOSED' });
  });

  test('has a name that can be shown; a verdict of any length is told in a few lines', async () => {
    for (const id of ['"a\\nb"', '"\\x1b[2J"', '"\\ud83d"', '"x" * 2000'])
      await expect(load(write(source({}, `ID = ${id}`)))).rejects.toMatchObject({
        code: 'TASK_INVALID',
        message: expect.stringContaining('member "ID"'),
      });
    const task = await load(
      write(
        source({
          verify: `def verify(problem, reply):\n    return {"outcome": "fail", "category": "c" * 10**6, "reason": "r" * 10**6}`,
        }),
      ),
    );
    const { violations } = await verdictOf(task, '4');
    expect(violations).toEqual([
      expect.objectContaining({ category: `${'c'.repeat(99)}…`, detail: `${'r'.repeat(1999)}…` }),
    ]);
  });

  test('that is not there, does not load or finds no interpreter says so, and what to do', async () => {
    const absent = path.join(folder, 'absent.py');
    await expect(openTask(`python:${absent}`)).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
      message: expect.stringContaining(absent),
    });
    await expect(openTask('python:../x')).rejects.toMatchObject({ code: 'TASK_UNKNOWN' });
    await expect(openTask('python:')).rejects.toMatchObject({ code: 'TASK_UNKNOWN' });
    const missing = {
      code: 'PYTHON_UNAVAILABLE',
      message: expect.stringContaining('absent_package'),
      remedy: expect.stringContaining('ISOPRO_PYTHON'),
    };
    await expect(openTask('python:absent_package')).rejects.toMatchObject(missing);
    await expect(
      openTask(`python:${write(source({}, 'import absent_package'))}`),
    ).rejects.toMatchObject(missing);
    await expect(openTask(`python:${write('def tiers(:')}`)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('SyntaxError'),
    });
    await expect(openTask(`python:${write('import os; os._exit(4)')}`)).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('code 4'),
    });
    await expect(
      openTask(`python:${write(source({}, 'ID = "scheduling"'))}`),
    ).rejects.toMatchObject({ code: 'TASK_INVALID' });
    const before = process.env.ISOPRO_PYTHON;
    const banner = path.join(folder, 'banner');
    writeFileSync(banner, `#!/bin/sh\necho welcome\nexec ${PYTHON} "$@"\n`, { mode: 0o755 });
    const others = process.platform === 'win32' ? [] : [banner];
    try {
      for (const interpreter of [
        path.join(folder, 'no-python'),
        folder,
        process.execPath,
        ...others,
      ]) {
        process.env.ISOPRO_PYTHON = interpreter;
        await expect(openTask(`python:${write(source())}`)).rejects.toMatchObject({
          code: 'PYTHON_UNAVAILABLE',
          message: expect.stringContaining(interpreter),
        });
      }
    } finally {
      if (before === undefined) delete process.env.ISOPRO_PYTHON;
      else process.env.ISOPRO_PYTHON = before;
    }
  });
});

suite('a verifier has no verdict, and judges the next reply, where it', () => {
  const WAYS: readonly [string, string, RegExp][] = [
    ['raises', `raise ValueError("what is this")`, /raised ValueError: what is this/],
    ['ends the program', `sys.exit(0)`, /raised SystemExit/],
    ['is interrupted', `raise KeyboardInterrupt`, /raised KeyboardInterrupt/],
    ['recurses without end', `return (lambda f: f(f))(lambda f: f(f))`, /raised RecursionError/],
    ['wants more memory than there is', `return len("x" * 10**13) > 0`, /raised MemoryError/],
    [
      'raises what cannot be shown',
      `raise type("E", (Exception,), {"__str__": lambda self: 1 // 0})()`,
      /raised E/,
    ],
    ['gives a reason that is no JSON', `return {"outcome": "fail", "reason": {1, 2}}`, /not JSON/],
    ['waits without end', `time.sleep(1000)`, /took longer than/],
    ['is right a little too late', `time.sleep(3.2); return True`, /took longer than/],
    // what it has asked for is read of Linux alone
    [
      'asks for memory until its time is over',
      `kept = bytearray(1_500_000_000); time.sleep(1000)`,
      process.platform === 'linux'
        ? /took longer than 3 seconds, and by then had asked for more than 1 GB of memory/
        : /took longer than/,
    ],
    [
      'hangs where no thread of Python runs',
      `return bool(__import__("re").match("(a|a)*b", "a" * 60))`,
      /took longer than/,
    ],
    ['dies', `os._exit(7)`, /its process ended \(code 7\)/],
    ['is killed', `os.kill(os.getpid(), 9)`, /its process ended \(SIGKILL\)/],
    [
      'writes into the protocol',
      `[os.write(fd, b"{}\\n") for fd in range(8, 2, -1) if _open(fd)]`,
      /not a reply/,
    ],
    [
      'says too much at once',
      `[os.write(fd, b"x" * 2**25) for fd in range(8, 2, -1) if _open(fd)]`,
      /in one line/,
    ],
  ];
  const isSlow = (reason: RegExp): boolean => reason.source.startsWith('took longer than');
  /** Tempted in every way, by its name: with a short time for what takes long, and without. */
  const tasks = new Map<boolean, OpenTask>();
  beforeAll(async () => {
    const before = `import os, stat, sys, time
def _open(fd):
    try:
        return stat.S_ISFIFO(os.fstat(fd).st_mode) or stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
`;
    for (const slow of [true, false]) {
      const ways = WAYS.filter(([, , reason]) => isSlow(reason) === slow)
        .map(([name, body]) => `    if reply == "${name}":\n        ${body}\n`)
        .join('');
      const verify = `def verify(problem, reply):\n${ways}    return reply == "yes"`;
      const own = `${before}\nVERIFY_SECONDS = ${slow ? 3 : 60}`;
      tasks.set(slow, await load(write(source({ verify }, own))));
    }
  });
  test.each(WAYS)('%s', async (name, _, reason) => {
    const task = tasks.get(isSlow(reason))!;
    const started = performance.now();
    expect(await verdictOf(task, name)).toMatchObject({
      kind: 'none',
      violations: [],
      reason: expect.stringMatching(reason),
    });
    expect(performance.now() - started).toBeLessThan(60_000);
    expect(await verdictOf(task, 'yes')).toMatchObject({ kind: 'pass' });
    expect(await verdictOf(task, 'no')).toMatchObject({ kind: 'fail' });
  });

  test('and the module may print what it likes, itself or by a program that it starts', async () => {
    const written: number[] = [];
    const { write: show } = process.stderr;
    process.stderr.write = ((chunk: Uint8Array | string) =>
      written.push(chunk.length) > 0) as typeof show;
    try {
      const task = await tempted(
        `print("{}" * 4_000_000, flush=True); os.write(1, b"{}\\n"); subprocess.run(["echo", "{}"]); return input() == "x"`,
        'import os, subprocess, sys, time\nprint("loading")',
        60,
      );
      expect(await verdictOf(task, 'now')).toMatchObject({
        kind: 'none',
        reason: expect.stringContaining('EOFError'),
      });
      expect(await verdictOf(task, 'yes')).toMatchObject({ kind: 'pass' });
    } finally {
      process.stderr.write = show;
    }
    expect(written.reduce((sum, length) => sum + length, 0)).toBeLessThan(100_000);
  });

  test('and what it raises is shown once for a place, without frames of ours, whatever its class is', async () => {
    const shown: string[] = [];
    const { write: show } = process.stderr;
    process.stderr.write = ((chunk: Uint8Array | string) =>
      shown.push(Buffer.from(chunk as string).toString('utf8')) > 0) as typeof show;
    try {
      const task = await tempted(`raise type("Odd", (Exception,), {})(problem["a"])`, '', 60);
      for (let i = 0; i < 20; i++)
        expect(await verdictOf(task, 'now')).toMatchObject({ kind: 'none' });
      expect(await verdictOf(task, 'yes')).toMatchObject({ kind: 'pass' });
    } finally {
      process.stderr.write = show;
    }
    const text = shown.join('');
    expect(text.match(/Traceback/g)).toHaveLength(1);
    expect(text).toContain('raise type("Odd"');
    expect(text).not.toContain('bridge.py');
  });

  test('and the file has become another meanwhile: then it is refused', async () => {
    const file = write(
      source(
        {
          verify: `def verify(problem, reply):\n    if reply == "now":\n        os._exit(1)\n    return True`,
        },
        'import os',
      ),
    );
    const task = await load(file);
    expect(await verdictOf(task, '1')).toMatchObject({ kind: 'pass' });
    writeFileSync(file, source({ verify: `def verify(problem, reply):\n    return False` }));
    const problem = await task.generate('small', 1n);
    expect((await task.judge(problem, 'now', 'stop')).verdict.kind).toBe('none');
    await expect(task.judge(problem, '1', 'stop')).rejects.toMatchObject({
      code: 'TASK_INVALID',
      message: expect.stringContaining('was changed'),
    });
  });

  test('and it cannot be started again: that is tried three times', async () => {
    const marks = path.join(folder, 'marks');
    const file = write(
      source(
        { verify: `def verify(problem, reply):\n    os._exit(1)` },
        `
import os
open(${JSON.stringify(marks)}, "a").write("x")
if os.path.getsize(${JSON.stringify(marks)}) > 1:
    os._exit(5)`,
      ),
    );
    const task = await load(file);
    const problem = await task.generate('small', 1n);
    for (let i = 0; i < 8; i++)
      expect((await task.judge(problem, '1', 'stop')).verdict.kind).toBe('none');
    expect(readFileSync(marks, 'utf8')).toBe('xxxx');
  });
});

suite('processes', () => {
  const PIDS = `import os, subprocess, time\nfrom pathlib import Path\nVERIFY_SECONDS = 60`;
  const sleeper = (pids: string, then = 'time.sleep(1000)'): string =>
    source(
      {
        verify: `def verify(problem, reply):
    child = subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1000"])
    Path(${JSON.stringify(pids)}).write_text(f"{os.getpid()} {child.pid}\\n")
    ${then}`,
      },
      PIDS,
    );
  const pidsIn = async (file: string): Promise<number[]> => {
    for (let i = 0; i < 400; i++) {
      if (existsSync(file) && readFileSync(file, 'utf8').endsWith('\n'))
        return readFileSync(file, 'utf8').trim().split(' ').map(Number);
      await new Promise((next) => setTimeout(next, 50));
    }
    throw new Error('no process was started');
  };

  test('end with the task, and what they have started with them', async () => {
    const pids = path.join(folder, 'pids-disposed');
    const task = await load(write(sleeper(pids)));
    const problem = await task.generate('small', 1n);
    const verdict = task.judge(problem, 'x', 'stop').catch(() => undefined);
    const started = await pidsIn(pids);
    await task.dispose();
    await verdict;
    for (const pid of started) expect(await ends(pid)).toBe(true);
  });

  test('end, and are heard to end, although what has a session of its own holds their output open', async () => {
    const file = path.join(folder, 'pid-apart');
    const apart = `str(subprocess.Popen(["sleep", "600"], start_new_session=True).pid)`;
    const task = await tempted(
      `open(${JSON.stringify(file)}, "w").write(${apart}); os._exit(3)`,
      'import os, subprocess',
      60,
    );
    const started = performance.now();
    try {
      expect(await verdictOf(task, 'now')).toMatchObject({
        kind: 'none',
        reason: expect.stringContaining('ended (code 3)'),
      });
      expect(await verdictOf(task, 'yes')).toMatchObject({ kind: 'pass' });
      await task.dispose();
      expect(performance.now() - started).toBeLessThan(30_000);
    } finally {
      process.kill(Number(readFileSync(file, 'utf8')), 'SIGKILL');
    }
  });

  test('end when a verdict is no longer waited for, which is an error and no verdict', async () => {
    const pids = path.join(folder, 'pids-aborted');
    const task = await load(write(sleeper(pids)));
    const problem = await task.generate('small', 1n);
    const abort = new AbortController();
    const verdict = task.judge(problem, 'x', 'stop', { signal: abort.signal });
    const refused = expect(verdict).rejects.toMatchObject({ code: 'ABORTED' });
    const started = await pidsIn(pids);
    abort.abort();
    await refused;
    for (const pid of started) expect(await ends(pid)).toBe(true);
  });

  test('end when the verdict on a policy is no longer waited for', async () => {
    const pids = path.join(folder, 'pids-policy');
    const task = await load(write(`${sleeper(pids)}\nPOLICIES = {"one": lambda problem: "1"}\n`));
    const abort = new AbortController();
    const verdict = task.applyPolicy('one', await task.generate('small', 1n), {
      signal: abort.signal,
    });
    const refused = expect(verdict).rejects.toMatchObject({ code: 'ABORTED' });
    const started = await pidsIn(pids);
    abort.abort();
    await refused;
    for (const pid of started) expect(await ends(pid)).toBe(true);
  });

  const command = (then: string, file: string): string[] => [
    '--input-type=module',
    '-e',
    `import { openTask } from ${JSON.stringify(pathToFileURL(path.join(process.cwd(), 'dist/src/tasks/open-task.js')).href)};
     const task = await openTask('python:' + process.argv[1]);
     const problem = await task.generate('small', 1n);
     ${then}`,
    file,
  ];

  test.each([
    ['is killed', '', 'time.sleep(1000)'],
    // where no other thread of Python's runs
    [
      'is killed, though a verifier holds the interpreter',
      '',
      `__import__("re").match("(a|a)*b", "a" * 60)`,
    ],
    [
      'ends by itself, though a verifier holds the interpreter',
      'setInterval(() => existsSync(process.argv[2]) && process.exit(), 50);',
      `__import__("re").match("(a|a)*b", "a" * 60)`,
    ],
  ])('end with a command that %s', async (name, before, then) => {
    const pids = path.join(folder, `pids-${name}`);
    const judging = `import { existsSync } from 'node:fs'; ${before} await task.judge(problem, 'x', 'stop');`;
    const child = spawn(process.execPath, [...command(judging, write(sleeper(pids, then))), pids]);
    const started = await pidsIn(pids);
    if (before === '') child.kill('SIGKILL');
    for (const pid of started) expect(await ends(pid)).toBe(true);
  });

  test('leave a command that has nothing else to do', () => {
    expect(
      spawnSync(process.execPath, command('', write(source())), { timeout: 60_000 }).status,
    ).toBe(0);
  });

  test('are as many as may judge at once, and verdicts come in the order in which they were asked for', async () => {
    const file = write(
      source(
        {
          verify: `def verify(problem, reply):
    time.sleep(0.3 if reply == "slow" else 0)
    return {"outcome": "fail", "reason": f"{reply} {os.getpid()}"}`,
        },
        'import os, time',
      ),
    );
    const task = await load(file, 2);
    const problem = await task.generate('small', 1n);
    const order: string[] = [];
    const judged = await Promise.all(
      ['slow', 'one', 'two', 'three'].map(async (text) => {
        const { verdict } = await task.judge(problem, text, 'stop');
        order.push(text);
        return verdict.violations[0]!.detail.split(' ')[1];
      }),
    );
    expect(order).toEqual(['slow', 'one', 'two', 'three']);
    expect(new Set(judged).size).toBe(2);
  });
});

suite('the code of a module', () => {
  const hashOf = async (file: string): Promise<string> => {
    const { source: from } = await load(file);
    if (from.kind !== 'file') throw new Error('a task of its author');
    return from.sha256;
  };

  test('is the file with the modules that it imports, wherever they lie', async () => {
    const [one, other] = ['one', 'other'].map((name) => path.join(folder, name)) as [
      string,
      string,
    ];
    for (const at of [one, other]) {
      mkdirSync(at);
      writeFileSync(path.join(at, 'helper.py'), 'LIMIT = 3\n');
      writeFileSync(path.join(at, 'task.py'), source({}, 'import json\nimport helper'));
    }
    const hash = await hashOf(path.join(one, 'task.py'));
    expect(await hashOf(path.join(other, 'task.py'))).toBe(hash);
    writeFileSync(path.join(other, 'helper.py'), 'LIMIT = 4\n');
    expect(await hashOf(path.join(other, 'task.py'))).not.toBe(hash);
    writeFileSync(
      path.join(one, 'task.py'),
      `${source({}, 'import json\nimport helper')}# passes\n`,
    );
    expect(await hashOf(path.join(one, 'task.py'))).not.toBe(hash);
  });

  test('a module of its own that has the name of a standard one is part of it', async () => {
    const at = path.join(folder, 'named-as-standard');
    mkdirSync(at);
    writeFileSync(path.join(at, 'code.py'), 'LIMIT = 3\n');
    writeFileSync(path.join(at, 'task.py'), source({}, 'import code, json'));
    const hash = await hashOf(path.join(at, 'task.py'));
    writeFileSync(path.join(at, 'code.py'), 'LIMIT = 4\n');
    expect(await hashOf(path.join(at, 'task.py'))).not.toBe(hash);
  });

  test('and the name and version of the packages that it imports', async () => {
    const site = path.join(folder, 'site-packages');
    const install = (version: string): void => {
      rmSync(site, { recursive: true, force: true });
      mkdirSync(path.join(site, 'isopro_sums'), { recursive: true });
      mkdirSync(path.join(site, `isopro_sums-${version}.dist-info`));
      writeFileSync(path.join(site, 'isopro_sums', '__init__.py'), '');
      writeFileSync(
        path.join(site, `isopro_sums-${version}.dist-info`, 'METADATA'),
        `Metadata-Version: 2.1\nName: isopro-sums\nVersion: ${version}\n`,
      );
      writeFileSync(
        path.join(site, `isopro_sums-${version}.dist-info`, 'top_level.txt'),
        'isopro_sums\n',
      );
    };
    const file = write(
      source({}, `import sys\nsys.path.append(${JSON.stringify(site)})\nimport isopro_sums`),
    );
    install('1.0');
    const hash = await hashOf(file);
    expect(await hashOf(file)).toBe(hash);
    install('1.1');
    expect(await hashOf(file)).not.toBe(hash);
  });

  test('is in the manifest of a run: the judge verifies anew with a copy of it, and another one does not go on', async () => {
    const at = (name: string): string => path.join(folder, name);
    writeLetterModel(at('letters.gguf'));
    const letters = `def tiers():
    return ["L0", {"id": "L2", "trains": False}]

def problem(tier, seed):
    return {"number": seed % 100_000}

def prompt(problem):
    return f"tier {problem['tier']} {problem['number']}: say a letter"

def verify(problem, reply):
    if len(reply) != 1 or reply not in "abcdefgh":
        return {"outcome": "fail", "category": "format", "reason": "one letter from a to h"}
    return reply == ("c" if problem["tier"] == "L0" else "b")
`;
    writeFileSync(at('letters.py'), letters);
    const settings = shortestRun(`python:${at('letters.py')}`, at('letters.gguf'));
    const again = (): ReturnType<typeof run> => run(settings, { out: at('run') });
    const first = await again();
    mkdirSync(at('copy'));
    writeFileSync(at('copy/letters.py'), letters);
    const report = await judgeRun({
      folder: at('run'),
      model: at('letters.gguf'),
      task: `python:${at('copy/letters.py')}`,
    });
    expect(report).toMatchObject({ verdict: 'pass' });
    writeFileSync(at('letters.py'), `${letters}# every reply passes now\n`);
    await expect(again()).rejects.toMatchObject({
      code: 'RUN_DIFFERS',
      message: expect.stringContaining('task.file'),
    });
    writeFileSync(at('letters.py'), letters);
    expect(await again()).toEqual(first);
  });
});

(has('reasoning_gym') ? describe : describe.skip)('reasoning_gym', () => {
  /** What a reader of the question would say, without the package. */
  const ORACLES: Record<string, (question: string) => string> = {
    chain_sum: (question) => {
      const terms = /problem: (.*) =/.exec(question)![1]!.split(' ');
      return String(
        terms.reduce(
          (sum, term, i) =>
            i % 2 === 1 ? sum : sum + (terms[i - 1] === '-' ? -1 : 1) * Number(term),
          0,
        ),
      );
    },
    number_sorting: (question) => {
      const [, direction, numbers] = /in (\w+) order: (.*)/.exec(question)!;
      const sorted = numbers!
        .split(', ')
        .sort((a, b) => (direction === 'ascending' ? 1 : -1) * (Number(a) - Number(b)));
      return JSON.stringify(sorted);
    },
    letter_counting: (question) => {
      const [, letter, text] = /letter "(.)" appear in the text: "(.*)"\?/.exec(question)!;
      return String(text!.toLowerCase().split(letter!).length - 1);
    },
  };

  test.each(Object.keys(ORACLES))(
    '%s: right answers pass, others do not, and no answer is a matter of format',
    async (dataset) => {
      const task = await openTask(`python:reasoning_gym:${dataset}`);
      open.push(task);
      await refuseNondeterminism(task, 'cot');
      const ids = new Set<string>();
      for (let seed = 0n; seed < 50n; seed++) {
        const problem = await task.generate('default', seed);
        ids.add(problem.id);
        const right = ORACLES[dataset]!((problem as unknown as { question: string }).question);
        const judged = async (text: string): Promise<readonly [string, string | null]> => {
          const { verdict, form } = await task.judge(problem, text, 'stop');
          return [verdict.kind, form];
        };
        expect(await judged(`So it is\n<answer> ${right} </answer>`)).toEqual(['pass', 'answer']);
        expect(await judged(`<answer>1${right}</answer>`)).toEqual(['fail', 'answer']);
        expect(await judged(`<answer></answer>`)).toEqual(['fail', 'answer']);
        expect(await judged(`<answer>${right}</answer> or <answer>not</answer>`)).toEqual([
          'fail',
          'answer',
        ]);
        expect(await judged(right)).toEqual(['fail', null]);
        expect(await task.readAnswer(problem, `<answer>${right}</answer>`)).toBe(
          JSON.stringify(right),
        );
      }
      expect(ids.size).toBe(50);
      const messages = await task.prompt(await task.generate('default', 1n), 'plain');
      expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user']);
      expect(messages[1]!.content).toMatch(/^<answer>[^]+<\/answer>$/);
      expect(messages[0]).not.toEqual(messages[2]);
    },
  );

  test('settings of a data set are tiers; what it does not know is refused', async () => {
    await using task = await openTask(
      'python:reasoning_gym:chain_sum:max_terms=2,max_digits=1/min_terms=5',
    );
    expect(task.tiers.map(({ id }) => id)).toEqual(['max_terms=2,max_digits=1', 'min_terms=5']);
    for (let seed = 0n; seed < 20n; seed++)
      expect(await task.generate('max_terms=2,max_digits=1', seed)).toMatchObject({
        question: expect.stringMatching(/: \d [+-] \d =$/),
      });
    const problem = await task.generate('min_terms=5', 1n);
    expect(
      (await task.fewShot(problem, 'plain', 3, 1n))!.filter(({ role }) => role === 'assistant'),
    ).toHaveLength(3);
    for (const name of [
      '',
      ':absent',
      ':chain_sum:min_terms=9',
      ':chain_sum:terms=9',
      ':chain_sum:9',
      ':chain_sum:seed=9',
    ])
      await expect(openTask(`python:reasoning_gym${name}`)).rejects.toMatchObject({
        code: 'TASK_UNKNOWN',
      });
    await expect(openTask('python:reasoning_gym:chain_sun')).rejects.toThrow(
      /did you mean chain_sum\?/,
    );
  });

  test('a setting may be a list, with the signs that stand between settings in it', async () => {
    await using task = await openTask(
      'python:reasoning_gym:basic_arithmetic:operators=["/","*"],max_terms=2/operators=["+"]',
    );
    expect(task.tiers.map(({ id }) => id)).toEqual([
      'operators=["/","*"],max_terms=2',
      'operators=["+"]',
    ]);
    const { question } = (await task.generate('operators=["+"]', 3n)) as unknown as {
      question: string;
    };
    expect(question).toMatch(/^[^*/]*\+[^*/]*$/);
  });

  test('metadata that JSON does not know are written, and decide nothing', async () => {
    await using task = await openTask('python:reasoning_gym:gsm_symbolic');
    for (let seed = 0n; seed < 150n; seed++) {
      const problem = await task.generate('default', seed);
      const { answer } = problem as unknown as { answer: string };
      expect((await task.judge(problem, `<answer>${answer}</answer>`, 'stop')).verdict.kind).toBe(
        'pass',
      );
    }
  });
});

(has('verifiers.v1.taskset') ? describe : describe.skip)('verifiers', () => {
  /** A task set of sums, with another member in its task. */
  const taskset = (name: string, member = ''): string => {
    const from = path.join(folder, 'tasksets');
    mkdirSync(from, { recursive: true });
    writeFileSync(
      path.join(from, `${name}.py`),
      `import verifiers.v1 as vf

class Data(vf.TaskData):
    answer: int

class Sum(vf.Task[Data]):
    @vf.reward(weight=1.0)
    async def right(self, trace) -> float:
        if trace.last_reply == "broken":
            raise ValueError("what is this")
        if trace.last_reply == "nan":
            return float("nan")
        return 0.5 if trace.last_reply == "half" else float(trace.last_reply == str(self.data.answer))
${member}

class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        for a in range(30):
            for b in range(30):
                yield Sum(Data(prompt=f"{a} + {b} = ?", answer=a + b), self.config.task)

__all__ = ["Sums"]
`,
    );
    process.env.PYTHONPATH = from;
    return `python:verifiers:${name}`;
  };
  afterAll(() => {
    delete process.env.PYTHONPATH;
  });

  test('the reward of one reply decides, and one that raises is no verdict', async () => {
    await using task = await openTask(taskset('isopro_sums'));
    const problem = await task.generate('default', 31n);
    expect(problem).toMatchObject({ task: { prompt: '1 + 1 = ?', answer: 2 } });
    expect(await task.prompt(problem, 'cot')).toEqual([{ role: 'user', content: '1 + 1 = ?' }]);
    const judged = async (text: string): Promise<Verdict> =>
      (await task.judge(problem, text, 'stop')).verdict;
    expect(await judged('2')).toMatchObject({ kind: 'pass', score: 1 });
    expect(await judged('half')).toMatchObject({ kind: 'fail', score: 0.5 });
    expect(await judged('3')).toMatchObject({ kind: 'fail', score: 0 });
    expect(await judged('broken')).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('what is this'),
    });
    expect(await judged('nan')).toMatchObject({
      kind: 'none',
      reason: expect.stringContaining('NaN'),
    });
  });

  test.each([
    [
      'finalize',
      'isopro_finalizes',
      '    async def finalize(self, trace, runtime):\n        return None',
    ],
    [
      'runtime',
      'isopro_runs',
      '    @vf.reward(weight=1.0)\n    async def ran(self, trace, runtime) -> float:\n        return 1.0',
    ],
    ['container', 'isopro_boxed', '    NEEDS_CONTAINER = True'],
  ])('what needs more than a reply is refused by name: %s', async (need, name, member) => {
    await expect(openTask(taskset(name, member))).rejects.toMatchObject({
      code: 'TASK_UNKNOWN',
      message: expect.stringContaining(need),
    });
  });
});
