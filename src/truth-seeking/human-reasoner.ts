/** A reasoner that is a person. */
import { hash } from 'node:crypto';
import { IsoproError } from '../errors.js';
import type { Message, Reasoner } from './reasoner.js';

const has = (what: string): never => {
  throw new IsoproError('BACKEND_INCAPABLE', `a person has no ${what}`, {
    remedy: 'Let a model read the beliefs from the text that a person wrote.',
  });
};

/**
 * @param ask shows the messages and resolves to what the person writes; what it throws ends the
 *   run, which can be gone on with
 */
export function humanReasoner(
  ask: (messages: readonly Message[], signal?: AbortSignal) => Promise<string>,
): Reasoner & { readonly identity: { readonly kind: 'human' } } {
  return {
    id: hash('sha256', 'human'),
    identity: { kind: 'human' },
    capabilities: { logprobs: false },
    infer: async (messages, { signal } = {}) => ({
      text: await ask(messages, signal),
      tokenIds: [],
      finish: 'stop',
    }),
    promptIds: () => has('tokens'),
    textIds: () => has('tokens'),
    score: async () => has('log-probabilities'),
  };
}
