import { createHash } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { EMBEDDED_MODEL_FILE } from '../../src/engine/model-aliases.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { renderFigures, type Figures } from '../../src/embedded/figures.js';
import { evaluationSet } from '../../src/evaluation/evaluation-set.js';
import { beginning, namedHeuristic } from '../../src/embedded/heuristics.js';
import { measure } from '../../src/embedded/measure.js';
import { openTask } from '../../src/tasks/open-task.js';
import { replies } from '../../src/embedded/heuristic-replies.js';
import { resolveSettings } from '../../src/training/settings.js';

const asset = (name: string): string => fileURLToPath(new URL(name, EMBEDDED_MODEL_FILE));
const figures = JSON.parse(readFileSync(asset('tiny.json'), 'utf8')) as Figures;
let model: Model;
beforeAll(async () => {
  model = await loadModel('tiny', { threads: 1 });
});
afterAll(() => model?.dispose());

describe('the embedded model', () => {
  test('is small, a qwen2, and the file that was measured', () => {
    expect(statSync(EMBEDDED_MODEL_FILE).size).toBeLessThan(8e6);
    expect(model.info.architecture).toBe('qwen2');
    expect(createHash('sha256').update(readFileSync(EMBEDDED_MODEL_FILE)).digest('hex')).toBe(
      figures.model,
    );
  });

  test('has its figures in its card', () => {
    expect(readFileSync(asset('MODEL_CARD.md'), 'utf8')).toContain(renderFigures(figures));
  });

  test('answers in the required form, and names a heuristic', async () => {
    const { replies, parsed, byHeuristic } = await measure(model, 'dev', {
      temperature: 0,
      perTier: 2,
    });
    expect(parsed / replies).toBeGreaterThanOrEqual(0.9);
    expect(byHeuristic.none?.replies ?? 0).toBeLessThanOrEqual(1);
  }, 120_000);

  test('with the heuristic forced that it would name itself, says what it says by itself', async () => {
    await using task = await openTask('scheduling');
    const { problems } = await evaluationSet(task, 'dev', 2);
    const asking = { model, task, settings: resolveSettings({}), adapter: null };
    const free = await replies(asking, problems, '');
    expect(new Set(free.map(({ text }) => namedHeuristic(text))).size).toBe(1);
    expect(await replies(asking, problems, beginning(namedHeuristic(free[0]!.text)!))).toEqual(
      free,
    );
  }, 120_000);
});
