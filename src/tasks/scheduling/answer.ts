import { fenced } from '../fence.js';
import { refused } from '../flat-object.js';
import type { Parsed } from '../task.js';
import type { Schedule } from './problem.js';

/** Longest reply that is read, in UTF-16 code units; the prompt states it. */
export const MAX_REPLY_CHARACTERS = 20_000;

/** The fixed form, as the prompt shows it. */
export const printAnswer = (schedule: Schedule): string =>
  `<answer>${Object.entries(schedule)
    .map(([label, start]) => `${label}: ${start}`)
    .join(', ')}</answer>`;

interface Token {
  /**
   * A label is one capital letter, a number is decimal digits only, a word any other run of
   * letters.
   */
  readonly kind: 'label' | 'number' | 'word' | 'mark';
  readonly text: string;
}

class GrammarError extends Error {}

const reject = (detail: string): never => {
  throw new GrammarError(detail);
};

/** Blanks and control characters by their number: in a message they cannot be seen. */
function nameCharacter(character: string): string {
  const number = `U+${character.codePointAt(0)!.toString(16).toUpperCase().padStart(4, '0')}`;
  if (/[\p{C}\p{Z}]/u.test(character)) return number;
  return character.charCodeAt(0) < 128
    ? JSON.stringify(character)
    : `${JSON.stringify(character)} (${number})`;
}

const show = (token: Token | undefined): string =>
  token === undefined
    ? 'the end of the block'
    : token.text === '\n'
      ? 'the end of a line'
      : JSON.stringify(token.text.slice(0, 20));

const isDigit = (code: number): boolean => code >= 48 && code <= 57;
const isLetter = (code: number): boolean =>
  (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
/** The blanks of Unicode (category Zs) beyond ASCII. */
const BLANKS = [
  0xa0,
  0x1680,
  ...Array.from({ length: 11 }, (_, i) => 0x2000 + i),
  0x202f,
  0x205f,
  0x3000,
];
const SKIPPED = new Set([
  ...[...'*_` \t\r'].map((character) => character.charCodeAt(0)),
  ...BLANKS,
]);
const MARKS = new Map(
  [...':,;.|{})"\'\n-'].map((text) => [text.charCodeAt(0), { kind: 'mark', text } as const]),
);

/** Tokens of `Job | Start time |`, and one more to see that it is longer. */
const LONGEST_HEADER = 6;

/**
 * Recursive descent over one block; collects the pairs. Emphasis (`*`, `_`, backticks) separates
 * tokens and is otherwise skipped, so that `**A:** 0` reads as `A: 0` while `1*2` and `3_0` stay
 * two numbers, which no rule of the grammar allows side by side.
 */
class BlockReader {
  readonly #content: string;
  /** Where the token after `#current` begins. */
  #next = 0;
  #current: Token | undefined;
  readonly #starts: Record<string, number> = {};

  constructor(content: string) {
    this.#content = content;
    this.#advance();
  }

  #advance(): void {
    const content = this.#content;
    let at = this.#next;
    while (at < content.length && SKIPPED.has(content.charCodeAt(at))) at++;
    this.#next = at;
    if (at >= content.length) {
      this.#current = undefined;
      return;
    }
    const code = content.charCodeAt(at);
    if (isDigit(code) || isLetter(code)) {
      let [digits, end] = [true, at];
      for (let next = code; isDigit(next) || isLetter(next); next = content.charCodeAt(++end))
        digits &&= isDigit(next);
      const label = end === at + 1 && code <= 90;
      this.#current = {
        kind: digits ? 'number' : label ? 'label' : 'word',
        text: content.slice(at, end),
      };
      this.#next = end;
    } else {
      const mark = MARKS.get(code);
      if (mark === undefined)
        reject(
          `${nameCharacter(String.fromCodePoint(content.codePointAt(at)!))} cannot stand in the answer block`,
        );
      this.#current = mark;
      this.#next = at + 1;
    }
  }

  read(): { schedule: Schedule; form: string } {
    this.#skipLines();
    const form = this.#is('{') ? this.#json() : this.#is('|') ? this.#table() : this.#list();
    this.#skipLines();
    if (this.#current !== undefined)
      reject(`${show(this.#current)} stands where the answer block should end`);
    return { schedule: this.#starts, form };
  }

  #is(text: string): boolean {
    return (
      this.#current !== undefined && this.#current.kind === 'mark' && this.#current.text === text
    );
  }

  #take(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#advance();
    return true;
  }

  #expect(text: string): void {
    if (!this.#take(text))
      reject(`${show(this.#current)} stands where ${show({ kind: 'mark', text })} should`);
  }

  #skipLines(): void {
    while (this.#take('\n'));
  }

  /** The quote that opens what comes, if one does; `#unquote` takes its twin. */
  #quote(): '"' | "'" | undefined {
    return this.#take('"') ? '"' : this.#take("'") ? "'" : undefined;
  }

  #unquote(quote: '"' | "'" | undefined): void {
    if (quote !== undefined) this.#expect(quote);
  }

  #label(): string {
    const quote = this.#quote();
    const word = this.#current;
    if (word?.kind === 'word' && /^job$/i.test(word.text)) this.#advance();
    const token = this.#current;
    if (token?.kind !== 'label') return reject(`${show(token)} stands where a job's letter should`);
    this.#advance();
    this.#unquote(quote);
    return token.text;
  }

  #pair(label: string): void {
    const quote = this.#quote();
    const token = this.#current;
    if (token?.kind !== 'number')
      reject(
        `${show(token)} stands where the start time of job ${label} should; start times are whole numbers from 0`,
      );
    const text = token!.text;
    if (text.length > 1 && text.startsWith('0'))
      reject(`the start time ${text} of job ${label} has a leading zero`);
    if (text.length > 15) reject(`the start time of job ${label} has ${text.length} digits`);
    if (this.#starts[label] !== undefined) reject(`job ${label} is listed more than once`);
    this.#advance();
    this.#unquote(quote);
    this.#starts[label] = Number(text);
  }

  /**
   * `A: 0, B: 3` on one line or several; entries end with a comma, a semicolon, a period or a new
   * line, the last one with any of these or none. Lines may be bulleted, or all numbered from 1;
   * numbers within a line could belong to the start time before them.
   */
  #list(): string {
    const numbered = this.#current?.kind === 'number';
    for (let entry = 1; ; entry++) {
      if (numbered) this.#number(entry);
      else this.#take('-');
      const label = this.#label();
      this.#expect(':');
      this.#pair(label);
      const separator = [',', ';', '.'].find((mark) => this.#take(mark));
      if (separator !== undefined && this.#current?.kind === 'number') {
        return reject(
          `"${separator}" cannot stand in the answer block between numbers; start times are whole numbers`,
        );
      }
      const line = this.#is('\n');
      this.#skipLines();
      if (this.#current === undefined) return numbered ? 'numbered' : 'list';
      if (separator === undefined && !line)
        return reject(`${show(this.#current)} follows the start time of job ${label}`);
      if (!line && this.#is('-')) return reject('a minus sign precedes a job');
      if (!line && numbered)
        return reject(
          `${show(this.#current)} follows job ${label} on its line; numbered jobs have lines of their own`,
        );
    }
  }

  /** `1.` or `1)` */
  #number(entry: number): void {
    const token = this.#current;
    if (token?.text !== String(entry))
      reject(`${show(token)} stands where the list's number ${entry} should`);
    this.#advance();
    if (!this.#take(')')) this.#expect('.');
  }

  /**
   * `{"A": 0, "B": 3}`, starts as numbers or strings, in either quote; a comma and a period may end
   * it.
   */
  #json(): string {
    this.#expect('{');
    do {
      this.#skipLines();
      if (Object.keys(this.#starts).length > 0 && this.#is('}')) break;
      if (!this.#is('"') && !this.#is("'")) this.#expect('"');
      const label = this.#label();
      this.#expect(':');
      this.#skipLines();
      this.#pair(label);
      this.#skipLines();
    } while (this.#take(','));
    this.#expect('}');
    this.#take('.');
    return 'json';
  }

  /** `| A | 0 |` per line, after an optional header `| Job | Start |` and its rule of dashes. */
  #table(): string {
    for (let row = 0; this.#take('|'); row++) {
      if (row === 0 && this.#header()) {
        this.#expect('\n');
        continue;
      }
      if (row === 1 && (this.#is('-') || this.#is(':'))) {
        this.#rule();
        this.#rule();
      } else {
        const label = this.#label();
        this.#expect('|');
        this.#pair(label);
        this.#expect('|');
      }
      if (this.#current !== undefined) this.#expect('\n');
    }
    return 'table';
  }

  /**
   * Two cells of words: the first names the job, the second its start; any other heading would
   * change what the numbers mean.
   */
  #header(): boolean {
    const [current, next] = [this.#current, this.#next];
    const words: string[] = [];
    while (
      words.length < LONGEST_HEADER &&
      this.#current !== undefined &&
      this.#current.text !== '\n'
    ) {
      words.push(this.#current.text);
      this.#advance();
    }
    if (/^jobs? \| start(ing)?( times?| steps?| at)? \|$/i.test(words.join(' '))) return true;
    [this.#current, this.#next] = [current, next];
    return false;
  }

  #rule(): void {
    this.#take(':');
    this.#expect('-');
    while (this.#take('-'));
    this.#take(':');
    this.#expect('|');
  }
}

const TAG = /<(\/?)answer>/gi;

export interface AnswerBlock {
  readonly reasoning: string;
  readonly content: string;
}

/**
 * Tags that the reasoning only mentions: a quote stands on both sides, and no digit within, so that
 * there is no answer in it.
 */
const MENTION =
  /(["'`])(?:<\/?answer>|<answer>[^<\d]*<\/answer>)\1|[“‘](?:<\/?answer>|<answer>[^<\d]*<\/answer>)[”’]/gi;

/** False where somebody could take the reasoning to hold an answer block of its own. */
function onlyMentionsTags(reasoning: string): boolean {
  const blocks = [...reasoning.matchAll(/<answer>([^<]*)<\/answer>/gi)];
  return (
    !/<\/?answer>/i.test(reasoning.replace(MENTION, '')) &&
    blocks.every(([, content]) => !/\d/.test(content!))
  );
}

/**
 * The one answer block of a reply and the reasoning before it, or what is wrong. A period and
 * closing markup may follow the block, text may not.
 */
export function findAnswerBlock(text: string): AnswerBlock | string {
  if (text.length > MAX_REPLY_CHARACTERS)
    return `the reply has ${text.length} characters; at most ${MAX_REPLY_CHARACTERS} are allowed`;
  const tags = [...text.matchAll(TAG)];
  if (tags.length === 0) return 'there is no <answer> block';
  const several = `there must be exactly one <answer> and one </answer>; ${tags.length} such tags were found`;
  if (tags.length < 2) return several;
  const [open, close] = tags.slice(-2) as [RegExpExecArray, RegExpExecArray];
  const reasoning = text.slice(0, open.index);
  if (tags.length > 2 && !onlyMentionsTags(reasoning)) return several;
  if (open[1] === '/' || close[1] !== '/')
    return 'the answer block must open with <answer> and close with </answer>';
  const after = /[^\s*_`.]/u.exec(text.slice(close.index + close[0].length));
  if (after !== null) return `there is text after </answer>: ${nameCharacter(after[0])}`;
  return { reasoning, content: text.slice(open.index + open[0].length, close.index) };
}

/** Of a code fence directly inside the block. */
const LANGUAGES = ['', 'json', 'text', 'txt', 'plaintext', 'markdown', 'md'];
const unfence = (content: string): string => fenced(content, LANGUAGES) ?? content;

/** One pair of quotes around everything. */
const unquote = (content: string): string =>
  content.replace(/^\s*(?:"([^"]*)"|'([^']*)')\s*$/, '$1$2');

/**
 * Reads the answer block of a reply strictly: the same pairs as a list, a Markdown table or a JSON
 * object, each job at most once, each start a whole number in decimal digits. Which jobs exist and
 * what they may do is for the verifier.
 */
export function parseAnswer(text: string): Parsed<Schedule> {
  const block = findAnswerBlock(text);
  if (typeof block === 'string') return refused(sentence(block));
  try {
    const { schedule, form } = new BlockReader(unquote(unfence(block.content))).read();
    return { ok: true, answer: schedule, form };
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    return refused(sentence(error.message));
  }
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
