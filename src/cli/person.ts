/** A person who answers: questions on the terminal, answers line by line. */
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { offAbort, onAbort } from '../abort.js';
import { abortError, IsoproError } from '../errors.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import type { Context, Told } from '../operations/operation.js';
import { visible } from '../visible-text.js';
import { progressScreen, type Screen } from './operation-command.js';

const HELP =
  'Write your answer and end it with a line that holds a single dot, or with Ctrl-D. ' +
  'Ctrl-D in place of an answer ends the command.';

export interface Person {
  readonly ask: NonNullable<Context['ask']>;
  close(): void;
}

type Stream = { readonly isTTY?: boolean };

/**
 * Lines of an input. On a terminal the lines are edited here, so that Ctrl-D ends an answer and not
 * the input: a terminal that the system edits has no input after its end.
 */
class Lines {
  readonly #input: Readable & Stream;
  readonly #output: Writable & Stream;
  readonly #isTerminal: boolean;
  readonly #read: string[] = [];
  #interface: Interface | undefined;
  #isAtEnd = false;
  #heard = (): void => {};

  constructor(input: Readable & Stream, output: Writable & Stream) {
    this.#input = input;
    this.#output = output;
    this.#isTerminal = input.isTTY === true && output.isTTY === true;
  }

  /**
   * The next line; null: the end of the input, on a terminal Ctrl-D. @throws IsoproError ABORTED
   */
  async next(signal: AbortSignal | undefined): Promise<string | null> {
    const hear = (): void => this.#heard();
    onAbort(signal, hear);
    try {
      for (;;) {
        if (signal?.aborted === true) throw abortError('the person was interrupted', signal);
        const line = this.#read.shift();
        if (line !== undefined) return line;
        if (this.#isAtEnd) return null;
        await new Promise<void>((heard) => (this.#heard = heard));
      }
    } finally {
      offAbort(signal, hear);
    }
  }

  /** Gives the terminal back until the next question. */
  rest(): void {
    if (this.#isTerminal) this.close();
  }

  close(): void {
    this.#interface?.close();
    this.#interface = undefined;
  }

  /** Takes the terminal for a question. What was typed ahead stays. */
  begin(): void {
    if (this.#interface !== undefined || (this.#isAtEnd && !this.#isTerminal)) return;
    this.#isAtEnd = false;
    const lines = createInterface(
      this.#isTerminal
        ? { input: this.#input, output: this.#output, terminal: true, historySize: 0, prompt: '' }
        : { input: this.#input, terminal: false },
    );
    this.#interface = lines;
    lines.on('line', (line) => {
      this.#read.push(line);
      this.#heard();
    });
    lines.on('close', () => {
      if (this.#interface === lines) this.#interface = undefined;
      this.#isAtEnd = true;
      this.#heard();
    });
    // here the terminal sends a character, and no signal
    lines.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
  }
}

/** Before messages that are no question to the person. */
const MARKS: Readonly<Record<ChatMessage['role'], string>> = {
  system: '[told] ',
  user: '',
  assistant: '[answered] ',
  tool: '[result] ',
};
const isSame = (a: ChatMessage, b: ChatMessage | undefined): boolean =>
  a.role === b?.role && a.content === b.content;

/**
 * @param output where questions are shown
 * @param afterEnd what becomes of the command that the person ends
 */
export function person(input: Readable, output: Writable, afterEnd = ''): Person {
  const lines = new Lines(input, output);
  output.write(`${HELP}${afterEnd}\n`);
  /** The conversation so far, of which nothing is shown again. */
  let onScreen: readonly ChatMessage[] = [];
  return {
    async ask(messages, signal) {
      lines.begin(); // before the question, so that nothing is typed into a terminal of the system
      try {
        const known = messages.findIndex((message, i) => !isSame(message, onScreen[i]));
        for (const { role, content } of messages.slice(Math.min(known, messages.length - 1)))
          output.write(`\n${MARKS[role]}${visible(content)}\n`);
        const said: string[] = [];
        for (;;) {
          const line = await lines.next(signal);
          if (line === '.' || (line === null && said.length > 0)) {
            const answer = said.join('\n');
            onScreen = [...messages, { role: 'assistant', content: answer }];
            return answer;
          }
          if (line === null)
            throw new IsoproError('ABORTED', 'the input ended before the command did');
          said.push(line);
        }
      } finally {
        lines.rest();
      }
    },
    close: () => lines.close(),
  };
}

/** Screen of a command that asks a person: only downloads show progress, and notices. */
export function personScreen(afterEnd?: string): Screen {
  const progress = progressScreen();
  const { ask, close } = person(process.stdin, process.stderr, afterEnd);
  return {
    tell: (told: Told) => {
      const isShown = told.type === 'notice' || (told.data as { unit?: string }).unit === 'bytes';
      if (isShown) progress.tell(told);
    },
    ask,
    [Symbol.dispose]: () => {
      progress[Symbol.dispose]();
      close();
    },
  };
}

/** Screen of a command whose back end may be a person, who is asked in a terminal alone. */
export const screenOf = (backend: string): Screen =>
  backend === 'human' && process.stdin.isTTY === true ? personScreen() : progressScreen();
