/** Tokens that mark a text with a gap, in vocabularies that have them. */

export interface InfillTokens {
  /** Token before the text that precedes the gap. */
  readonly prefix: number;
  /** Token before the text that follows the gap. */
  readonly suffix: number;
  /** Token before the text that the model writes. */
  readonly middle: number;
}

/**
 * As the families call them: Qwen; StarCoder; Granite; DeepSeek; Code Llama, with and without the
 * mark of a space.
 */
const NAMES = [
  ['<|fim_prefix|>', '<|fim_suffix|>', '<|fim_middle|>'],
  ['<fim-prefix>', '<fim-suffix>', '<fim-middle>'],
  ['<fim_prefix>', '<fim_suffix>', '<fim_middle>'],
  [
    '<\u{ff5c}fim\u{2581}begin\u{ff5c}>',
    '<\u{ff5c}fim\u{2581}hole\u{ff5c}>',
    '<\u{ff5c}fim\u{2581}end\u{ff5c}>',
  ],
  ['\u{2581}<PRE>', '\u{2581}<SUF>', '\u{2581}<MID>'],
  ['<PRE>', '<SUF>', '<MID>'],
] as const;

/** Returns the infill tokens of a vocabulary, or null. */
export function infillTokens(
  controlTokens: readonly { readonly id: number; readonly text: string }[],
): InfillTokens | null {
  const ids = new Map(controlTokens.map(({ id, text }) => [text, id]));
  const names = NAMES.find((all) => all.every((name) => ids.has(name)));
  if (names === undefined) return null;
  const [prefix, suffix, middle] = names.map((name) => ids.get(name)!);
  return { prefix: prefix!, suffix: suffix!, middle: middle! };
}
