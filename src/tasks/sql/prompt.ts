import type { ChatMessage, PromptStyle } from '../task.js';
import type { SqlProblem, Table } from './problem.js';
import { quoteName } from './query.js';
import { MAX_REPLY_CHARACTERS } from './reply.js';
import { MAX_STATEMENT_CHARACTERS } from './statement.js';

/** `films(id INTEGER, title TEXT)` */
const described = ({ name, columns }: Table): string =>
  `${quoteName(name)}(${columns.map((column) => `${quoteName(column.name)} ${column.type}`).join(', ')})`;

const user = (...paragraphs: string[]): ChatMessage => ({
  role: 'user',
  content: paragraphs.join('\n\n'),
});

/** What is asked last, after the rules and the examples. */
export const sqlQuestion = ({ tables, question }: SqlProblem): ChatMessage =>
  user(tables.map(described).join('\n'), `Question: ${question}`);

/** A reply in the form that a style asks for. */
export function writtenReply(query: string, style: PromptStyle): ChatMessage {
  const content =
    style === 'plain'
      ? `${query};`
      : `The question is answered by this statement.\n\n\`\`\`sql\n${query};\n\`\`\``;
  return { role: 'assistant', content };
}

const REPLY: Readonly<Record<PromptStyle, string>> = {
  plain: 'Answer each question with one SQLite SELECT statement and nothing else.',
  cot:
    'Answer each question with one SQLite SELECT statement. Think step by step, then end your reply with the statement in one block that ' +
    `begins with \`\`\`sql and ends with \`\`\`, at most ${MAX_REPLY_CHARACTERS} characters in all.`,
};
const RULES =
  'Return exactly the columns that are asked for, in that order. Put text in single quotes. Use only the tables given and plain ' +
  `functions, no recursion, at most ${MAX_STATEMENT_CHARACTERS} characters.`;

/**
 * Two easy examples of no theme: told the rules alone a small model goes on and on, and a table
 * that it saw in both it keeps.
 */
const examples = (style: PromptStyle): ChatMessage[] => [
  user(
    `${REPLY[style]} ${RULES}`,
    'pets(name TEXT, kind TEXT, age INTEGER)',
    `Question: Show all columns of the pets whose kind is 'dog'.`,
  ),
  writtenReply(`SELECT * FROM pets WHERE kind = 'dog'`, style),
  user(
    'tools(name TEXT, maker TEXT, price REAL)',
    'Question: Give the name of the tools with price above 3.',
  ),
  writtenReply('SELECT name FROM tools WHERE price > 3', style),
];

/** Every rule that `parseReply` and the verifier enforce, and the question. */
export const sqlPrompt = (problem: SqlProblem, style: PromptStyle): ChatMessage[] => [
  ...examples(style),
  sqlQuestion(problem),
];
