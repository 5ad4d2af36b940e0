/**
 * What training may not see is known by what the model reads: a task whose problems carry a salt
 * gives the same question many ids.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { loadModel } from '../../src/engine/model.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { HeldOutProblems } from '../../src/evaluation/held-out-problems.js';
import { planRollouts } from '../../src/rollouts/plan.js';
import { openTask } from '../../src/tasks/open-task.js';
import { writeLetterModel } from '../models/letters.js';

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'isopro-salt-'));
  writeLetterModel(path.join(folder, 'letters.gguf'));
  // 144 questions, and thousands of problems
  writeFileSync(
    path.join(folder, 'salted.mjs'),
    `export default {
    id: 'salted', version: '1', tiers: [{ id: 'only' }],
    generate(tier, seed) {
      const letter = (number) => 'abcdefghijkl'[Number(number % 12n)];
      return { letters: letter(seed) + letter(seed / 12n), salt: String(seed) };
    },
    prompt: ({ letters }) => [{ role: 'user', content: letters }],
    parse: (text) => ({ ok: true, answer: text }),
    verify: () => ({ kind: 'pass' }),
  };\n`,
  );
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test('no problem whose prompt is in an evaluation set is sampled', async () => {
  await using model = await loadModel(path.join(folder, 'letters.gguf'), {
    threads: 1,
    contextTokens: 256,
  });
  await using task = await openTask(path.join(folder, 'salted.mjs'));
  const held = (await evaluationSet(task, 'test', 100)).problems;
  const excluded = new HeldOutProblems(held, { model, task, style: 'plain' });
  const letter = (problem: object): string => (problem as { letters: string }).letters;
  const tested = new Set(held.map(letter));
  // nor is a question twice in the sets
  const dev = (await evaluationSet(task, 'dev', 20)).problems.map(letter);
  expect(new Set([...dev, ...tested]).size).toBe(120);
  const plan = { task, runSeed: 1n, iteration: 1, counts: new Map([['only', 40]]), samples: 1 };
  const seen = (await planRollouts(plan)).map(({ problem }) => problem);
  // the salt makes their ids others
  expect(seen.some((problem) => tested.has(letter(problem)))).toBe(true);
  expect(seen.some(({ id }) => held.some((each) => each.id === id))).toBe(false);
  const planned = (await planRollouts({ ...plan, excluded })).map(({ problem }) => letter(problem));
  expect(planned.length).toBeGreaterThan(20);
  expect(planned.filter((each) => tested.has(each))).toEqual([]);
  expect([
    await excluded.find(held[0]!),
    await excluded.find(seen.find((problem) => tested.has(letter(problem)))!),
    await excluded.find(seen.find((problem) => !tested.has(letter(problem)))!),
  ]).toEqual(['id', 'prompt', null]);
});
