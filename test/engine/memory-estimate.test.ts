import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, expect, test } from '@jest/globals';
import { inspectModel } from '../../src/engine/inspect.js';
import { estimateMemory } from '../../src/engine/memory-estimate.js';
import { loadModel } from '../../src/engine/model.js';
import { writeSyntheticAdapter } from '../models/adapter.js';
import { ARCHITECTURES, writeSyntheticModel } from '../models/synthetic.js';

const folder = mkdtempSync(path.join(tmpdir(), 'isopro-estimate-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

test.each(ARCHITECTURES)(
  '%s: the estimate before loading is what the loaded model has',
  async (architecture) => {
    const file = path.join(folder, `${architecture}.gguf`);
    writeSyntheticModel(file, {
      architecture,
      type: 'Q6_K',
      layers: 3,
      heads: 8,
      keyValueHeads: 2,
    });
    const estimate = (await estimateMemory(file, await inspectModel(file), 4096))!;
    const model = await loadModel(file, { threads: 1 });
    expect(estimate.kvBytesPerToken).toBe(model.info.kvBytesPerToken);
    expect(estimate.weightsBytes).toBe(model.info.bytes);
    expect(estimate.totalBytes).toBe(model.info.bytes + 4096 * model.info.kvBytesPerToken);
    await model.dispose();
  },
);

test('an adapter, which names no dimensions, has no estimate', async () => {
  const file = path.join(folder, 'adapter.gguf');
  writeSyntheticAdapter(
    file,
    writeSyntheticModel(path.join(folder, 'base.gguf'), { architecture: 'llama' }),
  );
  expect(await estimateMemory(file, await inspectModel(file), 4096)).toBeNull();
});
