/**
 * Threads under load, and the cost of an adapter swap, on the shape of Qwen2.5-0.5B. Full form
 * only: minutes long.
 */
import { spawn } from 'node:child_process';
import path from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { benchModel } from '../../bench/models.js';
import { SHAPES } from '../models/shapes.js';
import { loadModel, type Model } from '../../src/engine/model.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { collect, folder, full } from './fixtures.js';

const describeFull: (name: string, tests: () => void) => void = full ? describe : describe.skip;

/** Tokens a second of `sequences` live sequences, the prompt not counted. */
async function decodingRate(model: Model, sequences: number, tokens: number): Promise<number> {
  let begin = 0;
  let sampledAtBegin = 0;
  let last = 0;
  await collect(model, {
    prompts: [{ tokenIds: [1, 2, 3, 4] }],
    samples: sequences,
    maxTokens: tokens,
    ignoreEndOfSequence: true,
    onProgress: ({ sampledTokens }) => {
      if (begin === 0) {
        begin = performance.now();
        sampledAtBegin = sampledTokens;
      }
      last = sampledTokens;
    },
  });
  return (1000 * (last - sampledAtBegin)) / (performance.now() - begin);
}

describeFull('the shape of Qwen2.5-0.5B', () => {
  test.each([1, 8])(
    '%i sequences keep a quarter of their speed beside two busy processes',
    async (sequences) => {
      await using model = await loadModel(benchModel('qwen2.5-0.5b'));
      await decodingRate(model, sequences, 8);
      const calm: number[] = [];
      const loaded: number[] = [];
      for (let round = 0; round < 2; round++) {
        calm.push(await decodingRate(model, sequences, 48));
        const busy = [0, 1].map(() =>
          spawn(process.execPath, ['-e', 'for (;;);'], { stdio: 'ignore' }),
        );
        try {
          loaded.push(await decodingRate(model, sequences, 48));
        } finally {
          for (const process of busy) process.kill('SIGKILL');
        }
      }
      console.log(
        `${sequences} sequences: undisturbed ${calm.map((x) => x.toFixed(1)).join(', ')}, beside two busy processes ` +
          `${loaded.map((x) => x.toFixed(1)).join(', ')} tokens/s`,
      );
      expect(Math.max(...loaded) / Math.max(...calm)).toBeGreaterThan(0.25);
    },
  );

  test('an adapter of 7 million parameters is swapped in under 50 ms', async () => {
    await using model = await loadModel(benchModel('qwen2.5-0.5b'), { fixedThreads: true });
    const files = [1n, 2n].map((seed) => {
      const file = path.join(folder, `swap-${seed}.gguf`);
      writeSyntheticAdapter(file, SHAPES['qwen2.5-0.5b'], { rank: 13, seed });
      return file;
    });
    const firstToken = async (): Promise<number> => {
      const begin = performance.now();
      await collect(model, { prompts: [{ tokenIds: [5] }], maxTokens: 1 });
      return performance.now() - begin;
    };
    const adapters = [await model.loadAdapter(files[0]!), await model.loadAdapter(files[1]!)];
    const plain: number[] = [];
    const swapped: number[] = [];
    for (let round = 0; round < 10; round++) {
      await firstToken();
      plain.push(await firstToken());
      const begin = performance.now();
      await model.setAdapter(adapters[round % 2]!);
      swapped.push(performance.now() - begin + (await firstToken()));
    }
    const median = (values: number[]): number =>
      [...values].sort((a, b) => a - b)[values.length >> 1]!;
    console.log(
      `first token ${median(plain).toFixed(1)} ms, after a swap ${median(swapped).toFixed(1)} ms`,
    );
    expect(median(swapped) - median(plain)).toBeLessThan(50);
  });
});
