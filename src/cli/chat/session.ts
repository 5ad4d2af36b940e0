/** The dialogue of `chat`: lines of the user in, replies out as they are sampled. */
import { jsonText } from '../output.js';
import { createInterface } from 'node:readline';
import { Writable, type Readable } from 'node:stream';
import { IsoproError, type ErrorCode } from '../../errors.js';
import type { Conversation } from '../../host/conversation.js';
import { visible } from '../../visible-text.js';

export interface ChatStreams {
  readonly input: Readable;
  readonly output: Writable;
  /** True for an interactive session, which shows a prompt and notes. */
  readonly terminal: boolean;
  /** One JSON object a reply instead of its text. */
  readonly json?: boolean;
}

const HELP = '/clear starts a new conversation, /exit (or Ctrl-D) quits, Ctrl-C stops a reply\n';

/**
 * Output of the line editor, which is silent while a reply is written so that typed text does not
 * run into it.
 */
class Echo extends Writable {
  silent = false;
  readonly #to: Writable;

  constructor(to: Writable) {
    super({ decodeStrings: false });
    this.#to = to;
    to.on('resize', () => this.emit('resize'));
  }

  get columns(): number | undefined {
    return (this.#to as Partial<NodeJS.WriteStream>).columns;
  }

  override _write(text: string, _: BufferEncoding, done: () => void): void {
    if (!this.silent) this.#to.write(text);
    done();
  }
}

/**
 * Answers line by line until `/exit`, the end of the input, or a Ctrl-C in a pipe while no reply
 * runs. Resolves to true if the input was read to its end.
 */
export async function chat(
  conversation: Conversation,
  { input, output, terminal, json = false }: ChatStreams,
): Promise<boolean> {
  const echo = new Echo(output);
  const lines = createInterface({
    input,
    ...(terminal && { output: echo }),
    terminal,
    prompt: '> ',
    historySize: 100,
  });
  const unseen: string[] = []; // typed while a reply was written, and not answered yet
  lines.on('line', (line) => {
    if (echo.silent) unseen.push(line);
  });
  let reply: AbortController | undefined;
  let ended = true;
  const interrupt = (): void => {
    if (reply !== undefined) reply.abort();
    else if (terminal) {
      output.write(`\n${HELP}`);
      lines.prompt();
    } else {
      ended = false;
      lines.close();
    }
  };
  lines.on('SIGINT', interrupt);
  process.on('SIGINT', interrupt);
  if (terminal) output.write(HELP);
  try {
    if (terminal) lines.prompt();
    for await (const line of lines) {
      const prompt = line.trim();
      if (prompt === '/exit' || (terminal && /^(exit|quit)$/i.test(prompt))) break;
      if (prompt === '/clear') conversation.clear();
      else if (prompt === '/help') output.write(HELP);
      else if (terminal && /^\/[a-z]+(?:\s|$)/i.test(prompt))
        output.write(`Unknown command ${prompt.split(/\s/)[0]}. ${HELP}`);
      else if (prompt !== '') {
        reply = new AbortController();
        echo.silent = terminal; // through a pipe nothing is echoed
        await answer(conversation, prompt, reply.signal, { output, terminal, json });
        echo.silent = false;
        reply = undefined;
      }
      const next = unseen.shift();
      if (next !== undefined) output.write(`> ${visible(next)}\n`);
      else if (terminal) lines.prompt(true);
    }
  } finally {
    process.off('SIGINT', interrupt);
    lines.close();
  }
  return ended;
}

/** Why a conversation cannot continue, by code. */
const ENDED: Partial<Record<ErrorCode, (error: IsoproError) => string>> = {
  CONTEXT_OVERFLOW: () => 'The context is full',
  INVALID_ARGUMENT: ({ message }) => message.replace(/^./, (first) => first.toUpperCase()),
};

async function answer(
  conversation: Conversation,
  prompt: string,
  signal: AbortSignal,
  { output, terminal, json }: Pick<ChatStreams, 'output' | 'terminal'> & { readonly json: boolean },
): Promise<void> {
  const shown = (text: string): string => (terminal ? visible(text) : text);
  let text = '';
  const end = (finish: string, note: string): void => {
    if (json) output.write(`${jsonText({ prompt, text, finish })}\n`);
    else output.write(terminal && note !== '' ? `\n(${note})\n` : '\n');
  };
  const stream = conversation.reply(prompt, { signal });
  try {
    for (;;) {
      const next = await stream.next();
      if (next.done === true)
        return end(
          next.value.finish,
          next.value.finish === 'length' ? 'cut off by --max-tokens or a full context' : '',
        );
      text += next.value.text;
      if (!json) output.write(shown(next.value.text));
    }
  } catch (error) {
    if (!(error instanceof IsoproError)) throw error;
    if (error.code === 'ABORTED') return end('aborted', 'stopped by Ctrl-C');
    const why = ENDED[error.code];
    if (why === undefined || !terminal) throw error;
    output.write(`${why(error)}. /clear starts a new conversation.\n`);
  }
}
