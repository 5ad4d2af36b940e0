/**
 * The one prompt renderer: chat messages to token ids, for rollouts, training, evaluation and serving alike.
 *
 * The template is the model file's own; ChatML where the file has none. Text inside a message
 * never becomes a control token: a marker is put inside every control-token text that a message contains, so that after
 * rendering only the template's own control tokens are recognised; then the marker is taken out again. The plain text
 * between two control tokens is tokenised in one piece, as it is when a whole prompt is tokenised at once.
 */
import { createHash } from 'node:crypto';
import { canonicalJson } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { ChatTemplate } from './chat-template.js';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
}

type Value = string | number | boolean | null | readonly Value[] | { readonly [name: string]: Value };
/** What a template may ask for beside the messages, by its name there. */
export type TemplateVariables = Readonly<Record<string, Value>>;

export interface RenderedPrompt {
  readonly tokenIds: Int32Array;
  /** The prompt as text, control tokens written out. */
  readonly text: string;
  /** Identifies template and renderer; stored with every dataset and adapter. */
  readonly rendererId: string;
}

/** What the renderer needs to know of a vocabulary. */
export interface PromptVocabulary {
  readonly chatTemplate: string;
  readonly controlTokens: readonly { id: number; text: string }[];
  readonly bos: number;
  readonly eos: number;
  /** Every token that ends a reply. */
  readonly ends: readonly number[] | Int32Array;
  readonly addBos: boolean;
  /** Token ids of plain text: no control token is recognised, no BOS added. */
  tokenize(text: string): Int32Array;
}

/** Changes whenever the same template and messages could give other token ids than before. */
const RENDERER_VERSION = 'isopro-1/jinja-0.5.11';

const CHATML = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;

/** Unicode noncharacters (U+FDD0 to U+FDEF), of which one that no message contains serves as the marker. */
const MARKERS = Array.from({ length: 32 }, (_, i) => String.fromCodePoint(0xfdd0 + i));

export class PromptRenderer {
  readonly rendererId: string;
  readonly #vocabulary: PromptVocabulary;
  readonly #templateText: string;
  readonly #controlIds: ReadonlyMap<string, number>;
  readonly #controlPattern: RegExp | null;
  #template: ChatTemplate | undefined;

  constructor(vocabulary: PromptVocabulary) {
    this.#vocabulary = vocabulary;
    this.#templateText = vocabulary.chatTemplate === '' ? CHATML : vocabulary.chatTemplate;
    this.rendererId = createHash('sha256')
      .update(canonicalJson({ renderer: RENDERER_VERSION, template: this.#templateText }))
      .digest('hex');
    this.#controlIds = new Map(vocabulary.controlTokens.filter(({ text }) => text !== '').map(({ id, text }) => [text, id]));
    // The longest text wins where one control token begins with another.
    const texts = [...this.#controlIds.keys()].sort((a, b) => b.length - a.length);
    this.#controlPattern = texts.length === 0 ? null : new RegExp(texts.map(escapeForPattern).join('|'), 'g');
  }

  /** The control tokens that a text names, each once. */
  controlTokensIn(text: string): string[] {
    return this.#controlPattern === null ? [] : [...new Set(text.match(this.#controlPattern))];
  }

  /** @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT */
  render(messages: readonly ChatMessage[], addGenerationPrompt: boolean): RenderedPrompt {
    return this.renderAll([messages], addGenerationPrompt)[0]!;
  }

  /**
   * @param addGenerationPrompt whether the prompts end where the assistant's answer begins
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT
   */
  renderAll(conversations: readonly (readonly ChatMessage[])[], addGenerationPrompt: boolean): RenderedPrompt[] {
    const { addBos, bos } = this.#vocabulary;
    return this.#fill(conversations, addGenerationPrompt).map(({ rendered, marker }) => {
      const ids = this.#tokenize(rendered, marker);
      if (addBos && bos >= 0 && ids[0] !== bos) ids.unshift(bos);
      return { tokenIds: Int32Array.from(ids), text: rendered.replaceAll(marker, ''), rendererId: this.rendererId };
    });
  }

  /**
   * The token ids of `render`, where another thread makes them of the plain texts: of megabytes that takes seconds.
   * @throws IsoproError as `render`, and what `tokenizeAll` throws
   */
  async renderAside(
    messages: readonly ChatMessage[],
    addGenerationPrompt: boolean,
    tokenizeAll: (texts: string[]) => Promise<Int32Array[]>,
    variables: TemplateVariables = {},
  ): Promise<Int32Array> {
    const { addBos, bos } = this.#vocabulary;
    const [filled] = this.#fill([messages], addGenerationPrompt, variables);
    const parts = this.#parts(filled!.rendered, filled!.marker);
    const tokenized = await tokenizeAll(parts.filter((part) => typeof part === 'string'));
    let next = 0;
    const pieces = parts.map((part) => (typeof part === 'string' ? tokenized[next++]! : Int32Array.of(part)));
    const first = pieces.find(({ length }) => length > 0)?.[0];
    return joined(addBos && bos >= 0 && first !== bos ? [Int32Array.of(bos), ...pieces] : pieces);
  }

  /**
   * How a conversation goes on after a reply that ended by itself, whose tokens stay as they were sampled: the ids between its end token
   * and the next reply.
   * @param before the messages up to the reply
   * @param said what the model is told after it
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT
   */
  renderTurn(before: readonly ChatMessage[], said: ChatMessage): Int32Array {
    const reply = unusedMarker([...before, said]);
    const [filled] = this.#fill([[...before, { role: 'assistant', content: reply }, said]], true);
    const { rendered, marker } = filled!;
    const parts = rendered.split(reply);
    if (parts.length !== 2)
      throw new IsoproError('TEMPLATE_INVALID', `the chat template writes an earlier reply ${parts.length - 1} times, not once`);
    const ids = this.#tokenize(parts[1]!, marker);
    const end = ids.findIndex((id) => this.#vocabulary.ends.includes(id)); // was sampled with the reply
    return Int32Array.from(ids.slice(end + 1));
  }

  /** The template's texts, each with a marker inside whatever in messages and variables reads like a control token. */
  #fill(
    conversations: readonly (readonly ChatMessage[])[],
    addGenerationPrompt: boolean,
    variables: TemplateVariables = {},
  ): { rendered: string; marker: string }[] {
    const given = textsOf(variables);
    const markers = conversations.map((messages) => unusedMarker(messages, given));
    const texts = this.#run(
      conversations.map((messages, i) => ({
        ...(this.#defuseAll(variables, markers[i]!) as TemplateVariables),
        messages: messages.map(({ role, content }) => ({ role, content: this.#defuse(content, markers[i]!) })),
        add_generation_prompt: addGenerationPrompt,
        bos_token: this.#controlText(this.#vocabulary.bos),
        eos_token: this.#controlText(this.#vocabulary.eos),
      })),
    );
    return texts.map((rendered, i) => ({ rendered, marker: markers[i]! }));
  }

  #tokenize(rendered: string, marker: string): number[] {
    const ids: number[] = [];
    for (const part of this.#parts(rendered, marker)) {
      if (typeof part === 'number') ids.push(part);
      else for (const id of this.#vocabulary.tokenize(part)) ids.push(id);
    }
    return ids;
  }

  /** Plain texts, and the ids of the control tokens between them. */
  #parts(rendered: string, marker: string): (string | number)[] {
    const parts: (string | number)[] = [];
    const addPlain = (text: string): void => {
      const plain = text.replaceAll(marker, '');
      if (plain !== '') parts.push(plain);
    };
    let end = 0;
    for (const match of this.#controlPattern === null ? [] : rendered.matchAll(this.#controlPattern)) {
      addPlain(rendered.slice(end, match.index));
      parts.push(this.#controlIds.get(match[0]) as number);
      end = match.index + match[0].length;
    }
    addPlain(rendered.slice(end));
    return parts;
  }

  #controlText(id: number): string {
    return this.#vocabulary.controlTokens.find((token) => token.id === id)?.text ?? '';
  }

  #defuse(content: string, marker: string): string {
    if (this.#controlPattern === null) return content;
    // Repeated because taking one text apart may leave another whole.
    for (let text = content; ; ) {
      const next = text.replace(this.#controlPattern, (found) => {
        const first = String.fromCodePoint(found.codePointAt(0) as number);
        return first + marker + found.slice(first.length);
      });
      if (next === text) return text;
      text = next;
    }
  }

  #defuseAll(value: Value, marker: string): Value {
    if (typeof value === 'string') return this.#defuse(value, marker);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((member: Value) => this.#defuseAll(member, marker));
    return Object.fromEntries(
      Object.entries(value).map(([name, member]: [string, Value]) => [this.#defuse(name, marker), this.#defuseAll(member, marker)]),
    );
  }

  #run(all: readonly Record<string, unknown>[]): string[] {
    try {
      return (this.#template ??= new ChatTemplate(this.#templateText)).render(all);
    } catch (cause) {
      throw new IsoproError('TEMPLATE_INVALID', `the chat template failed: ${(cause as Error).message}`, { cause });
    }
  }
}

function textsOf(value: Value): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]: [string, Value]) => [name, ...textsOf(member)]);
}

/** @throws IsoproError INVALID_ARGUMENT */
function unusedMarker(messages: readonly ChatMessage[], others: readonly string[] = []): string {
  const texts = [...messages.map(({ content }) => content), ...others];
  const marker = MARKERS.find((candidate) => !texts.some((text) => text.includes(candidate)));
  if (marker !== undefined) return marker;
  throw new IsoproError('INVALID_ARGUMENT', 'the messages use all 32 Unicode noncharacters from U+FDD0 to U+FDEF');
}

/** One list of several. */
export function joined(pieces: readonly Int32Array[]): Int32Array {
  const all = new Int32Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

function escapeForPattern(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
