// The texts that a person meets, and the phrases that docs/style.md refuses in them. By itself it
// prints what it finds: `node scripts/prose.mjs [FILE-OR-FOLDER …]`.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import { parseSync } from '@swc/core';

/** The list of docs/style.md: `{ refused, instead, except }`, the first and last as RegExps. */
export function refusedPhrases(page = readFileSync('docs/style.md', 'utf8')) {
  const list = /## Refused phrases[^]*?```text\n([^]*?)```/.exec(page)?.[1] ?? '';
  return list
    .trim()
    .split('\n')
    .map((line) => {
      const [refused, rest] = line.split(' => ');
      const [instead, except] = rest.split('; except ');
      return {
        refused: new RegExp(refused, 'gi'),
        instead,
        except: except === undefined ? undefined : new RegExp(except, 'gi'),
      };
    });
}

/** The phrases of `text` that are refused: `{ index, phrase, instead }`. */
export function refusedIn(text, phrases) {
  return phrases.flatMap(({ refused, instead, except }) => {
    const allowed = except === undefined ? [] : [...text.matchAll(except)];
    const isAllowed = ({ index, 0: phrase }) =>
      allowed.some(
        (match) => match.index < index + phrase.length && index < match.index + match[0].length,
      );
    return [...text.matchAll(refused)]
      .filter((match) => !isAllowed(match))
      .map((match) => ({ index: match.index, phrase: match[0], instead }));
  });
}

/** The prose of a page of Markdown by lines: code, and what is between backticks, is blank. */
export function proseOfMarkdown(text) {
  const blank = (code) => code.replaceAll(/[^\n]/g, ' ');
  return text
    .replaceAll(/^```[^]*?^```/gm, blank)
    .replaceAll(/<!--[^]*?-->/g, blank)
    .replaceAll(/`[^`\n]*`/g, blank)
    .replaceAll(/\]\([^)]*\)/g, blank)
    .split('\n')
    .map((line, i) => ({ line: i + 1, text: line }));
}

/** The strings of a source file that read as words, with their lines; imports are left out. */
export function proseOfSource(file, text) {
  const { body } = parseSync(text, { syntax: 'typescript', tsx: file.endsWith('x') });
  const bytes = Buffer.from(text);
  // spans count bytes from 1
  const lineAt = ({ start }) =>
    bytes
      .subarray(0, start - 1)
      .toString()
      .split('\n').length;
  const found = [];
  const visit = (node) => {
    if (Array.isArray(node)) return node.forEach(visit);
    if (node === null || typeof node !== 'object') return;
    if (node.type === 'ImportDeclaration') return;
    const words = {
      StringLiteral: () => node.value,
      TemplateLiteral: () => node.quasis.map(({ cooked }) => cooked ?? '').join('…'),
      JSXText: () => node.value.replaceAll(/\s+/g, ' '),
    }[node.type]?.();
    if (words !== undefined && /[a-z]{2,} [a-z]+/i.test(words))
      found.push({ line: lineAt(node.span), text: words });
    Object.values(node).forEach(visit);
  };
  visit(body);
  return found;
}

/** Files whose words are data: models read them, and logs and frozen sets hold them. */
const DATA = [
  'src/tasks/extract/appointment',
  'src/tasks/extract/exploits',
  'src/tasks/extract/receipt',
  'src/tasks/extract/ticket',
  'src/tasks/extract/verify',
  'src/tasks/flat-object',
  'src/tasks/games/othello-board',
  'src/tasks/games/score',
  'src/tasks/games/trader',
  'src/tasks/scheduling/answer',
  'src/tasks/sql/lexer',
  'src/tasks/sql/patterns',
  'src/trainees/lora/playbook',
  'src/truth-seeking/domains/',
  'src/truth-seeking/graders/model-graders',
  'src/truth-seeking/modes/asking',
  'src/truth-seeking/run/config',
  'src/truth-seeking/strategies/judged-consistency',
  'src/truth-seeking/strategies/worlds',
  'src/truth-seeking/system-prompts',
];

/** Files of git below `places` whose words a person meets. */
export function proseFiles(places = ['src', 'docs', ':(glob)*.md', '.github']) {
  return execFileSync('git', ['ls-files', '-co', '--exclude-standard', '-z', ...places], {
    encoding: 'utf8',
  })
    .split('\0')
    .filter((file) => /\.(md|tsx?)$/.test(file))
    .filter(
      (file) =>
        file !== 'docs/style.md' &&
        !file.startsWith('dev/') &&
        !DATA.some((place) => file.startsWith(place)),
    );
}

/** What is refused in `files`: `FILE:LINE: phrase => instead`. */
export function refusedInFiles(files, phrases = refusedPhrases()) {
  return files.flatMap((file) => {
    const text = readFileSync(file, 'utf8');
    const prose = file.endsWith('.md') ? proseOfMarkdown(text) : proseOfSource(file, text);
    return prose.flatMap(({ line, text: words }) =>
      refusedIn(words, phrases).map(
        ({ phrase, instead }) => `${file}:${line}: "${phrase}": write ${instead}`,
      ),
    );
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const places = process.argv.slice(2);
  const found = refusedInFiles(proseFiles(places.length === 0 ? undefined : places));
  for (const line of found) console.log(line);
  console.log(`${found.length} refused phrases`);
  process.exitCode = found.length > 0 ? 1 : 0;
}
