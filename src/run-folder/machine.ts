import { readFileSync } from 'node:fs';
import path from 'node:path';
import { hashFile } from '../engine/adapter.js';
import { loadAddon, packageRoot } from '../engine/addon.js';
import type { MachineClass, RunStart } from './manifest.js';

/** What decides whether two machines compute the same bits with the same code: system, instruction sets, llama.cpp. */
export function machineClass(): MachineClass {
  const { addon } = loadAddon();
  const features = Object.entries(addon.processorFeatures()).map(([name, value]) => `${name}=${value}`).sort();
  return { platform: process.platform, arch: process.arch, llamaRelease: addon.llamaRelease, features };
}

/** Version of the package and digest of the addon that runs. */
export async function codeVersion(): Promise<RunStart['code']> {
  const { version } = JSON.parse(readFileSync(path.join(packageRoot(), 'package.json'), 'utf8')) as { version: string };
  return { version, addon: await hashFile(loadAddon().file) };
}
