// Writes the command line of dist/src to dist/program: a start of some hundred files takes two
// thirds of the processor time of one of five hundred. The library stays as it is: a user's module
// that a task's thread imports may import it, and then has its own instance of it.
import { existsSync, readdirSync, readFileSync, rmSync, mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** Modules that are started: the command line, and its threads and processes. */
const PROGRAMS = [
  'cli/command-line',
  'jobs/worker',
  'log/canonical-worker',
  'log/witness-process',
  'server/fine-tuning/rows-worker',
  'server/page/reading-worker',
  'tasks/scheduling/cp-sat-worker',
  'tasks/sql/query-program',
  'tasks/sql/query-thread',
  'tasks/task-worker',
];
/** Packages that are written into the bundle, with what they import. */
const INSIDE = ['canonicalize', 'csv-parse', 'string-width', 'yargs', 'zod'];

/** One file alone, which says why the others could not be read. */
const MAIN = 'cli/main';
const fileOf = (program) => (program === MAIN ? 'main' : program.replaceAll('/', '-'));

/** A module that is bundled finds files as if it were still in its place below dist/src. */
function withPlaces(text, module) {
  return text
    .replaceAll(/new URL\('(\.[^']*)\.js', import\.meta\.url\)/g, (whole, target) => {
      const program = path.posix.join(path.posix.dirname(module), target);
      return program === MAIN || PROGRAMS.includes(program)
        ? `new URL('./${fileOf(program)}.js', import.meta.program)`
        : whole;
    })
    .replaceAll(
      /(?<!['"])\bimport\.meta\.url\b/g,
      `new URL('../src/${module}', import.meta.url).href`,
    )
    .replaceAll('import.meta.program', 'import.meta.url');
}

const commandLine = {
  name: 'command line',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\/command-line\.js$/ }, () => ({
      path: `./${fileOf('cli/command-line')}.js`,
      external: true,
    }));
  },
};

/**
 * string-width builds tables of emoji where it is imported, a tenth of a short command's time.
 * Lines of printable ASCII need none of them.
 */
const widths = {
  name: 'widths',
  setup({ onResolve, onLoad, resolve }) {
    onResolve({ filter: /^string-width$/ }, async ({ path: name, pluginData, ...from }) => {
      if (pluginData === 'itself') return undefined;
      const { path: file } = await resolve(name, { ...from, pluginData: 'itself' });
      return { path: file, namespace: 'widths' };
    });
    onLoad({ filter: /./, namespace: 'widths' }, ({ path: file }) => ({
      contents: `
        const ascii = /^[\\x20-\\x7e\\n]*$/;
        export default (text, options) =>
          ascii.test(text)
            ? text.replaceAll('\\n', '').length
            : require(${JSON.stringify(file)}).default(text, options);`,
      loader: 'js',
      resolveDir: path.dirname(file),
    }));
  },
};

const places = (src) => ({
  name: 'places',
  setup({ onLoad, onResolve }) {
    onResolve({ filter: /^[^./]/ }, ({ path: name, resolveDir }) =>
      resolveDir.includes('node_modules') || INSIDE.includes(name.split('/')[0])
        ? undefined
        : { path: name, external: true },
    );
    onResolve({ filter: /\/bench\// }, ({ path: name, resolveDir }) => {
      const target = path.relative(path.dirname(src), path.resolve(resolveDir, name));
      return { path: `../${target.split(path.sep).join('/')}`, external: true };
    });
    // Zod's own namespace holds its messages in 60 languages, and takes English
    onLoad({ filter: /zod[\\/]v4[\\/]locales[\\/]index\.js$/ }, () => ({
      contents: "export { default as en } from './en.js';",
      loader: 'js',
    }));
    onLoad({ filter: /\.js$/ }, ({ path: file }) => {
      const module = path.relative(src, file).split(path.sep).join('/');
      return module.startsWith('..')
        ? undefined
        : { contents: withPlaces(readFileSync(file, 'utf8'), module), loader: 'js' };
    });
  },
});

/** Names, versions and licences of the packages that the bundle holds. */
function licences(root, inputs) {
  const packages = new Set(
    inputs.flatMap((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0] ?? []),
  );
  return [...packages]
    .sort()
    .map((folder) => {
      const at = path.join(root, folder);
      const { name, version, license } = JSON.parse(
        readFileSync(path.join(at, 'package.json'), 'utf8'),
      );
      const file = readdirSync(at).find((each) => /^licen[cs]e/i.test(each));
      const text = file === undefined ? '' : `\n${readFileSync(path.join(at, file), 'utf8')}`;
      return `${name} ${version} (${license})\n${text}`;
    })
    .join('\n----\n\n');
}

/** Hashes of the modules that decide a run, which the bundle compares with those beside it. */
async function codeOf(src) {
  const load = (file) => import(pathToFileURL(path.join(src, 'run-folder', file)).href);
  if (!existsSync(path.join(src, 'run-folder'))) return {};
  const [{ CODE }, { hashModules }] = [await load('machine.js'), await load('code-hash.js')];
  return Object.fromEntries(
    Object.entries(CODE).map(([name, modules]) => [name, hashModules(src, modules)]),
  );
}

/** What --help says of each command, so that it loads none of them. */
async function summariesOf(src) {
  const file = path.join(src, 'cli', 'commands.js');
  if (!existsSync(file)) return [];
  const { loadCommands } = await import(pathToFileURL(file).href);
  return (await loadCommands()).map(({ command, describe }) => ({ command, describe }));
}

/**
 * @param root of the project, whose dist/src is built
 * @param bundled false: dist/program only starts dist/src, for coverage and mutants
 */
export async function writeProgram(root, bundled) {
  const src = path.join(root, 'dist', 'src');
  const out = path.join(root, 'dist', 'program');
  rmSync(out, { recursive: true, force: true });
  mkdirSync(out, { recursive: true });
  if (!bundled) {
    writeFileSync(path.join(out, 'main.js'), "#!/usr/bin/env node\nimport '../src/cli/main.js';\n");
    return;
  }
  const esbuild = await import('esbuild');
  const options = {
    absWorkingDir: root,
    outdir: out,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    chunkNames: '[hash]',
    metafile: true,
    // for node --enable-source-maps; the sources themselves are not in the package
    sourcemap: true,
    sourcesContent: false,
    legalComments: 'none',
    logLevel: 'warning',
    define: {
      'globalThis.isoproBundledCode': JSON.stringify(await codeOf(src)),
      'globalThis.isoproBundledSummaries': JSON.stringify(await summariesOf(src)),
    },
    // what CommonJS inside the bundle asks for
    banner: {
      js: "import { createRequire as requireFrom } from 'node:module';\nconst require = requireFrom(import.meta.url);",
    },
  };
  const entries = (programs) =>
    Object.fromEntries(
      programs
        .map((program) => [fileOf(program), path.join(src, `${program}.js`)])
        .filter(([, file]) => existsSync(file)),
    );
  const main = { entryPoints: entries([MAIN]), plugins: [commandLine, widths, places(src)] };
  const others = {
    entryPoints: entries(PROGRAMS),
    splitting: true,
    plugins: [widths, places(src)],
  };
  const inputs = [];
  for (const part of [main, others]) {
    if (Object.keys(part.entryPoints).length === 0) continue;
    const { metafile } = await esbuild.build({ ...options, ...part });
    inputs.push(...Object.keys(metafile.inputs).filter((file) => !file.startsWith('widths:')));
  }
  writeFileSync(path.join(out, 'LICENSES.txt'), licences(root, inputs));
}
