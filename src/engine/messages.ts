/**
 * The one reader of messages, for requests, prompts and rows alike: contents as texts or as lists
 * of parts, the role developer, calls of tools and what they gave, in OpenAI's forms. What comes of
 * it are messages as templates know them.
 */
import { z } from 'zod';
import { tooMuch } from '../json-shape.js';
import { maybe, members } from '../object-schemas.js';
import { bounded } from './bounded-list.js';
import type { ChatMessage } from './prompt-renderer.js';
import { callText, resultText, type ToolCall } from './tool-calls.js';

/** Of one message. */
const MOST_PARTS = 2048;
/** Of one message, as OpenAI has it. */
const MOST_CALLS = 128;

/** How an object is read: whether a member that it does not have is refused, or has no effect. */
type ObjectReader = typeof members;
const open: ObjectReader = (shape) =>
  z.object(shape) as unknown as ReturnType<typeof members<typeof shape>>;

const TEXTS = ['text', 'input_text', 'output_text'] as const;
/** OpenAI's parts that are no text, which are refused by what they are. */
const OTHERS = ['image_url', 'input_image', 'input_audio', 'file', 'input_file'] as const;
/** What a model thought before it replied: no template is given it back. */
const THOUGHTS = ['reasoning', 'reasoning_text', 'thinking', 'redacted_thinking'] as const;

const otherPart = <const Type extends string>(types: readonly Type[]) =>
  z
    .looseObject({ type: z.enum(types) })
    .superRefine(({ type }, { addIssue }) =>
      addIssue({
        code: 'custom',
        message: `${type} is not supported: these models read only text`,
        params: { isUnsupported: true },
      }),
    )
    .describe('refused: unsupported_parameter');

/** Of whoever tells the model something. */
const toldPart = (object: ObjectReader) =>
  z.discriminatedUnion('type', [
    object({ type: z.enum(TEXTS), text: z.string() }),
    otherPart([...OTHERS, 'refusal']),
  ]);
/** Of an earlier reply. */
const saidPart = z.discriminatedUnion('type', [
  z.object({ type: z.enum(TEXTS), text: z.string() }),
  z.object({ type: z.literal('refusal'), refusal: z.string() }),
  z.object({ type: z.enum(THOUGHTS) }),
  otherPart(OTHERS),
]);

type Part = z.output<typeof saidPart> | z.output<ReturnType<typeof toldPart>>;
const textOf = (content: string | readonly Part[]): string =>
  typeof content === 'string'
    ? content
    : content
        .map((part) =>
          'text' in part ? String(part.text) : 'refusal' in part ? String(part.refusal) : '',
        )
        .join('');

const parts = (object: ObjectReader) => z.array(toldPart(object)).max(MOST_PARTS);
/** Content for the model: a string or a list of parts, which may be empty. */
export const toldContent = z.union([z.string(), parts(members)]).transform(textOf);
/** Content of an assistant message, without the other parts of a reply. */
export const saidContent = z
  .union([z.string(), z.array(saidPart).max(MOST_PARTS)])
  .transform(textOf);

export const functionName = z
  .string()
  .regex(/^[\w-]{1,64}$/, 'expected 1 to 64 letters, digits, _ and -');
/** Arguments as a string that should be JSON; a small model may write anything. */
export const argumentsText = z.string().check(({ value, issues }) => {
  const wrong = tooMuch(value);
  if (wrong !== null) issues.push({ code: 'custom', message: wrong, input: value });
});
/** Arguments as a JSON string or as an object. */
const callArguments = z
  .union([argumentsText, z.looseObject({})])
  .transform((given, { addIssue }) => {
    if (typeof given === 'string') return given;
    try {
      return JSON.stringify(given);
    } catch (error) {
      addIssue({
        code: 'custom',
        message: `cannot be written as JSON: ${(error as Error).message}`,
      });
      return z.NEVER;
    }
  });
const callee = z
  .object({ name: functionName, arguments: maybe(callArguments) })
  .transform(({ name, arguments: given = '{}' }): ToolCall => ({ name, arguments: given }));
const call = z
  .object({ type: maybe(z.literal('function')), function: callee })
  .transform((made) => made.function);

/** A message after parsing. */
export interface ReadMessage {
  readonly role: ChatMessage['role'];
  readonly content: string;
  /** Tool calls of the assistant, after its content. */
  readonly calls: readonly ToolCall[];
  /** True if it is the result of a tool call. */
  readonly isResult: boolean;
}

const told = (role: ChatMessage['role'], content: string): ReadMessage => ({
  role,
  content,
  calls: [],
  isResult: false,
});

function reader(object: ObjectReader) {
  const content = z.union([z.string(), parts(object).min(1)]).transform(textOf);
  const name = maybe(z.string().max(64));
  return z
    .discriminatedUnion('role', [
      object({ role: z.literal('system'), content, name }),
      object({ role: z.literal('developer'), content, name }),
      object({ role: z.literal('user'), content, name }),
      // replies have members that no request has, and come back with them
      z.object({
        role: z.literal('assistant'),
        content: maybe(saidContent),
        refusal: maybe(z.string()),
        tool_calls: maybe(z.array(call).max(MOST_CALLS)),
        function_call: maybe(callee),
      }),
      object({ role: z.literal('tool'), content, tool_call_id: maybe(z.string()), name }),
      object({ role: z.literal('function'), content, name }),
    ])
    .transform((message): ReadMessage => {
      switch (message.role) {
        case 'assistant': {
          const {
            content: said,
            refusal = '',
            tool_calls: calls = [],
            function_call: one,
          } = message;
          return {
            ...told('assistant', said ?? refusal),
            calls: one === undefined ? calls : [...calls, one],
          };
        }
        case 'tool':
          return { ...told('tool', message.content), isResult: message.tool_call_id !== undefined };
        case 'function':
          return { ...told('tool', message.content), isResult: true };
        case 'developer':
          return told('system', message.content);
        default:
          return told(message.role, message.content);
      }
    });
}

/**
 * Of a client: a member that messages do not have is refused by its name, but in what the assistant
 * said before.
 */
export const clientMessage = reader(members);
/** Of whoever else has messages: what they have beside has no effect. */
export const message = reader(open);
/** A message as a caller may pass it. */
export type MessageInput = z.input<typeof message>;

/**
 * Messages in roles that every template has: calls are shown as what the assistant wrote, what they
 * gave as what it was told then, in one message with what the user says next, since some templates
 * take no two of them. A message of the role tool that answers no call stays what it is.
 */
export function asTemplatesKnow(messages: readonly ReadMessage[]): ChatMessage[] {
  const said: ChatMessage[] = [];
  let hasCalled = false;
  let results = false;
  for (const { role, content, calls, isResult } of messages) {
    hasCalled ||= calls.length > 0;
    const isOfCall = role === 'tool' && (isResult || hasCalled);
    if (isOfCall) {
      const before = results ? said.pop() : undefined;
      const text = resultText(content);
      said.push({
        role: 'user',
        content: before === undefined ? text : `${before.content}\n${text}`,
      });
    } else if (results && role === 'user') {
      said.push({ role, content: `${said.pop()!.content}\n${content}` });
    } else {
      said.push({
        role,
        content: [
          ...(content === '' && calls.length > 0 ? [] : [content]),
          ...calls.map(callText),
        ].join('\n'),
      });
    }
    results = isOfCall;
  }
  return said;
}

/** A conversation, read and as templates know it. */
export const chatMessages = bounded(
  z.array(message).min(1, 'a prompt needs at least one message'),
).transform(asTemplatesKnow);
export const chatMessage = message.transform((said) => asTemplatesKnow([said])[0]!);
