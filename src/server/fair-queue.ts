/** Who may run now: as many at once as there is room, the others in turn by whose they are, so that nobody's many hold up another's one. */
import { RequestFailure } from './failures.js';

interface Waiting {
  readonly admit: () => void;
}

export interface QueueLimits {
  /** Replies that run at once. */
  readonly running: number;
  /** Replies that may wait. */
  readonly waiting: number;
}

export class FairQueue {
  readonly #limits: QueueLimits;
  /** Whose turn it is next comes first; each has at least one that waits. */
  readonly #turns = new Map<string, Waiting[]>();
  #running = 0;
  #waiting = 0;
  #open = true;
  readonly #idle: (() => void)[] = [];

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /** Whether waiting ones are admitted. */
  get open(): boolean {
    return this.#open;
  }

  /** Resolves when nobody runs. */
  async idle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Nobody is admitted until it is opened again; who runs goes on. */
  close(): void {
    this.#open = false;
  }

  reopen(): void {
    this.#open = true;
    this.#admitWaiting();
  }

  /**
   * Waits for a turn; what comes back ends it, once.
   * @throws RequestFailure 429 where too many wait; the signal's reason
   */
  async enter(whose: string, signal: AbortSignal): Promise<() => void> {
    signal.throwIfAborted();
    if (this.#open && this.#waiting === 0 && this.#running < this.#limits.running) this.#running++;
    else await this.#turn(whose, signal);
    let left = false;
    return () => {
      if (left) return;
      left = true;
      this.#running--;
      this.#admitWaiting();
      if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    };
  }

  #turn(whose: string, signal: AbortSignal): Promise<void> {
    if (this.#waiting >= this.#limits.waiting)
      throw new RequestFailure(429, 'rate_limit_error', `${this.#waiting} replies wait already`, { code: 'queue_full', retryAfter: 1 });
    return new Promise((resolve, reject) => {
      const place: Waiting = {
        admit: () => {
          signal.removeEventListener('abort', leave);
          resolve();
        },
      };
      const leave = (): void => {
        this.#remove(whose, place);
        reject(signal.reason as Error);
      };
      const line = this.#turns.get(whose);
      if (line === undefined) this.#turns.set(whose, [place]);
      else line.push(place);
      this.#waiting++;
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  #remove(whose: string, place: Waiting): void {
    const line = this.#turns.get(whose) ?? [];
    const at = line.indexOf(place);
    if (at < 0) return;
    line.splice(at, 1);
    this.#waiting--;
    if (line.length === 0) this.#turns.delete(whose);
  }

  #admitWaiting(): void {
    while (this.#open && this.#running < this.#limits.running) {
      const next = this.#turns.entries().next().value;
      if (next === undefined) return;
      const [whose, line] = next;
      const place = line[0]!;
      this.#remove(whose, place);
      // Behind the others.
      if (this.#turns.delete(whose)) this.#turns.set(whose, line);
      this.#running++;
      place.admit();
    }
  }
}
