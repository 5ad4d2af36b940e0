import type { ChatMessage } from '../task.js';
import type { FieldKind } from './document.js';
import type { ExtractProblem, Field, Value } from './problem.js';

const KINDS: Readonly<Record<FieldKind, string>> = {
  text: 'text',
  integer: 'whole number',
  amount: 'number',
  currency: 'text',
  date: 'date as YYYY-MM-DD',
  time: 'time as HH:MM',
  boolean: 'true or false',
};

/**
 * What the worked example says, by kind and in turn: words and the value that they stand for. The
 * names stand in no message.
 */
const EXAMPLES: Readonly<Record<FieldKind, readonly (readonly [words: string, value: Value])[]>> = {
  text: [
    ['Town Inn', 'Town Inn'],
    ['Ivy Cole', 'Ivy Cole'],
    ['Red Door', 'Red Door'],
    ['Bob Dean', 'Bob Dean'],
  ],
  integer: [
    ['seven', 7],
    ['103', 103],
  ],
  amount: [
    ['$4.75', 4.75],
    ['$0.90', 0.9],
    ['$8', 8],
  ],
  currency: [['', 'USD']],
  date: [
    ['17 May 2023', '2023-05-17'],
    ['9 August 2023', '2023-08-09'],
  ],
  time: [
    ['7:20 am', '07:20'],
    ['10:40 pm', '22:40'],
  ],
  boolean: [['yes', true]],
};

const upperFirst = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** The JSON text of an answer, in the order of the schema. */
export const printAnswer = (
  schema: readonly Field[],
  value: (field: Field, index: number) => Value,
): string =>
  `{${schema.map((field, index) => `"${field.key}": ${JSON.stringify(value(field, index))}`).join(', ')}}`;

/** The reply that says what the problem expects, in the order of its schema. */
export const solvedReply = ({ schema, expected }: ExtractProblem): string =>
  printAnswer(schema, ({ key }) => expected[key]!);

/**
 * The worked example of a schema: a message that names each thing by its meaning, and its object.
 */
export function workedExample(schema: readonly Field[]): { message: string; reply: string } {
  const taken = new Map<FieldKind, number>();
  const chosen = schema.map(({ kind }) => {
    const turn = taken.get(kind) ?? 0;
    taken.set(kind, turn + 1);
    return EXAMPLES[kind][turn % EXAMPLES[kind].length]!;
  });
  const said = schema.flatMap(({ kind, meaning }, index) =>
    kind === 'currency' ? [] : [`${upperFirst(meaning)}: ${chosen[index]![0]}`],
  );
  return { message: said.join('\n'), reply: printAnswer(schema, (_, index) => chosen[index]![1]) };
}

/** Every rule that `parse` and `verify` enforce, and nothing else. */
export function rulesOf({ schema, message, today, dayFirst }: ExtractProblem): string {
  const has = (...kinds: FieldKind[]): boolean => schema.some(({ kind }) => kinds.includes(kind));
  return [
    ...(has('text') ? ['Copy text exactly as it stands.'] : []),
    ...(has('integer', 'amount') ? ['Write numbers in digits without quotes.'] : []),
    ...(has('amount') && /\d,\d/.test(message) ? ['1,250.50 and 1.250,50 are 1250.5.'] : []),
    ...(has('currency') ? ['€ is EUR, $ is USD, £ is GBP.'] : []),
    ...(dayFirst === null
      ? []
      : [`Dates like 03/04/2026 are ${dayFirst ? 'day/month' : 'month/day'}/year.`]),
    ...(today === null ? [] : [`Today is ${today}.`]),
    'Write null where a message does not say.',
    'Reply with the JSON object only.',
  ].join(' ');
}

/**
 * Schema, rules and a worked example, then the message. The same in both styles: there is nothing
 * to reason about in writing.
 */
export function extractPrompt(problem: ExtractProblem): ChatMessage[] {
  const { message, reply } = workedExample(problem.schema);
  const content = [
    'Turn each message into one JSON object with exactly these keys, each once:',
    ...problem.schema.map(({ key, kind, meaning }) => `"${key}": ${meaning} (${KINDS[kind]})`),
    rulesOf(problem),
    '',
    `Message:\n${message}`,
  ].join('\n');
  return [
    { role: 'user', content },
    { role: 'assistant', content: reply },
    { role: 'user', content: `Message:\n${problem.message}` },
  ];
}
