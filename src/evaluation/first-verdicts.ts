/** Ends an evaluation early if the verifier decides none of the first replies. */
import { IsoproError } from '../errors.js';
import type { Reason } from '../tasks/failures.js';

/** Verdicts that are waited for. */
export const FIRST_VERDICTS = 32;

/** Returns the most common reason; the first of equals. */
export function commonestReason(undecided: readonly Reason[]): string {
  const counts = new Map<string, number>();
  for (const { why } of undecided) {
    const reason = why?.join(', ') || 'it gave no reason';
    counts.set(reason, (counts.get(reason) ?? 0) + 1);
  }
  return [...counts].reduce((most, next) => (next[1] > most[1] ? next : most))[0];
}

export class FirstVerdicts {
  readonly #task: string;
  readonly #undecided: Reason[] = [];
  #decided = false;

  constructor(task: string) {
    this.#task = task;
  }

  /** @throws IsoproError VERIFIER_UNDECIDED where all of the first ones are `none` */
  take(reason: Reason): void {
    if (this.#decided) return;
    if (reason.kind !== 'none') this.#decided = true;
    else if (this.#undecided.push(reason) === FIRST_VERDICTS) this.#refuse('the first');
  }

  /** As take, where there are fewer. */
  end(): void {
    if (!this.#decided && this.#undecided.length > 0) this.#refuse('all');
  }

  #refuse(which: string): never {
    const { length } = this.#undecided;
    throw new IsoproError(
      'VERIFIER_UNDECIDED',
      `the verifier of ${this.#task} decided none of ${which} ${length} replies: ${commonestReason(this.#undecided)}`,
    );
  }
}
