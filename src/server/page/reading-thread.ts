import type { Worker } from 'node:worker_threads';
import { IsoproError, type ErrorCode } from '../../errors.js';
import { startThread } from '../../thread.js';
import type { RunShelf } from './run-shelf.js';

export type ReadingMethod = Exclude<keyof RunShelf, symbol>;

export interface ReadingCall {
  readonly id: number;
  readonly method: ReadingMethod;
  readonly args: readonly unknown[];
}

export interface ReadingAnswer {
  readonly id: number;
  readonly json?: string;
  readonly failure?: {
    readonly code: ErrorCode;
    readonly message: string;
    readonly remedy: string;
  };
  /** Stack of a defect. */
  readonly defect?: string;
}

interface Waiting {
  readonly resolve: (json: string) => void;
  readonly reject: (error: Error) => void;
}

/**
 * A `RunShelf` in a thread, which starts with the first call and again after one that brought it
 * down.
 */
export class ReadingThread {
  readonly #runs: string;
  readonly #waiting = new Map<number, Waiting>();
  #worker: Worker | undefined;
  #next = 0;

  constructor(runs: string) {
    this.#runs = runs;
  }

  /** Result of the method, as JSON. @throws IsoproError as the method, SYSTEM_LIMIT */
  async json<M extends ReadingMethod>(
    method: M,
    ...args: Parameters<RunShelf[M]>
  ): Promise<string> {
    const worker = (this.#worker ??= this.#start());
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      worker.postMessage({ id, method, args } satisfies ReadingCall);
    });
  }

  async value<M extends ReadingMethod>(
    method: M,
    ...args: Parameters<RunShelf[M]>
  ): Promise<Awaited<ReturnType<RunShelf[M]>>> {
    return JSON.parse(await this.json(method, ...args)) as Awaited<ReturnType<RunShelf[M]>>;
  }

  #start(): Worker {
    const worker = startThread(new URL('./reading-worker.js', import.meta.url), {
      workerData: { runs: this.#runs },
    });
    worker.on('message', ({ id, json, failure, defect }: ReadingAnswer) => {
      const waiting = this.#waiting.get(id);
      this.#waiting.delete(id);
      if (failure !== undefined)
        waiting?.reject(new IsoproError(failure.code, failure.message, { remedy: failure.remedy }));
      else if (defect !== undefined) waiting?.reject(new Error(defect));
      else waiting?.resolve(json!);
    });
    const lost = (cause: unknown): void => {
      if (this.#worker !== worker) return;
      this.#worker = undefined;
      for (const { reject } of this.#waiting.values())
        reject(new Error('the thread that reads runs ended', { cause }));
      this.#waiting.clear();
    };
    worker.on('error', lost);
    worker.on('exit', lost);
    worker.unref();
    return worker;
  }

  async close(): Promise<void> {
    await this.#worker?.terminate();
  }
}
