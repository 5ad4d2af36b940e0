/** Why replies did not pass, counted: what a reader needs before the next attempt. */
import { given } from '../given.js';
import type { EpisodeEnd, Judgement, VerdictKind, Violation } from './task.js';
import { isWellFormed, TRUNCATED } from './verdict.js';

/**
 * `format`: no answer could be read; `truncated`: cut off at the token limit; `wrong`: read, and
 * against a rule; `undecided`: the verifier found no verdict; `aborted`: cancelled; `context`: an
 * episode had no room for its next turn; `refused`: by a content filter; `failed`: whoever answers
 * gave no reply.
 */
export const FAILURES = [
  'format',
  'truncated',
  'wrong',
  'undecided',
  'aborted',
  'context',
  'refused',
  'failed',
] as const;
export type FailureKind = (typeof FAILURES)[number];

/** Part of a verdict that tells why a reply does not pass. */
export interface Reason {
  readonly kind: VerdictKind;
  /**
   * Violations, each once, sorted; for an undecided reply, the reason of the verifier. Undefined if
   * a log does not hold it.
   */
  readonly why: readonly string[] | undefined;
  /** True if an answer was read; undefined if a log does not hold it. */
  readonly formed: boolean | undefined;
  readonly finish: EpisodeEnd | undefined;
}

/** A reply with its verdict. */
export interface JudgedReplyText extends Reason {
  readonly problemId: string;
  readonly tier: string;
  /** Null if it is not known. */
  readonly text: string | null;
  readonly asked?: string | undefined;
  readonly right?: string | undefined;
}

export interface FailureExample {
  readonly problemId: string;
  readonly tier: string;
  /** The reply, shortened. */
  readonly text: string;
  /**
   * Last line of the question that other problems do not share, shortened; absent if it is not
   * known.
   */
  readonly asked?: string;
  /** Reply that passes, shortened; absent if none is known. */
  readonly right?: string;
}

export interface Failure {
  readonly kind: FailureKind;
  /** Rules that were broken, or the reason of the verifier; empty if the kind says everything. */
  readonly why: string;
  readonly count: number;
  /** First such reply, shortened; null if no text is known. */
  readonly example: FailureExample | null;
}

/** Counts of failures, the most common first. */
export interface Failures {
  readonly replies: number;
  readonly passed: number;
  readonly rows: readonly Failure[];
}

const byCount = (a: Failure, b: Failure): number =>
  b.count - a.count ||
  FAILURES.indexOf(a.kind) - FAILURES.indexOf(b.kind) ||
  (a.why < b.why ? -1 : 1);

const REASON_CHARACTERS = 300;
const HEAD_CHARACTERS = 160;
const TAIL_CHARACTERS = 80;
/** Most rows; failures of further kinds share one row. */
const MOST_ROWS = 64;
const OTHERS = 'other reasons';

/** Shortens a reply to its beginning and end. */
export const shortenedReply = (text: string): string =>
  (text.length <= HEAD_CHARACTERS + TAIL_CHARACTERS
    ? text
    : `${text.slice(0, HEAD_CHARACTERS)} … ${text.slice(-TAIL_CHARACTERS)}`
  ).toWellFormed();

interface Said {
  readonly kind: VerdictKind;
  readonly violations: readonly Pick<Violation, 'category'>[];
  readonly reason?: string | undefined;
}

export function whyOf({ kind, violations, reason }: Said): string[] {
  if (kind === 'pass') return [];
  if (kind === 'none')
    return [(reason ?? 'it gave no reason').slice(0, REASON_CHARACTERS).toWellFormed()];
  return [...new Set(violations.map(({ category }) => category.toWellFormed()))].sort();
}

/** Adds up failures of several evaluations; equal rows keep the example of the first. */
export function pooledFailures(parts: readonly Failures[]): Failures {
  const rows = new Map<string, Failure>();
  for (const row of parts.flatMap((part) => part.rows)) {
    const key = JSON.stringify([row.kind, row.why]);
    const known = rows.get(key);
    rows.set(key, known === undefined ? row : { ...known, count: known.count + row.count });
  }
  const sum = (of: (part: Failures) => number): number =>
    parts.reduce((total, part) => total + of(part), 0);
  return {
    replies: sum(({ replies }) => replies),
    passed: sum(({ passed }) => passed),
    rows: [...rows.values()].sort(byCount),
  };
}

export const reasonOf = (judgement: Judgement, finish: EpisodeEnd) =>
  ({
    kind: judgement.verdict.kind,
    why: whyOf(judgement.verdict),
    formed: isWellFormed(judgement),
    finish,
  }) satisfies Reason;

const TRUNCATED_CATEGORY = TRUNCATED.violations[0]!.category;

/** Returns null for a pass, and if a log does not tell a wrong answer from a missing one. */
export function failureOf({
  kind,
  why,
  formed,
  finish,
}: Reason): Pick<Failure, 'kind' | 'why'> | null {
  if (kind === 'pass') return null;
  const said = why?.join(', ') ?? '';
  if (finish === 'refused') return { kind: 'refused', why: '' };
  if (kind === 'none') return { kind: finish === 'failed' ? 'failed' : 'undecided', why: said };
  const cut =
    finish !== undefined &&
    finish !== 'stop' &&
    formed !== true &&
    (why === undefined || why.includes(TRUNCATED_CATEGORY));
  if (cut) return { kind: finish === 'length' ? 'truncated' : finish, why: '' };
  if (formed === undefined) return null;
  return formed
    ? { kind: 'wrong', why: said }
    : { kind: 'format', why: said === 'format' ? '' : said };
}

/** Counts replies in the order in which they come. */
export class FailureTally {
  readonly #rows = new Map<string, { -readonly [member in keyof Failure]: Failure[member] }>();
  #replies = 0;
  #passed = 0;

  take({ problemId, tier, text, asked, right, ...reason }: JudgedReplyText): void {
    this.#replies++;
    if (reason.kind === 'pass') this.#passed++;
    const failure = failureOf(reason);
    if (failure === null) return;
    let key = JSON.stringify([failure.kind, failure.why]);
    let { why } = failure;
    if (this.#rows.size >= MOST_ROWS && !this.#rows.has(key)) {
      why = OTHERS;
      key = JSON.stringify([failure.kind, why]);
    }
    const row = this.#rows.get(key);
    if (row !== undefined) row.count++;
    else
      this.#rows.set(key, {
        kind: failure.kind,
        why,
        count: 1,
        example:
          text === null
            ? null
            : {
                problemId,
                tier,
                text: shortenedReply(text),
                ...given({ asked, right }),
              },
      });
  }

  get failures(): Failures {
    const rows = [...this.#rows.values()].sort(byCount);
    return { replies: this.#replies, passed: this.#passed, rows: rows.map((row) => ({ ...row })) };
  }
}
