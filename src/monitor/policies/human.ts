/** The choice of a person. */
import type { Json } from '../../canonical-json.js';
import type { Menu } from '../menu.js';
import type { Decider, Reader } from '../question.js';
import type { TraineeTypes } from '../trainee.js';
import { letterAt, promptText, renderPrompt } from './prompt.js';

/** A person may think for this many milliseconds before the script answers. */
export const PATIENCE = 600_000;

/** The option that a person's words name: its letter or its id. */
function named(words: Json, menu: Menu): string | null {
  if (typeof words !== 'string') return null;
  const said = words.trim().replace(/\.$/, '');
  const option = menu.find(
    ({ id }, place) => id === said || letterAt(place) === said.toUpperCase(),
  );
  return option?.id ?? null;
}

export const humanReader = <T extends TraineeTypes>(
  commitment: Reader['commitment'],
  feedback: string | null,
): Reader<T> => ({
  source: 'human',
  commitment,
  render: (context, menu) => renderPrompt(context, menu, { form: 'letter', feedback }),
  read({ menu }, reply) {
    const choice = named(reply, menu as Menu);
    return choice === null
      ? { choice: null, reason: 'the words of the person name no option' }
      : { choice, margin: null, agreement: null };
  },
});

/**
 * @param ask shows a text and resolves to what the person writes
 */
export const humanDecider = <T extends TraineeTypes>(
  reader: Reader<T>,
  ask: (text: string, signal: AbortSignal) => Promise<string>,
): Decider<T> => ({
  ...reader,
  name: 'human',
  timeout: PATIENCE,
  ask: async ({ prompt }, { signal }) => ({
    reply: (await ask(promptText(prompt), signal)).slice(0, 1000).toWellFormed(),
    tokens: { prompt: 0, sampled: 0 },
    cost: 0,
  }),
});
