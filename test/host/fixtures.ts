/** Models and adapters of the host's tests, in a folder that is removed when the process ends. */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { HostedModel, HostReply, HostRequest, TokenEvent } from '../../src/index.js';
import { writeSyntheticAdapter, type SyntheticAdapterOptions } from '../models/adapter.js';
import type { TensorType } from '../models/quantise.js';
import { writeSyntheticModel } from '../models/synthetic.js';

export const folder = mkdtempSync(path.join(tmpdir(), 'isopro-host-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

export const file = path.join(folder, 'base.gguf');
export const shape = writeSyntheticModel(file, { architecture: 'llama', type: 'Q8_0', seed: 31n });
/** The same weights before they were rounded. */
export const unquantised = path.join(folder, 'f32.gguf');
writeSyntheticModel(unquantised, { architecture: 'llama', type: 'F32', seed: 31n });
/** The same weights in a type for which there are kernels of our own (LoadModelOptions.matmul). */
const shapes = new Map<TensorType, typeof shape>();
export const fileOf = (type: TensorType): string => {
  const to = path.join(folder, `base-${type}.gguf`);
  if (!existsSync(to))
    shapes.set(type, writeSyntheticModel(to, { architecture: 'llama', type, seed: 31n }));
  return to;
};
export const fileQ41 = fileOf('Q4_1');

/** @param base of `fileOf`, whose matrices it adapts */
export function adapterFile(
  name: string,
  seed: bigint,
  { base, ...options }: Omit<SyntheticAdapterOptions, 'seed'> & { base?: TensorType } = {},
): string {
  const to = path.join(folder, `${name}.gguf`);
  const of = base === undefined ? shape : (shapes.get(base) ?? shape);
  writeSyntheticAdapter(to, of, { ...options, seed });
  return to;
}

/** One thread whatever else the machine does, so that repeated answers are the same. */
export const ONE_THREAD = { threads: 1, fixedThreads: true };

/**
 * Keys and values of a type for which llama.cpp's attention adds in f32, not in f16: the order of
 * its sums, which depends on where others left room in the cache, then shows in no token.
 */
export const UNDISTURBED = { ...ONE_THREAD, kvType: 'bf16' } as const;

export const greedy = (tokenIds: readonly number[], maxTokens = 24): HostRequest => ({
  tokenIds,
  maxTokens,
  sampling: { temperature: 0 },
  ignoreEndOfSequence: true,
});

export async function streamed(
  model: HostedModel,
  request: HostRequest,
): Promise<{ reply: HostReply; tokens: TokenEvent[] }> {
  const tokens: TokenEvent[] = [];
  const stream = model.stream(request);
  for (;;) {
    const next = await stream.next();
    if (next.done === true) return { reply: next.value, tokens };
    tokens.push(next.value);
  }
}
