import { realpathSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { sep } from 'node:path';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { loadModel } from '../engine/model.js';
import { rendererChange } from '../engine/renderer-change.js';
import { IsoproError } from '../errors.js';
import { LogReader } from '../log/read.js';
import { parseSessionStart } from '../log/session.js';
import { encodePayload } from '../log/payload.js';
import { verifyRun, type RunVerification } from '../log/local-trust.js';
import { codeVersion, machineClass } from '../run-folder/machine.js';
import { foreignThresholds } from '../monitor/rules.js';
import { canonicalJson, type Json } from '../canonical-json.js';
import { checkAdapter, checkStart, checkSubmission, findDeliverables, onFiles } from './deliverables.js';
import { weakened } from '../run-folder/course-records.js';
import { checkForgetting, readForgettingClaim, type ForgettingComparison } from './forgetting.js';
import { checkCourse } from './course.js';
import { FRESH_PER_TIER, measureFresh, MOST_FRESH, type Fresh } from './fresh.js';
import { HardFail, NotEnded } from './hard-fail.js';
import {
  evaluateHeldOut,
  heldOutDoubts,
  isModelCheck,
  openRunTask,
  readClaims,
  type HeldOutRequest,
  type HeldOutResult,
} from './held-out.js';
import { checkFigures } from './figures.js';
import { checkLiveDiagnostic, OTHER_MACHINE_TOLERANCE, SAME_MACHINE_TOLERANCE } from './live-diagnostic.js';
import { readProcess, readProcessRecords, refuseEndless, requireIntact } from './log-steps.js';
import { auditProcess, type ProcessAudit, type Violation, type ViolationKind } from './obligations.js';
import { planCheck } from './plan.js';
import { CLAIM_P } from './refutation.js';
import { ReplyReader } from './replies.js';
import { replayStructure, structureDifference } from './replay.js';
import { resampleRollouts } from './resample.js';
import { checkIds, verifyRollouts } from './rollouts.js';
import { scheduleFactor } from './schedule.js';
import { emitScores, emitWithoutProcess, scoreProcess, type Scores } from './scores.js';
import { JudgeTrace, type TraceStep } from './trace.js';
import type { Failures } from '../run-folder/derived.js';
import { RUN_STREAMS } from '../run-folder/streams.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { LORA } from '../trainees/lora/trainee.js';

/** Accuracy that scores 1 where nothing else is asked for (the original's default). */
export const DEFAULT_TARGET = 0.92;

export interface JudgeOptions {
  readonly folder: string;
  /** The base model: a file, an alias or a URI; absent: the embedded one. */
  readonly model?: string;
  /** Public key of the run's witness; default: this machine's own. Never one from the folder. */
  readonly keyFile?: string;
  /** Files with signed heads that were kept elsewhere. */
  readonly headFiles?: readonly string[];
  /** The judge's own copy of a user's task. */
  readonly task?: string;
  /** The judge's own copy of its check, where the task is data and its check is a file or runs one. */
  readonly check?: string;
  /** Accuracy that scores 1, in (0, 1]. */
  readonly target?: number;
  /** Which held-out evaluations are measured again. Default both. */
  readonly heldOut?: HeldOutRequest['which'];
  /** Fresh problems of each tier on which the submitted adapter is measured; 0: none. Default 25. */
  readonly fresh?: number;
  /** Threads that judge replies at once; the report is the same with any number. */
  readonly verifierThreads?: number;
  readonly home?: string;
  readonly signal?: AbortSignal;
  readonly onStep?: (step: TraceStep) => void;
  readonly onProgress?: HeldOutRequest['onProgress'];
  /** Texts of what was forgotten, after the test problems. */
  readonly onForgetting?: HeldOutRequest['onProgress'];
  /** Fresh problems, after the test problems. */
  readonly onFresh?: HeldOutRequest['onProgress'];
}

export interface JudgeReport {
  readonly format: 'isopro.judge.v1';
  readonly folder: string;
  readonly runId: string | null;
  /**
   * `not_ended`: nothing disagrees, and nothing is scored. `not_verified`: nothing disagrees, and not everything that the run claims was
   * measured and found again here; `notVerified` says what.
   */
  readonly verdict: 'pass' | 'not_verified' | 'hard_fail' | 'not_ended';
  readonly failure: { readonly step: number; readonly name: string; readonly detail: string } | null;
  readonly scores: Scores;
  /** What the result is relative to. */
  readonly trust: {
    readonly key: string;
    /** True: the user who judges could have signed any history. */
    readonly ownedByThisUser: boolean;
    readonly signer: string | null;
    readonly ticket: { readonly number: number; readonly unfinishedBefore: number } | null;
    /** Null where it was not reached. */
    readonly sameMachineClass: boolean | null;
  } | null;
  /** What was not measured or not found again, in words; empty where the verdict is another than `not_verified`. */
  readonly notVerified: readonly string[];
  /** Verdicts of the run that the judge could not find: its verifier ran out of time, or they are a model's that is another one here. */
  readonly unverified: number;
  /** Measured by the judge, beside the run's claim; null where it was not evaluated. */
  readonly heldOut: HeldOutResult | null;
  /** The submitted adapter on fresh problems, beside the gap to the test problems; null where they were not measured. */
  readonly fresh: Fresh | null;
  /** What the model forgot, measured by the judge, beside the run's claim; null where the run or the judge did not measure it. */
  readonly forgetting: ForgettingComparison | null;
  /** Why the run's rollouts do not pass, by the judge's own verdicts; null where it had no task to find them with. */
  readonly failures: Failures | null;
  readonly violations: readonly Violation[];
  /** Who decided on the rules, as the genesis names it; null where it was not reached. */
  readonly policy: string | null;
  /** Thresholds with which the run replaced those of its profile, such as `r3.patience 9 (2)`. */
  readonly ruleSettings: readonly string[];
  readonly steps: readonly TraceStep[];
}

const COVERAGE: readonly ViolationKind[] = ['missing', 'late', 'precedence', 'unresolved_deferral', 'spurious', 'duplicate'];
const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`;

/** A key that came with the evidence proves nothing. @throws IsoproError INVALID_ARGUMENT, WITNESS_KEY_MISSING */
export function refuseKeyInside(folder: string, keyFile: string | undefined): void {
  if (keyFile === undefined) return;
  let key: string;
  try {
    key = realpathSync(keyFile);
  } catch (cause) {
    throw new IsoproError('WITNESS_KEY_MISSING', `there is no key at ${keyFile}`, { cause });
  }
  if (`${key}${sep}`.startsWith(`${realpathSync(folder)}${sep}`))
    throw new IsoproError('INVALID_ARGUMENT', 'the key lies in the run folder: take it from where its owner publishes it');
}

/** What the steps find out on the way. */
interface Findings {
  verification: RunVerification | null;
  ticket: { number: number; unfinishedBefore: number } | null;
  sameMachine: boolean | null;
  policy: string | null;
  ruleSettings: readonly string[];
  audit: ProcessAudit | null;
  heldOut: HeldOutResult | null;
  fresh: Fresh | null;
  forgetting: ForgettingComparison | null;
  failures: Failures | null;
  unverified: number;
  /** Why the verdict cannot be a pass. */
  readonly doubts: string[];
  scores: Scores | null;
}

/**
 * Judges a finished run: integrity first, then what the log says against itself, then the submitted adapter. Runs nothing that the run
 * supplied.
 * @throws IsoproError where the check cannot be made (RUN_NOT_FOUND, LOG_NOT_FOUND, WITNESS_KEY_MISSING, MODEL_NOT_FOUND, INVALID_ARGUMENT
 *   for another base model or a key from the folder, ABORTED, …); what the run itself got wrong is a verdict
 */
export async function judgeRun(options: JudgeOptions): Promise<JudgeReport> {
  const trace = new JudgeTrace(options.onStep);
  const findings: Findings = {
    verification: null,
    ticket: null,
    sameMachine: null,
    policy: null,
    ruleSettings: [],
    audit: null,
    heldOut: null,
    fresh: null,
    forgetting: null,
    failures: null,
    unverified: 0,
    doubts: [],
    scores: null,
  };
  let failure: HardFail | null = null;
  try {
    await judgeSteps(options, trace, findings);
  } catch (error) {
    if (!(error instanceof HardFail)) throw error;
    failure = error;
  }
  const { verification, ticket, sameMachine, audit, heldOut, fresh, forgetting, failures, unverified, doubts } = findings;
  const notEnded = failure instanceof NotEnded;
  const scores =
    findings.scores ??
    (audit === null || failure === null || notEnded
      ? emitWithoutProcess(notEnded ? null : (failure?.step ?? null))
      : emitScores(scoreProcess(audit), null, 1, failure.step));
  return {
    format: 'isopro.judge.v1',
    folder: options.folder,
    runId: verification?.runId ?? null,
    verdict: failure === null ? (doubts.length === 0 ? 'pass' : 'not_verified') : notEnded ? 'not_ended' : 'hard_fail',
    failure: failure === null ? null : { step: failure.step, name: failure.stepName, detail: failure.message },
    scores,
    trust:
      verification === null
        ? null
        : {
            key: verification.key.text,
            ownedByThisUser: verification.key.ownedByThisUser,
            signer: verification.signer,
            ticket,
            sameMachineClass: sameMachine,
          },
    notVerified: failure === null ? doubts : [],
    unverified,
    heldOut,
    fresh,
    forgetting,
    failures,
    violations: audit?.violations ?? [],
    policy: findings.policy,
    ruleSettings: findings.ruleSettings,
    steps: trace.steps,
  };
}

async function judgeSteps(options: JudgeOptions, trace: JudgeTrace, findings: Findings): Promise<void> {
  const { folder, keyFile, headFiles, home, signal, onProgress, onForgetting, onFresh } = options;
  const { target = DEFAULT_TARGET, heldOut: which = 'both', fresh: freshPerTier = FRESH_PER_TIER } = options;
  if (!Number.isInteger(freshPerTier) || freshPerTier < 0 || freshPerTier > MOST_FRESH)
    throw new IsoproError('INVALID_ARGUMENT', `the judge draws 0 to ${MOST_FRESH} fresh problems of each tier, not ${freshPerTier}`);
  if (!(target > 0 && target <= 1)) throw new IsoproError('INVALID_ARGUMENT', 'the target accuracy lies in (0, 1]');
  refuseKeyInside(folder, keyFile);
  const cancelling = signal === undefined ? {} : { signal };

  await trace.run('chain_integrity', async () => {
    const verification = await verifyRun(folder, {
      streams: RUN_STREAMS,
      ...(keyFile === undefined ? {} : { keyFile }),
      ...(headFiles === undefined ? {} : { headFiles }),
      ...(home === undefined ? {} : { home }),
      ...cancelling,
    });
    findings.verification = verification;
    requireIntact(verification);
    const { records, heads, resumes } = verification;
    return {
      value: null,
      detail:
        `${plural(records, 'record')} under ${plural(heads, 'signed head')}, the last one ` +
        `final${resumes === 0 ? '' : `; resumed ${plural(resumes, 'time')}`}`,
    };
  });
  const reader = new LogReader(findings.verification!.path, RUN_STREAMS);
  try {
    const records = await trace.run('ticket_and_key', () =>
      onFiles('ticket_and_key', ['LOG_UNREADABLE'], async () => {
        const value = await readProcessRecords(reader, signal);
        const {
          ticket: { number, unfinishedBefore },
          signer,
        } = parseSessionStart(encodePayload(value[0]!.payload));
        findings.ticket = { number, unfinishedBefore };
        const owner = findings.verification!.key.ownedByThisUser
          ? 'the witness is of the user who judges'
          : "the witness is not this user's";
        return {
          value,
          detail:
            `ticket ${number}, ${unfinishedBefore} earlier ${unfinishedBefore === 1 ? 'one' : 'ones'} unfinished; ` +
            `${signer === 'witness' ? owner : 'single process: no witness kept its heads'}`,
        };
      }),
    );

    const process = await trace.run('rule_recomputation', () => {
      refuseEndless(records);
      const value = readProcess(records, LORA);
      const start = records[0]?.payload.runConfig as { policy?: unknown; settings?: unknown } | undefined;
      findings.policy = typeof start?.policy === 'string' ? start.policy : null;
      const foreign = foreignThresholds(value.config, readWrittenSettings(start?.settings).profile);
      findings.ruleSettings = foreign;
      const own = foreign.length === 0 ? '' : `; thresholds that are not the profile's: ${foreign.join(', ')}`;
      return {
        value,
        detail: `${plural(value.evaluations.length, 'iteration')}, seven rules each: as logged${own}`,
        status: foreign.length === 0 ? ('pass' as const) : ('findings' as const),
      };
    });

    const figures = await trace.run('figure_recomputation', () =>
      onFiles('figure_recomputation', ['LOG_UNREADABLE'], async () => {
        const value = await checkFigures(reader, (records[0]!.payload.runConfig as { settings?: unknown } | undefined)?.settings, signal);
        return {
          value,
          detail: `${plural(value.rollouts, 'rollout')} and ${plural(value.evaluations.length, 'evaluation')} give what the rules read`,
        };
      }),
    );

    const deliverables = await trace.run('deliverables_exist', async () => {
      const value = await findDeliverables(folder);
      return {
        value,
        detail:
          value.adapter === null
            ? 'the manifest; the bare base is submitted'
            : `the manifest and adapter ${value.adapter.sha256.slice(0, 12)}`,
      };
    });
    const { submitted, nonce } = await trace.run('deliverables_as_submitted', async () => ({
      value: await onFiles('deliverables_as_submitted', ['LOG_UNREADABLE'], () => checkSubmission(reader, records, deliverables, signal)),
      detail: 'submitted before the nonce was told, and unchanged',
    }));

    const { evaluation } = deliverables.manifest.start;
    // what a folder asks for ends at what this machine has
    const threads = Math.min(evaluation.threads, availableParallelism());
    await using model = await loadModel(options.model ?? EMBEDDED_MODEL, {
      threads,
      matmul: evaluation.matmul ?? 'ggml',
      fixedThreads: true,
      contextTokens: evaluation.contextTokens,
      ...cancelling,
    });
    const committed = (records[0]!.payload.digests as { model?: string }).model;
    const actual = await model.hash();
    if (actual !== committed)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        options.model === undefined
          ? `the run's base model is ${deliverables.manifest.start.model.name}, by its manifest, and none was named`
          : `${options.model} is not the run's base model: it has SHA-256 ${actual.slice(0, 12)}…, and that has ` +
              `${committed === undefined ? 'none' : `${committed.slice(0, 12)}…`}`,
        { remedy: `Name the model that the run was on with --model; its manifest calls it ${deliverables.manifest.start.model.name}.` },
      );
    const cacheBytes = evaluation.contextTokens * model.info.kvBytesPerToken;
    if (cacheBytes > totalmem())
      throw new IsoproError(
        'OUT_OF_MEMORY',
        `the run's context of ${evaluation.contextTokens} tokens takes ${(cacheBytes / 1e9).toFixed(0)} GB, but this machine has ` +
          `${(totalmem() / 1e9).toFixed(0)}`,
        { remedy: 'Judge it on a machine with more memory.' },
      );
    const { targets, loaded } = await trace.run('adapter_loads', async () => {
      const value = await checkAdapter(model, deliverables.adapter, threads);
      return {
        value,
        detail:
          deliverables.adapter === null ? 'nothing to load' : `${plural(Object.keys(value.targets).length, 'module')}, all values finite`,
      };
    });
    const code = await codeVersion();
    const start = await trace.run('run_config_consistency', () => {
      const value = checkStart(records, deliverables.manifest);
      const other = (['version', 'javascript', 'addon'] as const)
        .filter((part) => value.code[part] !== code[part])
        .map((part) => `${part} ${value.code[part].slice(0, 12)} (${code[part].slice(0, 12)})`);
      const detail = 'manifest and session start agree';
      return other.length === 0
        ? { value, detail }
        : { value, detail: `${detail}; the run's code is not this judge's: ${other.join(', ')}`, status: 'findings' as const };
    });

    const here = { machine: machineClass(), addon: code.addon };
    const sameMachine =
      threads === evaluation.threads &&
      canonicalJson(here as Json) === canonicalJson({ machine: start.machine, addon: start.code.addon } as Json);
    findings.sameMachine = sameMachine;
    const byModel = isModelCheck(start);
    // other prompts than the run's say nothing of it
    const rerendered = rendererChange(evaluation.rendererId, model);
    const opened =
      rerendered !== null
        ? { task: null, reason: `${rerendered}; the version of isopro-native that made the run can judge it` }
        : await openRunTask(start, options.task, {
            sameKernels: sameMachine,
            ...(options.verifierThreads === undefined ? {} : { verifierThreads: options.verifierThreads }),
            ...(options.check === undefined ? {} : { check: options.check }),
          });
    await using task = opened.task;
    const replies = new ReplyReader(model, start.evaluation.maxTokens, readWrittenSettings(start.settings).sampling.stop);
    await trace.run('rollout_verification', async () => {
      if (task === null) {
        await onFiles('rollout_verification', ['LOG_UNREADABLE'], () => checkIds(reader, figures, replies, signal));
        if (byModel) findings.unverified += figures.rollouts;
        findings.doubts.push(`rollouts and test problems were not judged again: ${opened.reason}`);
        return {
          value: null,
          detail:
            `no problem of an evaluation was sampled, by its id, and texts are what their tokens say; no more than that: ` +
            `${opened.reason}${byModel ? `; ${plural(figures.rollouts, 'verdict')} of a model not verified` : ''}`,
          status: 'skipped' as const,
        };
      }
      const { rollouts, undecided, unverified, failures } = await onFiles('rollout_verification', ['LOG_UNREADABLE'], () =>
        verifyRollouts({ reader, start, task, model, replies, figures, atOnce: options.verifierThreads ?? 1, ...cancelling }),
      );
      findings.unverified += unverified;
      findings.failures = failures;
      if (unverified > 0)
        findings.doubts.push(
          `${plural(unverified, 'verdict')} of rollouts, dev replies or policies not verified: the verifier ran out of time here`,
        );
      const notes = [
        ...(undecided === 0 ? [] : [`${plural(undecided, 'verdict')} that the run did not find`]),
        ...(unverified === 0 ? [] : [`${plural(unverified, 'verdict')} not verified: the verifier ran out of time here`]),
      ];
      const detail = [`${plural(rollouts, 'rollout')} judged again, no problem of an evaluation set among them`, ...notes].join('; ');
      return { value: null, detail, status: notes.length === 0 ? ('pass' as const) : ('findings' as const) };
    });

    await trace.run('architecture_replay', () => {
      const replayed = replayStructure(records, LORA.trainee);
      const expected = submitted.adapter === null ? {} : weakened(replayed ?? {}, submitted.restraint?.strength ?? 1);
      const claimed = structureDifference(LORA.trainee, expected, submitted.targets);
      if (claimed !== null) throw new HardFail('architecture_replay', `the submission says otherwise than the replay: ${claimed}`);
      const found = structureDifference(LORA.trainee, expected, targets, true);
      if (found !== null) throw new HardFail('architecture_replay', `the file's tensors are not what the log leads to: ${found}`);
      return { value: null, detail: `${plural(Object.keys(expected).length, 'module')} of the ranks that the log leads to` };
    });

    await trace.run('live_diagnostic_sanity', async () => {
      const tolerance = sameMachine ? SAME_MACHINE_TOLERANCE : OTHER_MACHINE_TOLERANCE;
      const { name, relative } = await checkLiveDiagnostic(
        records,
        { modelPath: model.path, adapter: deliverables.adapter, nonce, threads, ...cancelling },
        tolerance,
      );
      return {
        value: null,
        detail:
          `largest deviation ${relative.toPrecision(2)} (${name}), tolerance ${tolerance} on ` +
          `${sameMachine ? 'a machine of the same class' : 'another class of machine'}`,
      };
    });

    await trace.run('course_verification', () =>
      onFiles('course_verification', ['LOG_UNREADABLE'], async () => {
        if (submitted.adapter === null)
          return { value: null, detail: 'the bare base is submitted: there is no course', status: 'skipped' as const };
        const { iterations, steps } = await checkCourse({
          reader,
          records,
          start,
          figures,
          submitted,
          ...(task === null ? {} : { checkPlan: await planCheck(start, task, model) }),
          ...cancelling,
        });
        return {
          value: null,
          detail: `${plural(iterations, 'iteration')} and ${plural(steps, 'step')}, as settings and verdicts give them`,
        };
      }),
    );

    await trace.run('rollout_resampling', () =>
      onFiles('rollout_resampling', ['LOG_UNREADABLE', 'PROBLEM_INVALID'], async () => {
        if (task === null) return { value: null, detail: opened.reason, status: 'skipped' as const };
        if (submitted.adapter === null) return { value: null, detail: 'nothing was trained on', status: 'skipped' as const };
        const exact = sameMachine && model.info.batchInvariant;
        const { asked, same } = await resampleRollouts({ reader, start, task, model, nonce, exact, ...cancelling });
        return {
          value: null,
          detail: `${same} of ${plural(asked, 'rollout')} of the first iteration, chosen by the nonce, are as logged, token by token`,
          status: same === asked ? ('pass' as const) : ('findings' as const),
        };
      }),
    );

    const audit = auditProcess({ ...process, scheduleFactor: (step) => scheduleFactor(start.schedule, step) }, LORA);
    findings.audit = audit;
    const found = (kinds: (kind: ViolationKind) => boolean): { value: null; detail: string; status?: 'findings' } => {
      const own = audit.violations.filter(({ kind }) => kinds(kind));
      const counts = [...new Set(own.map(({ kind }) => kind))].map((kind) => `${own.filter((each) => each.kind === kind).length} ${kind}`);
      return own.length === 0 ? { value: null, detail: 'no violation' } : { value: null, detail: counts.join(', '), status: 'findings' };
    };
    await trace.run('rule_coverage_audit', () => {
      const result = found((kind) => COVERAGE.includes(kind));
      return {
        ...result,
        detail: `${plural(audit.obligations.length, 'obligation')} of ${plural(audit.distinctRules, 'rule')}; ${result.detail}`,
      };
    });
    await trace.run('decision_defensibility', () => {
      const result = found((kind) => !COVERAGE.includes(kind));
      return { ...result, detail: `${plural(process.decisions.length, 'decision')} read; ${result.detail}` };
    });

    findings.heldOut = await trace.run('test_set_evaluation', async () => {
      const claims = await onFiles('test_set_evaluation', ['LOG_UNREADABLE'], () => readClaims(reader, start, submitted.adapter, signal));
      if (figures.policies === null && submitted.adapter !== null)
        throw new HardFail('test_set_evaluation', 'the log holds no verdicts of the trivial policies');
      const forgot = await onFiles('test_set_evaluation', ['LOG_UNREADABLE'], () => readForgettingClaim(reader, start, submitted, signal));
      if (which !== 'both' && task !== null)
        findings.doubts.push(
          which === 'none' ? 'test problems were not answered again' : 'the accuracy before training was not measured again',
        );
      if (which === 'none') return { value: null, detail: 'not asked for', status: 'skipped' as const };
      if (task === null) return { value: null, detail: opened.reason, status: 'skipped' as const };
      const value = await evaluateHeldOut(model, task, start, claims, loaded, sameMachine, {
        which,
        ...cancelling,
        ...(onProgress === undefined ? {} : { onProgress }),
      });
      if (forgot !== null)
        findings.forgetting = await checkForgetting(model, forgot, loaded, sameMachine, {
          ...cancelling,
          ...(onForgetting === undefined ? {} : { onProgress: onForgetting }),
        });
      findings.doubts.push(...heldOutDoubts(value, sameMachine));
      if (freshPerTier === 0) findings.doubts.push('no fresh problems were asked for');
      else
        findings.fresh = await measureFresh({
          reader,
          start,
          task,
          model,
          nonce,
          perTier: freshPerTier,
          adapter: loaded,
          tested: value.after.measured,
          ...cancelling,
          ...(onFresh === undefined ? {} : { onProgress: onFresh }),
        });
      const { fresh } = findings;
      const isKnown = fresh !== null && fresh.p < CLAIM_P;
      if (isKnown)
        findings.doubts.push(
          `the submitted adapter solves ${(100 * fresh.gap).toFixed(1)} points more of the test problems than of fresh ones (p ` +
            `${fresh.p.toPrecision(2)}): the test problems do not measure it`,
        );
      const differing = value.after.differing + (value.before?.differing ?? 0);
      const unverified = value.after.unverified + (value.before?.unverified ?? 0);
      findings.unverified += unverified;
      const beside = [value.before, value.after].flatMap((comparison) => comparison?.figures ?? []);
      const others = beside.reduce((sum, comparison) => sum + comparison.differing, 0);
      const readings = [value.before, value.after].flatMap((comparison) => comparison?.readings ?? []);
      const otherwise = readings.reduce((sum, comparison) => sum + comparison.differing, 0);
      const missing = unverified === 0 ? '' : `; ${plural(unverified, 'verdict')} not verified: the verifier ran out of time here`;
      const agreed = unverified === 0 ? 'every verdict is as claimed' : 'no verdict is other than claimed';
      const otherFigures = others === 0 ? '' : `; ${plural(others, 'figure')} of verdicts differ from the claim`;
      const otherReadings = otherwise === 0 ? '' : `; ${plural(otherwise, 'further reading')} of replies differ from the claim`;
      const said = differing === 0 ? agreed : `${plural(differing, 'verdict')} differ from the claim`;
      const onFreshOnes =
        fresh === null
          ? freshPerTier === 0
            ? ''
            : '; the task does not have fresh problems of every tier'
          : `; ${plural(fresh.measured.n, 'fresh problem')} as well`;
      const detail = `${said}${otherFigures}${otherReadings}${missing}${onFreshOnes}`;
      return {
        value,
        detail,
        status: differing + others + otherwise + unverified === 0 && !isKnown ? ('pass' as const) : ('findings' as const),
      };
    });

    findings.scores = await trace.run('emit_two_scores', () => {
      const accuracy = findings.fresh?.measured ?? findings.heldOut?.after.measured;
      const value = emitScores(scoreProcess(audit), accuracy?.valid === true ? accuracy.mean : null, target, null);
      return {
        value,
        detail:
          `accuracy ${value.accuracy_score?.toFixed(3) ?? 'null'} of target ${target}, process ` +
          `${value.process_score?.toFixed(3) ?? 'null'}`,
      };
    });
  } finally {
    reader.close();
  }
}
