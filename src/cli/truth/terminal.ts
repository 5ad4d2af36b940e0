/** A person as a policy: questions on the terminal, answers line by line. */
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { IsoproError } from '../../errors.js';
import { visible } from '../../visible-text.js';
import type { Message } from '../../truth-seeking/reasoner.js';

const HELP =
  'Write your answer and end it with a line that holds a single dot. Ctrl-D ends the run; the same command continues it.\n';

export interface Terminal {
  readonly ask: (messages: readonly Message[], signal?: AbortSignal) => Promise<string>;
  close(): void;
}

/** @param output where questions are shown */
export function terminal(input: Readable, output: Writable): Terminal {
  const lines = createInterface({ input, terminal: false });
  const read = lines[Symbol.asyncIterator]();
  output.write(HELP);
  return {
    async ask(messages, signal) {
      // what was shown before a conversation's last turn is on the screen already
      const shown = messages.filter(
        ({ role }, i) => i === messages.length - 1 || role === 'system',
      );
      for (const { role, content } of shown)
        output.write(`\n${role === 'system' ? '[told] ' : ''}${visible(content)}\n`);
      const said: string[] = [];
      for (;;) {
        signal?.throwIfAborted();
        const { value, done } = await read.next();
        if (done === true) throw new IsoproError('ABORTED', 'the input ended before the run did');
        if (value === '.') return said.join('\n');
        said.push(value as string);
      }
    },
    close: () => lines.close(),
  };
}
