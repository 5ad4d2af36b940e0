/** Verdicts for the examination of a task; it ends early if the verifier hangs. */
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import type { OpenTask, Problem, PromptStyle, Verdict } from '../tasks/task.js';
import { isLost } from '../tasks/verdict.js';

/** A reply that is the answer to nothing. */
export const NONSENSE = 'qwzx 8191 vbnj';
/** Each lost verdict takes the whole time that a verifier may have, or a new thread. */
const MOST_LOST = 3;

/** Thrown when too many verdicts were lost to continue. */
export class GaveUp extends Error {}

export interface ExaminingOptions {
  readonly signal?: AbortSignal | undefined;
  /** Verdicts that were asked for, of about so many, and what is worth knowing beside that. */
  readonly onProgress?: ((done: number, total: number, note?: string) => void) | undefined;
}

/** Verdicts without a decision for one reason, and the first of them. */
interface Undecided {
  count: number;
  readonly reason: string;
  readonly problem: Problem;
  /** In words: a reply, or a policy. */
  readonly tried: string;
}

/** What stands in quotes, and figures: of one cause they differ from reply to reply. */
const causeOf = (reason: string): string => reason.replace(/'[^']*'|"[^"]*"|\d+/g, '#');

/** At most so much of a reply is shown. */
const SHOWN = 60;
export const quoted = (text: string): string =>
  JSON.stringify(text.length <= SHOWN ? text : `${text.slice(0, SHOWN - 1)}…`);

export class ExaminedVerdicts {
  readonly #task: OpenTask;
  readonly #total: number;
  readonly #options: ExaminingOptions;
  readonly #undecided = new Map<string, Undecided>();
  #done = 0;
  #lost = 0;
  /** Of the first that was lost. */
  #lostReason: string | undefined;

  constructor(task: OpenTask, total: number, options: ExaminingOptions) {
    this.#task = task;
    this.#total = total;
    this.#options = options;
  }

  /** @throws GaveUp, IsoproError ABORTED */
  judge(problem: Problem, text: string): Promise<Verdict> {
    const { signal } = this.#options;
    return this.#noted(
      problem,
      `the reply ${quoted(text)}`,
      async () => (await this.#task.judge(problem, text, 'stop', given({ signal }))).verdict,
    );
  }

  /** @throws GaveUp, IsoproError ABORTED */
  applyPolicy(policy: string, problem: Problem): Promise<Verdict> {
    const { signal } = this.#options;
    return this.#noted(problem, `the answer of the policy ${policy}`, () =>
      this.#task.applyPolicy(policy, problem, given({ signal })),
    );
  }

  /**
   * One problem before all others. Replies that cannot be read do not reach a verifier, so that
   * policies are tried too.
   * @throws GaveUp
   */
  async tryOne(problem: Problem, style: PromptStyle): Promise<void> {
    const question = (await this.#task.prompt(problem, style)).at(-1)!.content;
    for (const text of ['', NONSENSE, question]) await this.judge(problem, text);
    for (const policy of this.#task.policies) await this.applyPolicy(policy, problem);
  }

  /** In words, by what the verifier said. */
  get undecided(): string[] {
    const rest = this.#lost >= MOST_LOST ? '; nothing else was tried' : '';
    return [...this.#undecided.values()].map(
      ({ count, reason, problem, tried }) =>
        `${count} of the replies tried ${count === 1 ? 'has no verdict:' : 'have no verdict; the first is'} ${tried} ` +
        `to problem ${problem.id.slice(0, 12)} of tier ${problem.tier}: ${reason}${rest}`,
    );
  }

  async #noted(problem: Problem, tried: string, ask: () => Promise<Verdict>): Promise<Verdict> {
    const { signal, onProgress } = this.#options;
    if (signal?.aborted === true)
      throw new IsoproError('ABORTED', 'examining the task was cancelled');
    const verdict = await ask();
    const lost = this.#lost + Number(isLost(verdict));
    const note =
      lost === 0 ? undefined : `${lost} without a verdict; the examination ends at ${MOST_LOST}`;
    onProgress?.(++this.#done, Math.max(this.#done, this.#total), note);
    if (verdict.kind !== 'none') return verdict;
    const reason = verdict.reason ?? 'no reason';
    // that of a policy has longer, and says so: one verifier that hangs is one finding
    const of = isLost(verdict) ? (this.#lostReason ??= reason) : reason;
    const known = this.#undecided.get(causeOf(of));
    if (known === undefined)
      this.#undecided.set(causeOf(of), { count: 1, reason: of, problem, tried });
    else known.count++;
    this.#lost = lost;
    if (isLost(verdict) && lost >= MOST_LOST) throw new GaveUp(reason);
    return verdict;
  }
}
