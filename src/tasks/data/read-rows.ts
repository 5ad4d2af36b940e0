/** Reads and checks the rows of a data file, JSON Lines or CSV; errors name the row. */
import path from 'node:path';
import { CsvError, parse } from 'csv-parse/sync';
import { z } from 'zod';
import type { Json } from '../../canonical-json.js';
import { dictionary, type Dictionary } from '../../dictionary.js';
import { asTemplatesKnow, clientMessage } from '../../engine/messages.js';
import { unreadOfMessages } from '../../fine-tuning/row-members.js';
import { IsoproError } from '../../errors.js';
import { readRowText } from '../../files.js';
import {
  placeOf,
  readJsonText,
  withDigits,
  type JsonText,
  type WrittenNumber,
} from '../../json-text.js';
import { maybe } from '../../object-schemas.js';
import type { ChatMessage } from '../task.js';
import { firstComplaint } from '../task-shape.js';

/** Fewest rows that can be split into training, dev and test. */
export const LEAST_ROWS = 30;
/** Tier of a row that names none. */
export const ONLY_TIER = 'all';

export interface DataRow {
  /** From 1; the header of a CSV file and blank lines do not count. */
  readonly row: number;
  /**
   * Line of the file, from 1, where the row begins (JSON Lines) or ends (CSV, whose cells may hold
   * line ends).
   */
  readonly line: number;
  readonly tier: string;
  readonly messages: readonly ChatMessage[];
  /** Answer as in the file; null if there is none. */
  readonly answer: Json;
  /** Numbers whose text holds more than their value, by their place in the row. */
  readonly numbers: readonly WrittenNumber[];
  /** True if semicolons separate the columns, so that commas may be decimal. */
  readonly decimalCommas: boolean;
  /** Other members of the row, for checks that read them. */
  readonly fields: Dictionary<Json>;
}

/** Endings of data file names. */
export const DATA_ENDINGS = ['.csv', '.jsonl', '.ndjson', '.csv.gz', '.jsonl.gz', '.ndjson.gz'];
const NAME = /\.(jsonl|ndjson|csv)(\.gz)?$/i;

export const isDataFile = (specifier: string): boolean => NAME.test(specifier);

/** Tells by its name whether a data file is CSV. */
export const isTable = (file: string): boolean => NAME.exec(file)?.[1]?.toLowerCase() === 'csv';

/** Returns the id of the task of a data file. */
export const dataName = (file: string): string => path.basename(file).replace(NAME, '');

const at = ({ row, line }: Pick<DataRow, 'row' | 'line'>): string => `row ${row} (line ${line})`;

/** @throws IsoproError DATA_INVALID */
export function refuseRow(
  file: string,
  place: Pick<DataRow, 'row' | 'line'>,
  what: string,
  cause?: unknown,
): never {
  throw new IsoproError('DATA_INVALID', `${file}: ${at(place)}: ${what}`, { cause });
}

const written = z.string().refine((text) => text.trim() !== '', 'is empty');
/** As `train` and `serve` read them; what these leave out with a note is refused here. */
const messages = z
  .array(z.unknown())
  .min(1)
  .superRefine((given, { addIssue }) => {
    for (const [at, each] of given.entries())
      for (const member of unreadOfMessages([each]))
        addIssue({
          code: 'custom',
          path: [at, member],
          message: 'is not a member of a message',
        });
  })
  .pipe(z.array(clientMessage))
  .transform((read, { addIssue }) => {
    const known = asTemplatesKnow(read);
    const said = known.filter((each): each is ChatMessage => each.role !== 'tool');
    if (said.length < known.length)
      addIssue('a message with the role tool does not answer a tool call');
    if (said.at(-1)?.role !== 'user') addIssue('the last message must have the role user');
    return said;
  });
const rowShape = z
  .looseObject({
    prompt: maybe(written),
    messages: maybe(messages),
    answer: z.json().optional(),
    tier: maybe(z.union([written, z.number()]).transform(String)),
  })
  .refine(({ prompt, messages: given }) => prompt !== undefined || given !== undefined, {
    error: 'the prompt is missing or empty',
  })
  .refine(({ prompt, messages: given }) => prompt === undefined || given === undefined, {
    error: 'must have either prompt or messages, not both',
  });

/** Row as in the file; a CSV row has members by its header, without empty cells. */
export interface Raw {
  readonly row: number;
  readonly line: number;
  readonly value: unknown;
  readonly numbers: readonly WrittenNumber[];
  readonly decimalCommas: boolean;
}

/** Columns of which a CSV file needs at least one. */
const ASKING = ['prompt', 'messages'];

/** Reads the rows of a file, with any members. @throws IsoproError FILE_UNREADABLE, DATA_INVALID */
export function readRaw(file: string, asking: readonly string[] = ASKING): Raw[] {
  const name = path.basename(file);
  const text = readRowText(file, 'DATA_INVALID');
  return isTable(file) ? csvRows(name, text, asking) : jsonRows(name, text);
}

/** @throws IsoproError FILE_UNREADABLE, DATA_INVALID */
export function readRows(file: string): DataRow[] {
  const name = path.basename(file);
  const refused: IsoproError[] = [];
  const rows = readRaw(file).flatMap((each) => {
    try {
      return [asRow(name, each)];
    } catch (error) {
      if (!(error instanceof IsoproError)) throw error;
      refused.push(error);
      return [];
    }
  });
  refuseAll(name, refused);
  if (rows.length < LEAST_ROWS)
    throw new IsoproError(
      'DATA_INVALID',
      `${name} has ${rows.length} row${rows.length === 1 ? '' : 's'}, but at least ${LEAST_ROWS} are needed to split it`,
      {
        remedy: `Add rows: training, dev and test each need rows of their own. A few hundred are better than ${LEAST_ROWS}.`,
      },
    );
  return rows;
}

/** Most rows whose errors one message lists. */
const SAID_AT_ONCE = 8;

/**
 * @throws IsoproError DATA_INVALID for any refused row: its own error, or one that lists several
 */
export function refuseAll(file: string, refused: readonly IsoproError[]): void {
  const [first, ...others] = refused;
  if (first === undefined) return;
  if (others.length === 0) throw first;
  const what = refused
    .slice(0, SAID_AT_ONCE)
    .map(({ message }) => message.replace(`${file}: `, ''));
  const more = refused.length - what.length;
  throw new IsoproError(
    'DATA_INVALID',
    `${file}: ${refused.length} rows are wrong: ${what.join('; ')}${more > 0 ? `; and ${more} more` : ''}`,
    { cause: first },
  );
}

/** Half a character as JSON writes it: an escape that is not itself escaped. */
const HALF = /(?<!\\)(?:\\\\)*\\ud[89a-f][0-9a-f]{2}/;

/** Writes a value as JSON; null if it is nested deeper than the stack allows. */
function writtenAgain(value: unknown): string | null {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof RangeError) return null;
    throw error;
  }
}

function asRow(file: string, { row, line, value, numbers, decimalCommas }: Raw): DataRow {
  const refuse = (what: string): never => refuseRow(file, { row, line }, what);
  // what a program wrote in place of bytes that it could not read
  const text = writtenAgain(value) ?? refuse('is nested too deeply');
  const others = numbers.filter(({ path: [member] }) => member !== 'answer');
  const infinite = numbers.find(
    (each) => !others.includes(each) && !Number.isFinite(Number(each.text)),
  );
  if (infinite !== undefined)
    refuse(
      `${placeOf(infinite.path)} is ${infinite.text}, which is too large for a number; write it as text`,
    );
  if (text.includes('\uFFFD')) refuse('contains bytes that are not UTF-8; save the file as UTF-8');
  if (HALF.test(text)) refuse('contains half a character (a lone surrogate)');
  const parsed = rowShape.safeParse(withDigits({ value: value as Json, numbers: others }));
  if (!parsed.success)
    return refuse(firstComplaint(parsed.error, 'row').replace(/^row(?:\.|: )/, ''));
  const { prompt, messages, answer, tier, ...fields } = parsed.data;
  return {
    row,
    line,
    tier: tier ?? ONLY_TIER,
    messages: messages ?? [{ role: 'user', content: prompt! }],
    numbers,
    decimalCommas,
    answer:
      answer === undefined || (typeof answer === 'string' && answer.trim() === '')
        ? null
        : (answer as Json),
    fields: dictionary(Object.entries(fields) as [string, Json][]),
  };
}

function jsonRows(file: string, text: string): Raw[] {
  const rows: Raw[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '') continue;
    const place = { row: rows.length + 1, line: index + 1 };
    let json: JsonText;
    try {
      json = readJsonText(line);
    } catch (cause) {
      return refuseRow(file, place, `is not JSON: ${(cause as Error).message}`, cause);
    }
    const { value, numbers, twice } = json;
    if (typeof value !== 'object' || value === null || Array.isArray(value))
      refuseRow(file, place, 'is not a JSON object');
    if (twice !== null) refuseRow(file, place, `has the member ${JSON.stringify(twice)} twice`);
    rows.push({ ...place, value, numbers, decimalCommas: false });
  }
  return rows;
}

const COMMAS = 'Put text that contains a comma in double quotes';
const QUOTES = 'Put the text in double quotes and double each quote inside it';

/** Columns that a row's members are read from. */
const COLUMNS = ['prompt', 'messages', 'answer', 'tier'];

/** Returns the name of a column, in lower case if it is a known one and no other column has it. */
const columnName = (name: string, all: readonly string[]): string =>
  COLUMNS.includes(name.toLowerCase()) && !all.includes(name.toLowerCase())
    ? name.toLowerCase()
    : name;

/**
 * Finds the separator of the columns from the header; spreadsheets use semicolons where commas are
 * decimal.
 */
function separatorOf(text: string, asking: readonly string[]): string {
  const [header = ''] = /^.*$/m.exec(text.replace(/^\uFEFF/, '').trimStart()) ?? [];
  const names = (mark: string): string[] =>
    header.split(mark).map((cell) =>
      cell
        .trim()
        .replace(/^"(.*)"$/, '$1')
        .trim(),
    );
  const marks = [',', ';', '\t', '|'];
  const found = marks.find((mark) =>
    names(mark).some((name) => asking.includes(columnName(name, names(mark)))),
  );
  return found ?? marks.find((mark) => header.includes(mark)) ?? ',';
}

/** Line in which Excel names the separator of the columns. */
const SEPARATOR_LINE = /^sep=(.)(?=\n)/i;

interface CsvRecord {
  readonly record: readonly string[];
  readonly info: { readonly lines: number };
}

function csvRows(file: string, whole: string, asking: readonly string[]): Raw[] {
  // an empty line stays, so that lines keep their numbers
  const text = whole.replace(SEPARATOR_LINE, '');
  const delimiter = SEPARATOR_LINE.exec(whole)?.[1] ?? separatorOf(text, asking);
  let records: CsvRecord[];
  try {
    // how many cells a row has is looked at here: those behind the last column that has a name may
    // be missing, or empty
    records = parse(text, {
      info: true,
      skip_empty_lines: true,
      bom: true,
      delimiter,
      relax_column_count: true,
    }) as never;
  } catch (cause) {
    if (!(cause instanceof CsvError)) throw cause;
    const place = { row: Math.max(0, Number(cause.records ?? 0)), line: Number(cause.lines ?? 1) };
    const said = {
      CSV_QUOTE_NOT_CLOSED: QUOTES,
      CSV_INVALID_CLOSING_QUOTE: QUOTES,
      INVALID_OPENING_QUOTE: QUOTES,
    }[cause.code as string];
    if (place.row === 0) {
      const why = said === undefined ? cause.message : `${cause.message}. ${said}`;
      throw new IsoproError('DATA_INVALID', `${file}: header (line ${place.line}): ${why}`, {
        cause,
      });
    }
    return refuseRow(
      file,
      place,
      said === undefined ? cause.message : `${cause.message}. ${said}`,
      cause,
    );
  }
  const [header, ...all] = records;
  if (header === undefined) return [];
  // a spreadsheet leaves rows of nothing at the end
  const rest = all.filter(({ record }) => record.some((cell) => cell.trim() !== ''));
  const trimmed = header.record.map((name) => name.trim());
  const isFilled = trimmed.map(
    (name, i) => name !== '' || rest.some(({ record }) => (record[i] ?? '').trim() !== ''),
  );
  const width = isFilled.lastIndexOf(true) + 1;
  for (const [index, { record, info }] of rest.entries()) {
    if (record.length >= width && record.slice(trimmed.length).every((cell) => cell.trim() === ''))
      continue;
    const commas =
      delimiter === ','
        ? COMMAS
        : `Put text that contains the separator ${JSON.stringify(delimiter)} in double quotes`;
    const what = `Invalid Record Length: expect ${trimmed.length}, got ${record.length} on line ${info.lines}`;
    refuseRow(file, { row: index + 1, line: info.lines }, `${what}. ${commas}`);
  }
  const names = trimmed.map((name) => columnName(name, trimmed));
  const refuse = (what: string): never => {
    throw new IsoproError('DATA_INVALID', `${file}: header (line ${header.info.lines}): ${what}`, {
      remedy: 'Correct the first line of the table; `docs/own-data.md` lists its columns.',
    });
  };
  const used = names.filter((_, i) => isFilled[i]);
  const twice = used.find((name, i) => used.indexOf(name) < i);
  if (twice !== undefined) refuse(`two columns are named ${JSON.stringify(twice)}`);
  if (!asking.some((name) => names.includes(name))) {
    const marks = delimiter === ',' ? 'commas' : JSON.stringify(delimiter);
    const named = names.map((name) => JSON.stringify(name)).join(', ');
    const missing = asking
      .filter((name) => name !== 'messages')
      .map((name) => JSON.stringify(name));
    refuse(
      `there is no column ${missing.join(' or ')}; the columns, separated by ${marks}, are ${named}. Rename the column of questions to ` +
        '"prompt" and the column of correct answers to "answer"',
    );
  }
  return rest.map(({ record, info }, index) => {
    const place = { row: index + 1, line: info.lines };
    const cells = record
      .slice(0, names.length)
      .flatMap((cell, i): [string, unknown][] => (cell.trim() === '' ? [] : [[names[i]!, cell]]));
    const value = dictionary(cells);
    if (typeof value.messages === 'string') {
      try {
        value.messages = JSON.parse(value.messages);
      } catch (cause) {
        refuseRow(file, place, `messages is not JSON: ${(cause as Error).message}`, cause);
      }
    }
    return { ...place, value, numbers: [], decimalCommas: delimiter === ';' };
  });
}
