import type { z } from 'zod';
import { IsoproError, type ErrorCode } from '../errors.js';
import type { LogRecord } from '../log/read.js';
import { readRecord } from '../run-folder/record.js';

/** The judge's steps by the numbers of env_rl.md §3.1; 12 to 15 are our own. */
export const STEP_NUMBER = {
  chain_integrity: 5,
  ticket_and_key: 0,
  rule_recomputation: 8,
  figure_recomputation: 12,
  deliverables_exist: 1,
  deliverables_as_submitted: 2,
  adapter_loads: 3,
  run_config_consistency: 4,
  rollout_verification: 13,
  architecture_replay: 6,
  live_diagnostic_sanity: 7,
  course_verification: 14,
  rollout_resampling: 15,
  rule_coverage_audit: 8,
  decision_defensibility: 9,
  test_set_evaluation: 10,
  emit_two_scores: 11,
} as const;
export type StepName = keyof typeof STEP_NUMBER;

/** A gate that failed; both scores become 0. */
export class HardFail extends Error {
  override readonly name = 'HardFail';
  readonly step: number;
  constructor(
    readonly stepName: StepName,
    detail: string,
  ) {
    // one line, whatever a parser reports about a hostile file
    super(detail.replace(/\s*\n\s*/g, '; ').slice(0, 300));
    this.step = STEP_NUMBER[stepName];
  }
}

/** Returns a function that fails a step hard. */
export const failing =
  (step: StepName) =>
  (detail: string): never => {
    throw new HardFail(step, detail);
  };

/** A run without disagreement that has not ended and is not scored. */
export class NotEnded extends HardFail {
  constructor() {
    super(
      'chain_integrity',
      'the run has not ended, so it is not scored; its ticket counts as unfinished',
    );
  }
}

/**
 * Runs something on the run's files; errors that its files cause become a hard fail of the step.
 */
export async function onFiles<T>(
  step: StepName,
  codes: readonly ErrorCode[],
  work: () => T | Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof IsoproError && codes.includes(error.code))
      throw new HardFail(step, error.message);
    throw error;
  }
}

/**
 * Returns the only live record of a kind in the metrics stream.
 * @throws HardFail unless there is exactly one
 */
export function onlyMetric<T extends { readonly kind: string }>(
  records: readonly LogRecord[],
  form: z.ZodType<T> & { readonly shape: { readonly kind: z.ZodLiteral<T['kind']> } },
  fail: (detail: string) => never,
): T {
  const kind = form.shape.kind.value;
  const found = records.filter(
    ({ stream, payload }) => stream === 'metrics' && payload.kind === kind,
  );
  const [record] = found;
  if (record === undefined || found.length > 1)
    return fail(`the log holds ${found.length} ${kind} records, not one`);
  return readRecord(form, record, fail);
}
