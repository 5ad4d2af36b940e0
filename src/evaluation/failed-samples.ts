/** Ends an evaluation where too many samples have no reply: they are no verdicts on the model. */
import { failureText, type SampleFailure } from '../backends/backend.js';
import { IsoproError } from '../errors.js';

const SHOWN = 3;

export class FailedSamples {
  readonly #planned: number;
  readonly #share: number;
  readonly #reasons = new Map<string, number>();
  #count = 0;

  /** @param share of the planned samples; one may always fail. Default: any but all */
  constructor(planned: number, share = 1) {
    this.#planned = planned;
    this.#share = share;
  }

  /** @throws IsoproError BACKEND_FAILED */
  take(failure: SampleFailure): void {
    this.#count++;
    const reason = failureText(failure);
    this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
    if (this.#count > 1 && this.#count > this.#share * this.#planned) this.#refuse();
  }

  /** Where all have failed, there is nothing to report. @throws IsoproError BACKEND_FAILED */
  end(): void {
    if (this.#count > 0 && this.#count === this.#planned) this.#refuse();
  }

  #refuse(): never {
    const reasons = [...this.#reasons].sort(([, a], [, b]) => b - a);
    const more = reasons.length - SHOWN;
    throw new IsoproError(
      'BACKEND_FAILED',
      `${this.#count} of ${this.#planned} samples have no reply: ` +
        reasons
          .slice(0, SHOWN)
          .map(([reason, count]) => `${reason}${count === 1 ? '' : ` (${count} times)`}`)
          .join('; ') +
        (more > 0 ? `; and ${more} other reason${more === 1 ? '' : 's'}` : ''),
    );
  }
}
