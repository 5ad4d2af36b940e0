import type { Problem } from './task.js';

const ID_CHARACTERS = 12;
const ASKED_CHARACTERS = 40;

/** Names a problem for a reader by the beginning of its id and of its question. */
export function problemNamed(
  { id, tier }: Problem,
  messages: readonly { readonly content: string }[],
): string {
  const asked = (messages.at(-1)?.content ?? '').replace(/\s+/g, ' ').trim();
  const beginning =
    asked.length > ASKED_CHARACTERS
      ? `${asked.slice(0, ASKED_CHARACTERS).toWellFormed().trimEnd()} …`
      : asked;
  return `problem ${id.slice(0, ID_CHARACTERS)} of tier ${tier} (${JSON.stringify(beginning)})`;
}
