import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { encodePayload, type LogPayload } from '../log/payload.js';
import { inTurns, type LogReader, type LogRecord } from '../log/read.js';
import type { Verification } from '../log/verify.js';
import type { LoggedDecision } from '../monitor/decision.js';
import { evaluateHistory } from '../monitor/evaluate-rules.js';
import { monitorDigests, type Watched } from '../monitor/rule-set.js';
import { ruleConfig } from '../monitor/rules.js';
import type { TraineeTypes } from '../monitor/trainee.js';
import {
  decisionForm,
  effectForm,
  evaluationRecord,
  readHistory,
} from '../run-folder/monitor-records.js';
import { readRecord } from '../run-folder/record.js';
import { HardFail, NotEnded } from './hard-fail.js';
import type { ProcessRecord } from './obligations.js';

/**
 * The judge's steps that need the log only: 5 (integrity) and 8a (every rule recomputed). Nothing
 * of the run is executed, and integrity comes first.
 */

/** Step 5. @throws HardFail unless the log is complete and untouched */
export function requireIntact({ outcome, disagreement }: Verification): void {
  if (outcome === 'unterminated') throw new NotEnded();
  if (outcome !== 'ok')
    throw new HardFail(
      'chain_integrity',
      `the log is ${outcome}: ${disagreement?.reason ?? ''}${disagreement?.table === 'log' ? ` (record ${disagreement.at})` : ''}`,
    );
}

const fail = (detail: string): never => {
  throw new HardFail('rule_recomputation', detail);
};

/**
 * Live records of a kind that a run can have at most: of 1,000 iterations
 * (src/training/settings.ts), with seven rules each.
 */
const MOST: Readonly<Record<string, number>> = {
  iteration: 1000,
  rule_eval: 1000,
  gate: 2000,
  adapter_state: 3000,
  decision: 7000,
  effect: 21_000,
};

/**
 * What compares records with each other takes their number squared.
 * @throws HardFail where there are more than any run has
 */
export function refuseEndless(records: readonly LogRecord[]): void {
  const counts = new Map<string, number>();
  for (const { payload } of records) counts.set(payload.kind, (counts.get(payload.kind) ?? 0) + 1);
  for (const [kind, most] of Object.entries(MOST))
    if ((counts.get(kind) ?? 0) > most)
      fail(
        `the log holds ${counts.get(kind)!} records of kind ${kind}, but no run has more than ${most}`,
      );
}

/**
 * Step 8a: recomputes all evaluations from the metrics, with the rule configuration that the
 * genesis commits to, and compares every member with the rule_evals stream.
 * @param config as the run configuration holds it
 * @throws HardFail where they differ, or where one stream counts other iterations than the other
 */
export function recomputeRules<T extends TraineeTypes>(
  records: readonly LogRecord[],
  config: unknown,
  watched: Watched<T>,
): ProcessRecord<T> {
  const { trainee, ruleSet } = watched;
  const parsed = ruleConfig.safeParse(config);
  if (!parsed.success) return fail('the run configuration holds no rule thresholds');
  const start = records.find(({ payload }) => payload.kind === 'session_start')?.payload.digests as
    | { rules?: string; playbook?: string }
    | undefined;
  const digests = monitorDigests(ruleSet, parsed.data);
  if (start?.rules !== digests.rules || start.playbook !== digests.playbook)
    fail('thresholds or playbook are not those that the run committed to at its start');
  let history: ReturnType<typeof readHistory<T>>;
  let evaluations: ReturnType<typeof evaluateHistory>;
  try {
    history = readHistory(records, trainee);
    evaluations = evaluateHistory(history, parsed.data, ruleSet);
  } catch (error) {
    if (error instanceof IsoproError) return fail(error.message);
    throw error;
  }
  const logged = records.filter(({ stream }) => stream === 'rule_evals');
  if (logged.length !== evaluations.length)
    fail(`${evaluations.length} iterations were measured and ${logged.length} evaluated`);
  for (const [i, evaluation] of evaluations.entries()) {
    const own = encodePayload(evaluationRecord(evaluation).payload);
    const theirs = encodePayload((logged[i] as LogRecord).payload);
    if (own !== theirs)
      fail(
        `the evaluation of iteration ${evaluation.iteration} (record ${(logged[i] as LogRecord).gseq}) is not what its metrics give`,
      );
  }
  const [loggedDecision, loggedEffect] = [decisionForm(watched), effectForm(trainee)];
  const decisions = records
    .filter(({ stream, payload }) => stream === 'decisions' && payload.kind === 'decision')
    .map((record): LoggedDecision<T['operation']> => {
      const { kind: _, iteration, ...decision } = readRecord(loggedDecision, record, fail);
      return { iteration, decision };
    });
  const effects = records
    .filter(({ stream, payload }) => stream === 'effects' && payload.kind === 'effect')
    .map((record) => readRecord(loggedEffect, record, fail));
  return { history, evaluations, decisions, effects, config: parsed.data };
}

/**
 * A decision's own place: it is logged after the evaluation of its iteration and before the next
 * one's.
 */
export function checkDecisionPlaces(records: readonly LogRecord[]): void {
  let now = -1;
  for (const { gseq, stream, payload } of records) {
    if (stream === 'rule_evals') now = Number((payload as LogPayload).iteration);
    if (
      (stream === 'decisions' && payload.kind === 'decision') ||
      (stream === 'effects' && payload.kind === 'effect')
    ) {
      if (payload.iteration !== now)
        fail(
          `record ${gseq} says iteration ${canonicalJson(payload.iteration as Json)} and stands in iteration ${now}`,
        );
    }
  }
}

/**
 * Live records in order without rollouts and evaluations: they are the bulk of a log, and no rule
 * reads them.
 */
export async function readProcessRecords(
  reader: LogReader,
  signal?: AbortSignal,
): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for await (const record of inTurns(reader.records(), signal))
    if (record.stream !== 'rollouts' && record.stream !== 'evaluations') records.push(record);
  return records;
}

/** Step 8a. @throws HardFail */
export function readProcess<T extends TraineeTypes>(
  records: readonly LogRecord[],
  watched: Watched<T>,
): ProcessRecord<T> {
  const record = recomputeRules(
    records,
    (records[0]?.payload.runConfig as { rules?: unknown } | undefined)?.rules,
    watched,
  );
  checkDecisionPlaces(records);
  return record;
}
