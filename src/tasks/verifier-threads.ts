import type { FinishReason, JudgeOptions, Judgement, Problem, Verdict } from './task.js';
import type { AskModel } from './data/checkers.js';
import { CallTimeout, TaskThread, ThreadLost } from './task-thread.js';
import type { ThreadTask } from './thread-messages.js';
import { lost } from './verdict.js';

/**
 * Threads with the same task that judge at once. Verdicts arrive in the order of the calls,
 * whatever the number of threads; a thread starts when the others are busy.
 */
export class VerifierThreads {
  /** Runs all other calls of the task. */
  readonly first: TaskThread;
  readonly #threads: readonly TaskThread[];
  /** The one that judged last on top. */
  readonly #idle: TaskThread[];
  readonly #waiting: ((thread: TaskThread) => void)[] = [];
  #last: Promise<unknown> = Promise.resolve();

  constructor(task: ThreadTask, count: number, ask?: AskModel) {
    this.first = new TaskThread(task, ask);
    this.#threads = [
      this.first,
      ...Array.from({ length: count - 1 }, () => new TaskThread(task, ask)),
    ];
    this.#idle = [...this.#threads].reverse();
  }

  /**
   * Judges a reply; the verdict of a verifier that hangs or crashes is `none`.
   * @throws IsoproError TASK_INVALID, SYSTEM_LIMIT, ABORTED
   */
  judge(
    problem: Problem,
    text: string,
    finish: FinishReason,
    { signal, earlier = [] }: JudgeOptions = {},
  ): Promise<Judgement> {
    return this.#judge('judge', [problem, text, finish, earlier], signal);
  }

  /** Judges any answer in the reply, as `judge`. */
  judgeLeniently(
    problem: Problem,
    text: string,
    { signal }: Pick<JudgeOptions, 'signal'> = {},
  ): Promise<Judgement> {
    return this.#judge('judgeLeniently', [problem, text], signal);
  }

  /** Judges the answer of a policy, as `judge`. */
  applyPolicy(
    name: string,
    problem: Problem,
    { signal }: Pick<JudgeOptions, 'signal'> = {},
  ): Promise<Verdict> {
    return this.#inOrder(
      this.#call<Verdict>('policy', [name, problem], (verdict) => verdict, signal),
    );
  }

  #judge(
    method: 'judge' | 'judgeLeniently',
    args: readonly unknown[],
    signal: AbortSignal | undefined,
  ): Promise<Judgement> {
    return this.#inOrder(
      this.#call<Judgement>(method, args, (verdict) => ({ verdict, form: null }), signal),
    );
  }

  async dispose(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.dispose()));
  }

  async #call<T>(
    method: 'judge' | 'judgeLeniently' | 'policy',
    args: readonly unknown[],
    otherwise: (verdict: Verdict) => T,
    signal?: AbortSignal,
  ): Promise<T> {
    const thread =
      this.#idle.pop() ?? (await new Promise<TaskThread>((take) => this.#waiting.push(take)));
    try {
      return (await thread.call(method, args, signal)) as T;
    } catch (error) {
      if (error instanceof CallTimeout || error instanceof ThreadLost)
        return otherwise(lost(error.message));
      throw error;
    } finally {
      const take = this.#waiting.shift();
      if (take === undefined) this.#idle.push(thread);
      else take(thread);
    }
  }

  #inOrder<T>(found: Promise<T>): Promise<T> {
    found.catch(() => undefined); // whoever asked hears of it in turn
    const result = this.#last.then(() => found);
    this.#last = result.catch(() => undefined);
    return result;
  }
}
