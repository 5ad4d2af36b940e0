import type { Parsed } from '../task.js';
import type { Schedule } from './problem.js';

/** Longest reply that is read, in UTF-16 code units; the prompt states it. */
export const MAX_REPLY_CHARACTERS = 20_000;

/** The fixed form, as the prompt shows it. */
export const printAnswer = (schedule: Schedule): string =>
  `<answer>${Object.entries(schedule)
    .map(([label, start]) => `${label}: ${start}`)
    .join(', ')}</answer>`;

type Token =
  | { readonly kind: 'label' | 'word'; readonly text: string; readonly at: number }
  | { readonly kind: 'number'; readonly text: string; readonly at: number }
  | { readonly kind: 'mark'; readonly text: string; readonly at: number };

class GrammarError extends Error {}

const reject = (detail: string): never => {
  throw new GrammarError(detail);
};

const show = (token: Token | undefined): string => (token === undefined ? 'the end of the block' : token.text === '\n' ? 'the end of a line' : JSON.stringify(token.text));

/**
 * Tokens of a block. Emphasis (`*`, `_`, backticks) separates tokens and is otherwise skipped, so that `**A:** 0`
 * reads as `A: 0` while `1*2` and `3_0` stay two numbers, which no rule of the grammar allows side by side.
 */
function tokenise(content: string): Token[] {
  const tokens: Token[] = [];
  const pattern = /[A-Za-z0-9]+|[*_`]+|[ \t\r]+|[\s\S]/g;
  for (const match of content.matchAll(pattern)) {
    const text = match[0];
    const at = match.index;
    if (/^[*_` \t\r]/.test(text)) continue;
    if (/^[0-9]+$/.test(text)) tokens.push({ kind: 'number', text, at });
    else if (/^[A-Z]$/.test(text)) tokens.push({ kind: 'label', text, at });
    else if (/^[A-Za-z]+$/.test(text)) tokens.push({ kind: 'word', text, at });
    else if (/^[:,;|{}"\n-]$/.test(text)) tokens.push({ kind: 'mark', text, at });
    else reject(`${JSON.stringify(text.slice(0, 20))} cannot stand in the answer block`);
  }
  return tokens;
}

/** Recursive descent over the tokens of one block; collects the pairs. */
class BlockReader {
  readonly #tokens: readonly Token[];
  #next = 0;
  readonly #starts = new Map<string, number>();

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  read(): { schedule: Schedule; form: string } {
    this.#skipLines();
    const form = this.#is('{') ? this.#json() : this.#is('|') ? this.#table() : this.#list();
    this.#skipLines();
    if (this.#peek() !== undefined) reject(`${show(this.#peek())} stands where the answer block should end`);
    return { schedule: Object.fromEntries(this.#starts), form };
  }

  #peek = (): Token | undefined => this.#tokens[this.#next];
  #is = (text: string): boolean => this.#peek()?.kind === 'mark' && this.#peek()!.text === text;

  #take(text: string): boolean {
    if (!this.#is(text)) return false;
    this.#next++;
    return true;
  }

  #expect(text: string): void {
    if (!this.#take(text)) reject(`${show(this.#peek())} stands where ${show({ kind: 'mark', text, at: 0 })} should`);
  }

  #skipLines(): void {
    while (this.#take('\n'));
  }

  #label(): string {
    const word = this.#peek();
    if (word?.kind === 'word' && /^job$/i.test(word.text)) this.#next++;
    const token = this.#peek();
    if (token?.kind !== 'label') return reject(`${show(token)} stands where a job's letter should`);
    this.#next++;
    return token.text;
  }

  #pair(label: string): void {
    const token = this.#peek();
    if (token?.kind !== 'number') reject(`${show(token)} stands where the start time of job ${label} should; start times are whole numbers from 0`);
    const text = token!.text;
    if (text.length > 1 && text.startsWith('0')) reject(`the start time ${text} of job ${label} has a leading zero`);
    if (text.length > 15) reject(`the start time of job ${label} has ${text.length} digits`);
    if (this.#starts.has(label)) reject(`job ${label} is listed more than once`);
    this.#next++;
    this.#starts.set(label, Number(text));
  }

  /** `A: 0, B: 3` on one line or several; entries end with a comma, a semicolon or a new line, and may be bulleted. */
  #list(): string {
    for (;;) {
      this.#take('-');
      const label = this.#label();
      this.#expect(':');
      this.#pair(label);
      const separated = this.#take(',') || this.#take(';');
      const line = this.#is('\n');
      this.#skipLines();
      if (this.#peek() === undefined) return separated ? reject('the answer block ends with a separator') : 'list';
      if (!separated && !line) return reject(`${show(this.#peek())} follows the start time of job ${label}`);
      if (!line && this.#is('-')) return reject(`a minus sign precedes ${show(this.#tokens[this.#next + 1])}`);
    }
  }

  /** `{"A": 0, "B": 3}` */
  #json(): string {
    this.#expect('{');
    do {
      this.#skipLines();
      this.#expect('"');
      const label = this.#label();
      this.#expect('"');
      this.#expect(':');
      this.#skipLines();
      this.#pair(label);
      this.#skipLines();
    } while (this.#take(','));
    this.#expect('}');
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
      if (this.#peek() !== undefined) this.#expect('\n');
    }
    return 'table';
  }

  /** Two cells of words: the first names the job, the second its start; any other heading would change what the numbers mean. */
  #header(): boolean {
    const end = this.#tokens.findIndex((token, index) => index >= this.#next && token.text === '\n');
    const words = this.#tokens.slice(this.#next, end < 0 ? undefined : end).map((token) => token.text).join(' ');
    if (!/^jobs? \| start(ing)?( times?| steps?| at)? \|$/i.test(words)) return false;
    this.#next = end < 0 ? this.#tokens.length : end;
    return true;
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

/** The one answer block of a reply and the reasoning before it, or what is wrong. Closing markup may follow the block, text may not. */
export function findAnswerBlock(text: string): AnswerBlock | string {
  if (text.length > MAX_REPLY_CHARACTERS) return `the reply has ${text.length} characters; at most ${MAX_REPLY_CHARACTERS} are allowed`;
  const tags = [...text.matchAll(TAG)];
  if (tags.length === 0) return 'there is no <answer> block';
  if (tags.length !== 2) return `there must be exactly one <answer> and one </answer>; ${tags.length} such tags were found`;
  const [open, close] = tags as [RegExpExecArray, RegExpExecArray];
  if (open[1] === '/' || close[1] !== '/') return 'the answer block must open with <answer> and close with </answer>';
  if (!/^[\s*_`]*$/.test(text.slice(close.index + close[0].length))) return 'there is text after </answer>';
  return { reasoning: text.slice(0, open.index), content: text.slice(open.index + open[0].length, close.index) };
}

/** A code fence directly inside the block, with or without a language name. */
const unfence = (content: string): string => content.replace(/^\s*```(?:json|text|txt|plaintext|markdown|md)?[ \t]*\r?\n([\s\S]*)\n[ \t]*```\s*$/i, '$1');

/**
 * Reads the answer block of a reply strictly: the same pairs as a list, a Markdown table or a JSON object, each job at
 * most once, each start a whole number in decimal digits. Which jobs exist and what they may do is for the verifier.
 */
export function parseAnswer(text: string): Parsed<Schedule> {
  const block = findAnswerBlock(text);
  if (typeof block === 'string') return { ok: false, category: 'format', detail: sentence(block) };
  try {
    const { schedule, form } = new BlockReader(tokenise(unfence(block.content))).read();
    return { ok: true, answer: schedule, form };
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    return { ok: false, category: 'format', detail: sentence(error.message) };
  }
}

const sentence = (text: string): string => `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
