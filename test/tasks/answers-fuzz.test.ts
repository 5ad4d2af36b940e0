/**
 * Replies close to right, soup and monsters to the tasks whose answer is one value: no exception,
 * no hang, no false pass.
 */
import { describe, expect, test } from '@jest/globals';
import { canonicalJson, type Json } from '../../src/canonical-json.js';
import { Random } from '../../src/random.js';
import { extract } from '../../src/tasks/extract/extract.js';
import type { Extraction, ExtractProblem } from '../../src/tasks/extract/problem.js';
import { frozenSet } from '../../src/tasks/frozen-sets.js';
import { ladder } from '../../src/tasks/ladder/ladder.js';
import type { LadderProblem } from '../../src/tasks/ladder/problem.js';
import type { FinishReason, Problem, SynchronousTask } from '../../src/tasks/task.js';
import { judgeReply } from '../../src/tasks/verdict.js';
import { ownCost } from '../models/own-cost.js';

const TEXTS = process.env.ISOPRO_FULL === '1' ? 100_000 : 10_000;
const LIMIT_MS = 5;

const PIECES = [
  ...'{}[]":,.\'`\\/+-*=_<>()#$%&;!?0123456789 \n\r\t\0',
  '```',
  '```json\n',
  '\n```',
  '{"',
  '": ',
  '", "',
  'null',
  'true',
  'false',
  'NaN',
  'Infinity',
  '1e999',
  '-0',
  '0.1',
  '9'.repeat(400),
  '__proto__',
  'constructor',
  'unknown',
  'Answer:',
  'The answer is ',
  '\\u0041',
  '\\ud800',
  '\ud800',
  '\ufeff',
  '\u200b',
  '\u00a0',
  '\u2028',
  '\u202e',
  '💥',
  'é',
  'ａ',
  '<|im_end|>',
  '/* */',
  '// x\n',
];
const piece = (random: Random): string => PIECES[random.nextInteger(0, PIECES.length - 1)]!;

function mutate(random: Random, text: string): string {
  let result = text;
  for (let edit = random.nextInteger(0, 3); edit > 0; edit--) {
    const at = random.nextInteger(0, result.length);
    const kind = random.nextInteger(0, 5);
    if (kind === 0) result = result.slice(0, at) + piece(random) + result.slice(at);
    else if (kind === 1) result = result.slice(0, at) + result.slice(at + random.nextInteger(1, 4));
    else if (kind === 2)
      result =
        result.slice(0, at) +
        String.fromCharCode(random.nextInteger(0, 0xffff)) +
        result.slice(at + 1);
    else if (kind === 3) result += result.slice(at, at + random.nextInteger(1, 40));
    else if (kind === 4) result = result.replace(/\d+/, () => String(random.nextInteger(0, 99)));
    else result = piece(random) + result + piece(random);
  }
  return result;
}
const soup = (random: Random): string =>
  Array.from({ length: random.nextInteger(0, 40) }, () => piece(random)).join('');
/** Made to be slow for one pattern or another. */
function monstrous(random: Random, good: string): string {
  const unit = random.nextInteger(0, 3) === 0 ? good : piece(random) + piece(random);
  const body = unit.repeat(Math.floor(random.nextInteger(1, 19_000) / unit.length) + 1);
  return [body, `${good}${body}`, `${body}${good}`, `{"a": "${body}"}`, `"${body}`][
    random.nextInteger(0, 4)
  ]!;
}

const isBlank = (character: string | undefined): boolean =>
  character !== undefined && ' \t\r\n'.includes(character);

/** The text without its blanks, character by character. */
function bare(text: string): string {
  const characters = [...text];
  while (isBlank(characters[0])) characters.shift();
  while (isBlank(characters.at(-1))) characters.pop();
  return characters.join('');
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: JSON has none in a text
const TEXT = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/.source;
const VALUE = `${TEXT}|-?(?:0|[1-9]\\d*)(?:\\.\\d+)?(?:[eE][+-]?\\d+)?|true|false|null`;
const BLANK = '[ \\t\\r\\n]*';

/**
 * Would a careful person take this for the object? A reading of its own that knows nothing but
 * pairs of a key and a plain value.
 */
function objectOf(text: string): Map<string, unknown> | null {
  const lines = bare(text).split('\n');
  let json = bare(text);
  if (/^```(json)?[ \t\r]*$/.test(lines[0]!) && json.endsWith('```') && lines.length > 1)
    json = bare(lines.slice(1).join('\n').slice(0, -3));
  if (json[0] !== '{' || json.at(-1) !== '}') return null;
  const pair = new RegExp(`${BLANK}(${TEXT})${BLANK}:${BLANK}(${VALUE})${BLANK}(,|\\}$)`, 'y');
  const found = new Map<string, unknown>();
  for (pair.lastIndex = 1; pair.lastIndex < json.length; ) {
    const read = pair.exec(json);
    if (read === null) return null;
    const key = JSON.parse(read[1]!) as string;
    if (found.has(key)) return null;
    found.set(key, JSON.parse(read[2]!));
    if (read[3] === '}') return pair.lastIndex === json.length ? found : null;
  }
  return null;
}

function acceptableObject(problem: ExtractProblem, text: string): boolean {
  const found = objectOf(text);
  return (
    found !== null &&
    found.size === problem.schema.length &&
    problem.schema.every(({ key }) => found.get(key) === problem.expected[key])
  );
}

/**
 * Of a line: what is left without blanks, a period and quotes is the reference and nothing else.
 */
function acceptableLine(reference: string, text: string): boolean {
  const whole = bare(text);
  return ['', '.'].some((end) =>
    ['', '"', "'", '`'].some((quote) => whole === `${quote}${reference}${quote}${end}`),
  );
}

interface Campaign<P extends Problem, A> {
  readonly task: SynchronousTask<P, A>;
  readonly rows: readonly { readonly problem: P; readonly reference: A }[];
  readonly forms: readonly ((reference: A) => string)[];
  readonly acceptable: (problem: P, reference: A, text: string) => boolean;
}

function fuzz<P extends Problem, A>({ task, rows, forms, acceptable }: Campaign<P, A>): void {
  test(`${TEXTS} replies: no exception, each under ${LIMIT_MS} ms, no false pass and no false refusal`, () => {
    const random = new Random(43n);
    let passed = 0;
    const slow: string[] = [];
    const wrong: string[] = [];
    for (let trial = 0; trial < TEXTS; trial++) {
      const { problem, reference } = rows[random.nextInteger(0, rows.length - 1)]!;
      const good = forms[random.nextInteger(0, forms.length - 1)]!(reference);
      const kind = random.nextInteger(0, 99);
      const text =
        kind < 80 ? mutate(random, good) : kind < 98 ? soup(random) : monstrous(random, good);
      const finish: FinishReason = random.nextInteger(0, 19) === 0 ? 'length' : 'stop';
      const judge = (): string => {
        const { verdict } = judgeReply(task, problem, text, finish);
        if (verdict.kind === 'fail') task.feedback!(problem, verdict);
        const parsed = task.parse(text, problem);
        if (parsed.ok) canonicalJson(parsed.answer as Json);
        for (const answer of task.readLeniently!(text, problem).slice(0, 16))
          task.verify(problem, answer);
        return verdict.kind;
      };
      const { result: verdict, elapsed } = ownCost(judge, LIMIT_MS);
      if (elapsed >= LIMIT_MS)
        slow.push(`${elapsed.toFixed(1)} ms, ${text.length} characters: ${text.slice(0, 80)}`);
      if (verdict === 'pass') passed++;
      if ((verdict === 'pass') !== (finish === 'stop' && acceptable(problem, reference, text)))
        wrong.push(`${verdict}: ${text.slice(0, 300)}`);
    }
    expect(slow).toEqual([]);
    expect(wrong).toEqual([]);
    expect(passed).toBeGreaterThan(TEXTS / 20); // the campaign reaches what is accepted
    expect(passed).toBeLessThan(TEXTS / 2);
  });
}

describe('fuzz of extract', () =>
  fuzz<ExtractProblem, Extraction>({
    task: extract,
    rows: frozenSet<ExtractProblem, Extraction>('extract', 'test').problems,
    forms: [
      (reference) => JSON.stringify(reference),
      (reference) => JSON.stringify(reference, null, 2),
      (reference) => `\`\`\`json\n${JSON.stringify(reference)}\n\`\`\``,
      (reference) =>
        ` ${JSON.stringify(Object.fromEntries(Object.entries(reference).reverse()))}\n`,
    ],
    acceptable: (problem, _reference, text) => acceptableObject(problem, text),
  }));

describe('fuzz of ladder', () =>
  fuzz<LadderProblem, string>({
    task: ladder,
    rows: frozenSet<LadderProblem, string>('ladder', 'test').problems,
    forms: [
      (reference) => reference,
      (reference) => `"${reference}".`,
      (reference) => `\n${reference} `,
      (reference) => `\`${reference}\``,
    ],
    acceptable: (_problem, reference, text) => acceptableLine(reference, text),
  }));
