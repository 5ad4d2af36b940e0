import { HardFail, NotEnded, STEPS, type StepKind, type StepName } from './hard-fail.js';

/** `findings`: nothing that fails hard, and something to read. */
export type StepStatus = 'pass' | 'findings' | 'hard_fail' | 'skipped';

export interface TraceStep {
  readonly step: number;
  readonly name: StepName;
  readonly kind: StepKind;
  readonly status: StepStatus;
  readonly durationMs: number;
  readonly detail: string;
}

export interface StepResult<T> {
  readonly value: T;
  readonly detail: string;
  /** Default pass. */
  readonly status?: Exclude<StepStatus, 'hard_fail'>;
}

/** Of the details of steps. */
export const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** What the judge did, step by step; times are for the reader, no result depends on them. */
export class JudgeTrace {
  readonly #done: TraceStep[] = [];
  readonly #onStep: ((step: TraceStep) => void) | undefined;

  constructor(onStep?: (step: TraceStep) => void) {
    this.#onStep = onStep;
  }

  /** Runs one step and notes it. @throws what the step throws; a HardFail is noted before */
  async run<T>(name: StepName, work: () => StepResult<T> | Promise<StepResult<T>>): Promise<T> {
    const { step, kind } = STEPS.find((each) => each.name === name)!;
    const started = performance.now();
    const note = (status: StepStatus, detail: string): void => {
      const entry = {
        step,
        name,
        kind,
        status,
        durationMs: Math.round(performance.now() - started),
        detail,
      };
      this.#done.push(entry);
      this.#onStep?.(entry);
    };
    try {
      const { value, detail, status = 'pass' } = await work();
      note(status, detail);
      return value;
    } catch (error) {
      if (error instanceof HardFail)
        note(error instanceof NotEnded ? 'findings' : 'hard_fail', error.message);
      throw error;
    }
  }

  /** In the order of execution; what was not reached is there as skipped. */
  get steps(): TraceStep[] {
    return STEPS.map(
      ({ step, name, kind }) =>
        this.#done.find((entry) => entry.name === name) ?? {
          step,
          name,
          kind,
          status: 'skipped',
          durationMs: 0,
          detail: 'not reached',
        },
    );
  }
}
