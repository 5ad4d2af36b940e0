/**
 * What a reader of native/ may rely on: a name of a type means one thing, and a file can be read in
 * one sitting.
 */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from '@jest/globals';

const sources = readdirSync('native', { recursive: true, encoding: 'utf8' })
  .filter((name) => /\.(?:h|cpp|inl)$/.test(name))
  .map((name) => ({ name, text: readFileSync(path.join('native', name), 'utf8') }));

/**
 * Names of the classes, structs, enumerations and aliases that a source defines, nested ones
 * included.
 */
function definedTypes(text: string): string[] {
  const definition = /^[ \t]*(?:class|struct|union|enum(?: class)?)\s+(\w+(?:::\w+)*)[^;{()]*\{/gm;
  const alias = /\busing (\w+) =/g;
  return [...text.matchAll(definition), ...text.matchAll(alias)].map(
    (match) => match[1]!.split('::').at(-1)!,
  );
}

test('finds definitions however they are written', () => {
  const text =
    'class A final : public B {\n  struct C {};\n  enum class D : int { X };\n};\nclass E;\nusing F = int;\nstruct G::H {\n};\n';
  expect(definedTypes(text)).toEqual(['A', 'C', 'D', 'H', 'F']);
});

test('no two types of one name', () => {
  const places = new Map<string, string[]>();
  for (const { name, text } of sources) {
    for (const type of definedTypes(text)) places.set(type, [...(places.get(type) ?? []), name]);
  }
  expect(places.size).toBeGreaterThan(100);
  expect([...places].filter(([, files]) => files.length > 1)).toEqual([]);
});

/** Of 100 columns; it was 400 lines of 140. */
test('no file of more than 430 lines', () => {
  const lines = sources.map(({ name, text }) => [name, text.split('\n').length - 1] as const);
  expect(lines.filter(([, count]) => count > 430)).toEqual([]);
});
