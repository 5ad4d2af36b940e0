/**
 * Names that a task chose, and that an ordinary object has already: nothing is lost, nothing of
 * anybody else's is changed.
 */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspectModel } from '../../src/engine/inspect.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { evaluatePolicies } from '../../src/evaluation/policies.js';
import { judgeRun } from '../../src/judge/judge.js';
import { LogReader } from '../../src/log/read.js';
import { openTask } from '../../src/tasks/open-task.js';
import { readResult, type RunResult } from '../../src/training/result.js';
import { run } from '../../src/training/loop.js';
import { writeAtomically } from '../models/write-atomically.js';
import { runCli } from '../cli/run-cli.js';
import { writeLetterModel } from '../models/letters.js';
import { encodeModel, synthesizeModel } from '../models/synthetic.js';
import { RUN_STREAMS } from '../../src/run-folder/streams.js';

const NAMES = ['__proto__', 'constructor', 'toString'];
const TASK = `export default {
  id: 'names', version: '1',
  tiers: [{ id: '__proto__' }, { id: 'constructor' }, { id: 'toString', trains: false, group: 'valueOf' }],
  generate: (tier, seed) => ({ ['__proto__']: { number: Number(seed % 100000n) }, constructor: 1 }),
  prompt: (problem) => {
    const content = \`\${problem.tier} \${Object.keys(problem).sort()} \${problem['__proto__'].number}: say a letter\`;
    return [{ role: 'user', content }];
  },
  parse: (text) =>
    /^[a-h]$/.test(text) ? { ok: true, answer: text } : { ok: false, category: '__proto__', detail: 'one letter from a to h' },
  verify: (problem, answer) => ({ kind: 'abcd'.includes(answer) ? 'pass' : 'fail', violations: [], metrics: { ['__proto__']: 1 } }),
  trivialPolicies: { ['__proto__']: () => 'c', constructor: () => 'h' },
  policyNotes: { ['__proto__']: 'a note' },
};
`;

let folder: string;
const file = (name: string): string => path.join(folder, name);
const settings = () => ({
  task: file('names.mjs'),
  iterations: 1,
  signer: 'single-process' as const,
  profile: 'downloaded' as const,
  model: { name: file('letters.gguf'), threads: 1 },
  sampling: { rollouts: 24, samples: 4, maxTokens: 4 },
  optimiser: { stepsPerIteration: 2, batchSize: 4 },
  layers: { rank: 2, topLayers: 1 },
  evaluation: { devSize: 2, testSize: 4 },
});

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-names-'));
  writeLetterModel(file('letters.gguf'));
  writeFileSync(file('names.mjs'), TASK);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('tiers, policies, metrics and fields called __proto__, constructor and toString', () => {
  test('a run keeps them apart in progress, reports, log and result, and changes no prototype', async () => {
    const before = Reflect.ownKeys(Object.prototype);
    const result = await run(settings(), { out: file('run') });
    expect(Reflect.ownKeys(Object.prototype)).toEqual(before);
    const kept = JSON.parse(JSON.stringify(result)) as RunResult;
    for (const summary of [
      kept.test.before,
      kept.test.after,
      ...Object.values(kept.trivialPolicies),
    ])
      expect(Object.keys(summary.byTier).sort()).toEqual([...NAMES, 'valueOf'].sort());
    expect(Object.keys(kept.trivialPolicies).sort()).toEqual(['__proto__', 'constructor']);
    expect(Object.getOwnPropertyDescriptor(kept.trivialPolicies, '__proto__')!.value.mean).toBe(1);
    expect(kept.trivialPolicies['constructor' as string]!.mean).toBe(0);
    expect(Object.keys(kept.iterations[0]!.rollouts).sort()).toEqual(['__proto__', 'constructor']);
    expect(Object.keys(kept.iterations[0]!.buffer).sort()).toEqual(['__proto__', 'constructor']);
    expect(Object.keys(readResult(file('run')).trivialPolicies).sort()).toEqual([
      '__proto__',
      'constructor',
    ]);
    const reader = new LogReader(path.join(file('run'), 'log.sqlite'), RUN_STREAMS);
    const problems = [...reader.records({ stream: 'rollouts' })]
      .filter(({ payload }) => payload.kind === 'problem')
      .map(({ payload }) => payload.problem as object);
    reader.close();
    expect(problems.length).toBeGreaterThan(0);
    for (const problem of problems)
      expect(Object.keys(problem).sort()).toEqual(['__proto__', 'constructor', 'id', 'tier']);
    const { steps } = await judgeRun({
      folder: file('run'),
      model: file('letters.gguf'),
      task: file('names.mjs'),
    });
    expect(steps.filter(({ status }) => status === 'hard_fail')).toEqual([]);
    expect(steps.find(({ name }) => name === 'rollout_verification')).toMatchObject({
      status: 'pass',
    });
  }, 120_000);

  test.each([
    ['runs show', ['runs', 'show', 'run']],
    ['report', ['report', 'run', '--json']],
    ['tasks baselines', ['tasks', 'baselines', '--task', 'names.mjs', '--count', '2']],
    [
      'tasks baselines --json',
      ['tasks', 'baselines', '--task', 'names.mjs', '--count', '2', '--json'],
    ],
    [
      'eval',
      [
        'eval',
        '--model',
        'letters.gguf',
        '--task',
        'names.mjs',
        '--per-tier',
        '2',
        '--max-tokens',
        '4',
      ],
    ],
    [
      'eval --json',
      [
        'eval',
        '--model',
        'letters.gguf',
        '--task',
        'names.mjs',
        '--per-tier',
        '2',
        '--max-tokens',
        '4',
        '--samples',
        '2',
        '--json',
      ],
    ],
  ])(
    '%s names all of them',
    async (_, [command, ...args]) => {
      const { code, stdout, stderr } = await runCli([
        command!,
        ...args.map((arg) => (/^(run|names\.mjs|letters\.gguf)$/.test(arg) ? file(arg) : arg)),
      ]);
      expect(stderr).not.toMatch(/error|unexpected/);
      expect(code).toBe(0);
      if (command !== 'report') for (const name of NAMES) expect(stdout).toContain(name);
    },
    60_000,
  );

  test('a policy is asked and summed up under its own name', async () => {
    await using task = await openTask(file('names.mjs'));
    const { problems } = await evaluationSet(task, 'dev', 2);
    expect(
      Object.entries(await evaluatePolicies(task, problems)).map(([name, { mean }]) => [
        name,
        mean,
      ]),
    ).toEqual([
      ['__proto__', 1],
      ['constructor', 0],
    ]);
  });

  test('inspectModel shows the metadata of such names', async () => {
    const model = synthesizeModel({ architecture: 'qwen2' });
    writeAtomically(
      file('named.gguf'),
      encodeModel({
        ...model,
        metadata: [
          ...model.metadata,
          { key: '__proto__', value: { type: 'string', value: 'own' } },
        ],
      }),
    );
    expect(
      Object.getOwnPropertyDescriptor(
        (await inspectModel(file('named.gguf'))).metadata,
        '__proto__',
      )?.value,
    ).toBe('own');
  });
});

test.each([
  [
    'two tiers of one id',
    "[{ id: 'a' }, { id: 'b' }, { id: 'a' }]",
    /tiers\.2\.id: "a" is also the id of another tier/,
  ],
  [
    'a tier called as a group',
    "[{ id: 'a', group: 'b' }, { id: 'b' }]",
    /tiers\.1\.id: "b" is also the name of a group/,
  ],
])('%s: TASK_INVALID', async (_, tiers, message) => {
  writeFileSync(file('tiers.mjs'), TASK.replace(/tiers: .*,\n/, `tiers: ${tiers},\n`));
  await expect(openTask(file('tiers.mjs'))).rejects.toMatchObject({
    code: 'TASK_INVALID',
    message: expect.stringMatching(message),
  });
});
