/**
 * Lets simultaneous requests continue one per turn of the event loop, so that many of them do not
 * delay tokens, timers and signals.
 */
export class Turnstile {
  readonly #waiting: (() => void)[] = [];

  pass(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#waiting.push(resolve) === 1) setImmediate(this.#next);
    });
  }

  readonly #next = (): void => {
    this.#waiting.shift()!();
    if (this.#waiting.length > 0) setImmediate(this.#next);
  };
}
