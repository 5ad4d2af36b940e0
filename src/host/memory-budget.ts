/**
 * Memory that was promised to models and adapters, against what the host may use: whoever finds no
 * room is refused or waits in order.
 */
import { offAbort, onAbort } from '../abort.js';
import { abortError, IsoproError } from '../errors.js';

export interface TakeOptions {
  /** Name of what needs the memory, for error messages. */
  readonly what: string;
  /** Wait for the memory, behind those that already wait. */
  readonly wait: boolean;
  readonly signal: AbortSignal;
}

interface Waiting {
  readonly bytes: number;
  readonly admit: () => void;
}

export class MemoryBudget {
  readonly bytes: number;
  #used = 0;
  readonly #waiting: Waiting[] = [];

  constructor(bytes: number) {
    this.bytes = bytes;
  }

  get used(): number {
    return this.#used;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Promises memory; the function that comes back gives it back, once.
   * @throws IsoproError OUT_OF_MEMORY, ABORTED
   */
  async take(bytes: number, { what, wait, signal }: TakeOptions): Promise<() => void> {
    if (signal.aborted) throw abortError('the load was cancelled', signal);
    if (bytes > this.bytes)
      throw this.#refusal(what, bytes, 'Give the host more memoryBytes, or lower contextTokens.');
    if (this.#waiting.length > 0 || this.#used + bytes > this.bytes) {
      if (!wait) {
        throw this.#refusal(
          what,
          bytes,
          "Dispose of unused models and adapters, give the host more memoryBytes, or load with whenFull: 'wait'.",
        );
      }
      await this.#turn(bytes, signal);
    } else {
      this.#used += bytes;
    }
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.#used -= bytes;
      this.#admitWaiting();
    };
  }

  #refusal(what: string, bytes: number, remedy: string): IsoproError {
    const { length } = this.#waiting;
    const waiting = length === 1 ? '1 other load is waiting' : `${length} other loads are waiting`;
    const others = length === 0 ? '' : `, and ${waiting}`;
    return new IsoproError(
      'OUT_OF_MEMORY',
      `${what} needs ${bytes} bytes, but only ${this.bytes - this.#used} of the host's ${this.bytes} bytes are free${others}`,
      { remedy },
    );
  }

  #turn(bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const place: Waiting = {
        bytes,
        admit: () => {
          offAbort(signal, leave);
          resolve();
        },
      };
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(place), 1);
        reject(abortError('the load was cancelled while it waited for memory', signal));
        this.#admitWaiting();
      };
      this.#waiting.push(place);
      onAbort(signal, leave);
    });
  }

  /** First come, first served: who needs much is not overtaken by those who need little. */
  #admitWaiting(): void {
    for (
      let next = this.#waiting[0];
      next !== undefined && this.#used + next.bytes <= this.bytes;
      next = this.#waiting[0]
    ) {
      this.#waiting.shift();
      this.#used += next.bytes;
      next.admit();
    }
  }
}
