/**
 * Models that the engine's tests share: synthetic ones in a temporary folder, the real small one
 * where it is present.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe } from '@jest/globals';
import { writeSyntheticModel, type SyntheticModelOptions } from '../models/synthetic.js';
import type { Rollout } from '../../src/engine/generation.js';
import type { GenerateRequest } from '../../src/engine/generate-request.js';
import type { Model } from '../../src/engine/model.js';

export const STORIES = fileURLToPath(
  new URL('../../../shared/models/stories260K/stories260K-f32-ctx512.gguf', import.meta.url),
);

/** describe, or describe.skip with a message where the real model is absent. */
export const describeStories: (name: string, tests: () => void) => void = existsSync(STORIES)
  ? describe
  : describe.skip;
if (!existsSync(STORIES)) console.warn('skipping tests that need ../shared/models/stories260K');

export const full = process.env.ISOPRO_FULL === '1';

/** A folder that is removed when the process ends. */
export const folder = mkdtempSync(path.join(tmpdir(), 'isopro-test-'));
process.on('exit', () => rmSync(folder, { recursive: true, force: true }));

let written = 0;

export function syntheticModel(options: SyntheticModelOptions): string {
  const file = path.join(
    folder,
    `${options.architecture}-${options.type ?? 'F32'}-${written++}.gguf`,
  );
  writeSyntheticModel(file, options);
  return file;
}

export async function collect(model: Model, request: GenerateRequest): Promise<Rollout[]> {
  const rollouts: Rollout[] = [];
  for await (const rollout of model.generate(request)) rollouts.push(rollout);
  return rollouts;
}

/** In the order of the request, whatever finished first. */
export async function collectSorted(model: Model, request: GenerateRequest): Promise<Rollout[]> {
  const rollouts = await collect(model, request);
  return rollouts.sort((a, b) => a.promptIndex - b.promptIndex || a.sampleIndex - b.sampleIndex);
}
