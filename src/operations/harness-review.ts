/** Review the decisions of a run, one after the other. */
import { z } from 'zod';
import { DurableLines } from '../harness/durable-lines.js';
import {
  decisionsOf,
  goldScenarios,
  optionOf,
  readReviews,
  reviewsFile,
  VERDICTS,
  type Review,
  type ReviewedDecision,
  type ReviewVerdict,
} from '../harness/reviews.js';
import { findRun } from '../lookup/runs.js';
import { operation, WrongSetting } from './operation.js';

const settings = z.strictObject({
  run: z
    .string()
    .min(1)
    .describe('run folder, or the start of a run id in ./runs')
    .meta({ positional: true, names: 'run' }),
  again: z.boolean().default(false).describe('also show decisions that were reviewed before'),
});

export interface ReviewResult {
  readonly folder: string;
  readonly decisions: number;
  /** The last review of each decision counts. */
  readonly verdicts: Readonly<Record<ReviewVerdict, number>>;
  /** Gold decisions that became scenarios. */
  readonly scenarios: number;
  /** Gold decisions whose question the log does not have. */
  readonly withoutQuestion: number;
}

const shown = (value: number | null): string =>
  value === null ? 'none' : String(Number(value.toPrecision(4)));

function textOf(each: ReviewedDecision, place: string): string {
  const { iteration, rule, decision, context, heldOut } = each;
  const fired = context?.evaluations.at(-1)?.rules[rule];
  return [
    `Decision ${place}: iteration ${iteration}, ${rule}`,
    ...(fired === undefined
      ? []
      : [
          `fired on its ${fired.side} side: ${shown(fired.value)} against ${shown(fired.threshold)}`,
        ]),
    `answer: ${optionOf(each) ?? (decision.edit.map(({ op }) => op).join(', ') || 'deferral')}`,
    `reason: ${decision.justification}`,
    `held-out reading: ${shown(heldOut[0])} then, ${shown(heldOut[1])} at the end`,
    '',
    'Write gold, bad or skip, and a note after it if you like.',
  ].join('\n');
}

/** `gold`, `g too late by one`; null where the words begin with no verdict. */
function read(words: string): Pick<Review, 'verdict' | 'note'> | null {
  const [first = '', ...rest] = words.trim().split(/\s+/);
  const verdict = VERDICTS.find(
    (each) => first !== '' && each.startsWith(first.toLowerCase().replace(/[:,.]$/, '')),
  );
  const note = rest.join(' ').slice(0, 2000).toWellFormed();
  return verdict === undefined ? null : { verdict, note: note === '' ? null : note };
}

export const harnessReview = operation({
  id: 'harness review',
  title: 'Review the decisions of a run, one after the other',
  settings,
  async run({ run, again }, { ask, signal }): Promise<ReviewResult> {
    if (ask === undefined) throw new WrongSetting('run: there is no person to ask');
    const folder = findRun(run);
    const decisions = await decisionsOf(folder);
    const of = (reviews: readonly Review[]): Map<string, ReviewVerdict> =>
      new Map(reviews.map((each) => [`${each.iteration} ${each.rule}`, each.verdict]));
    const before = of(readReviews(folder));
    const open = decisions.filter(
      ({ iteration, rule }) => again || !before.has(`${iteration} ${rule}`),
    );
    {
      using lines = new DurableLines<Review>(reviewsFile(folder));
      for (const [i, each] of open.entries()) {
        const text = textOf(each, `${i + 1} of ${open.length}`);
        let said: ReturnType<typeof read> = null;
        while (said === null) said = read(await ask([{ role: 'user', content: text }], signal));
        lines.append({ iteration: each.iteration, rule: each.rule, ...said });
      }
    }
    const now = [...of(readReviews(folder)).values()];
    const { scenarios, without } = await goldScenarios(folder);
    return {
      folder,
      decisions: decisions.length,
      verdicts: Object.fromEntries(
        VERDICTS.map((verdict) => [verdict, now.filter((each) => each === verdict).length]),
      ) as Record<ReviewVerdict, number>,
      scenarios: scenarios.length,
      withoutQuestion: without,
    };
  },
});
