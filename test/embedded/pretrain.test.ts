import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, describe, expect, test } from '@jest/globals';
import { learningRateAt, pretrain, type PretrainingSettings } from '../../src/embedded/pretrain.js';

const SETTINGS: PretrainingSettings = {
  seed: 2n,
  steps: 6,
  examplesPerStep: 2,
  learningRate: 1e-2,
  warmupSteps: 2,
  decayFrom: 4,
  curriculumSteps: 3,
};
const root = mkdtempSync(path.join(tmpdir(), 'isopro-pretrain-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

describe('pretraining', () => {
  test('warms up, stays, and ends just above 0', () => {
    expect([1, 2, 3, 4, 5, 6].map((step) => learningRateAt(SETTINGS, step))).toEqual(
      [5e-3, 1e-2, 1e-2, 1e-2, (1e-2 * 2) / 3, 1e-2 / 3].map((rate) => expect.closeTo(rate, 12)),
    );
  });

  test('interrupted and continued, it ends with the same state; it learns', async () => {
    const losses: number[] = [];
    const run = async (name: string, untilStep?: number): Promise<string> => {
      const folder = path.join(root, name);
      mkdirSync(folder, { recursive: true });
      const trainer = await pretrain(folder, SETTINGS, {
        threads: 1,
        checkpointSteps: 100,
        ...(untilStep !== undefined && { untilStep }),
        onStep: ({ loss }) => losses.push(loss),
      });
      const digest = await trainer.save(path.join(root, `${name}.state`));
      await trainer.dispose();
      return digest;
    };
    const whole = await run('whole');
    expect(losses).toHaveLength(6);
    expect(losses.at(-1)).toBeLessThan(losses[0]!);
    mkdirSync(path.join(root, 'parts'));
    copyFileSync(
      path.join(root, 'whole', 'initial.gguf'),
      path.join(root, 'parts', 'initial.gguf'),
    );
    await run('parts', 3);
    expect(losses).toHaveLength(9);
    expect(await run('parts')).toBe(whole);
    expect(losses.slice(6)).toEqual(losses.slice(0, 6));
  }, 120_000);
});
