import type { ChatMessage, PromptStyle } from '../task.js';
import type { SqlProblem, Table } from './problem.js';
import { quoteName } from './query.js';
import { MAX_REPLY_CHARACTERS } from './reply.js';
import { MAX_STATEMENT_CHARACTERS } from './statement.js';

/** `films(id INTEGER, title TEXT)` */
const described = ({ name, columns }: Table): string =>
  `${quoteName(name)}(${columns.map((column) => `${quoteName(column.name)} ${column.type}`).join(', ')})`;

const ASK = 'Write one SQLite SELECT statement that answers the question.';
const REPLY: Readonly<Record<PromptStyle, string>> = {
  plain: 'Reply with the statement only.',
  cot:
    'Think step by step, then end your reply with the statement in one block that begins with ```sql and ends with ```, ' +
    `at most ${MAX_REPLY_CHARACTERS} characters in all.`,
};

/** Every rule that `parseReply` and the verifier enforce. Short, for small models; the form of the tables is one that they know. */
export function sqlPrompt(problem: SqlProblem, style: PromptStyle): ChatMessage[] {
  const content = [
    `${ASK} ${REPLY[style]}`,
    'Return exactly the columns that are asked for, in that order. Put text in single quotes. Use only the tables below and plain ' +
      `functions, no recursion, at most ${MAX_STATEMENT_CHARACTERS} characters.`,
    '',
    ...problem.tables.map(described),
    '',
    `Question: ${problem.question}`,
  ].join('\n');
  return [{ role: 'user', content }];
}
