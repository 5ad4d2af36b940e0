import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { startThread } from '../thread.js';
import { isCanonicalPayload } from './payload.js';

/** Below this, starting a thread costs more than it saves. */
const RECORDS_WORTH_A_THREAD = 20_000;
const BATCH_RECORDS = 512;
const BATCH_CHARACTERS = 1 << 18;
/** Batches that may wait for the thread; beyond, the caller's own thread takes the next one. Bounds memory. */
const WAITING = 8;

/**
 * Half of what verification costs is whether payloads are canonical (parse, print, compare), and no record's check needs another's: a second thread does them
 * while this one follows the chain. The thread gets the very texts that were hashed.
 */
export class CanonicalCheck {
  readonly #worker: Worker;
  /** Batches that the thread has finished; shared, so that it can be read without a turn of the event loop. */
  readonly #finished = new Int32Array(new SharedArrayBuffer(4));
  #sent = 0;
  #batch: string[] = [];
  #characters = 0;
  #failed = false;
  #error: Error | null = null;

  private constructor() {
    this.#worker = startThread(new URL('./canonical-worker.js', import.meta.url), { workerData: this.#finished });
    this.#worker.unref();
    this.#worker.on('error', (error) => (this.#error = error as Error));
  }

  /** Null where one thread does as well. */
  static for(records: number): CanonicalCheck | null {
    return records >= RECORDS_WORTH_A_THREAD && availableParallelism() > 1 ? new CanonicalCheck() : null;
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

  /** Ends the thread. True where every payload was canonical. */
  async finish(): Promise<boolean> {
    this.#flush();
    const passed = await new Promise<boolean>((resolve, reject) => {
      if (this.#error !== null) reject(this.#error);
      this.#worker.ref();
      this.#worker.once('error', reject);
      this.#worker.once('message', resolve);
      this.#worker.postMessage(null);
    }).finally(() => this.cancel());
    return passed && !this.#failed;
  }

  async cancel(): Promise<void> {
    await this.#worker.terminate();
  }
}
