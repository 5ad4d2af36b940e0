/**
 * Looks the answer up: for each rule and side one option, the one of least regret on the training
 * seeds of the consequence bank.
 */
import { z } from 'zod';
import type { Evaluation } from '../evaluate-rules.js';
import type { Reader } from '../question.js';
import type { TraineeTypes } from '../trainee.js';
import { renderPrompt } from './prompt.js';

/** Ids of options by rule and side: `R1 high`. */
export const tableChoices = z.record(
  z.string().regex(/^R[1-7] (high|low|plateau|nonfinite)$/),
  z.string().min(1).max(100),
);
export type TableChoices = z.output<typeof tableChoices>;

/** The file of a table; what else stands in it explains where it comes from. */
export const tableFile = z.object({
  format: z.literal('isopro.table.v1'),
  choices: tableChoices,
});

export const tableReader = <T extends TraineeTypes>(
  commitment: Reader['commitment'],
  choices: TableChoices,
): Reader<T> => ({
  source: 'table',
  commitment,
  render: (context, menu) => renderPrompt(context, menu, { form: 'letter' }),
  read({ context: { rule, evaluations }, menu }) {
    const { side } = (evaluations.at(-1) as Evaluation).rules[rule];
    const at = `${rule} ${side}`;
    const choice = Object.hasOwn(choices, at) ? choices[at]! : null;
    if (choice === null) return { choice: null, reason: `the table has no row for ${at}` };
    return menu.some(({ id }) => id === choice)
      ? { choice, margin: null, agreement: null }
      : { choice: null, reason: `${choice} is not on the menu now` };
  },
});
