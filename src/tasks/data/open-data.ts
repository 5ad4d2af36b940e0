/**
 * Opens a data file as a task: reads, checks and splits it, and hashes everything that decides its
 * verdicts.
 */
import { hash } from 'node:crypto';
import path from 'node:path';
import { canonicalJson, type Json } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { given as stated } from '../../given.js';
import type { SetName } from '../frozen-sets.js';
import { asProblem } from '../problem-id.js';
import type { Problem, TaskRows } from '../task.js';
import { checkAnswers, type Check } from './check.js';
import { readCheck, type NamedCheck } from './named-check.js';
import type { DataContent } from './data-problem.js';
import type { DataProgram } from './program.js';
import type { DataTaskOptions } from './options.js';
import { dataName, readRows, refuseRow, type DataRow } from './read-rows.js';
import { nearDuplicates, splitPath, splitRows, splitText } from './split.js';

export interface OpenedData {
  readonly program: DataProgram;
  /** SHA-256 over rows, split, check and options, without the name and place of the file. */
  readonly sha256: string;
  readonly rows: TaskRows;
}

export const DEFAULT_CHECK = 'exact';

/**
 * @throws IsoproError DATA_INVALID naming the row, FILE_UNREADABLE, INVALID_ARGUMENT, and what a
 *   check that is a program throws
 */
export async function readData(
  file: string,
  { check: specifier = DEFAULT_CHECK, verifySeconds: given, answerTag }: DataTaskOptions,
): Promise<OpenedData> {
  const name = path.basename(file);
  if (answerTag !== undefined && !/^[A-Za-z][\w-]{0,30}$/.test(answerTag))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `answerTag: ${JSON.stringify(answerTag)} is not a valid tag name, such as answer`,
    );
  if (given !== undefined && !(given > 0 && given <= 3600))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `verifySeconds: must be more than 0 and at most 3600, not ${given}`,
    );
  const check: NamedCheck = await readCheck(specifier);
  const verifySeconds = given ?? check.verifySeconds;
  const all = readRows(file);
  const { rows, contents, duplicates } = distinct(name, all, contentsOf(name, check.check, all));
  const tiers = [...new Set(rows.map(({ tier }) => tier))];
  const split = splitRows(file, rows, tiers);
  const problems = contents.map((content) => asProblem(content, content.tier));
  const set = (part: SetName): Problem[] =>
    tiers.flatMap((tier) => split.order(part, tier).map((i) => problems[i]!));
  const count = (part: SetName | 'train'): number =>
    split.parts.filter((each) => each === part).length;
  const sha256 = hash(
    'sha256',
    canonicalJson({
      format: 'isopro.data.v1',
      rows: problems.map(({ id }, i) => [id, split.parts[i]!]),
      check: check.identity,
      verifySeconds: verifySeconds ?? null,
      answerTag: answerTag ?? null,
    }),
  );
  return {
    program: {
      path: file,
      id: dataName(file),
      version: sha256.slice(0, 12),
      check: check.check,
      tiers,
      train: contents.filter((_, i) => split.parts[i] === 'train'),
      ...stated({ verifySeconds, answerTag }),
    },
    sha256,
    rows: {
      heldOut: { dev: set('dev'), test: set('test') },
      trained: (tier) =>
        problems.filter((problem, i) => problem.tier === tier && split.parts[i] === 'train'),
      counts: { train: count('train'), dev: count('dev'), test: count('test') },
      duplicates,
      check,
      split: { file: splitPath(file), text: splitText(split) },
      nearDuplicates() {
        const { example, ...found } = nearDuplicates(rows, split);
        const named =
          example === null
            ? null
            : { heldOut: rows[example.heldOut]!.row, train: rows[example.train]!.row };
        return { ...found, example: named };
      },
    },
  };
}

function contentsOf(file: string, check: Check, rows: readonly DataRow[]): DataContent[] {
  return checkAnswers(file, check, rows).map((answer, i) => {
    const { tier, messages, fields } = rows[i]!;
    const { choices: _, ...others } = fields;
    const rest = answer.choices === undefined ? fields : others;
    return {
      tier,
      messages,
      ...answer,
      ...(Object.keys(rest).length === 0 ? {} : { fields: rest }),
    };
  });
}

/** Leaves out rows that repeat another row, and refuses rows that contradict another. */
function distinct(
  file: string,
  all: readonly DataRow[],
  contents: readonly DataContent[],
): { readonly rows: DataRow[]; readonly contents: DataContent[]; readonly duplicates: number } {
  const first = new Map<string, number>();
  const kept = contents.flatMap((content, i) => {
    const question = canonicalJson(content.messages as unknown as Json);
    const before = first.get(question);
    if (before === undefined) {
      first.set(question, i);
      return [i];
    }
    if (canonicalJson(content.answer) !== canonicalJson(contents[before]!.answer))
      refuseRow(
        file,
        all[i]!,
        `asks the same as row ${all[before]!.row} but has a different answer`,
      );
    return [];
  });
  return {
    rows: kept.map((i) => all[i]!),
    contents: kept.map((i) => contents[i]!),
    duplicates: all.length - kept.length,
  };
}

/** @throws IsoproError INVALID_ARGUMENT if options of data files are given for another task */
export function refuseDataOptions(specifier: string, options: DataTaskOptions): void {
  const [given] = Object.keys(options);
  if (given !== undefined)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `${given}: ${specifier} has its own verifier; this option is for data (CSV or JSON Lines)`,
    );
}
