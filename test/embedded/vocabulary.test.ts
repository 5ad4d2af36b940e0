import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { loadModel, type Model } from '../../src/engine/model.js';
import { drawExample } from '../../src/embedded/corpus.js';
import { HEURISTIC_NAMES, opening } from '../../src/embedded/heuristics.js';
import { writeInitialModel } from '../../src/embedded/initial-model.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import type { SchedulingProblem } from '../../src/tasks/scheduling/problem.js';
import { schedulingPrompt } from '../../src/tasks/scheduling/prompt.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-vocabulary-'));
let model: Model;
beforeAll(async () => {
  await writeInitialModel(path.join(folder, 'initial.gguf'), 1n);
  model = await loadModel(path.join(folder, 'initial.gguf'), { threads: 1 });
});
afterAll(async () => {
  await model?.dispose();
  rmSync(folder, { recursive: true, force: true });
});

const pieces = (ids: Int32Array): string[] =>
  [...ids].map((id) => model.detokenize([id], { withControl: true }));

describe("the embedded model's vocabulary", () => {
  test('any text survives', () => {
    for (const text of [
      '',
      'Ünïcode – 日本語 🙂',
      'A1B22C333 4444',
      '<|im_end|>',
      '\t\n\n  x',
      drawExample(8n, 0, 1).reply,
    ])
      expect(model.detokenize(model.tokenize(text))).toBe(text);
  });

  test('in prompts and replies each number up to 99 is a token of its own, and no token holds two job letters', () => {
    const problems = frozenSet<SchedulingProblem, unknown>('scheduling', 'dev').problems.map(
      ({ problem }) => problem,
    );
    const texts = [
      ...problems.map((problem) => schedulingPrompt(problem, 'cot')[0]!.content),
      ...Array.from({ length: 200 }, (_, index) => drawExample(8n, index, 1).reply),
    ];
    for (const text of texts) {
      const found = pieces(model.tokenize(text.replace(/\d{3,}/g, '')));
      expect(found.filter((piece) => /\d/.test(piece))).toEqual(
        text.replace(/\d{3,}/g, '').match(/\d+/g),
      );
      for (const piece of found)
        expect(piece.match(/(?<![A-Za-z])[A-Z](?![A-Za-z])/g)?.length ?? 0).toBeLessThan(2);
    }
  });

  test('what is said of a job and its letter are one token, the same in prompt and reply', () => {
    expect(
      pieces(
        model.tokenize('.\nJob B takes 2; B starts 3; B ends 5.\nB ends 5.\n<answer>A: 0, B: 3'),
      ),
    ).toEqual([
      '.\nJob ',
      'B takes ',
      '2',
      '; B starts ',
      '3',
      '; B ends ',
      '5',
      '.\n',
      'B ends ',
      '5',
      '.\n<answer>',
      'A: ',
      '0',
      ', B: ',
      '3',
    ]);
    expect(pieces(model.tokenize('has ended.\nJob B takes 4 steps'))).toContain('B takes ');
  });

  test('the name of a heuristic is told by the first token', () => {
    const first = HEURISTIC_NAMES.map((name) => model.tokenize(`${opening(name)}Job A takes 1`)[0]);
    expect(new Set(first).size).toBe(HEURISTIC_NAMES.length);
  });

  test('prompts of ten jobs have fewer than 200 tokens', () => {
    const longest = frozenSet<SchedulingProblem, unknown>('scheduling', 'dev').problems.map(
      ({ problem }) => model.renderChat(schedulingPrompt(problem, 'cot')).tokenIds.length,
    );
    expect(Math.max(...longest)).toBeLessThan(200);
  });
});
