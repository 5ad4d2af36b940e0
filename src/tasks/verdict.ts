import type {
  FinishReason,
  JudgeOptions,
  Judgement,
  Problem,
  SynchronousTask,
  Task,
  Verdict,
} from './task.js';
import { inTime, tooLate, VERIFY_SECONDS, Watch } from './time-limit.js';

export const failed = (category: string, detail: string): Verdict => ({
  kind: 'fail',
  violations: [{ category, jobs: [], amount: 1, detail }],
  metrics: {},
});

export const TRUNCATED = failed('truncated', 'The reply was cut off before it ended.');

/** On a reply that a content filter refused. */
export const REFUSED = failed('refused', 'A content filter refused the reply.');

export const undecided = (reason: string): Verdict => ({
  kind: 'none',
  violations: [],
  metrics: {},
  reason,
});

/** Verdict `none` on code of the task that threw. */
export const threw = (member: string, message: string): Verdict =>
  undecided(`${member} threw: ${message}`);

/**
 * Returns the judgement of a reply that was cut off, for a task that does not judge such replies:
 * it fails. Code that threw is reported, since it would throw on other replies too.
 * @param found judgement of the reply as if it were complete; null if there is none
 */
export const judgedCut = (found: Judgement | null): Judgement =>
  found?.verdict.kind === 'none' && /^\w+ (threw: |raised )/.test(found.verdict.reason ?? '')
    ? found
    : { verdict: TRUNCATED, form: null };

/**
 * Tells whether the strict reading of a reply succeeded, right or wrong. The share of such replies
 * among those with a verdict is the format rate; accuracy never exceeds it.
 */
export const isWellFormed = ({ form }: Pick<Judgement, 'form'>): boolean => form !== null;

const LOST = 'the verifier gave no verdict: ';

/** Verdict `none` of a verifier that hangs, crashes or is too slow. */
export const lost = (reason: string): Verdict => undecided(`${LOST}${reason}`);

export const isLost = ({ kind, reason }: Verdict): boolean =>
  kind === 'none' && reason?.startsWith(LOST) === true;

/**
 * Judges a reply. A reply that did not end by itself fails as `truncated`, one that cannot be
 * parsed with the category of the parser, usually `format`. Returns a promise only if `verify`
 * does.
 * @throws IsoproError ABORTED
 */
export function judgeReply<P extends Problem, A>(
  task: Pick<SynchronousTask<P, A>, 'parse' | 'verify' | 'judgesTruncated'>,
  problem: P,
  text: string,
  finish: FinishReason,
): Judgement;
export function judgeReply<P extends Problem, A>(
  task: Pick<Task<P, A>, 'parse' | 'verify' | 'judgesTruncated' | 'limits'>,
  problem: P,
  text: string,
  finish: FinishReason,
  options?: JudgeOptions,
): Judgement | Promise<Judgement>;
export function judgeReply<P extends Problem, A>(
  task: Pick<Task<P, A>, 'parse' | 'verify' | 'judgesTruncated' | 'limits'>,
  problem: P,
  text: string,
  finish: FinishReason,
  { signal, earlier = [] }: JudgeOptions = {},
): Judgement | Promise<Judgement> {
  if (finish !== 'stop' && task.judgesTruncated !== true) return { verdict: TRUNCATED, form: null };
  const parsed = task.parse(text, problem, earlier);
  if (!parsed.ok) return { verdict: failed(parsed.category, parsed.detail), form: null };
  const { answer, form } = parsed;
  const verdict = verifyAnswer(task, problem, answer, signal);
  return verdict instanceof Promise
    ? verdict.then((found) => ({ verdict: found, form }))
    : { verdict, form };
}

/** Most answers of one reply that are judged under the lenient reading. */
export const MAX_READINGS = 16;

/**
 * Judges several answers of which any may pass: returns the first pass, otherwise the first without
 * a verdict, otherwise the first.
 */
export async function judgeAny<A>(
  answers: readonly A[],
  verify: (answer: A) => Verdict | Promise<Verdict>,
): Promise<Judgement> {
  let best: Verdict | undefined;
  for (const answer of answers.slice(0, MAX_READINGS)) {
    const verdict = await verify(answer);
    if (verdict.kind === 'pass') return { verdict, form: 'lenient' };
    if (best === undefined || (best.kind === 'fail' && verdict.kind === 'none')) best = verdict;
  }
  return best === undefined
    ? { verdict: failed('format', 'No answer was found anywhere in the reply.'), form: null }
    : { verdict: best, form: 'lenient' };
}

/** @throws IsoproError ABORTED */
export function verifyAnswer<P extends Problem, A>(
  task: Pick<Task<P, A>, 'verify' | 'limits'>,
  problem: P,
  answer: A,
  signal?: AbortSignal,
): Verdict | Promise<Verdict> {
  const watch = new Watch();
  const verdict = task.verify(problem, answer, watch);
  if (!(verdict instanceof Promise)) return verdict;
  const { verifySeconds = VERIFY_SECONDS } = task.limits ?? {};
  return inTime(verdict, watch, verifySeconds, signal).then(
    (found) => found ?? lost(tooLate(verifySeconds)),
  );
}
