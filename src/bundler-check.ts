/**
 * Imported before everything else: a bundler writes these modules into another file, where the
 * native addon, the threads and the assets that lie beside them are not found. Said at once, and
 * not as a file that is missing at some later call.
 */
import { readFileSync } from 'node:fs';
import { IsoproError } from './errors.js';

/**
 * @param module its `import.meta.url`; undefined in what a bundler writes as CommonJS
 * @throws IsoproError NATIVE_ADDON_MISSING
 */
export function refuseBundled(module: string | undefined): void {
  let name: unknown;
  try {
    name = (
      JSON.parse(readFileSync(new URL('../../package.json', module), 'utf8')) as {
        readonly name?: unknown;
      }
    ).name;
  } catch {
    name = undefined; // no such file: it does not lie in the package
  }
  if (name !== 'isopro-native')
    throw new IsoproError(
      'NATIVE_ADDON_MISSING',
      'isopro-native was bundled, so it cannot find its addon, worker scripts and assets',
      {
        remedy:
          'Exclude the package from the bundle: --external:isopro-native (esbuild), ssr.external (Vite), externals (webpack) or ' +
          'serverExternalPackages (Next.js).',
      },
    );
}

refuseBundled(import.meta.url);
