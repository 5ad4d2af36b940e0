/**
 * The judge's steps by their numbers (env_rl.md §3.1; 12 to 15 are our own), in the order in which
 * they run (§8.3; the ticket is read from a log that holds).
 */
export const STEPS = [
  { step: 5, name: 'chain_integrity', kind: 'hard_fail_gate' },
  { step: 0, name: 'ticket_and_key', kind: 'hard_fail_gate' },
  { step: 8, name: 'rule_recomputation', kind: 'hard_fail_gate' },
  { step: 12, name: 'figure_recomputation', kind: 'hard_fail_gate' },
  { step: 1, name: 'deliverables_exist', kind: 'hard_fail_gate' },
  { step: 2, name: 'deliverables_as_submitted', kind: 'hard_fail_gate' },
  { step: 3, name: 'adapter_loads', kind: 'hard_fail_gate' },
  { step: 4, name: 'run_config_consistency', kind: 'hard_fail_gate' },
  { step: 13, name: 'rollout_verification', kind: 'hard_fail_gate' },
  { step: 6, name: 'architecture_replay', kind: 'hard_fail_gate' },
  { step: 7, name: 'live_diagnostic_sanity', kind: 'hard_fail_gate' },
  { step: 14, name: 'course_verification', kind: 'hard_fail_gate' },
  { step: 15, name: 'rollout_resampling', kind: 'hard_fail_gate' },
  { step: 8, name: 'rule_coverage_audit', kind: 'process_only' },
  { step: 9, name: 'decision_defensibility', kind: 'process_only' },
  { step: 10, name: 'test_set_evaluation', kind: 'scoring' },
  { step: 11, name: 'emit_two_scores', kind: 'scoring' },
] as const;
export type StepName = (typeof STEPS)[number]['name'];
export type StepKind = (typeof STEPS)[number]['kind'];

/** A gate that failed; both scores become 0. */
export class HardFail extends Error {
  override readonly name = 'HardFail';
  readonly step: number;
  constructor(
    readonly stepName: StepName,
    detail: string,
  ) {
    // one line, whatever a parser has to say about a hostile file
    super(detail.replace(/\s*\n\s*/g, '; ').slice(0, 300));
    this.step = STEPS.find(({ name }) => name === stepName)!.step;
  }
}

/** Nothing disagrees, but the run has not ended: it is not scored. */
export class NotEnded extends HardFail {
  constructor() {
    super(
      'chain_integrity',
      'the run has not ended, so it is not scored; its ticket counts as unfinished',
    );
  }
}
