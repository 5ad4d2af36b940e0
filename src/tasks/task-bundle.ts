/**
 * Bundles a user's task with everything that it imports into one module with one hash, which does
 * not change when a file does.
 */
import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import type { BuildFailure, BuildResult, Loader, Plugin } from 'esbuild';
import { canonicalJson } from '../canonical-json.js';
import { installedVersion, missingPackage } from '../optional-package.js';

export interface TaskBundle {
  /** An ES module that imports Node's own modules and this package, nothing else. */
  readonly code: string;
  /** Source map of the code, as JSON; paths are relative to the folder of the task. */
  readonly sourceMap: string;
  /**
   * SHA-256 (hex) of the import graph: the contents of the files in import order, and their
   * imports. It contains no folder names, so a copy elsewhere has the same hash.
   */
  readonly sha256: string;
}

/** The message is the bundler's: a file that does not parse, or an import that leads nowhere. */
export class BundleError extends Error {}

const OWN_PACKAGE = 'isopro-native';
const LOADERS: Readonly<Record<string, Loader>> = {
  '.js': 'js',
  '.mjs': 'js',
  '.cjs': 'js',
  '.jsx': 'jsx',
  '.ts': 'ts',
  '.mts': 'ts',
  '.cts': 'ts',
  '.tsx': 'tsx',
  '.json': 'json',
};

/** Expressions for the place of a module; in a bundle each module needs its own. */
const PLACES: Readonly<Record<string, { readonly name: string; readonly value: string }>> = {
  'import.meta.url': { name: 'isopro_url', value: 'isopro_place.href' },
  'import.meta.filename': { name: 'isopro_file', value: 'isopro_path(isopro_place)' },
  'import.meta.dirname': {
    name: 'isopro_folder',
    value: "isopro_path(new URL('.', isopro_place)).slice(0, -1)",
  },
  __filename: { name: 'isopro_file', value: 'isopro_path(isopro_place)' },
  __dirname: {
    name: 'isopro_folder',
    value: "isopro_path(new URL('.', isopro_place)).slice(0, -1)",
  },
};

/** Reads every file once, records its hash, and gives it its own path. */
function sources(hashes: Map<string, string>): Plugin {
  const read = (file: string): Buffer => {
    const bytes = readFileSync(file);
    hashes.set(file, hash('sha256', bytes));
    return bytes;
  };
  return {
    name: 'sources',
    setup(build) {
      build.onResolve({ filter: new RegExp(`^${OWN_PACKAGE}$`) }, () => ({
        path: new URL('../index.js', import.meta.url).href,
        external: true,
      }));
      build.onResolve({ filter: /\.node$/ }, ({ path: specifier, resolveDir }) => {
        const file = path.resolve(resolveDir, specifier);
        read(file); // loaded from where it lies, by who has the hash
        return { path: file, external: true };
      });
      build.onLoad({ filter: /.*/, namespace: 'file' }, ({ path: file }) => {
        const loader = LOADERS[path.extname(file)];
        if (loader === undefined) return null;
        const text = read(file)
          .toString('utf8')
          .replace(/^\uFEFF/, '')
          .replace(/^#!.*/, '');
        if (!/import\.meta|__filename|__dirname/.test(text)) return { contents: text, loader };
        const place = pathToFileURL(file).href;
        const own = new Map(Object.values(PLACES).map(({ name, value }) => [name, value]));
        const constants = [
          'const isopro_place = new URL(',
          JSON.stringify(place),
          ');',
          ...[...own].map(([name, value]) => `const ${name} = ${value};`),
        ].join(' ');
        return { contents: `${constants} ${text}`, loader };
      });
    },
  };
}

/** Number of builds that are running; the process of the bundler ends with the last. */
let building = 0;

/**
 * @throws BundleError; IsoproError PACKAGE_MISSING if the bundler lacks its program for this
 *   platform
 */
export async function bundleTask(file: string): Promise<TaskBundle> {
  const entry = path.resolve(file);
  const folder = path.dirname(entry);
  const hashes = new Map<string, string>();
  const { build, stop } = await import('esbuild'); // built-in tasks do without it
  building++;
  let result: BuildResult<{ write: false; metafile: true }>;
  try {
    result = await build({
      entryPoints: [entry],
      absWorkingDir: folder,
      bundle: true,
      write: false,
      outfile: 'bundle.mjs', // what the map's names are relative to
      metafile: true,
      sourcemap: 'external',
      sourcesContent: false,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      logLevel: 'silent',
      // nothing but the files themselves decides: no settings that lie beside them
      tsconfigRaw: {},
      treeShaking: false,
      ignoreAnnotations: true,
      preserveSymlinks: false,
      define: Object.fromEntries(
        Object.entries(PLACES).map(([expression, { name }]) => [expression, name]),
      ),
      banner: { js: "import { fileURLToPath as isopro_path } from 'node:url';" },
      plugins: [sources(hashes)],
    });
  } catch (cause) {
    const [first] = (cause as BuildFailure).errors ?? [];
    if (first === undefined) throw missingBundler(cause) ?? cause;
    const { text, location } = first;
    throw new BundleError(
      `${text}${location === null ? '' : ` (${location.file}:${location.line})`}`,
      { cause },
    );
  } finally {
    if (--building === 0) await stop();
  }
  const written = (ending: string): string =>
    result.outputFiles.find(({ path: name }) => name.endsWith(ending))!.text;
  return {
    code: written('.mjs'),
    sourceMap: written('.map'),
    sha256: graphHash(entry, folder, result.metafile, hashes),
  };
}

/** esbuild's program is an optional dependency of esbuild, of another name on each platform. */
function missingBundler(cause: unknown): unknown {
  const name = /The package "([^"]+)" could not be found, and is needed by esbuild/.exec(
    (cause as Error).message,
  )?.[1];
  return name === undefined
    ? undefined
    : missingPackage(
        name,
        installedVersion('esbuild') ?? 'latest',
        'A task or check in JavaScript',
        cause,
      );
}

function graphHash(
  entry: string,
  folder: string,
  { inputs }: BuildResult<{ metafile: true }>['metafile'],
  hashes: ReadonlyMap<string, string>,
): string {
  const places = new Map<string, number>();
  const modules: { sha256: string; format: string; imports: [string, string | number][] }[] = [];
  const visit = (input: string): number => {
    const known = places.get(input);
    if (known !== undefined) return known;
    const { imports, format } = inputs[input]!;
    const at = modules.length;
    places.set(input, at);
    const absolute = path.resolve(folder, input);
    const module = {
      sha256: hashes.get(absolute) ?? hash('sha256', readFileSync(absolute)),
      format: format ?? '',
      imports: [] as [string, string | number][],
    };
    modules.push(module);
    for (const { path: target, kind, original, external } of imports) {
      // a native addon by its contents, Node's modules and this package by their names
      const name =
        external === true
          ? (hashes.get(target) ?? (target.startsWith('file:') ? OWN_PACKAGE : target))
          : visit(target);
      module.imports.push([
        `${kind} ${external === true && hashes.has(target) ? 'addon' : (original ?? '')}`,
        name,
      ]);
    }
    return at;
  };
  visit(path.relative(folder, entry).replaceAll(path.sep, '/'));
  return hash('sha256', canonicalJson(modules));
}
