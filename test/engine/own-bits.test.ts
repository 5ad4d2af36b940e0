/** What our own kernels compute is one result, and has a version. */
import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { loadModel } from '../../src/index.js';
import { loadAddon } from '../../src/engine/addon.js';
import { machineClass } from '../../src/run-folder/machine.js';
import { ownBits } from '../models/own-bits.js';
import { syntheticModel } from './fixtures.js';

const ONE_THREAD = { threads: 1, fixedThreads: true };
const fileQ41 = syntheticModel({ architecture: 'llama', type: 'Q4_1' });

interface Known {
  readonly version: number;
  readonly hashes: Readonly<Record<string, string>>;
}

const known = JSON.parse(readFileSync(new URL('own-bits.json', import.meta.url), 'utf8')) as Known;

/** Whether there are kernels of ours here: an x86-64 processor with AVX2. */
await using model = await loadModel(fileQ41, { ...ONE_THREAD, matmul: 'auto' });
const isThere = model.info.matmul === 'own';

(isThere ? describe : describe.skip)('the bits of our own kernels', () => {
  test('are those that their version has: raise kOwnBits and write new hashes where one changes', async () => {
    const found = await ownBits();
    const versions = new Set(Object.values(found).map(({ version }) => version));
    const hashes = Object.fromEntries(
      Object.entries(found).map(([name, { hash }]) => [name, hash]),
    );
    expect({ version: [...versions], hashes }).toEqual({
      version: [known.version],
      hashes: Object.fromEntries(Object.entries(known.hashes).filter(([name]) => name in hashes)),
    });
  });

  test('are a class of machines of their own, and ggml’s are the system’s and the release’s', async () => {
    const own = { arch: process.arch, kernels: 'own', version: known.version };
    expect(machineClass([model.info])).toEqual(own);
    const ggmls = {
      platform: process.platform,
      arch: process.arch,
      llamaRelease: loadAddon().addon.llamaRelease,
      features: expect.any(Array),
    };
    await using theirs = await loadModel(fileQ41, ONE_THREAD);
    expect(theirs.info.ownBits).toBeNull();
    expect(machineClass([theirs.info])).toEqual(ggmls);
    // one model whose bits are ggml's is enough
    expect(machineClass([model.info, theirs.info])).toEqual(ggmls);
    expect(machineClass([])).toEqual(ggmls);
  });

  test('are not those of a model of which ggml computes a part, whatever the products', async () => {
    // a cap on attention's logits, and keys of eight bits: attention is ggml's
    const capped = syntheticModel({ architecture: 'gemma2', type: 'Q4_1' });
    await using gemma = await loadModel(capped, { ...ONE_THREAD, matmul: 'own' });
    expect([gemma.info.matmul, gemma.info.ownBits]).toEqual(['own', null]);
    await using eight = await loadModel('tiny', {
      ...ONE_THREAD,
      matmul: 'own',
      kvType: 'q8_0',
    });
    expect(eight.info.ownBits).toBeNull();
    // a matrix of another format
    const other = syntheticModel({ architecture: 'llama', type: 'F16' });
    await using half = await loadModel(other, { ...ONE_THREAD, matmul: 'auto' });
    expect(half.info.ownBits).toBeNull();
  });
});
