/** Verdicts off the main thread. A user's task has its own thread already; a built-in one gets one here. */
import type { Worker } from 'node:worker_threads';
import type { FinishReason, Judgement, OpenTask, Problem } from '../tasks/task.js';
import { undecided } from '../tasks/verdict.js';
import { startThread } from '../thread.js';
import type { VerdictReply, VerdictRequest } from './verdict-worker.js';

type Waiting = (judgement: Judgement) => void;

const lost = (reason: string): Judgement => ({ verdict: undecided(`the verifier gave no verdict: ${reason}`), form: null });

export class VerdictPool {
  readonly #task: OpenTask;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #next = 0;

  constructor(task: OpenTask) {
    this.#task = task;
  }

  /** Never rejects for what a reply contains: a verifier that fails has no verdict. */
  async judge(problem: Problem, text: string, finish: FinishReason): Promise<Judgement> {
    if (this.#task.source.kind === 'file') return this.#task.judge(problem, text, finish);
    const worker = (this.#worker ??= this.#start());
    const id = this.#next++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      worker.ref();
      worker.postMessage({ id, problem, text, finish } satisfies VerdictRequest);
    });
  }

  #start(): Worker {
    const worker = startThread(new URL('./verdict-worker.js', import.meta.url), { workerData: { task: this.#task.id } });
    worker.on('message', (reply: VerdictReply) => this.#settle(reply.id, 'judgement' in reply ? reply.judgement : lost(reply.failure)));
    const fail = (reason: string): void => {
      this.#worker = undefined;
      for (const id of [...this.#waiting.keys()]) this.#settle(id, lost(reason));
    };
    worker.on('error', (error) => fail(error instanceof Error ? error.message : String(error)));
    worker.on('exit', () => fail('its thread ended'));
    worker.unref();
    return worker;
  }

  #settle(id: number, judgement: Judgement): void {
    this.#waiting.get(id)?.(judgement);
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.#worker?.unref(); // an idle thread keeps no process alive
  }

  async dispose(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    worker?.removeAllListeners('exit');
    await worker?.terminate();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}
