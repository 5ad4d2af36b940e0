/**
 * Packages that an installation may be without (`npm install --omit=optional`): which are there,
 * and what installs one.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { IsoproError } from './errors.js';

/** Returns the version of a package as this file would find it; null if it is not installed. */
export function installedVersion(name: string): string | null {
  for (const base of createRequire(import.meta.url).resolve.paths(name) ?? []) {
    const file = path.join(base, ...name.split('/'), 'package.json');
    if (existsSync(file))
      return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version;
  }
  return null;
}

/** Each with the version that it is tried with; tests hold these to package.json. */
const INSTALLED_UNLESS_OMITTED = { 'node-llama-cpp': '3.22.1', 'or-tools-wasm': '0.9.1' } as const;

/** Clients of services that answer: whoever uses one installs it. */
export const SERVICE_PACKAGES = {
  '@ai-sdk/openai-compatible': '2.0.92',
  '@ai-sdk/anthropic': '3.0.140',
  ollama: '0.6.4',
} as const;

export const OPTIONAL_PACKAGES = { ...INSTALLED_UNLESS_OMITTED, ...SERVICE_PACKAGES } as const;

export function missingPackage(
  name: string,
  version: string,
  purpose: string,
  cause?: unknown,
): IsoproError {
  return new IsoproError(
    'PACKAGE_MISSING',
    `${purpose} needs the package ${name}, which is not installed`,
    {
      cause,
      remedy: Object.hasOwn(SERVICE_PACKAGES, name)
        ? `Run \`npm install ${name}@${version}\` where isopro-native is installed.`
        : `Run \`npm install ${name}@${version}\` in your project, or install isopro-native without --omit=optional.`,
    },
  );
}

/**
 * @param purpose what is wanted of it, as the beginning of a sentence
 * @throws IsoproError PACKAGE_MISSING
 */
export function requirePackage(name: keyof typeof OPTIONAL_PACKAGES, purpose: string): void {
  if (installedVersion(name) === null) throw missingPackage(name, OPTIONAL_PACKAGES[name], purpose);
}
