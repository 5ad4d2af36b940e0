/**
 * The reader of a run's records: each kind in its form, as far as it can be read without knowing
 * what was trained.
 */
import { z } from 'zod';
import type { LogRecord } from '../log/read.js';
import { adapterState, gate, layers, sessionEnd, submission } from './course-records.js';
import { dictionary } from '../dictionary.js';
import {
  figuresLogged,
  loggedEvaluation,
  loggedForgetting,
  policySummaries,
  RolloutTally,
  strayEvaluation,
  tiersOf,
  type LoggedEvaluation,
} from './derived-figures.js';
import {
  constrained,
  forgetting,
  heldOut,
  iterationReport,
  policies,
} from './evaluation-records.js';
import { anyDecision, anyEffect, anyEvaluation, anyStep } from './monitor-records.js';
import type { Summary } from '../statistics/index.js';
import { readRecord } from './record.js';
import { Questions } from './question.js';
import { problem, reference, rollout } from './rollout-records.js';
import {
  FailureTally,
  shortenedReply,
  whyOf,
  type Failure,
  type Failures,
  type JudgedReplyText,
} from '../tasks/failures.js';

/** Forms by kind; members that no reader shows are left out. */
const FORMS = {
  session_start: z.object({ runId: z.string(), runConfig: z.unknown() }),
  held_out: heldOut,
  constrained,
  policies,
  forgetting,
  iteration_report: iterationReport,
  step: anyStep,
  layers,
  adapter_state: adapterState,
  submission,
  gate,
  rule_eval: anyEvaluation,
  decision: anyDecision,
  effect: anyEffect,
  session_end: sessionEnd,
} as const;
export type LoggedKind = keyof typeof FORMS;
export type Logged<K extends LoggedKind> = z.output<(typeof FORMS)[K]>;

export const anyRollout = rollout.omit({
  kind: true,
  sample: true,
  seed: true,
  adapterId: true,
  weight: true,
});
export type AnyRollout = z.output<typeof anyRollout>;

type Explained = Pick<AnyRollout, 'problemId' | 'tier' | 'text' | 'finish' | 'form' | 'verdict'>;

/** Returns why a logged rollout does not pass. */
export const rolloutReason = ({
  problemId,
  tier,
  text,
  finish,
  form,
  verdict,
}: Explained): JudgedReplyText => ({
  problemId,
  tier,
  text,
  kind: verdict.kind,
  why: whyOf({
    kind: verdict.kind,
    reason: verdict.reason,
    violations: verdict.violations.map((category) => ({ category })),
  }),
  formed: form !== null,
  finish,
});

const asked = problem.pick({ problemId: true, tier: true, prompt: true, right: true });

/** The records of one pass over a log. */
export class LoggedRecords {
  readonly rollouts = new RolloutTally();
  readonly #failing = new FailureTally();
  readonly #questions = new Questions();
  /** Problem of the rollouts that follow. */
  #asked: z.output<typeof asked> | null = null;
  readonly #lists: { [K in LoggedKind]?: Logged<K>[] } = {};

  constructor(readonly onRollout?: (gseq: number, rollout: AnyRollout) => void) {}

  /**
   * Takes a record.
   * @throws IsoproError LOG_UNREADABLE if it does not have the form of its kind; it is then left
   *   out
   */
  take(record: LogRecord): void {
    const { kind } = record.payload;
    if (kind === 'problem') {
      this.#asked = asked.safeParse(record.payload).data ?? null;
      if (this.#asked?.prompt !== undefined)
        this.#questions.add(this.#asked.tier, this.#asked.prompt);
    } else if (kind === 'rollout') {
      const counted = readRecord(anyRollout, record);
      this.rollouts.take(counted);
      const { prompt, right } = this.#asked?.problemId === counted.problemId ? this.#asked : {};
      this.#failing.take({ ...rolloutReason(counted), asked: prompt, right });
      this.onRollout?.(record.gseq, counted);
    } else if (kind === 'reference') {
      this.rollouts.takeReference(readRecord(reference, record));
    } else if (Object.hasOwn(FORMS, kind)) {
      const value = readRecord<unknown>(FORMS[kind as LoggedKind], record);
      ((this.#lists[kind as LoggedKind] ??= []) as unknown[]).push(value);
    }
  }

  /** Failures of sampled rollouts, each example with its question. */
  get failures(): Failures {
    const { rows, ...counted } = this.#failing.failures;
    const told = ({ example, ...row }: Failure): Failure => {
      if (example?.asked === undefined) return { ...row, example };
      const asked = shortenedReply(this.#questions.of(example.tier, example.asked));
      return { ...row, example: { ...example, asked } };
    };
    return { ...counted, rows: rows.map(told) };
  }

  /**
   * Returns the figures of the evaluations. `policies` is null if the trivial policies were not
   * judged on the test problems.
   * @param further tiers that other records name
   */
  evaluations(further: readonly string[] = []) {
    const heldOuts = this.of('held_out');
    const named = this.last('policies');
    const forgot = this.last('forgetting');
    const ids = heldOuts.flatMap(({ outcomes }) => outcomes.map(([, tier]) => tier));
    const tiers = tiersOf(named?.tiers, [...ids, ...further]);
    const figures = figuresLogged(heldOuts, named);
    const derived = (each: Parameters<typeof loggedEvaluation>[0]): LoggedEvaluation =>
      loggedEvaluation(each, tiers, figures);
    const test = heldOuts.find(({ set }) => set === 'test')?.outcomes ?? [];
    return {
      stray: strayEvaluation(heldOuts),
      tiers,
      evaluations: heldOuts.map(derived),
      constrained: this.of('constrained').map(derived),
      policies: named === null ? dictionary<Summary>() : policySummaries(named, test, figures),
      forgetting: forgot && loggedForgetting(forgot),
    };
  }

  /** Returns the records of a kind in the order of the log. */
  of<K extends LoggedKind>(kind: K): Logged<K>[] {
    return (this.#lists[kind] ?? []) as Logged<K>[];
  }

  last<K extends LoggedKind>(kind: K): Logged<K> | null {
    return this.of(kind).at(-1) ?? null;
  }
}
