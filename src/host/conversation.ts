/** A conversation with a hosted model: what was said so far goes before every prompt, and stays in the model's cache where it keeps one. */
import { IsoproError } from '../errors.js';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import type { HostReply, HostRequest, TokenEvent } from './host-request.js';
import type { HostedModel } from './hosted-model.js';

/** Of every reply. A model that was loaded with `prefixTokens` evaluates only what is new of a prompt. */
export interface ConversationSettings extends Omit<HostRequest, 'prompt' | 'messages' | 'text' | 'tokenIds' | 'id' | 'signal'> {
  /** A system message before everything. */
  readonly system?: string;
}

export class Conversation {
  readonly #model: Pick<HostedModel, 'stream'>;
  readonly #settings: Omit<ConversationSettings, 'system'>;
  readonly #system: readonly ChatMessage[];
  readonly #said: ChatMessage[] = [];
  #prompts = 0;

  constructor(model: Pick<HostedModel, 'stream'>, { system, ...settings }: ConversationSettings = {}) {
    this.#model = model;
    this.#settings = settings;
    this.#system = system === undefined ? [] : [{ role: 'system', content: system }];
  }

  /** So far, the system message first. */
  get messages(): readonly ChatMessage[] {
    return [...this.#system, ...this.#said];
  }

  /** Forgets all but the system message. */
  clear(): void {
    this.#said.length = 0;
  }

  /**
   * The reply to what the user says next, token by token. Of a reply that an abort or its caller ended, what was said stays; where nothing
   * was, and after any other error, the conversation is as it was before. One at a time.
   * @throws IsoproError as HostedModel.stream
   */
  async *reply(prompt: string, options: { readonly signal?: AbortSignal } = {}): AsyncGenerator<TokenEvent, HostReply, undefined> {
    const messages: ChatMessage[] = [...this.messages, { role: 'user', content: prompt }];
    let text = '';
    let kept = true;
    try {
      const stream = this.#model.stream({ ...this.#settings, ...options, messages, id: String(this.#prompts++) });
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
        kept = error instanceof IsoproError && error.code === 'ABORTED';
        throw error;
      } finally {
        await stream.return(undefined as never);
      }
    } finally {
      if (kept && text !== '') this.#said.push({ role: 'user', content: prompt }, { role: 'assistant', content: text });
    }
  }
}
