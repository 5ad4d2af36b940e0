import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { fileURLToPath } from 'node:url';
import { hashFile } from '../engine/adapter.js';
import { loadAddon, packageRoot, type NativeModelInfo } from '../engine/addon.js';
import { hashModules } from './code-hash.js';
import type { MachineClass, RunStart } from './manifest.js';

/** A model as far as it decides the class of machine. */
export type Computing = Pick<NativeModelInfo, 'ownBits'>;

/**
 * Returns what decides whether two machines compute the same bits with these models: the version of
 * our own kernels where they compute every operation of each; else system, instruction sets and
 * llama.cpp release.
 */
export function machineClass(models: readonly Computing[]): MachineClass {
  const { addon } = loadAddon();
  const [version] = models.map(({ ownBits }) => ownBits);
  if (version !== undefined && version !== null && models.every(({ ownBits }) => ownBits !== null))
    return { arch: process.arch, kernels: 'own', version };
  const features = Object.entries(addon.processorFeatures())
    .map(([name, value]) => `${name}=${value}`)
    .sort();
  return {
    platform: process.platform,
    arch: process.arch,
    llamaRelease: addon.llamaRelease,
    features,
  };
}

/** Models that a run uses next to its own: a teacher, and one that gives verdicts. ggml's, both. */
export function otherModels({ algorithm, check }: RunStart['settings']): readonly Computing[] {
  const isTaught = typeof algorithm === 'object' && algorithm !== null && 'teacher' in algorithm;
  const isGraded = typeof check === 'string' && check.startsWith('model:');
  return isTaught || isGraded ? [{ ownBits: null }] : [];
}

/** Returns true if two manifests are of machines that compute the same bits. */
export const isSameMachine = (
  a: Pick<RunStart, 'machine' | 'code'>,
  b: Pick<RunStart, 'machine' | 'code'>,
): boolean =>
  isDeepStrictEqual(a.machine, b.machine) &&
  ('kernels' in a.machine || a.code.addon === b.code.addon);

/** Describes whose kernels sampled: `own kernels (bits of version 1) on x64`. */
export function machineText({
  machine,
  evaluation: { matmul },
}: Pick<RunStart, 'machine'> & {
  readonly evaluation: Pick<RunStart['evaluation'], 'matmul'>;
}): string {
  if ('kernels' in machine)
    return `own kernels (bits of version ${machine.version}) on ${machine.arch}`;
  const products = matmul === 'own' ? ' with own matrix kernels' : '';
  return `llama.cpp ${machine.llamaRelease}${products} on ${machine.platform} ${machine.arch}`;
}

/**
 * The modules from which everything is imported or started that decides something: a training run
 * with the built-in tasks, and what measures or trains beliefs.
 */
const RUN = ['training/loop.js', 'tasks/registry.js'];
export const CODE = { run: RUN, beliefs: [...RUN, 'truth-seeking/index.js'] } as const;

/** Of the modules that scripts/bundle-program.mjs bundled, where this is the bundle. */
const BUNDLED = (
  globalThis as { readonly isoproBundledCode?: Readonly<Record<keyof typeof CODE, string>> }
).isoproBundledCode;

/**
 * SHA-256 of the modules that run. A bundle names those beside it, and itself where it was made of
 * others.
 */
function hashOfModules(of: keyof typeof CODE): string {
  const beside = hashModules(fileURLToPath(new URL('..', import.meta.url)), CODE[of]);
  const bundled = BUNDLED?.[of] ?? beside;
  return bundled === beside ? beside : hash('sha256', `${beside} ${bundled}`);
}

/** The modules of a process do not change while it runs. */
const hashes = new Map<keyof typeof CODE, string>();

/** Version of the package, and digests of the JavaScript and the addon that run. */
export async function codeVersion(of: keyof typeof CODE = 'run'): Promise<RunStart['code']> {
  const { version } = JSON.parse(
    readFileSync(path.join(packageRoot(), 'package.json'), 'utf8'),
  ) as { version: string };
  const javascript = hashes.get(of) ?? hashOfModules(of);
  hashes.set(of, javascript);
  return { version, javascript, addon: await hashFile(loadAddon().file) };
}
