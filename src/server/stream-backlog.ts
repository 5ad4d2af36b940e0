/**
 * Limit on tokens that were computed and not read yet, over all streams. Readers that are slow give
 * up their places to others, so the backlog has a bound of its own. Beyond it, the stream with the
 * largest backlog ends.
 */

/** A token, or one of its alternatives: some hundred bytes. */
const MOST = 2 ** 20;

export class Unread {
  readonly #streams = new Set<UnreadStream>();
  readonly #most: number;
  #total = 0;

  constructor(most = MOST) {
    this.#most = most;
  }

  /** @param end ends the stream, and lets go of what it holds */
  stream(end: () => void): UnreadStream {
    const stream = new UnreadStream(end, (stream, by) => this.#moved(stream, by));
    return stream;
  }

  #moved(stream: UnreadStream, by: number): void {
    this.#total += by;
    if (stream.held > 0) this.#streams.add(stream);
    else this.#streams.delete(stream);
    while (this.#total > this.#most) {
      const largest = [...this.#streams].reduce((most, each) =>
        each.held > most.held ? each : most,
      );
      largest.drop();
    }
  }
}

export class UnreadStream {
  #held = 0;
  #isDropped = false;
  readonly #end: () => void;
  readonly #moved: (stream: UnreadStream, by: number) => void;

  /** @internal Use Unread.stream. */
  constructor(end: () => void, moved: (stream: UnreadStream, by: number) => void) {
    this.#end = end;
    this.#moved = moved;
  }

  get held(): number {
    return this.#held;
  }

  /** @param by what was computed, or less than 0 what was read */
  move(by: number): void {
    if (this.#isDropped) return;
    this.#held += by;
    this.#moved(this, by);
  }

  /** Closes a stream that no one reads any more; harmless when repeated. */
  close(): void {
    this.move(-this.#held);
    this.#isDropped = true;
  }

  drop(): void {
    this.close();
    this.#end();
  }
}
