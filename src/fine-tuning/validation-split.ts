/**
 * Which examples are kept apart to be measured on: by what they say, whatever stands around them in
 * the file.
 */
import { hash } from 'node:crypto';
import { IsoproError } from '../errors.js';

const digest = (content: string | Buffer): string => hash('sha256', content);

/**
 * Splits off a share for validation, at least one and never all. Which example goes where follows
 * from what `textOf` has of it, or of all answers of its conversation, which go together; equal
 * ones go together. An answer that conversations of both sides have, such as one to a greeting, is
 * trained on, and not measured on.
 * @param conversationOf examples for which it says the same are answers of one conversation;
 *   undefined: of none
 */
export function splitExamples<Example>(
  examples: readonly Example[],
  share: number,
  textOf: (example: Example) => Int32Array,
  conversationOf: (example: Example) => string | undefined = () => undefined,
): { readonly training: readonly Example[]; readonly validation: readonly Example[] } {
  const texts = examples.map((example) =>
    digest(Buffer.from(Int32Array.from(textOf(example)).buffer)),
  );
  const conversations = new Map<string, Set<string>>();
  for (const [i, example] of examples.entries()) {
    const conversation = conversationOf(example);
    if (conversation !== undefined)
      conversations.set(
        conversation,
        (conversations.get(conversation) ?? new Set<string>()).add(texts[i]!),
      );
  }
  const names = new Map(
    [...conversations].map(([name, of]) => [
      name,
      of.size === 1 ? [...of][0]! : digest([...of].sort().join(' ')),
    ]),
  );
  const keys = examples.map((example, i) => names.get(conversationOf(example) ?? '') ?? texts[i]!);
  const sorted = [...new Set(keys)].sort();
  for (let at = Math.max(0, Math.round(share * sorted.length) - 1); sorted.length > 1; at++) {
    const last = sorted[Math.min(sorted.length - 2, at)]!;
    const trained = new Set(texts.filter((_, i) => keys[i]! > last));
    const validation = examples.filter((_, i) => keys[i]! <= last && !trained.has(texts[i]!));
    if (validation.length > 0)
      return { training: examples.filter((_, i) => keys[i]! > last), validation };
    if (at >= sorted.length - 2) break;
  }
  throw new IsoproError(
    'INVALID_ARGUMENT',
    'all examples are identical, so no example can be held out for validation',
  );
}
