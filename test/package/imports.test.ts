/**
 * The house as docs/design.md draws it, held against the imports of src/, type-only ones included:
 * an arrow that the page does not have may not be in the code, one that the code does not have may
 * not be on the page, and no file reaches itself.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

const slashed = (file: string): string => file.replaceAll(path.sep, '/');
const FILES = (readdirSync('src', { recursive: true, encoding: 'utf8' }) as string[])
  .map(slashed)
  .filter((file) => file.endsWith('.ts'));
/**
 * `index` is a room of its own; the other files beside it are the ground that every room stands on.
 */
const roomOf = (file: string): string =>
  file.includes('/') ? file.slice(0, file.indexOf('/')) : file === 'index.ts' ? 'index' : 'ground';

const withoutComments = (text: string): string =>
  text.replace(/\/\*[^]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '');
/** Imports and exports with a source, side effects; dynamic imports and types of modules. */
const IMPORTS = [/\b(?:from|import)\s*'(\.[^']*)'/g, /\bimport\(\s*'(\.[^']*)'\s*\)/g];
/** Modules that are started as threads or processes. */
const STARTS = [/\b(?:startThread|fileURLToPath)\(\s*new URL\(\s*'(\.[^']*\.js)'/g];
const referencesOf = (file: string, patterns: readonly RegExp[]): string[] => {
  const text = withoutComments(readFileSync(path.join('src', file), 'utf8'));
  const targets = patterns.flatMap((pattern) =>
    [...text.matchAll(pattern)].map(([, target]) => target!),
  );
  return [
    ...new Set(
      targets.map((target) =>
        path.posix.join(path.posix.dirname(file), target).replace(/\.js$/, '.ts'),
      ),
    ),
  ];
};
const GRAPH = new Map(FILES.map((file) => [file, referencesOf(file, IMPORTS)]));

/** The page's rows `| folder | what | may import |`, from the top floor down. */
const ROOMS = new Map(
  [
    ...readFileSync('docs/design.md', 'utf8').matchAll(/^\| `([\w-]+)` \| [^|]* \| ([^|]*) \|$/gm),
  ].map(([, room, arrows]) => [room!, [...arrows!.matchAll(/`([\w-]+)`/g)].map(([, to]) => to!)]),
);
const isBuilt = (room: string): boolean => FILES.some((file) => roomOf(file) === room);

/** `from -> to`, each with a file that makes it. */
const arrows = new Map<string, string>();
for (const file of FILES) {
  for (const target of referencesOf(file, [...IMPORTS, ...STARTS])) {
    const [from, to] = [
      roomOf(file),
      target.startsWith('../') ? target.split('/')[1]! : roomOf(target),
    ];
    if (from !== to && to !== 'ground') arrows.set(`${from} -> ${to}`, `${file} imports ${target}`);
  }
}

test('every import was found, and leads to a file', () => {
  expect(GRAPH.get('index.ts')!.length).toBeGreaterThan(20);
  expect(
    [...GRAPH].flatMap(([file, targets]) =>
      targets.filter((to) => !to.startsWith('../') && !GRAPH.has(to)).map((to) => `${file}: ${to}`),
    ),
  ).toEqual([]);
});

test('docs/design.md has every folder, and its arrows point down', () => {
  const order = [...ROOMS.keys()];
  expect(
    [...new Set(FILES.map(roomOf))].filter((room) => room !== 'ground' && !ROOMS.has(room)),
  ).toEqual([]);
  const upward = [...ROOMS].flatMap(([from, targets]) =>
    targets
      .filter((to) => to !== 'bench' && order.indexOf(to) <= order.indexOf(from))
      .map((to) => `${from} -> ${to}`),
  );
  expect(upward).toEqual([]);
});

test('a folder imports what docs/design.md lets it import', () => {
  const forbidden = [...arrows].filter(([arrow]) => {
    const [from, to] = arrow.split(' -> ') as [string, string];
    return !(ROOMS.get(from) ?? []).includes(to);
  });
  expect(forbidden).toEqual([]);
});

test('every arrow of docs/design.md between folders that are there is used', () => {
  const drawn = [...ROOMS].flatMap(([from, targets]) =>
    targets
      .filter((to) => isBuilt(from) && (isBuilt(to) || to === 'bench'))
      .map((to) => `${from} -> ${to}`),
  );
  expect(drawn.filter((arrow) => !arrows.has(arrow))).toEqual([]);
});

test('no file reaches itself by its imports', () => {
  const done = new Set<string>();
  const cycles: string[] = [];
  const walk = (file: string, trail: readonly string[]): void => {
    if (trail.includes(file)) cycles.push([...trail.slice(trail.indexOf(file)), file].join(' -> '));
    if (trail.includes(file) || done.has(file)) return;
    for (const next of GRAPH.get(file) ?? []) walk(next, [...trail, file]);
    done.add(file);
  };
  for (const file of FILES) walk(file, []);
  expect(cycles).toEqual([]);
});

test('what says why a command failed needs no package of many files, which a limit of open files would keep from being read', () => {
  const packages = new Map<string, string>();
  const seen = new Set<string>();
  const walk = (file: string): void => {
    if (seen.has(file)) return;
    seen.add(file);
    const text = withoutComments(readFileSync(path.join('src', file), 'utf8')).replace(
      /^(?:import|export) type [^]*?;$/gm,
      '',
    );
    for (const [, target] of text.matchAll(/\b(?:from|import)\s*'([^']*)'/g))
      if (target!.startsWith('.'))
        walk(path.posix.join(path.posix.dirname(file), target!).replace(/\.js$/, '.ts'));
      else if (!target!.startsWith('node:')) packages.set(target!, file);
  };
  walk('cli/main.ts');
  expect(seen.size).toBeGreaterThan(5);
  // of a few files each, and the bundle holds both
  expect([...packages].sort()).toEqual([
    ['canonicalize', 'canonical-json.ts'],
    ['string-width', 'text/terminal-style.ts'],
  ]);
});

test('a command of an operation knows neither the trainer nor evaluation, judge or back ends', () => {
  const commands = FILES.filter((file) => /^cli\/(?:run|train|eval|judge|truth)\//.test(file));
  expect(commands.length).toBeGreaterThan(20);
  const known = commands.flatMap((file) =>
    GRAPH.get(file)!
      .filter((to) =>
        /^(?:evaluation|backends)\/|^engine\/trainer|^judge\/judge\.ts|^training\/run\.ts/.test(to),
      )
      .map((to) => `${file} imports ${to}`),
  );
  expect(known).toEqual([]);
});
