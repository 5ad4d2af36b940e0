import { availableParallelism, totalmem } from 'node:os';
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
import {
  checkAdapter,
  checkStart,
  checkSubmission,
  findDeliverables,
  onFiles,
} from './deliverables.js';
import { weakened } from '../run-folder/course-records.js';
import type { ForgettingComparison } from './forgetting.js';
import { checkCourse } from './course.js';
import type { Fresh } from './fresh.js';
import { HardFail } from './hard-fail.js';
import { isModelCheck, openRunTask, type HeldOutResult } from './held-out.js';
import { checkFigures } from './figures.js';
import {
  checkLiveDiagnostic,
  OTHER_MACHINE_TOLERANCE,
  SAME_MACHINE_TOLERANCE,
} from './live-diagnostic.js';
import { readProcess, readProcessRecords, refuseEndless, requireIntact } from './log-steps.js';
import { auditProcess, type ProcessAudit, type ViolationKind } from './obligations.js';
import { DEFAULT_TARGET, type JudgeOptions } from './options.js';
import { planCheck } from './plan.js';
import { ReplyReader } from './replies.js';
import { replayStructure, structureDifference } from './replay.js';
import { resampleRollouts } from './resample.js';
import { checkIds, verifyRollouts } from './rollouts.js';
import { scheduleFactor } from './schedule.js';
import { emitScores, scoreProcess, type Scores } from './scores.js';
import { measureTestSet } from './test-set.js';
import { plural, type JudgeTrace } from './trace.js';
import type { Failures } from '../run-folder/derived.js';
import { RUN_STREAMS } from '../run-folder/streams.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { LORA } from '../trainees/lora/trainee.js';

const COVERAGE: readonly ViolationKind[] = [
  'missing',
  'late',
  'precedence',
  'unresolved_deferral',
  'spurious',
  'duplicate',
];
/** What the steps find out on the way. */
export interface Findings {
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
 * Runs every step in order, and leaves in `findings` what was found until one of them failed.
 * @throws HardFail, and as judgeRun
 */
export async function judgeSteps(
  options: JudgeOptions,
  trace: JudgeTrace,
  findings: Findings,
): Promise<void> {
  const { folder, keyFile, headFiles, home, signal, target = DEFAULT_TARGET } = options;
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
      const start = records[0]?.payload.runConfig as
        | { policy?: unknown; settings?: unknown }
        | undefined;
      findings.policy = typeof start?.policy === 'string' ? start.policy : null;
      const foreign = foreignThresholds(value.config, readWrittenSettings(start?.settings).profile);
      findings.ruleSettings = foreign;
      const own =
        foreign.length === 0
          ? ''
          : `; thresholds that are not the profile's: ${foreign.join(', ')}`;
      return {
        value,
        detail: `${plural(value.evaluations.length, 'iteration')}, seven rules each: as logged${own}`,
        status: foreign.length === 0 ? ('pass' as const) : ('findings' as const),
      };
    });

    const figures = await trace.run('figure_recomputation', () =>
      onFiles('figure_recomputation', ['LOG_UNREADABLE'], async () => {
        const value = await checkFigures(
          reader,
          (records[0]!.payload.runConfig as { settings?: unknown } | undefined)?.settings,
          signal,
        );
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
      value: await onFiles('deliverables_as_submitted', ['LOG_UNREADABLE'], () =>
        checkSubmission(reader, records, deliverables, signal),
      ),
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
        {
          remedy: `Name the model that the run was on with --model; its manifest calls it ${deliverables.manifest.start.model.name}.`,
        },
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
          deliverables.adapter === null
            ? 'nothing to load'
            : `${plural(Object.keys(value.targets).length, 'module')}, all values finite`,
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
        : {
            value,
            detail: `${detail}; the run's code is not this judge's: ${other.join(', ')}`,
            status: 'findings' as const,
          };
    });

    const here = { machine: machineClass(), addon: code.addon };
    const sameMachine =
      threads === evaluation.threads &&
      canonicalJson(here as Json) ===
        canonicalJson({ machine: start.machine, addon: start.code.addon } as Json);
    findings.sameMachine = sameMachine;
    const byModel = isModelCheck(start);
    // other prompts than the run's say nothing of it
    const rerendered = rendererChange(evaluation.rendererId, model);
    const opened =
      rerendered !== null
        ? {
            task: null,
            reason: `${rerendered}; the version of isopro-native that made the run can judge it`,
          }
        : await openRunTask(start, options.task, {
            sameKernels: sameMachine,
            ...(options.verifierThreads === undefined
              ? {}
              : { verifierThreads: options.verifierThreads }),
            ...(options.check === undefined ? {} : { check: options.check }),
          });
    await using task = opened.task;
    const replies = new ReplyReader(
      model,
      start.evaluation.maxTokens,
      readWrittenSettings(start.settings).sampling.stop,
    );
    await trace.run('rollout_verification', async () => {
      if (task === null) {
        await onFiles('rollout_verification', ['LOG_UNREADABLE'], () =>
          checkIds(reader, figures, replies, signal),
        );
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
      const { rollouts, undecided, unverified, failures } = await onFiles(
        'rollout_verification',
        ['LOG_UNREADABLE'],
        () =>
          verifyRollouts({
            reader,
            start,
            task,
            model,
            replies,
            figures,
            atOnce: options.verifierThreads ?? 1,
            ...cancelling,
          }),
      );
      findings.unverified += unverified;
      findings.failures = failures;
      if (unverified > 0)
        findings.doubts.push(
          `${plural(unverified, 'verdict')} of rollouts, dev replies or policies not verified: the verifier ran out of time here`,
        );
      const notes = [
        ...(undecided === 0 ? [] : [`${plural(undecided, 'verdict')} that the run did not find`]),
        ...(unverified === 0
          ? []
          : [`${plural(unverified, 'verdict')} not verified: the verifier ran out of time here`]),
      ];
      const detail = [
        `${plural(rollouts, 'rollout')} judged again, no problem of an evaluation set among them`,
        ...notes,
      ].join('; ');
      return {
        value: null,
        detail,
        status: notes.length === 0 ? ('pass' as const) : ('findings' as const),
      };
    });

    await trace.run('architecture_replay', () => {
      const replayed = replayStructure(records, LORA.trainee);
      const expected =
        submitted.adapter === null
          ? {}
          : weakened(replayed ?? {}, submitted.restraint?.strength ?? 1);
      const claimed = structureDifference(LORA.trainee, expected, submitted.targets);
      if (claimed !== null)
        throw new HardFail(
          'architecture_replay',
          `the submission says otherwise than the replay: ${claimed}`,
        );
      const found = structureDifference(LORA.trainee, expected, targets, true);
      if (found !== null)
        throw new HardFail(
          'architecture_replay',
          `the file's tensors are not what the log leads to: ${found}`,
        );
      return {
        value: null,
        detail: `${plural(Object.keys(expected).length, 'module')} of the ranks that the log leads to`,
      };
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
          return {
            value: null,
            detail: 'the bare base is submitted: there is no course',
            status: 'skipped' as const,
          };
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
        if (task === null)
          return { value: null, detail: opened.reason, status: 'skipped' as const };
        if (submitted.adapter === null)
          return { value: null, detail: 'nothing was trained on', status: 'skipped' as const };
        const exact = sameMachine && model.info.batchInvariant;
        const { asked, same } = await resampleRollouts({
          reader,
          start,
          task,
          model,
          nonce,
          exact,
          ...cancelling,
        });
        return {
          value: null,
          detail: `${same} of ${plural(asked, 'rollout')} of the first iteration, chosen by the nonce, are as logged, token by token`,
          status: same === asked ? ('pass' as const) : ('findings' as const),
        };
      }),
    );

    const audit = auditProcess(
      { ...process, scheduleFactor: (step) => scheduleFactor(start.schedule, step) },
      LORA,
    );
    findings.audit = audit;
    const found = (
      kinds: (kind: ViolationKind) => boolean,
    ): { value: null; detail: string; status?: 'findings' } => {
      const own = audit.violations.filter(({ kind }) => kinds(kind));
      const counts = [...new Set(own.map(({ kind }) => kind))].map(
        (kind) => `${own.filter((each) => each.kind === kind).length} ${kind}`,
      );
      return own.length === 0
        ? { value: null, detail: 'no violation' }
        : { value: null, detail: counts.join(', '), status: 'findings' };
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
      return {
        ...result,
        detail: `${plural(process.decisions.length, 'decision')} read; ${result.detail}`,
      };
    });

    const { heldOut, fresh, forgetting, doubts, unverified } = await trace.run(
      'test_set_evaluation',
      () =>
        measureTestSet({
          reader,
          start,
          figures,
          submitted,
          model,
          task: opened,
          loaded,
          nonce,
          sameMachine,
          options,
        }),
    );
    findings.heldOut = heldOut;
    findings.fresh = fresh;
    findings.forgetting = forgetting;
    findings.doubts.push(...doubts);
    findings.unverified += unverified;

    findings.scores = await trace.run('emit_two_scores', () => {
      const accuracy = fresh?.measured ?? heldOut?.after.measured;
      const value = emitScores(
        scoreProcess(audit),
        accuracy?.valid === true ? accuracy.mean : null,
        target,
        null,
      );
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
