import { hash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { canonicalJson } from '../canonical-json.js';
import { hashFile } from '../engine/adapter.js';
import { loadAddon, packageRoot } from '../engine/addon.js';
import type { MachineClass, RunStart } from './manifest.js';

/**
 * What decides whether two machines compute the same bits with the same code: system, instruction
 * sets, llama.cpp.
 */
export function machineClass(): MachineClass {
  const { addon } = loadAddon();
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

/** What starts, shows or judges a run decides nothing in it. */
const AROUND: readonly string[] = ['ai', 'cli', 'jobs', 'judge', 'registry', 'report', 'trackers'];

/** SHA-256 over names and contents of the package's own modules that decide what a run does. */
export function hashModules(folder: string): string {
  const modules = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .map((file) => file.replaceAll(path.sep, '/'))
    .filter((file) => file.endsWith('.js') && !AROUND.includes(file.split('/')[0]!));
  return hash(
    'sha256',
    canonicalJson(
      modules.sort().map((file) => [file, hash('sha256', readFileSync(path.join(folder, file)))]),
    ),
  );
}

/** Version of the package, and digests of the JavaScript and the addon that run. */
export async function codeVersion(): Promise<RunStart['code']> {
  const { version } = JSON.parse(
    readFileSync(path.join(packageRoot(), 'package.json'), 'utf8'),
  ) as { version: string };
  return {
    version,
    javascript: hashModules(fileURLToPath(new URL('..', import.meta.url))),
    addon: await hashFile(loadAddon().file),
  };
}
