/**
 * The one prompt renderer: chat messages to token ids, for rollouts, training, evaluation and
 * serving alike.
 *
 * The template is the model file's own; ChatML where the file has none. Text inside a message never
 * becomes a control token: a marker is put inside every control-token text that a message contains,
 * so that after rendering only the template's own control tokens are recognised; then the marker is
 * taken out again (`control-tokens.ts`). The plain text between two control tokens is tokenised in
 * one piece, as it is when a whole prompt is tokenised at once.
 */
import { createHash, hash } from 'node:crypto';
import { canonicalJson } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { ChatTemplate } from './chat-template.js';
import { ControlTokens } from './control-tokens.js';
import { TemplateError } from './template/failures.js';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant' | 'tool';
  readonly content: string;
}

type Value =
  | string
  | number
  | boolean
  | null
  | readonly Value[]
  | { readonly [name: string]: Value };
/** Variables of a template other than the messages, by name. */
export type TemplateVariables = Readonly<Record<string, Value>>;

export interface RenderedPrompt {
  readonly tokenIds: Int32Array;
  /** The prompt as text, control tokens written out. */
  readonly text: string;
  /** Identifies template and renderer; stored with every dataset and adapter. */
  readonly rendererId: string;
}

/** Properties of a vocabulary that the renderer needs. */
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
  /** True if different texts always have different tokens; false if unknown. */
  readonly isInjective: boolean;
}

/**
 * Changes whenever the same template and messages could give other token ids than before. A
 * template that is rendered as it was keeps the id of then, so that what was trained on its prompts
 * is served and judged.
 */
const RENDERER_VERSION = {
  before: 'isopro-1/jinja-0.5.11',
  corrected: 'isopro-2/jinja2-3.1',
} as const;

const CHATML = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`;

/**
 * Unicode noncharacters (U+FDD0 to U+FDEF), of which one that no message contains serves as the
 * marker.
 */
const MARKERS = Array.from({ length: 32 }, (_, i) => String.fromCodePoint(0xfdd0 + i));

export class PromptRenderer {
  readonly rendererId: string;
  readonly #vocabulary: PromptVocabulary;
  readonly #templateText: string;
  readonly #control: ControlTokens;
  readonly #markers: readonly string[];
  readonly #template: ChatTemplate | TemplateError;
  #takesSystem: boolean | undefined;

  constructor(vocabulary: PromptVocabulary) {
    this.#vocabulary = vocabulary;
    this.#templateText = vocabulary.chatTemplate === '' ? CHATML : vocabulary.chatTemplate;
    this.#template = parsed(this.#templateText);
    const isCorrected = this.#template instanceof ChatTemplate && this.#template.isCorrected;
    this.rendererId = rendererId(this.#templateText, isCorrected ? 'corrected' : 'before');
    this.#control = new ControlTokens(vocabulary.controlTokens);
    this.#markers = MARKERS.filter(
      (marker) => !this.#control.holds(marker) && !this.#templateText.includes(marker),
    );
  }

  /** @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT */
  render(messages: readonly ChatMessage[], addGenerationPrompt: boolean): RenderedPrompt {
    return this.renderAll([messages], addGenerationPrompt)[0]!;
  }

  /**
   * @param addGenerationPrompt whether the prompts end where the assistant's answer begins
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT
   */
  renderAll(
    conversations: readonly (readonly ChatMessage[])[],
    addGenerationPrompt: boolean,
  ): RenderedPrompt[] {
    const { addBos, bos } = this.#vocabulary;
    return this.#fill(conversations, addGenerationPrompt).map(({ rendered, marker }) => {
      const ids = this.#tokenize(rendered, marker);
      if (addBos && bos >= 0 && ids[0] !== bos) ids.unshift(bos);
      return {
        tokenIds: Int32Array.from(ids),
        text: rendered.replaceAll(marker, ''),
        rendererId: this.rendererId,
      };
    });
  }

  /**
   * Equal for two prompts exactly where their tokens are. Where texts that differ have tokens that
   * differ, no tokens are made: they take most of a prompt's time.
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT
   */
  identities(conversations: readonly (readonly ChatMessage[])[]): string[] {
    return this.#fill(conversations, true).map(({ rendered, marker }) => {
      if (!this.#vocabulary.isInjective) return this.#tokenize(rendered, marker).join();
      const identity = createHash('sha256');
      for (const part of this.#control.parts(rendered, marker))
        if (typeof part === 'number') identity.update(`token ${part};`);
        else identity.update(`text ${Buffer.byteLength(part)};`).update(part);
      return identity.digest('base64');
    });
  }

  /**
   * The token ids of `render`, where another thread makes them of the plain texts: of megabytes
   * that takes seconds.
   * @throws IsoproError as `render`, and what `tokenizeAll` throws
   */
  async renderAside(
    messages: readonly ChatMessage[],
    addGenerationPrompt: boolean,
    tokenizeAll: (texts: string[]) => Promise<Int32Array[]>,
    variables: TemplateVariables = {},
  ): Promise<Int32Array> {
    const { addBos, bos } = this.#vocabulary;
    requireShallow(variables);
    const [filled] = this.#fill([messages], addGenerationPrompt, variables);
    const parts = this.#control.parts(filled!.rendered, filled!.marker);
    const tokenized = await tokenizeAll(parts.filter((part) => typeof part === 'string'));
    let next = 0;
    const pieces = parts.map((part) =>
      typeof part === 'string' ? tokenized[next++]! : Int32Array.of(part),
    );
    const first = pieces.find(({ length }) => length > 0)?.[0];
    return joined(addBos && bos >= 0 && first !== bos ? [Int32Array.of(bos), ...pieces] : pieces);
  }

  /**
   * How a conversation goes on after a reply that ended by itself, whose tokens stay as they were
   * sampled: the ids between its end token and the next reply.
   * @param before the messages up to the reply
   * @param said what the model is told after it
   * @throws IsoproError TEMPLATE_INVALID, INVALID_ARGUMENT
   */
  renderTurn(before: readonly ChatMessage[], said: ChatMessage): Int32Array {
    const reply = this.#unusedMarker([...before, said]);
    const [filled] = this.#fill([[...before, { role: 'assistant', content: reply }, said]], true);
    const { rendered, marker } = filled!;
    const parts = rendered.split(reply);
    if (parts.length !== 2)
      throw new IsoproError(
        'TEMPLATE_INVALID',
        `the chat template writes an earlier reply ${parts.length - 1} times instead of once`,
      );
    const ids = this.#tokenize(parts[1]!, marker);
    // was sampled with the reply
    const end = ids.findIndex((id) => this.#vocabulary.ends.includes(id));
    return Int32Array.from(ids.slice(end + 1));
  }

  /**
   * The tokens that a prompt ends with where the assistant's answer begins; empty where the
   * template writes none.
   * @throws IsoproError TEMPLATE_INVALID
   */
  generationPrompt(): Int32Array {
    const asked: ChatMessage[] = [{ role: 'user', content: 'a' }];
    const [without, whole] = [false, true].map((add) => this.render(asked, add).tokenIds);
    const continues = without!.every((id, i) => id === whole![i]);
    return continues ? whole!.slice(without!.length) : new Int32Array();
  }

  /** The control tokens that a text names, each once. */
  controlTokensIn(text: string): string[] {
    return this.#control.namedIn(text);
  }

  /** Unsupported features of the template; a prompt that reaches one of them is refused. */
  get uncovered(): readonly string[] {
    return this.#template instanceof ChatTemplate ? this.#template.uncovered : [];
  }

  /** Id of the template before the renderer was corrected; null if it did not change. */
  get formerId(): string | null {
    const former = rendererId(this.#templateText, 'before');
    return former === this.rendererId ? null : former;
  }

  /** True if the template writes a system message instead of refusing or omitting it. */
  get takesSystem(): boolean {
    return (this.#takesSystem ??= this.#writesSystem());
  }

  #writesSystem(): boolean {
    const [told] = this.#markers;
    if (told === undefined) return true;
    const user: ChatMessage = { role: 'user', content: 'a' };
    return (
      this.#written([{ role: 'system', content: told }, user])?.rendered.includes(told) ?? false
    );
  }

  /**
   * Returns the token that the template writes after a reply: the first control token after a final
   * reply; else the one before the user's next message, if it ends replies. null if there is none
   * or the template cannot be rendered.
   */
  endOfReply(): number | null {
    const reply = this.#markers[0];
    if (reply === undefined) return null;
    const asked: ChatMessage[] = [
      { role: 'user', content: 'a' },
      { role: 'assistant', content: reply },
    ];
    // where it is not the last thing said, what begins the next message comes right behind it too
    const goesOn = this.#tokenBehind(reply, [...asked, { role: 'user', content: 'a' }]);
    return (
      this.#tokenBehind(reply, asked) ??
      (goesOn !== null && this.#vocabulary.ends.includes(goesOn) ? goesOn : null)
    );
  }

  #tokenBehind(reply: string, conversation: readonly ChatMessage[]): number | null {
    const written = this.#written(conversation);
    if (written === null) return null;
    const { rendered, marker } = written;
    const at = rendered.lastIndexOf(reply);
    const parts = at < 0 ? [] : this.#control.parts(rendered.slice(at + reply.length), marker);
    return parts.find((part) => typeof part === 'number') ?? null;
  }

  /** null: it cannot be rendered. */
  #written(conversation: readonly ChatMessage[]): { rendered: string; marker: string } | null {
    try {
      return this.#fill([conversation], false)[0]!;
    } catch (error) {
      if (error instanceof IsoproError) return null; // is told where a prompt is rendered
      throw error;
    }
  }

  /**
   * The template's texts, each with a marker inside whatever in messages and variables reads like a
   * control token.
   */
  #fill(
    conversations: readonly (readonly ChatMessage[])[],
    addGenerationPrompt: boolean,
    variables: TemplateVariables = {},
  ): { rendered: string; marker: string }[] {
    const given = textsOf(variables);
    const markers = conversations.map((messages) => this.#unusedMarker(messages, given));
    return conversations.map((messages, i) => {
      const marker = markers[i]!;
      const rendered = this.#run({
        ...(this.#defuseAll(variables, marker) as TemplateVariables),
        messages: messages.map(({ role, content }) => ({
          role,
          content: this.#control.defused(content, marker),
        })),
        add_generation_prompt: addGenerationPrompt,
        bos_token: this.#control.textOf(this.#vocabulary.bos),
        eos_token: this.#control.textOf(this.#vocabulary.eos),
      });
      return { rendered, marker };
    });
  }

  #tokenize(rendered: string, marker: string): number[] {
    const ids: number[] = [];
    for (const part of this.#control.parts(rendered, marker)) {
      if (typeof part === 'number') ids.push(part);
      else for (const id of this.#vocabulary.tokenize(part)) ids.push(id);
    }
    return ids;
  }

  #defuseAll(value: Value, marker: string): Value {
    if (typeof value === 'string') return this.#control.defused(value, marker);
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((member: Value) => this.#defuseAll(member, marker));
    return Object.fromEntries(
      Object.entries(value).map(([name, member]: [string, Value]) => [
        this.#control.defused(name, marker),
        this.#defuseAll(member, marker),
      ]),
    );
  }

  #run(variables: Readonly<Record<string, unknown>>): string {
    const { problem } = this.#control;
    if (problem !== null)
      throw new IsoproError(
        'TEMPLATE_INVALID',
        `${problem}; control tokens cannot be distinguished from message text`,
      );
    try {
      if (this.#template instanceof TemplateError) throw this.#template;
      return this.#template.render(variables);
    } catch (cause) {
      if (!(cause instanceof TemplateError)) throw cause;
      throw new IsoproError('TEMPLATE_INVALID', `the chat template failed: ${cause.message}`, {
        cause,
      });
    }
  }

  /** @throws IsoproError INVALID_ARGUMENT */
  #unusedMarker(messages: readonly ChatMessage[], others: readonly string[] = []): string {
    const texts = [...messages.map(({ content }) => content), ...others];
    const marker = this.#markers.find(
      (candidate) => !texts.some((text) => text.includes(candidate)),
    );
    if (marker !== undefined) return marker;
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'the messages, the control tokens and the chat template together use all 32 Unicode noncharacters from U+FDD0 to U+FDEF',
    );
  }
}

const rendererId = (template: string, version: keyof typeof RENDERER_VERSION): string =>
  hash('sha256', canonicalJson({ renderer: RENDERER_VERSION[version], template }));

/**
 * Returns the parsed template or its error, which is thrown only when a prompt is rendered: token
 * ids and texts need no template.
 */
function parsed(template: string): ChatTemplate | TemplateError {
  try {
    return new ChatTemplate(template);
  } catch (error) {
    if (error instanceof TemplateError) return error;
    throw error;
  }
}

/** Of lists and objects in one another: the stack is not asked how deep a caller's variables go. */
const DEEPEST = 500;

/** @throws IsoproError INVALID_ARGUMENT */
function requireShallow(variables: TemplateVariables): void {
  const left: [Value, number][] = [[variables, 0]];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [value, depth] = next;
    if (typeof value !== 'object' || value === null) continue;
    if (depth > DEEPEST)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `the variables of the chat template are nested more than ${DEEPEST} levels deep`,
      );
    for (const member of Object.values(value) as Value[]) left.push([member, depth + 1]);
  }
}

function textsOf(value: Value): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, member]: [string, Value]) => [
    name,
    ...textsOf(member),
  ]);
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
