/** A person who answers in the terminal. */
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { TEXT_ONLY, type Backend } from './backend.js';

/** Shows the messages and resolves to what the person writes. */
export type AskPerson = (messages: readonly ChatMessage[], signal?: AbortSignal) => Promise<string>;

/**
 * One question after the other, in the order of the prompts. Sampling settings and stop strings
 * mean nothing to a person.
 * @param ask what it throws ends the request; absent: there is nobody to ask
 * @throws IsoproError INVALID_ARGUMENT without a person
 */
export function humanBackend(ask: AskPerson | undefined): Backend {
  if (ask === undefined)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'backend: human needs a terminal, and there is none here',
      { remedy: 'Run the command in a terminal, without input from a pipe or file.' },
    );
  return {
    identity: { kind: 'human', name: 'terminal' },
    capabilities: TEXT_ONLY,
    async *sample({ prompts, signal }) {
      for (const [promptIndex, { messages, seeds }] of prompts.entries())
        for (const sampleIndex of seeds.keys()) {
          if (signal?.aborted === true) return;
          yield { promptIndex, sampleIndex, text: await ask(messages, signal), finish: 'stop' };
        }
    },
    dispose: async () => undefined,
  };
}
