import type { StepName } from './hard-fail.js';

/** What a failed step does to the verdict and the scores. */
export type StepKind = 'hard_fail_gate' | 'process_only' | 'scoring';

/** `findings`: nothing that fails hard, and something to read. */
export type StepStatus = 'pass' | 'findings' | 'hard_fail' | 'skipped';

export interface TraceStep {
  readonly step: number;
  readonly name: StepName;
  readonly kind: StepKind;
  readonly status: StepStatus;
  /** For the reader: no result depends on it. */
  readonly durationMs: number;
  readonly detail: string;
}

/** Of the details of steps. */
export const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** The lines that were given; false: what one would have said does not hold. */
export const lines = (...all: readonly (string | false)[]): string[] =>
  all.filter((line) => line !== false);
