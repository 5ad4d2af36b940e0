/**
 * Queue of replies: as many run at once as there is room, the others take turns by key, so that
 * many requests of one key do not delay a single one of another. If several keys ask, each has a
 * share: a key runs at most three times as many replies as there are free places, so that a later
 * key finds some (a dynamic threshold, after Choudhury and Hahne 1998). If no more may wait, the
 * last request of the key with the most waiting ones makes room for a key with fewer.
 */
import { offAbort, onAbort } from '../abort.js';
import { RequestFailure } from './failures.js';

interface Waiting {
  readonly admit: (rank: number) => void;
  readonly turnAway: () => void;
}

/** A place among those who run. */
export interface Turn {
  /**
   * Number of replies of the same key that run before this one: if the model lacks room for all,
   * replies of lower rank run first.
   */
  readonly rank: number;
  /** Gives the place back, once. */
  readonly leave: () => void;
}

export interface QueueLimits {
  /** Replies that run at once. */
  readonly running: number;
  /** Replies that may wait. */
  readonly waiting: number;
  /** Whether places are kept for keys that do not ask now. */
  readonly isShared?: boolean;
}

/** Places that one key may have for each that is free. */
const SHARE = 3;

const full = (waiting: number): RequestFailure =>
  new RequestFailure(429, `the queue is full: ${waiting} replies are waiting`, 'queue_full', {
    retryAfter: 1,
  });

export class FairQueue {
  readonly #limits: QueueLimits;
  /** Waiting replies by key, the next key first; each has at least one. */
  readonly #turns = new Map<string, Waiting[]>();
  /** Ranks of the running replies, by key. */
  readonly #places = new Map<string, Set<number>>();
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

  /** Whether waiting replies are admitted. */
  get open(): boolean {
    return this.#open;
  }

  /** Resolves when no reply runs. */
  async idle(): Promise<void> {
    if (this.#running > 0) await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Stops admission until the queue is reopened; running replies continue. */
  close(): void {
    this.#open = false;
  }

  reopen(): void {
    this.#open = true;
    this.#admitWaiting();
  }

  /**
   * Waits for a turn.
   * @throws RequestFailure 429 where too many wait; the signal's reason
   */
  async enter(whose: string, signal: AbortSignal): Promise<Turn> {
    signal.throwIfAborted();
    const isFree = this.#open && !this.#turns.has(whose) && this.#mayRun(whose);
    const rank = isFree ? this.#take(whose) : await this.#turn(whose, signal);
    let left = false;
    const leave = (): void => {
      if (left) return;
      left = true;
      this.#give(whose, rank);
      this.#admitWaiting();
      if (this.#running === 0) for (const resolve of this.#idle.splice(0)) resolve();
    };
    return { rank, leave };
  }

  /**
   * Returns true if a key may run another reply; a key without a running reply takes any free
   * place.
   */
  #mayRun(whose: string): boolean {
    const own = this.#places.get(whose)?.size ?? 0;
    const free = this.#limits.running - this.#running;
    return (
      free > 0 && (own === 0 || this.#limits.isShared !== true || own + 1 <= SHARE * (free - 1))
    );
  }

  #take(whose: string): number {
    this.#running++;
    const ranks = this.#places.get(whose) ?? new Set();
    this.#places.set(whose, ranks);
    let rank = 0;
    while (ranks.has(rank)) rank++;
    ranks.add(rank);
    return rank;
  }

  #give(whose: string, rank: number): void {
    this.#running--;
    const ranks = this.#places.get(whose)!;
    ranks.delete(rank);
    if (ranks.size === 0) this.#places.delete(whose);
  }

  #turn(whose: string, signal: AbortSignal): Promise<number> {
    if (this.#waiting >= this.#limits.waiting) this.#makeRoom(whose);
    return new Promise((resolve, reject) => {
      const place: Waiting = {
        admit: (rank) => {
          offAbort(signal, leave);
          resolve(rank);
        },
        turnAway: () => {
          offAbort(signal, leave);
          reject(full(this.#waiting));
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
      onAbort(signal, leave);
    });
  }

  /**
   * Turns away the last request of the key with the most waiting ones.
   * @throws RequestFailure 429 if no key has more waiting requests than this one
   */
  #makeRoom(whose: string): void {
    const own = this.#turns.get(whose)?.length ?? 0;
    const [longest, line] = [...this.#turns].reduce(
      (most, each) => (each[1].length > most[1].length ? each : most),
      ['', []] as [string, Waiting[]],
    );
    const last = line.at(-1);
    if (last === undefined || own + 1 >= line.length) throw full(this.#waiting);
    last.turnAway();
    this.#remove(longest, last);
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
    while (this.#open) {
      const next = [...this.#turns].find(([whose]) => this.#mayRun(whose));
      if (next === undefined) return;
      const [whose, line] = next;
      const place = line[0]!;
      this.#remove(whose, place);
      // Behind the others.
      if (this.#turns.delete(whose)) this.#turns.set(whose, line);
      place.admit(this.#take(whose));
    }
  }
}
