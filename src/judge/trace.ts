import type { StepName } from './hard-fail.js';

/** Effect of a failed step on the verdict and the scores. */
export type StepKind = 'hard_fail_gate' | 'process_only' | 'scoring';

/** `findings`: no hard fail, but something to read. */
export type StepStatus = 'pass' | 'findings' | 'hard_fail' | 'skipped';

export interface TraceStep {
  readonly step: number;
  readonly name: StepName;
  readonly kind: StepKind;
  readonly status: StepStatus;
  /** Duration in milliseconds, for readers only; no result depends on it. */
  readonly durationMs: number;
  readonly detail: string;
}

/** Formats a count with its noun. */
export const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** Returns the given lines without those that are false. */
export const lines = (...all: readonly (string | false)[]): string[] =>
  all.filter((line) => line !== false);
