// build-ts.mjs [--force]: `npm run build:ts`, which writes the TypeScript of the package, the
// benchmarks, the examples and what tests share to dist/. Where dist/ is what these sources gave
// last time, nothing is run; else `tsc --incremental` writes what has changed. It leaves behind
// what came of sources that are no more, and does not see that somebody deleted or changed a file
// of dist/: both are seen to here.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { writeProgram } from './bundle-program.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const dist = path.join(root, 'dist');
const record = path.join(dist, 'built.json');
const increments = path.join(dist, 'built.tsbuildinfo');
const { include, exclude } = JSON.parse(readFileSync(path.join(root, 'tsconfig.json'), 'utf8'));

/** The files below a place of the project, or the one that it is, by their paths in the project. */
function filesOf(place) {
  const at = path.join(root, place);
  if (!existsSync(at)) return [];
  if (!statSync(at).isDirectory()) return [place];
  return readdirSync(at, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) =>
      path
        .relative(root, path.join(entry.parentPath ?? entry.path, entry.name))
        .split(path.sep)
        .join('/'),
    );
}

const sources = include
  .flatMap(filesOf)
  .filter(
    (file) =>
      /\.(?:[mc]?tsx?|json)$/.test(file) &&
      !exclude.some((folder) => file.startsWith(`${folder}/`)),
  )
  .sort();

/** ISOPRO_UNBUNDLED=1: the command is started from dist/src, for coverage and mutants. */
const bundled = process.env.ISOPRO_UNBUNDLED !== '1';

/** What dist/ depends on: sources, options, and the compiler and the types that are installed. */
function fingerprint() {
  const hash = createHash('sha256');
  for (const file of [
    ...sources,
    'scripts/bundle-program.mjs',
    'tsconfig.json',
    'package.json',
    'node_modules/.package-lock.json',
  ])
    hash
      .update(`${file}\0`)
      .update(existsSync(path.join(root, file)) ? readFileSync(path.join(root, file)) : '')
      .update('\0');
  return hash.update(String(bundled)).digest('hex');
}

const outputs = () =>
  ['src', 'bench', 'examples', 'test', 'program']
    .flatMap((folder) => filesOf(`dist/${folder}`))
    .sort();
const state = () =>
  Object.fromEntries(
    outputs().map((file) => {
      const { size, mtimeMs } = statSync(path.join(root, file));
      return [file, [size, mtimeMs]];
    }),
  );

const inputs = fingerprint();
const force = process.argv.includes('--force');
const last =
  !force && existsSync(record)
    ? JSON.parse(readFileSync(record, 'utf8'))
    : { inputs: '', outputs: {} };
const untouched = JSON.stringify(last.outputs) === JSON.stringify(state());
if (last.inputs !== inputs || !untouched) {
  rmSync(record, { force: true });
  if (!untouched) rmSync(increments, { force: true });
  const tsc = path.join(root, 'node_modules', 'typescript', 'bin', 'tsc');
  const { status } = spawnSync(process.execPath, [tsc, '-p', 'tsconfig.json'], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) process.exit(status ?? 1);
  const expected = new Set(sources.map((file) => `dist/${file.replace(/\.tsx?$/, '')}`));
  for (const file of outputs())
    if (
      !file.startsWith('dist/program/') &&
      !expected.has(file.replace(/\.(?:js|js\.map|d\.ts)$/, ''))
    )
      rmSync(path.join(root, file));
  await writeProgram(root, bundled);
  // npx keeps links to the second, which was the command before there was a bundle
  for (const file of ['program/main.js', 'src/cli/main.js'])
    chmodSync(path.join(dist, file), 0o755);
  writeFileSync(record, JSON.stringify({ inputs, outputs: state() }));
}
