/** Verdicts for an examination of a task, which ends soon where its verifier does not. */
import { IsoproError } from '../errors.js';
import type { OpenTask, Problem, PromptStyle, Verdict } from '../tasks/task.js';
import { isLost } from '../tasks/verdict.js';

/** A reply that is the answer to nothing. */
export const NONSENSE = 'qwzx 8191 vbnj';
/** Each lost verdict takes the whole time that a verifier may have, or a new thread. */
const MOST_LOST = 3;

/** Too many verdicts were lost: the rest is not tried. */
export class GaveUp extends Error {}

export interface ExaminingOptions {
  readonly signal?: AbortSignal | undefined;
  /** Verdicts that were asked for, of about so many. */
  readonly onProgress?: ((done: number, total: number) => void) | undefined;
}

export class ExaminedVerdicts {
  readonly #task: OpenTask;
  readonly #total: number;
  readonly #options: ExaminingOptions;
  readonly #undecided = new Map<string, { count: number; readonly first: Problem }>();
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
      async () => (await this.#task.judge(problem, text, 'stop', signal === undefined ? {} : { signal })).verdict,
    );
  }

  /** @throws GaveUp, IsoproError ABORTED */
  applyPolicy(policy: string, problem: Problem): Promise<Verdict> {
    return this.#noted(problem, () => this.#task.applyPolicy(policy, problem));
  }

  /** One problem before all others. Replies that cannot be read do not reach a verifier, so that policies are tried too. @throws GaveUp */
  async tryOne(problem: Problem, style: PromptStyle): Promise<void> {
    const question = (await this.#task.prompt(problem, style)).at(-1)!.content;
    for (const text of ['', NONSENSE, question]) await this.judge(problem, text);
    for (const policy of this.#task.policies) await this.applyPolicy(policy, problem);
  }

  /** In words, by what the verifier said. */
  get undecided(): string[] {
    return [...this.#undecided].map(
      ([reason, { count, first }]) =>
        `${count} of the replies that were tried have no verdict, the first on problem ${first.id.slice(0, 12)} of tier ${first.tier}: ` +
        `${reason}${this.#lost >= MOST_LOST ? '; nothing else was tried' : ''}`,
    );
  }

  async #noted(problem: Problem, ask: () => Promise<Verdict>): Promise<Verdict> {
    const { signal, onProgress } = this.#options;
    if (signal?.aborted === true) throw new IsoproError('ABORTED', 'examining the task was cancelled');
    const verdict = await ask();
    onProgress?.(++this.#done, Math.max(this.#done, this.#total));
    if (verdict.kind !== 'none') return verdict;
    const reason = verdict.reason ?? 'no reason';
    // that of a policy has longer, and says so: one verifier that hangs is one finding
    const of = isLost(verdict) ? (this.#lostReason ??= reason) : reason;
    const known = this.#undecided.get(of);
    if (known === undefined) this.#undecided.set(of, { count: 1, first: problem });
    else known.count++;
    if (isLost(verdict) && ++this.#lost >= MOST_LOST) throw new GaveUp(reason);
    return verdict;
  }
}
