/** Imports questions to a chat program from JSON lines in the format of WildChat. */
import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { openProblem, type OpenProblem } from '../problem.js';
import { SkipCount } from '../score.js';
import { importOptions, someLeft, type Imported } from './imported.js';
import { jsonRows } from './json-rows.js';

const row = z.object({
  conversation: z
    .array(z.object({ role: z.enum(['user', 'assistant', 'system']), content: z.string() }))
    .min(1),
  language: z.string().optional(),
  toxic: z.boolean().default(false),
  redacted: z.boolean().default(false),
});

const options = importOptions.extend({
  /** Skips conversations in another or an unstated language; without it none is skipped. */
  language: z.string().trim().min(1).optional(),
});
export type ConversationOptions = z.input<typeof options>;

/**
 * Reads `{conversation: [{role, content}], language?, toxic?, redacted?}` lines: the first turn of
 * each is an open question. What the program answered is no reference.
 * @throws IsoproError INVALID_ARGUMENT for options, and where a line is not JSON; DATA_INVALID
 *   where one has no such members or its turns do not take turns, and where nothing is left
 */
export function readConversations(file: string, given: ConversationOptions): Imported<OpenProblem> {
  const { licence, longest, language } = checked(options, given, 'options');
  const skips = new SkipCount();
  const asked = new Set<string>();
  const problems: OpenProblem[] = [];
  for (const { row: said, wrong } of jsonRows(file, 'conversations', row)) {
    const turns = said.conversation.filter(({ role }) => role !== 'system');
    const out = turns.findIndex(({ role }, i) => role !== (i % 2 === 0 ? 'user' : 'assistant'));
    if (out >= 0)
      throw wrong(`turn ${out + 1} is the ${turns[out]!.role}'s, but the other role was expected`);
    const question = turns[0]?.content.trim() ?? '';
    if (question === '') skips.add('nothing was asked');
    else if (said.toxic) skips.add('marked as toxic');
    else if (said.redacted) skips.add('marked as redacted');
    else if (language !== undefined && said.language?.toLowerCase() !== language.toLowerCase())
      skips.add('another language');
    else if (asked.has(question)) skips.add('asked before');
    else if (question.length > longest) skips.add('too long');
    else {
      asked.add(question);
      problems.push(openProblem({ question, reference: null, about: { turns: turns.length } }));
    }
  }
  return { problems: someLeft(problems, 'conversations'), skipped: skips.counts, licence };
}
