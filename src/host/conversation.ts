/**
 * A conversation with a hosted model: what was said so far goes before every prompt, and stays in
 * the model's cache where it keeps one.
 */
import { z } from 'zod';
import { checked } from '../engine/argument-check.js';
import { asTemplatesKnow, message, type MessageInput } from '../engine/messages.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { IsoproError } from '../errors.js';
import { requireFirstTurn } from './hosted-adapter.js';
import type { HostReply, HostRequest, TokenEvent } from './host-request.js';
import type { HostedModel } from './hosted-model.js';

/**
 * Settings of every reply. A model loaded with `prefixTokens` evaluates only the new part of a
 * prompt.
 */
export interface ConversationSettings
  extends Omit<HostRequest, 'prompt' | 'messages' | 'text' | 'tokenIds' | 'id' | 'signal'> {
  /** System message at the start of the conversation. */
  readonly system?: string;
  /**
   * Messages after the system message that stay when the conversation is cleared: solved examples,
   * such as a run's.
   */
  readonly before?: readonly MessageInput[];
  /** Earlier messages to continue from, such as `messages` of another conversation. */
  readonly messages?: readonly MessageInput[];
}

const read = (messages: readonly MessageInput[], option: 'before' | 'messages'): ChatMessage[] =>
  asTemplatesKnow(checked(z.array(message), messages, `settings.${option}`));

export class Conversation {
  readonly #model: Pick<HostedModel, 'stream'>;
  readonly #settings: Omit<ConversationSettings, 'system' | 'before' | 'messages'>;
  readonly #system: readonly ChatMessage[];
  readonly #said: ChatMessage[];
  #prompts = 0;
  #replying = false;

  /** @throws IsoproError INVALID_ARGUMENT naming the message */
  constructor(
    model: Pick<HostedModel, 'stream'>,
    { system, before = [], messages = [], ...settings }: ConversationSettings = {},
  ) {
    this.#model = model;
    this.#settings = settings;
    this.#system = [
      ...(system === undefined ? [] : [{ role: 'system', content: system } as const]),
      ...read(before, 'before'),
    ];
    const said = read(messages, 'messages');
    // of `messages`, whose first one is the system's where there is one
    this.#said = said[0]?.role === 'system' && system !== undefined ? said.slice(1) : said;
    this.#prompts = this.#said.filter(({ role }) => role === 'user').length;
  }

  /** Messages so far, the system message first. */
  get messages(): readonly ChatMessage[] {
    return [...this.#system, ...this.#said];
  }

  /** Returns `messages`, so that JSON contains the conversation. */
  toJSON(): readonly ChatMessage[] {
    return this.messages;
  }

  /** Forgets everything except the system message and the `before` messages. */
  clear(): void {
    this.#said.length = 0;
  }

  /**
   * The reply to what the user says next, token by token. Of a reply that an abort, its caller or a
   * dispose ended, what was said stays; where nothing was, and after any other error, the
   * conversation is as it was before.
   * @throws IsoproError INVALID_ARGUMENT while another reply is under way, which this one would not
   *   know of, and after a reply if the adapter acts from the reply on; as HostedModel.stream
   */
  async *reply(
    prompt: string,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<TokenEvent, HostReply, undefined> {
    if (this.#replying)
      throw new IsoproError('INVALID_ARGUMENT', 'the conversation is already generating a reply', {
        remedy:
          'Read that reply to its end or abort it first. To run two replies at once, use a second conversation.',
      });
    this.#replying = true;
    const messages: ChatMessage[] = [...this.messages, { role: 'user', content: prompt }];
    let text = '';
    let kept = true;
    try {
      requireFirstTurn(this.#settings.adapter, this.#said);
      const stream = this.#model.stream({
        ...this.#settings,
        ...options,
        messages,
        id: String(this.#prompts++),
      });
      try {
        for (;;) {
          const next = await stream.next();
          if (next.done === true) {
            text = next.value.text;
            return next.value;
          }
          text += next.value.text;
          yield next.value;
        }
      } catch (error) {
        kept = error instanceof IsoproError && ['ABORTED', 'OBJECT_DISPOSED'].includes(error.code);
        throw error;
      } finally {
        await stream.return(undefined as never);
      }
    } finally {
      this.#replying = false;
      if (kept && text !== '')
        this.#said.push({ role: 'user', content: prompt }, { role: 'assistant', content: text });
    }
  }
}
