/**
 * Model that scores replies, in the grader form of OpenAI: fills its templates with a row and a
 * reply, lists the numbers that it may return, and turns one into a verdict. Pure;
 * `grader-models.ts` asks the model.
 */
import { z } from 'zod';
import type { Json } from '../../canonical-json.js';
import { maybe, members } from '../../object-schemas.js';
import type { GivenVerdict } from '../define-task.js';
import type { ChatMessage } from '../task.js';
import type { DataContent } from './data-problem.js';

const text = z.string().max(10_000);
const part = z.strictObject({ type: z.enum(['input_text', 'output_text']), text });
const message = members({
  role: z.enum(['system', 'developer', 'user', 'assistant']),
  content: z.union([
    text,
    part,
    z
      .array(z.union([text, part]))
      .min(1)
      .max(64),
  ]),
  type: maybe(z.literal('message')),
});

/** Widest range: a grammar should not list more numbers. */
const WIDEST = 1000;
/** Approximate number of steps in a range, which sets the number of decimal places. */
const STEPS = 100;
const MOST_PLACES = 6;

/** Lists the numbers of a range in every form: with no decimal place, one, … */
export function numbersIn([low, high]: readonly [number, number]): string[] {
  const most = Math.min(
    MOST_PLACES,
    Math.max(0, Math.floor(Math.log10(STEPS / (high - low)) + 1e-9)),
  );
  return Array.from({ length: most + 1 }, (_, places) => {
    const unit = 10 ** places;
    const [first, last] = [Math.ceil(low * unit - 1e-9), Math.floor(high * unit + 1e-9)];
    return Array.from({ length: Math.max(0, last - first + 1) }, (_, i) =>
      ((first + i) / unit).toFixed(places),
    );
  }).flat();
}

const sampling = members({
  max_completions_tokens: z.int().min(1).max(4096).nullish(),
  /** Accepted and ignored: decoding is greedy. */
  seed: z.int().nullish(),
  temperature: z.literal(0, 'only 0 gives the same verdict every time').nullish(),
  top_p: z.literal(1, 'only 1 is allowed, as decoding is greedy').nullish(),
});

export const scoreModel = members({
  type: z.literal('score_model'),
  name: maybe(z.string().max(200)),
  model: z.string().min(1).max(4096),
  input: z.array(message).min(1).max(64),
  range: maybe(
    z
      .tuple([z.number(), z.number()])
      .refine(([low, high]) => low < high && high - low <= WIDEST, {
        error: `expected two numbers: a lower and a higher one, at most ${WIDEST} apart`,
        abort: true,
      })
      .refine(
        (range) => new Set(numbersIn(range).map(Number)).size > 1,
        'the range holds fewer than two numbers',
      ),
  ),
  sampling_params: sampling.nullish(),
  /** In the unit of the range. */
  pass_threshold: z.number().nullish(),
})
  .refine(({ input }) => input.at(-1)?.role === 'user', {
    path: ['input'],
    error: 'the last message must have the role user',
  })
  .refine(
    ({ input }) => input.some((each) => /\{\{\s*sample\.output_text\s*\}\}/.test(contentOf(each))),
    {
      path: ['input'],
      error: 'at least one message must contain {{sample.output_text}}',
    },
  )
  .refine(
    ({ range: [low, high] = [0, 1], pass_threshold: least }) =>
      least == null || (least > low && least <= high),
    {
      path: ['pass_threshold'],
      error: 'must be in the range and above its lower end',
    },
  );
export type ScoreModel = z.output<typeof scoreModel>;

/** Part of a grader that decides verdicts. */
export interface Grading {
  readonly input: readonly ChatMessage[];
  readonly range: readonly [number, number];
  readonly threshold: number;
  readonly maxTokens: number;
}

const contentOf = ({ content }: z.output<typeof message>): string =>
  [content]
    .flat()
    .map((each) => (typeof each === 'string' ? each : each.text))
    .join('\n');

/** Tokens of a number, with room to spare. */
const MAX_TOKENS = 32;

export function gradingOf({
  input,
  range = [0, 1],
  sampling_params: params,
  pass_threshold: least,
}: ScoreModel): Grading {
  const [low, high] = range;
  return {
    input: input.map((each) => ({
      role: each.role === 'developer' ? 'system' : each.role,
      content: contentOf(each),
    })),
    range,
    threshold: least ?? (low + high) / 2,
    maxTokens: params?.max_completions_tokens ?? MAX_TOKENS,
  };
}

/** Returns a member of a value by its path; undefined if the value has no own member there. */
const memberOf = (value: unknown, path: readonly string[]): unknown =>
  path.reduce(
    (at, name) =>
      typeof at === 'object' && at !== null && Object.hasOwn(at, name)
        ? Reflect.get(at, name)
        : undefined,
    value,
  );

/**
 * Fills a template with the members of an item that it names. The values are not read as templates
 * again, and nothing is executed.
 * @throws Error if the item lacks a member, or the template names neither the item nor the reply
 */
export function filledIn(
  template: string,
  item: unknown,
  reply?: (before: string, after: string) => string,
): string {
  return template.replace(
    /\{\{\s*([^{}]*?)\s*\}\}/g,
    (found: string, named: string, at: number) => {
      if (reply !== undefined && named === 'sample.output_text')
        return reply(template.slice(0, at), template.slice(at + found.length));
      const [of, ...path] = named.split('.');
      const value = of === 'item' && path.length > 0 ? memberOf(item, path) : undefined;
      if (value === undefined) throw new Error(`there is no value for {{${named}}}`);
      return typeof value === 'string' ? value : JSON.stringify(value);
    },
  );
}

/**
 * Puts a reply in a fenced block that nothing in it can end, so that it cannot give the grader
 * instructions.
 */
function fenced(reply: string, before: string, after: string): string {
  const longest = Math.max(2, ...(reply.match(/`+/g) ?? []).map(({ length }) => length));
  const fence = '`'.repeat(longest + 1);
  const [first, last] = [
    before === '' || before.endsWith('\n') ? '' : '\n',
    after === '' || after.startsWith('\n') ? '' : '\n',
  ];
  return `${first}${fence}\n${reply}\n${fence}${last}`;
}

/** Makes the item of a template: the members of the row that a problem keeps. */
const itemOf = ({ messages, answer, tier, fields }: DataContent): Record<string, Json> => ({
  ...fields,
  tier,
  messages: messages as unknown as Json,
  prompt: messages.at(-1)!.content,
  ...(answer === null ? {} : { answer }),
});

/** Returns the messages to the model about a reply. @throws Error naming a member the row lacks */
export function askedOf(
  { input, range: [low, high] }: Grading,
  row: DataContent,
  reply: string,
): ChatMessage[] {
  const item = itemOf(row);
  const messages = input.map(({ role, content }) => ({
    role,
    content: filledIn(content, item, (before, after) => fenced(reply, before, after)),
  }));
  const last = messages.pop()!;
  return [
    ...messages,
    {
      ...last,
      content: `${last.content}\n\nReply with one number from ${low} to ${high} and nothing else.`,
    },
  ];
}

/** GBNF of the numbers of the range. */
export const grammarOf = ({ range }: Grading): string =>
  `root ::= ${numbersIn(range)
    .map((number) => `"${number}"`)
    .join(' | ')}\n`;

/** Result of asking: the text of the model, or the reason why there is none. */
export type Graded = { readonly text: string } | { readonly none: string };

export function verdictOf(
  { range: [low, high], threshold }: Grading,
  graded: Graded,
): GivenVerdict {
  if ('none' in graded)
    return { kind: 'none', reason: `the grader gave no number: ${graded.none}` };
  const value = graded.text.trim() === '' ? Number.NaN : Number(graded.text);
  if (!(value >= low && value <= high))
    return {
      kind: 'none',
      reason: `the grader gave no number from ${low} to ${high}: ${JSON.stringify(graded.text.slice(0, 60))}`,
    };
  const score = (value - low) / (high - low);
  if (value >= threshold) return { kind: 'pass', score };
  const detail = `The grader gave ${value}, of ${low} to ${high}; what passes has at least ${threshold}.`;
  return { kind: 'fail', score, violations: [{ category: 'score', detail }] };
}
