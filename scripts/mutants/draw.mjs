/**
 * Draws mutants: a line of code, each as likely as the others, then an operator with a place on it,
 * then a place; without one, again.
 */
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Random } from '../../dist/src/random.js';
import { placesOf as placesOfCpp } from './cpp.mjs';
import { placesOf as placesOfTypeScript } from './typescript.mjs';

const FOLDERS = ['server', 'host', 'jobs', 'registry', 'gate', 'statistics', 'training'].map(
  (name) => `src/${name}`,
);
const NATIVE = 'native/training';

export const isNative = (file) => file.startsWith(`${NATIVE}/`);

/** Lines of code: neither blank nor of a comment. */
const isCode = (line) => !/^\s*(?:$|\/\/|\/?\*)/.test(line);

/** By their paths in the project, sorted. */
function sourcesIn(root) {
  const files = [...FOLDERS, NATIVE].flatMap((folder) =>
    readdirSync(path.join(root, folder), { recursive: true }).map(
      (name) => `${folder}/${name.split(path.sep).join('/')}`,
    ),
  );
  return new Map(
    files
      .filter((file) => (isNative(file) ? /\.(?:cpp|h)$/ : /\.ts$/).test(file))
      .sort()
      .map((file) => [file, readFileSync(path.join(root, file), 'utf8')]),
  );
}

/** What the places depend on, in few digits. */
function digestOf(sources) {
  const hash = createHash('sha256');
  for (const [file, text] of sources) hash.update(`${file}\0${text}\0`);
  return hash.digest('hex').slice(0, 16);
}

/**
 * Mutants without an end, none twice, and the digest of the sources that they are of.
 * @param seed 8 hexadecimal digits
 */
export function mutantsOf(root, seed) {
  const sources = sourcesIn(root);
  return { sources: digestOf(sources), drawn: drawn(sources, seed) };
}

function* drawn(sources, seed) {
  const lines = [...sources].flatMap(([file, text]) =>
    text.split('\n').flatMap((line, i) => (isCode(line) ? [{ file, line: i + 1 }] : [])),
  );
  const random = new Random(BigInt(`0x${seed}`));
  const known = new Map();
  const placesIn = (file) => {
    const text = sources.get(file);
    if (!known.has(file)) {
      let next = 0;
      const starts = text.split('\n').map(({ length }) => (next += length + 1) - length - 1);
      const lineOf = (at) => starts.findLastIndex((start) => start <= at) + 1;
      const columnOf = (at) => at - starts[lineOf(at) - 1] + 1;
      const places = isNative(file) ? placesOfCpp(text) : placesOfTypeScript(text);
      known.set(
        file,
        places.map(({ at, ...place }) => ({ ...place, line: lineOf(at), column: columnOf(at) })),
      );
    }
    return known.get(file);
  };
  const oneOf = (all) => all[random.nextInteger(0, all.length - 1)];
  const before = new Set();
  for (;;) {
    const { file, line } = oneOf(lines);
    const places = placesIn(file).filter((place) => place.line === line);
    if (places.length === 0) continue;
    const operator = oneOf([...new Set(places.map((place) => place.operator))].sort());
    const { column, start, end, after } = oneOf(
      places.filter((place) => place.operator === operator),
    );
    const key = `${file}\0${start}\0${end}\0${after}`;
    if (before.has(key)) continue;
    before.add(key);
    const text = sources.get(file);
    yield {
      file,
      line,
      column,
      operator,
      before: text.slice(start, end),
      after,
      text: text.slice(0, start) + after + text.slice(end),
      whole: text,
    };
  }
}
