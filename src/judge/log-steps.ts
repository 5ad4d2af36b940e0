import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { verifyRun } from '../log/local-trust.js';
import { encodePayload, type LogPayload } from '../log/payload.js';
import { inTurns, LogReader, type LogRecord } from '../log/read.js';
import { parseSessionStart } from '../log/session.js';
import type { Verification } from '../log/verify.js';
import { evaluateHistory } from '../monitor/evaluate-rules.js';
import { monitorDigests, type Watched } from '../monitor/rule-set.js';
import { foreignThresholds, ruleConfig } from '../monitor/rules.js';
import type { TraineeTypes } from '../monitor/trainee.js';
import {
  effectForm,
  evaluationRecord,
  readDecisions,
  readHistory,
} from '../run-folder/monitor-records.js';
import { readRecord } from '../run-folder/record.js';
import { RUN_STREAMS } from '../run-folder/streams.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { LORA } from '../trainees/lora/trainee.js';
import { checkFigures } from './figures.js';
import { checkQuestions } from './questions.js';
import { failing, HardFail, NotEnded } from './hard-fail.js';
import type { ProcessRecord } from './obligations.js';
import type { Step } from './step.js';
import { plural } from './trace.js';

/** The judge's steps that need the log only. Nothing of the run is executed. */

export const chainIntegrity: Step<'options' | 'closers', 'verification' | 'reader'> = {
  name: 'chain_integrity',
  gate: 'hard_fail_gate',
  run: async ({ options, closers }) => {
    const verification = await verifyRun(options.folder, {
      streams: RUN_STREAMS,
      ...given(options, 'keyFile', 'headFiles', 'home', 'signal'),
    });
    const failure = integrityFailure(verification);
    if (failure !== null) return { found: { verification }, failure };
    const reader = new LogReader(verification.path, RUN_STREAMS);
    closers.add(() => reader.close());
    const { records, heads, resumes } = verification;
    return {
      found: { verification, reader },
      detail:
        `${plural(records, 'record')} under ${plural(heads, 'signed head')}, the last one ` +
        `final${resumes === 0 ? '' : `; resumed ${plural(resumes, 'time')}`}`,
    };
  },
};

export const ticketAndKey: Step<'options' | 'verification' | 'reader', 'records' | 'ticket'> = {
  name: 'ticket_and_key',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async ({ options, verification, reader }) => {
    const records = await readProcessRecords(reader, options.signal);
    const { ticket, signer } = parseSessionStart(encodePayload(records[0]!.payload));
    const { number, unfinishedBefore } = ticket;
    const owner = verification.key.ownedByThisUser
      ? 'the witness belongs to this user'
      : 'the witness does not belong to this user';
    return {
      found: { records, ticket: { number, unfinishedBefore } },
      detail:
        `ticket ${number}, ${unfinishedBefore} earlier ${unfinishedBefore === 1 ? 'one' : 'ones'} unfinished; ` +
        `${signer === 'witness' ? owner : 'single process: no witness kept the signed heads'}`,
    };
  },
};

export const ruleRecomputation: Step<
  'records',
  'process' | 'policy' | 'ruleSettings' | 'questions'
> = {
  name: 'rule_recomputation',
  gate: 'hard_fail_gate',
  run: ({ records }) => {
    refuseEndless(records);
    const process = readProcess(records, LORA);
    const { policy, settings } = runConfigOf(records);
    const questions = checkQuestions(records, process, runConfigOf(records));
    const ruleSettings = foreignThresholds(process.config, readWrittenSettings(settings).profile);
    const own =
      ruleSettings.length === 0
        ? ''
        : `; thresholds that differ from the profile: ${ruleSettings.join(', ')}`;
    const read =
      questions === null
        ? ''
        : `; ${plural(questions.questions.length, 'question')} to the decider read again`;
    return {
      found: {
        process,
        policy: typeof policy === 'string' ? policy : null,
        ruleSettings,
        questions,
      },
      detail: `${plural(process.evaluations.length, 'iteration')}, seven rules each, match the log${own}${read}`,
      status: ruleSettings.length === 0 ? 'pass' : 'findings',
    };
  },
};

export const figureRecomputation: Step<'options' | 'reader' | 'records', 'figures'> = {
  name: 'figure_recomputation',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async ({ options, reader, records }) => {
    const figures = await checkFigures(reader, runConfigOf(records).settings, options.signal);
    const { rollouts, evaluations } = figures;
    return {
      found: { figures },
      detail: `${plural(rollouts, 'rollout')} and ${plural(evaluations.length, 'evaluation')} match what the rules read`,
    };
  },
};

type RunConfig = Readonly<Partial<Record<'policy' | 'settings' | 'rules' | 'decider', unknown>>>;

/** Run configuration in the session start, unchecked. */
const runConfigOf = (records: readonly LogRecord[]): RunConfig =>
  (records[0]?.payload.runConfig ?? {}) as RunConfig;

/** Returns the failure of a log that is not intact; null if it is complete and unchanged. */
function integrityFailure({ outcome, disagreement }: Verification): HardFail | null {
  if (outcome === 'ok') return null;
  if (outcome === 'unterminated') return new NotEnded();
  const at = disagreement?.table === 'log' ? ` (record ${disagreement.at})` : '';
  const detail = `the log is ${outcome}: ${disagreement?.reason ?? ''}${at}`;
  return new HardFail('chain_integrity', detail);
}

/** Requires a log that is complete and unchanged. @throws HardFail */
export function requireIntact(verification: Verification): void {
  const failure = integrityFailure(verification);
  if (failure !== null) throw failure;
}

const fail = failing('rule_recomputation');

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
  question: 7000,
  effect: 21_000,
};

/**
 * Bounds the time of the checks, which grows with the square of the number of records.
 * @throws HardFail if there are more than any run has
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
 * Recomputes all evaluations from the metrics, with the rule configuration that the genesis commits
 * to, and compares every member with the rule_evals stream.
 * @param config as the run configuration holds it
 * @throws HardFail if they differ, or if one stream counts other iterations than the other
 */
export function recomputeRules<T extends TraineeTypes>(
  records: readonly LogRecord[],
  config: unknown,
  watched: Watched<T>,
): ProcessRecord<T> {
  const { trainee, ruleSet } = watched;
  const parsed = ruleConfig.safeParse(config);
  if (!parsed.success) return fail('the run configuration has no rule thresholds');
  const start = records.find(({ payload }) => payload.kind === 'session_start')?.payload.digests as
    | { rules?: string; playbook?: string }
    | undefined;
  const digests = monitorDigests(ruleSet, parsed.data);
  if (start?.rules !== digests.rules || start.playbook !== digests.playbook)
    fail('the thresholds or the playbook differ from those that the run committed to at its start');
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
    fail(`${evaluations.length} iterations were measured, but ${logged.length} were evaluated`);
  for (const [i, evaluation] of evaluations.entries()) {
    const { gseq, payload } = logged[i]!;
    if (encodePayload(evaluationRecord(evaluation).payload) !== encodePayload(payload))
      fail(
        `the evaluation of iteration ${evaluation.iteration} (record ${gseq}) does not follow from its metrics`,
      );
  }
  const decisions = readDecisions(records, watched, fail);
  const loggedEffect = effectForm(trainee);
  const effects = records
    .filter(({ stream, payload }) => stream === 'effects' && payload.kind === 'effect')
    .map((record) => readRecord(loggedEffect, record, fail));
  return { history, evaluations, decisions, effects, config: parsed.data };
}

/**
 * Checks the place of each decision: after the evaluation of its iteration and before the next one.
 */
export function checkDecisionPlaces(records: readonly LogRecord[]): void {
  let now = -1;
  for (const { gseq, stream, payload } of records) {
    if (stream === 'rule_evals') now = Number((payload as LogPayload).iteration);
    const isPlaced =
      (stream === 'decisions' && payload.kind === 'decision') ||
      (stream === 'effects' && payload.kind === 'effect');
    if (isPlaced && payload.iteration !== now)
      fail(
        `record ${gseq} says iteration ${canonicalJson(payload.iteration as Json)} but belongs to iteration ${now}`,
      );
  }
}

/**
 * Reads the live records in order, without rollouts and evaluations: these are most of a log, and
 * no rule reads them.
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

/** Recomputes the rules and checks the decisions. @throws HardFail */
export function readProcess<T extends TraineeTypes>(
  records: readonly LogRecord[],
  watched: Watched<T>,
): ProcessRecord<T> {
  const record = recomputeRules(records, runConfigOf(records).rules, watched);
  checkDecisionPlaces(records);
  return record;
}
