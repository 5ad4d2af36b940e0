/** Imports papers with their acceptance decisions from JSON lines in the format of OpenReview. */
import { z } from 'zod';
import { checked } from '../../engine/argument-check.js';
import { binaryProblem, type BinaryProblem } from '../problem.js';
import { SkipCount } from '../score.js';
import { bothWays, importOptions, type Imported } from './imported.js';
import { jsonRows } from './json-rows.js';

const text = z.string().trim().min(1);
/** Other members are not read, so that none of them reveals the decision. */
const row = z.object({
  venue: text,
  title: text,
  abstract: text,
  authors: z.array(text).default([]),
  reviews: z.array(text).default([]),
  references: z.array(text).default([]),
  decision: text,
});

export const PEER_REVIEW_PARTS = ['authors', 'reviews', 'references'] as const;

const options = importOptions.extend({
  /** Venues whose name begins so, in any case. */
  venue: z.string().trim().min(1).default('ICLR'),
  hide: z.array(z.enum(PEER_REVIEW_PARTS)).default([]),
});
export type PeerReviewOptions = z.input<typeof options>;

export interface PeerReviews extends Imported<BinaryProblem> {
  /** Part of the papers that were accepted. */
  readonly firstOptionShare: number;
}

const ACCEPTED = /^accept/i;
const REJECTED = /^reject/i;
/** Words of a review or abstract that give the outcome away. */
const TOLD =
  /\b(?:decision|recommendation of the (?:area|program) chairs?)\s*[:-]\s*(?:accept|reject)/i;

function questionOf(
  { title, abstract, authors, reviews, references }: z.output<typeof row>,
  hide: readonly string[],
): string {
  const part = (name: (typeof PEER_REVIEW_PARTS)[number], said: string): string =>
    hide.includes(name) || said === '' ? '' : `\n\n${said}`;
  return (
    `A paper was submitted to a conference.\n\nTitle: ${title}` +
    part('authors', authors.length === 0 ? '' : `Authors: ${authors.join(', ')}`) +
    `\n\nAbstract: ${abstract}` +
    part('references', references.length === 0 ? '' : `References:\n${references.join('\n')}`) +
    part('reviews', reviews.map((review, i) => `Review ${i + 1}: ${review}`).join('\n\n')) +
    '\n\nWas it accepted?'
  );
}

/**
 * Reads `{venue, title, abstract, authors?, reviews?, references?, decision}` lines; a decision
 * begins with Accept or Reject.
 * @throws IsoproError INVALID_ARGUMENT for options, and where a line is not JSON; DATA_INVALID
 *   where one has no such members or the same title was decided in two ways, and where the papers
 *   that are left came out in one way
 */
export function readPeerReviews(file: string, given: PeerReviewOptions): PeerReviews {
  const { licence, longest, venue, hide } = checked(options, given, 'options');
  const skips = new SkipCount();
  const decided = new Map<string, boolean>();
  const problems: BinaryProblem[] = [];
  for (const { row: paper, wrong } of jsonRows(file, 'papers', row)) {
    const { title, decision } = paper;
    const accepted = ACCEPTED.test(decision);
    const question = questionOf(paper, hide);
    if (!paper.venue.toLowerCase().startsWith(venue.toLowerCase())) skips.add('another venue');
    else if (!accepted && !REJECTED.test(decision)) skips.add('neither accepted nor rejected');
    else {
      const before = decided.get(title);
      if (before !== undefined && before !== accepted)
        throw wrong('an earlier line gives this title another decision');
      decided.set(title, accepted);
      if (before !== undefined) skips.add('asked before');
      else if (question.length > longest) skips.add('too long');
      else if (TOLD.test(question)) skips.add('its text tells the decision');
      else
        problems.push(
          binaryProblem({
            question,
            options: ['ACCEPTED', 'REJECTED'],
            correctOption: accepted ? 0 : 1,
            about: { venue: paper.venue },
          }),
        );
    }
  }
  return {
    problems,
    skipped: skips.counts,
    licence,
    firstOptionShare: bothWays(problems, 'papers'),
  };
}
