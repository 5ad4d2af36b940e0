import type { Model } from '../engine/model.js';
import { rendererChange } from '../engine/renderer-change.js';
import { weakened, type AdapterTargets } from '../run-folder/course-records.js';
import type { RunStart } from '../run-folder/manifest.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { LORA } from '../trainees/lora/trainee.js';
import { checkCourse } from './course.js';
import { HardFail } from './hard-fail.js';
import { isModelCheck, openRunTask, type OpenedTask } from './held-out.js';
import {
  checkLiveDiagnostic,
  OTHER_MACHINE_TOLERANCE,
  SAME_MACHINE_TOLERANCE,
} from './live-diagnostic.js';
import { given, type JudgeOptions } from './options.js';
import { planCheck } from './plan.js';
import { replayStructure, structureDifference } from './replay.js';
import { ReplyReader } from './replies.js';
import { resampleRollouts } from './resample.js';
import { checkIds, verifyRollouts } from './rollouts.js';
import type { Step } from './step.js';
import { plural } from './trace.js';

/** The judge's steps that do again, with model and task, what the run says that it did. */

export const rolloutVerification: Step<
  'options' | 'closers' | 'reader' | 'figures' | 'model' | 'start' | 'sameMachine',
  'opened' | 'rollouts'
> = {
  name: 'rollout_verification',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async ({ options, closers, reader, figures, model, start, sameMachine }) => {
    const opened = await openTask(options, model, start, sameMachine);
    const { task } = opened;
    closers.add(() => task?.dispose());
    const { maxTokens } = start.evaluation;
    const { stop } = readWrittenSettings(start.settings).sampling;
    const replies = new ReplyReader(model, maxTokens, stop);
    if (task === null) {
      await checkIds(reader, figures, replies, options.signal);
      const { reason } = opened;
      const unverified = isModelCheck(start) ? figures.rollouts : 0;
      const ofModel = isModelCheck(start)
        ? `; ${plural(unverified, 'verdict')} of a model not verified`
        : '';
      const doubts = [`rollouts and test problems were not judged again: ${reason}`];
      return {
        found: { opened, rollouts: { failures: null, unverified, doubts } },
        detail:
          `no problem of an evaluation was sampled, by its id, and texts are what their tokens say; no more than that: ` +
          `${reason}${ofModel}`,
        status: 'skipped',
      };
    }
    const { rollouts, undecided, unverified, failures } = await verifyRollouts({
      ...{ reader, start, task, model, replies, figures },
      atOnce: options.verifierThreads ?? 1,
      ...given(options, 'signal'),
    });
    const late = (of: string): string[] =>
      unverified === 0
        ? []
        : [`${plural(unverified, 'verdict')}${of} not verified: the verifier ran out of time here`];
    const notes = [
      ...(undecided === 0 ? [] : [`${plural(undecided, 'verdict')} that the run did not find`]),
      ...late(''),
    ];
    const doubts = late(' of rollouts, dev replies or policies');
    return {
      found: { opened, rollouts: { failures, unverified, doubts } },
      detail: [
        `${plural(rollouts, 'rollout')} judged again, no problem of an evaluation set among them`,
        ...notes,
      ].join('; '),
      status: notes.length === 0 ? 'pass' : 'findings',
    };
  },
};

/** The task of the run, for prompts that are the run's: others say nothing of it. */
async function openTask(
  options: JudgeOptions,
  model: Model,
  start: RunStart,
  sameMachine: boolean,
): Promise<OpenedTask> {
  const rerendered = rendererChange(start.evaluation.rendererId, model);
  return rerendered === null
    ? openRunTask(start, options.task, {
        sameKernels: sameMachine,
        ...given(options, 'verifierThreads', 'check'),
      })
    : {
        task: null,
        reason: `${rerendered}; the version of isopro-native that made the run can judge it`,
      };
}

export const architectureReplay: Step<'records' | 'submitted' | 'targets'> = {
  name: 'architecture_replay',
  gate: 'hard_fail_gate',
  run: ({ records, submitted, targets }) => {
    const { adapter, restraint } = submitted;
    const replayed = replayStructure(records, LORA.trainee);
    const expected = adapter === null ? {} : weakened(replayed ?? {}, restraint?.strength ?? 1);
    const require = (what: string, found: AdapterTargets, exported: boolean): void => {
      const difference = structureDifference(LORA.trainee, expected, found, exported);
      if (difference !== null) throw new HardFail('architecture_replay', `${what}: ${difference}`);
    };
    require('the submission says otherwise than the replay', submitted.targets, false);
    require("the file's tensors are not what the log leads to", targets, true);
    return {
      found: {},
      detail: `${plural(Object.keys(expected).length, 'module')} of the ranks that the log leads to`,
    };
  },
};

export const liveDiagnosticSanity: Step<
  'options' | 'records' | 'deliverables' | 'nonce' | 'threads' | 'model' | 'sameMachine'
> = {
  name: 'live_diagnostic_sanity',
  gate: 'hard_fail_gate',
  faults: ['NUMERIC_FAILURE'],
  run: async ({ options, records, deliverables, nonce, threads, model, sameMachine }) => {
    const tolerance = sameMachine ? SAME_MACHINE_TOLERANCE : OTHER_MACHINE_TOLERANCE;
    const { adapter } = deliverables;
    const { name, relative } = await checkLiveDiagnostic(
      records,
      { modelPath: model.path, adapter, nonce, threads, ...given(options, 'signal') },
      tolerance,
    );
    return {
      found: {},
      detail:
        `largest deviation ${relative.toPrecision(2)} (${name}), tolerance ${tolerance} on ` +
        `${sameMachine ? 'a machine of the same class' : 'another class of machine'}`,
    };
  },
};

export const courseVerification: Step<
  'options' | 'reader' | 'records' | 'figures' | 'submitted' | 'model' | 'start' | 'opened'
> = {
  name: 'course_verification',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async ({ options, reader, records, figures, submitted, model, start, opened }) => {
    if (submitted.adapter === null)
      return {
        found: {},
        detail: 'the bare base is submitted: there is no course',
        status: 'skipped',
      };
    const { task } = opened;
    const { iterations, steps } = await checkCourse({
      ...{ reader, records, start, figures, submitted },
      ...(task === null ? {} : { checkPlan: await planCheck(start, task, model) }),
      ...given(options, 'signal'),
    });
    return {
      found: {},
      detail: `${plural(iterations, 'iteration')} and ${plural(steps, 'step')}, as settings and verdicts give them`,
    };
  },
};

export const rolloutResampling: Step<
  'options' | 'reader' | 'submitted' | 'nonce' | 'model' | 'start' | 'sameMachine' | 'opened'
> = {
  name: 'rollout_resampling',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE', 'PROBLEM_INVALID'],
  run: async ({ options, reader, submitted, nonce, model, start, sameMachine, opened }) => {
    const { task } = opened;
    if (task === null) return { found: {}, detail: opened.reason, status: 'skipped' };
    if (submitted.adapter === null)
      return { found: {}, detail: 'nothing was trained on', status: 'skipped' };
    const { asked, same } = await resampleRollouts({
      ...{ reader, start, task, model, nonce },
      exact: sameMachine && model.info.batchInvariant,
      ...given(options, 'signal'),
    });
    return {
      found: {},
      detail: `${same} of ${plural(asked, 'rollout')} of the first iteration, chosen by the nonce, are as logged, token by token`,
      status: same === asked ? 'pass' : 'findings',
    };
  },
};
