import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { startThread } from '../thread.js';
import { isCanonicalPayload } from './payload.js';
import type { PageCheck } from './schema.js';

/** Start data of the thread: the shared counter and the file whose pages it checks first. */
export interface CanonicalThreadData {
  readonly finished: Int32Array;
  readonly file: string | null;
}

/** Result of the thread. */
export interface CanonicalThreadResult {
  readonly canonical: boolean;
  readonly pages: PageCheck;
}

/** Below this, starting a thread costs more than it saves. */
const RECORDS_WORTH_A_THREAD = 20_000;
const BATCH_RECORDS = 512;
const BATCH_CHARACTERS = 1 << 18;
/**
 * Batches that may wait for the thread; beyond, the caller's own thread takes the next one. Bounds
 * memory.
 */
const WAITING = 8;

/**
 * Checks payloads in a second thread. Half of the cost of verification is whether payloads are
 * canonical (parse, print, compare), and these checks are independent: the thread does them after
 * SQLite's own check of the file's pages, while this thread follows the chain. It receives the same
 * texts that were hashed.
 */
export class CanonicalCheck {
  readonly #worker: Worker;
  /**
   * Batches that the thread has finished; shared, so that it can be read without a turn of the
   * event loop.
   */
  readonly #finished = new Int32Array(new SharedArrayBuffer(4));
  #sent = 0;
  #batch: string[] = [];
  #characters = 0;
  #failed = false;
  #error: Error | null = null;

  private constructor(file: string | null) {
    const workerData: CanonicalThreadData = { finished: this.#finished, file };
    this.#worker = startThread(new URL('./canonical-worker.js', import.meta.url), { workerData });
    this.#worker.unref();
    this.#worker.on('error', (error) => (this.#error = error as Error));
  }

  /**
   * Starts a check in a thread; null if one thread is enough.
   * @param file whose pages to check too
   */
  static for(records: number, file: string | null): CanonicalCheck | null {
    return records >= RECORDS_WORTH_A_THREAD && availableParallelism() > 1
      ? new CanonicalCheck(file)
      : null;
  }

  add(payload: string): void {
    this.#batch.push(payload);
    this.#characters += payload.length;
    if (this.#batch.length >= BATCH_RECORDS || this.#characters >= BATCH_CHARACTERS) this.#flush();
  }

  #flush(): void {
    if (this.#sent - Atomics.load(this.#finished, 0) < WAITING) {
      this.#worker.postMessage(this.#batch);
      this.#sent++;
    } else if (!this.#batch.every(isCanonicalPayload)) this.#failed = true;
    this.#batch = [];
    this.#characters = 0;
  }

  /** Ends the thread, when it has seen everything. */
  async finish(): Promise<CanonicalThreadResult> {
    this.#flush();
    const result = await new Promise<CanonicalThreadResult>((resolve, reject) => {
      if (this.#error !== null) reject(this.#error);
      this.#worker.ref();
      this.#worker.once('error', reject);
      this.#worker.once('message', resolve);
      this.#worker.postMessage(null);
    }).finally(() => this.cancel());
    return { ...result, canonical: result.canonical && !this.#failed };
  }

  async cancel(): Promise<void> {
    await this.#worker.terminate();
  }
}
