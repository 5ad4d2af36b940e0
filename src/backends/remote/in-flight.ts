/** Work that runs at the same time, as much of it as a server bears. */

/** One piece of work that runs. */
export interface Place {
  readonly epoch: number;
}

/** So many replies without a refusal make room for one more request. */
const REPLIES_FOR_ONE_MORE = 32;

/**
 * How many requests may be in flight: at most `most`; half as many when the server says that they
 * are too many, and one more after 32 replies without that.
 */
export class InFlight {
  readonly #most: number;
  #limit: number;
  #running = 0;
  #epoch = 0;
  #replies = 0;
  readonly #waiting: ((place: Place) => void)[] = [];

  constructor(most: number) {
    this.#most = most;
    this.#limit = most;
  }

  get limit(): number {
    return this.#limit;
  }

  async enter(): Promise<Place> {
    if (this.#running < this.#limit) {
      this.#running++;
      return { epoch: this.#epoch };
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  leave(): void {
    this.#running--;
    this.#admit();
  }

  /** After a reply. */
  replied(): void {
    if (this.#limit === this.#most || ++this.#replies < REPLIES_FOR_ONE_MORE) return;
    this.#replies = 0;
    this.#limit++;
    this.#admit();
  }

  /**
   * After a refusal of too many requests. Requests that were in flight together are refused
   * together, and that counts once. @returns the place for the next attempt
   */
  slowed({ epoch }: Place): Place {
    this.#replies = 0;
    if (epoch === this.#epoch) {
      this.#epoch++;
      this.#limit = Math.max(1, Math.floor(this.#limit / 2));
    }
    return { epoch: this.#epoch };
  }

  #admit(): void {
    while (this.#running < this.#limit) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#running++;
      next({ epoch: this.#epoch });
    }
  }
}

/**
 * Results of all pieces of work, as they come. A piece that throws ends the start of others; what
 * runs comes to its end first if `drains` says so of the error, and is left alone otherwise.
 */
export async function* together<Piece, Result>(
  pieces: Iterable<Piece>,
  inFlight: InFlight,
  work: (piece: Piece, place: Place) => Promise<Result>,
  drains: (error: unknown) => boolean,
): AsyncGenerator<Result, void, undefined> {
  const ready: Result[] = [];
  let running = 0;
  let started = false;
  let ended = false;
  const failures: unknown[] = [];
  let wake = (): void => {};
  const start = async (): Promise<void> => {
    for (const piece of pieces) {
      const place = await inFlight.enter();
      if (ended || failures.length > 0) {
        inFlight.leave();
        break;
      }
      running++;
      work(piece, place)
        .then(
          (result) => void ready.push(result),
          (error: unknown) => void failures.push(error),
        )
        .finally(() => {
          running--;
          inFlight.leave();
          wake();
        });
    }
    started = true;
    wake();
  };
  void start();
  try {
    for (;;) {
      const result = ready.shift();
      if (result !== undefined) {
        yield result;
        continue;
      }
      const isFatal = failures.some((error) => !drains(error));
      if (isFatal || (running === 0 && failures.length > 0))
        throw failures.find((error) => !drains(error)) ?? failures[0];
      if (started && running === 0) return;
      await new Promise<void>((resolve) => (wake = resolve));
    }
  } finally {
    ended = true;
  }
}
