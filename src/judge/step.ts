import type { ErrorCode } from '../errors.js';
import type { Findings } from './findings.js';
import { HardFail, NotEnded, onFiles, STEP_NUMBER, type StepName } from './hard-fail.js';
import type { StepKind, StepStatus, TraceStep } from './trace.js';

type Name = keyof Findings;

export type StepResult<Finds extends Name> =
  | {
      readonly found: Pick<Findings, Finds>;
      readonly detail: string;
      /** Default pass. */
      readonly status?: Exclude<StepStatus, 'hard_fail'>;
    }
  /** A hard fail that still found something; any other is thrown. */
  | { readonly found: Partial<Pick<Findings, Finds>>; readonly failure: HardFail };

/** A step of the judge: what it needs of the steps before it, and what it finds. */
export interface Step<Needs extends Name, Finds extends Name = never> {
  readonly name: StepName;
  readonly gate: StepKind;
  /** Errors that the run's own files cause: the step fails hard with them. */
  readonly faults?: readonly ErrorCode[];
  readonly run: (given: Pick<Findings, Needs>) => StepResult<Finds> | Promise<StepResult<Finds>>;
}

/** Findings of all steps, or of those before the one that failed. */
export interface Judged {
  readonly found: Partial<Findings>;
  readonly failure: HardFail | null;
  /** All steps in order; those that were not reached are skipped. */
  readonly steps: readonly TraceStep[];
}

/** Steps in order, each of which needs no more than was found before it. */
export class StepSequence<Start extends Name, Found extends Name = Start> {
  constructor(readonly steps: readonly Step<Name>[] = []) {}

  and<Finds extends Name = never>(step: Step<Found, Finds>): StepSequence<Start, Found | Finds> {
    return new StepSequence([...this.steps, step]);
  }

  /**
   * Runs the steps in order until one fails hard.
   * @throws what a step throws, except a hard fail
   */
  async run(given: Pick<Findings, Start>, onStep?: (step: TraceStep) => void): Promise<Judged> {
    let found: Partial<Findings> = given;
    let failure: HardFail | null = null;
    const done: TraceStep[] = [];
    for (const step of this.steps) {
      const began = performance.now();
      // `and` guarantees everything that the step reads
      const result = await attempt(step, found as Findings);
      found = { ...found, ...result.found };
      const said = 'failure' in result ? failed(result.failure) : result;
      const entry = {
        ...headOf(step),
        status: said.status ?? 'pass',
        durationMs: Math.round(performance.now() - began),
        detail: said.detail,
      };
      done.push(entry);
      onStep?.(entry);
      if ('failure' in result) {
        ({ failure } = result);
        break;
      }
    }
    const skipped = { status: 'skipped', durationMs: 0, detail: 'not reached' } as const;
    const unreached = this.steps
      .slice(done.length)
      .map((step): TraceStep => ({ ...headOf(step), ...skipped }));
    return { found, failure, steps: [...done, ...unreached] };
  }
}

export const headOf = ({ name, gate }: Pick<Step<never>, 'name' | 'gate'>) => ({
  step: STEP_NUMBER[name],
  name,
  kind: gate,
});

async function attempt(
  { name, faults = [], run }: Step<Name>,
  given: Findings,
): Promise<StepResult<never>> {
  try {
    return await onFiles(name, faults, () => run(given));
  } catch (error) {
    if (error instanceof HardFail) return { found: {}, failure: error };
    throw error;
  }
}

const failed = (failure: HardFail): Pick<TraceStep, 'status' | 'detail'> => ({
  status: failure instanceof NotEnded ? 'findings' : 'hard_fail',
  detail: failure.message,
});
