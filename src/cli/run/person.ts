/** A person who decides in a run: the question on the terminal, the answer on one line. */
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { IsoproError } from '../../errors.js';
import type { Context } from '../../operations/operation.js';
import { visible } from '../../visible-text.js';

export interface Person {
  readonly ask: NonNullable<Context['ask']>;
  close(): void;
}

/** What stands before it is the same in every question of a run. */
const CHANGES = '# Situation';

/** @param output where questions are shown */
export function person(input: Readable, output: Writable): Person {
  const lines = createInterface({ input, terminal: false });
  const read = lines[Symbol.asyncIterator]();
  let told = false;
  // what is typed after a question that nobody waits for any more answers the next one
  let typed: Promise<IteratorResult<string>> | null = null;
  return {
    async ask(messages, signal) {
      const text = messages.map(({ content }) => content).join('\n');
      const at = text.indexOf(CHANGES);
      output.write(`\n${visible(told && at > 0 ? text.slice(at) : text)}\n> `);
      told = true;
      signal?.throwIfAborted();
      typed ??= read.next() as Promise<IteratorResult<string>>;
      const { value, done } = await typed;
      typed = null;
      if (done === true) throw new IsoproError('ABORTED', 'the input ended before the run did');
      return value;
    },
    close: () => lines.close(),
  };
}
