/**
 * Checks of the replies to the rows of a data file: what `--check` names, and what each check
 * requires of an answer.
 */
import { createRequire } from 'node:module';
import type * as Ajv from 'ajv/dist/2020.js';
import { canonicalJson, type Json } from '../../canonical-json.js';
import type { PythonModule } from '../python-module.js';
import { IsoproError } from '../../errors.js';
import {
  comparable,
  digitsOf,
  placeOf,
  readJsonText,
  withDigits,
  type WrittenNumber,
} from '../../json-text.js';
import type { CheckedAnswer } from './data-problem.js';
import { comparedLabel } from './compared-text.js';
import { readNumber } from './number.js';
import { refuseAll, refuseRow, type DataRow } from './read-rows.js';
import { askedOf, type Grading } from './score-model.js';

/** Tells whether a check, as named in a manifest, reads no file, so that a judge may use it. */
export const needsNoFile = (name: string): boolean =>
  /^(?:exact|normalised|contains|regex|choice|json|number(?::\d+(?:\.\d+)?(?:e-?\d+)?%?)?)$/.test(
    name,
  );

/** Everything that decides a verdict, apart from the row; passed to threads. */
export type Check =
  | { readonly kind: 'exact' | 'normalised' | 'contains' | 'regex' | 'choice' }
  /** `tolerance` is a share of the answer if it is relative. */
  | { readonly kind: 'number'; readonly tolerance: number; readonly relative: boolean }
  | { readonly kind: 'json'; readonly schema: Json }
  /** The shell runs the command in a folder, once per reply. */
  | { readonly kind: 'command'; readonly command: string; readonly folder: string }
  | { readonly kind: 'python'; readonly program: PythonModule }
  /** A model that scores: path and SHA-256 of its file. */
  | {
      readonly kind: 'model';
      readonly grading: Grading;
      readonly model: { readonly path: string; readonly sha256: string };
    }
  /** A bundle, an ES module. */
  | { readonly kind: 'script'; readonly path: string; readonly code: string };

/** Tells whether a check is a program, which accepts any rows. */
const isProgram = ({ kind }: Check): boolean =>
  kind === 'command' || kind === 'python' || kind === 'script' || kind === 'model';

/** Names of checks: before a colon, or alone. */
export const CHECK_NAMES = [
  'exact',
  'normalised',
  'number',
  'json',
  'regex',
  'contains',
  'choice',
  'command',
  'python',
  'model',
] as const;

export const CHECKS =
  'exact, normalised, number[:TOLERANCE], json[:SCHEMA], regex, contains, choice, command:CMD, python:FILE, ' +
  'model:GRADER.json, the path of a .js or .ts file';

export const CHECK_HELP = `check that judges replies to data rows: ${CHECKS}; default: exact`;

/** Most labels of a choice. */
const MOST_CHOICES = 50;

/**
 * Compiles a JSON Schema to a function that returns null for a valid value, else the first
 * complaint.
 * @throws Error if the schema is not one, or uses a keyword that cannot be checked
 */
export function compileSchema(schema: Json): (value: unknown) => string | null {
  if (
    (typeof schema !== 'object' || schema === null || Array.isArray(schema)) &&
    typeof schema !== 'boolean'
  )
    throw new Error('it is not an object');
  // on demand: its hundred files are a tenth of a short command's time
  const { Ajv2020 } = createRequire(import.meta.url)('ajv/dist/2020.js') as typeof Ajv;
  // strict: a keyword or format that would not be checked is refused, and not taken for kept
  const ajv = new Ajv2020({
    strict: true,
    strictTypes: false,
    strictRequired: false,
    logger: false,
  });
  const valid = ajv.compile(schema as object);
  return (value) => (valid(value) ? null : ajv.errorsText(valid.errors, { dataVar: 'answer' }));
}

export const regexOf = (pattern: string): RegExp => new RegExp(`^(?:${pattern})$`, 'su');

/**
 * Returns the answer of a row as text: a number as the file writes it, or for the check `number`
 * its value if a double holds it.
 */
function textOf({ answer, numbers }: DataRow, kind: Check['kind']): string | null {
  if (typeof answer === 'string') return answer.trim();
  if (typeof answer === 'boolean') return String(answer);
  if (typeof answer !== 'number') return null;
  const written = numbers.find(({ path }) => path.length === 1 && path[0] === 'answer');
  return written === undefined || (kind === 'number' && written.held)
    ? String(answer)
    : written.text;
}

/** Refuses a row with a number that a program would receive with other digits than the file has. */
function refuseLost(numbers: readonly WrittenNumber[], wrong: (what: string) => never): void {
  const lost = numbers.find(({ held }) => !held);
  if (lost !== undefined)
    wrong(
      `${placeOf(lost.path)} is ${lost.text.slice(0, 60)}, which has more digits than a check can receive as a number; write it as text`,
    );
}

/** Checks the answers of all rows. @throws IsoproError DATA_INVALID naming the row */
export function checkAnswers(
  file: string,
  check: Check,
  rows: readonly DataRow[],
): CheckedAnswer[] {
  if (check.kind === 'model') refuseMissing(file, check.grading, rows);
  const optional = isProgram(check) || (check.kind === 'json' && check.schema !== null);
  const without = optional && rows.every(({ answer }) => answer === null);
  const valid = check.kind === 'json' && check.schema !== null ? compileSchema(check.schema) : null;
  const refused: IsoproError[] = [];
  const checkedAnswer = (row: DataRow): CheckedAnswer => {
    const wrong = (what: string, cause?: unknown): never => refuseRow(file, row, what, cause);
    if (isProgram(check)) refuseLost(row.numbers, wrong);
    if (without) return { answer: null };
    if (row.answer === null)
      return wrong(
        optional ? 'the answer is missing, but other rows have one' : 'the answer is missing',
      );
    if (isProgram(check)) return { answer: row.answer };
    if (check.kind === 'json') return jsonAnswer(row, valid, wrong);
    const text =
      textOf(row, check.kind) ??
      wrong(`the answer is not text, which the check ${check.kind} needs`);
    if (check.kind === 'number') {
      if (readNumber(text) === null) wrong(`the answer ${shown(text)} is not a number`);
      if (row.decimalCommas && /^[^,.]*[1-9]\d{0,2},\d{3}(?!\d|[,.]\d)/.test(text))
        wrong(
          `the comma in the answer ${shown(text)} may be a thousands separator or a decimal comma, because semicolons ` +
            `separate the columns; ` +
            'write a decimal point or leave the comma out',
        );
    }
    if (check.kind === 'regex') {
      try {
        regexOf(text);
      } catch (cause) {
        wrong(`the answer is not a valid regular expression: ${(cause as Error).message}`, cause);
      }
    }
    return { answer: text };
  };
  const answers = rows.map((row) => {
    try {
      return checkedAnswer(row);
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      refused.push(error);
      return { answer: null };
    }
  });
  refuseAll(file, refused);
  return check.kind === 'choice'
    ? withChoices(
        file,
        rows,
        answers.map(({ answer }) => answer as string),
      )
    : answers;
}

/** Refuses rows without the members that the templates of a grader name. */
function refuseMissing(file: string, grading: Grading, rows: readonly DataRow[]): void {
  for (const row of rows)
    try {
      askedOf(grading, row, '');
    } catch (cause) {
      refuseRow(
        file,
        row,
        `the grader's input cannot be filled in: ${(cause as Error).message}`,
        cause,
      );
    }
}

const shown = (text: string): string =>
  JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text);

/** Reads a JSON answer; a text is read as JSON, since a cell of a table holds only text. */
function jsonAnswer(
  row: DataRow,
  valid: ((value: unknown) => string | null) | null,
  wrong: (what: string, cause?: unknown) => never,
): CheckedAnswer {
  let answer = row.answer;
  let numbers: readonly WrittenNumber[] = row.numbers.flatMap(
    ({ path: [member, ...path], ...written }) =>
      member === 'answer' ? [{ ...written, path }] : [],
  );
  try {
    if (typeof answer === 'string') {
      const json = readJsonText(answer);
      if (json.twice !== null)
        wrong(`the answer has the member ${JSON.stringify(json.twice)} twice`);
      ({ value: answer, numbers } = json);
    }
    const complaint = valid?.(answer) ?? null;
    if (complaint !== null) wrong(`the answer does not match the schema: ${complaint}`);
    ({ numbers } = comparable({ value: answer, numbers }));
    answer = withDigits({ value: answer, numbers });
    canonicalJson(answer);
  } catch (cause) {
    if (cause instanceof IsoproError && cause.code === 'DATA_INVALID') throw cause;
    return wrong(`the answer is not JSON: ${(cause as Error).message}`, cause);
  }
  const digits = digitsOf(numbers);
  return { answer, ...(Object.keys(digits).length === 0 ? {} : { digits }) };
}

function withChoices(
  file: string,
  rows: readonly DataRow[],
  answers: readonly string[],
): CheckedAnswer[] {
  const all = [...new Set(answers)].sort();
  return rows.map((row, i) => {
    const given = row.fields.choices;
    const own = typeof given === 'string' ? given.split('|').map((label) => label.trim()) : given;
    const labels = own ?? all;
    const wrong = (what: string): never => refuseRow(file, row, what);
    if (
      !Array.isArray(labels) ||
      !labels.every((label): label is string => typeof label === 'string' && label.trim() !== '')
    )
      return wrong('choices must be a list of non-empty strings');
    if (
      labels.length < 2 ||
      labels.length > MOST_CHOICES ||
      new Set(labels.map(comparedLabel)).size < labels.length
    )
      return wrong(
        own === undefined
          ? `the file has ${all.length} different answers, but a choice needs 2 to ${MOST_CHOICES}; list the choices in each row instead`
          : `choices must have 2 to ${MOST_CHOICES} different strings`,
      );
    const answer =
      labels.find((label) => label === answers[i]!) ??
      labels.find((label) => comparedLabel(label) === comparedLabel(answers[i]!));
    return answer !== undefined
      ? { answer, choices: labels }
      : wrong(`the answer ${shown(answers[i]!)} is not one of its choices`);
  });
}
