/** Imports opinions from JSON lines in the format of the forum Change My View. */
import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { binaryProblem, openProblem, type BinaryProblem, type OpenProblem } from '../problem.js';
import { SkipCount } from '../score.js';
import { importOptions, someLeft, type Imported } from './imported.js';
import { jsonRows } from './json-rows.js';

const text = z.string().trim().min(1);
const MARK = /^\s*CMV\s*[:;,.\-–—]?\s*/i;

const title = z.object({ title: text });
export type OpinionOptions = z.input<typeof importOptions>;

const withPoint = (view: string): string => (/[.!?…]$/.test(view) ? view : `${view}.`);

/**
 * Reads `{title}` lines whose title starts with CMV, each an opinion to agree or disagree with,
 * without a known answer.
 * @throws IsoproError INVALID_ARGUMENT for options, and where a line is not JSON; DATA_INVALID
 *   where one has no title or no view after the mark, and where nothing is left
 */
export function readOpinions(file: string, given: OpinionOptions): Imported<BinaryProblem> {
  const { licence, longest } = checked(importOptions, given, 'options');
  const skips = new SkipCount();
  const asked = new Set<string>();
  const problems: BinaryProblem[] = [];
  for (const { row, wrong } of jsonRows(file, 'opinions', title)) {
    if (!MARK.test(row.title)) {
      skips.add('no CMV before its title');
      continue;
    }
    const view = row.title.replace(MARK, '').trim();
    if (view === '') throw wrong('the title has no view after CMV');
    const question = `Do you agree with this view? ${withPoint(view)}`;
    if (asked.has(question)) skips.add('asked before');
    else if (question.length > longest) skips.add('too long');
    else {
      asked.add(question);
      problems.push(binaryProblem({ question, options: ['Yes', 'No'], correctOption: null }));
    }
  }
  return { problems: someLeft(problems, 'opinions'), skipped: skips.counts, licence };
}

const discussion = z.object({
  title: text,
  body: z.string().trim().default(''),
  replies: z.array(z.object({ text, score: z.number() })),
});
const discussionOptions = importOptions.extend({
  /**
   * Part of the discussions that are kept: those in which the best reply is furthest ahead of the
   * next.
   */
  share: z.number().gt(0).max(1).default(0.2),
});
export type DiscussionOptions = z.input<typeof discussionOptions>;

/**
 * Reads `{title, body?, replies: [{text, score}]}` lines as open questions whose reference is the
 * reply that was liked best. Kept is the part with the greatest ratio of the best score to the
 * next, rounded up; equal ones in the order of the file.
 * @throws IsoproError as `readOpinions`
 */
export function readDiscussions(file: string, given: DiscussionOptions): Imported<OpenProblem> {
  const { licence, longest, share } = checked(discussionOptions, given, 'options');
  const skips = new SkipCount();
  const asked = new Set<string>();
  const found: { readonly problem: OpenProblem; readonly ratio: number }[] = [];
  for (const { row } of jsonRows(file, 'discussions', discussion)) {
    const question = [row.title.replace(MARK, '').trim(), row.body]
      .filter((part) => part !== '')
      .join('\n\n');
    const [best, next] = [...row.replies].sort((a, b) => b.score - a.score);
    if (question === '' || best === undefined || next === undefined)
      skips.add('no question, or fewer than two replies');
    else if (!(next.score > 0)) skips.add('no two replies that were liked');
    else if (best.score === next.score) skips.add('no reply was liked best');
    else if (asked.has(question)) skips.add('asked before');
    else if (question.length > longest) skips.add('too long');
    else {
      asked.add(question);
      found.push({
        problem: openProblem({ question, reference: best.text }),
        ratio: best.score / next.score,
      });
    }
  }
  const kept = [...found]
    .sort((a, b) => b.ratio - a.ratio)
    .slice(0, Math.ceil(found.length * share));
  if (kept.length < found.length)
    skips.add('its best reply is not far enough ahead', found.length - kept.length);
  const chosen = new Set(kept);
  const problems = found.filter((each) => chosen.has(each)).map(({ problem }) => problem);
  return { problems: someLeft(problems, 'discussions'), skipped: skips.counts, licence };
}
