/** The words that a person meets are plain English: no phrase that docs/style.md refuses. */
import { expect, test } from '@jest/globals';

interface Words {
  readonly line: number;
  readonly text: string;
}
interface Prose {
  refusedPhrases(): readonly object[];
  refusedIn(text: string, phrases: readonly object[]): { readonly phrase: string }[];
  proseOfMarkdown(text: string): Words[];
  proseOfSource(file: string, text: string): Words[];
  proseFiles(): string[];
  refusedInFiles(files: readonly string[], phrases: readonly object[]): string[];
}
const script: string = '../../scripts/prose.mjs';
const { proseFiles, proseOfMarkdown, proseOfSource, refusedIn, refusedInFiles, refusedPhrases } =
  (await import(script)) as Prose;

const phrases = refusedPhrases();
const refused = (text: string): string[] => refusedIn(text, phrases).map(({ phrase }) => phrase);

test('docs/style.md lists phrases, and each is refused where it is written', () => {
  expect(phrases.length).toBeGreaterThan(40);
  expect(refused('It goes on beside the run.')).toEqual(['beside', 'goes on']);
  expect(refused('This is no file.')).toEqual(['is no']);
});

test('what an exception names is allowed, and only there', () => {
  expect(refused('There is no file, and it is no longer here.')).toEqual([]);
  expect(refused('There is no file. This is no run.')).toEqual(['is no']);
});

test('strings, templates and the text of a page are read; imports and code are not', () => {
  const source = "import a from 'goes on/beside it';\nconst b = 'é goes on';\nf(`it is anew`);\n";
  const lines = proseOfSource('a.ts', source).map(({ line, text }) => [line, text]);
  expect(lines).toEqual([
    [2, 'é goes on'],
    [3, 'it is anew'],
  ]);
  expect(proseOfSource('a.tsx', 'const a = <p>this goes on</p>;')).toHaveLength(1);
  const page = proseOfMarkdown('one\n```\nit goes on\n```\n`goes on` [a](goes-on.md)\n');
  expect(page.flatMap(({ text }) => refused(text))).toEqual([]);
});

test('no page and no string of the program holds a refused phrase', () => {
  const files = proseFiles();
  expect(files.length).toBeGreaterThan(700);
  expect(refusedInFiles(files, phrases)).toEqual([]);
});
