/** Tokens as bytes: their names, where they begin in a text, and which of them make up a text. */
import type { HostedModel } from '../../host/hosted-model.js';

/** A token alone: its bytes, and the text that they are; null: they are a part of a character. */
interface TokenText {
  readonly bytes: Uint8Array;
  readonly text: string | null;
  /** Bytes of the token in the text of a reply; none for control tokens. */
  readonly said: Uint8Array;
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const NONE = new Uint8Array();

/**
 * Tokens of each model, cached on first use: an answer with likeliest tokens names tens of
 * thousands.
 */
const known = new WeakMap<HostedModel, Map<number, TokenText>>();
function tokenOf(model: HostedModel, id: number): TokenText {
  let tokens = known.get(model);
  if (tokens === undefined) known.set(model, (tokens = new Map()));
  let token = tokens.get(id);
  if (token === undefined) {
    const bytes = model.bytesOf(id);
    let text: string | null;
    try {
      text = strict.decode(bytes);
    } catch {
      text = null;
    }
    tokens.set(id, (token = { bytes, text, said: model.detokenize([id]) === '' ? NONE : bytes }));
  }
  return token;
}

export const tokenBytes = (model: HostedModel, id: number): readonly number[] => [
  ...tokenOf(model, id).bytes,
];

/**
 * Name of a token that is not text, as OpenAI writes it: tokens with different bytes have different
 * names.
 */
const nameOfBytes = (bytes: Uint8Array): string =>
  `bytes:${Array.from(bytes, (byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('')}`;

/** Names a token by its text or, if vLLM's option asks for it, by its id. */
export type TokenName = (model: HostedModel, id: number) => string;
export const nameByText: TokenName = (model, id) => {
  const { text, bytes } = tokenOf(model, id);
  return text ?? nameOfBytes(bytes);
};
export const nameById: TokenName = (_, id) => `token_id:${id}`;
export const namesOf = (body: {
  readonly return_tokens_as_token_ids?: boolean | undefined;
}): TokenName => (body.return_tokens_as_token_ids === true ? nameById : nameByText);

const codePoints = (text: string): number => {
  let count = 0;
  for (const _ of text) count++;
  return count;
};

/**
 * Offsets of tokens in a text, in characters; a token within a character has the offset of the
 * character.
 */
export class TokenOffsets {
  readonly #model: HostedModel;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  #at = 0;

  /**
   * @param before characters of the tokens that the text does not have, as the blank that some
   *   vocabularies put before a text
   */
  constructor(model: HostedModel, before = 0) {
    this.#model = model;
    this.#at = -before;
  }

  /** @param isPrompt whether the text has control tokens, too, written out */
  next(id: number, isPrompt: boolean): number {
    const begins = Math.max(0, this.#at);
    const { bytes, said } = tokenOf(this.#model, id);
    this.#at += codePoints(this.#decoder.decode(isPrompt ? bytes : said, { stream: true }));
    return begins;
  }
}

/**
 * Finds the tokens of a reply that make up a text, while both grow: the text is the beginning of
 * the reply.
 */
export class TokensOfText<Token extends { readonly tokenId: number }> {
  readonly #model: HostedModel;
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  readonly #waiting: { readonly token: Token; readonly begins: number }[] = [];
  #drawn = 0;
  #told = 0;

  constructor(model: HostedModel) {
    this.#model = model;
  }

  draw(token: Token): void {
    this.#waiting.push({ token, begins: this.#drawn });
    this.#drawn += this.#decoder.decode(tokenOf(this.#model, token.tokenId).said, {
      stream: true,
    }).length;
  }

  /** Tokens that begin within the text after it has grown. */
  tell(text: string): Token[] {
    this.#told += text.length;
    const told: Token[] = [];
    while (this.#waiting.length > 0 && this.#waiting[0]!.begins < this.#told)
      told.push(this.#waiting.shift()!.token);
    return told;
  }
}
