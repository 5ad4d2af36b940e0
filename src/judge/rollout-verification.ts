import type { Model } from '../engine/model.js';
import { rendererChange } from '../engine/renderer-change.js';
import { given } from '../given.js';
import type { RunStart } from '../run-folder/manifest.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { isModelCheck, openRunTask, type OpenedTask } from './held-out.js';
import type { JudgeOptions } from './options.js';
import { ReplyReader } from './replies.js';
import { checkIds, verifyRollouts } from './rollouts.js';
import type { Step } from './step.js';
import { lines, plural } from './trace.js';

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
        ? `; ${plural(unverified, 'model verdict')} not verified`
        : '';
      const doubts = [`rollouts and test problems were not judged again: ${reason}`];
      return {
        found: { opened, rollouts: { failures: null, unverified, doubts } },
        detail:
          `by their ids, no evaluation problem was sampled, and texts match their tokens; nothing else was checked: ` +
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
      lines(
        unverified > 0 &&
          `${plural(unverified, 'verdict')}${of} not verified: the verifier ran out of time`,
      );
    const notes = [
      ...lines(undecided > 0 && `${plural(undecided, 'verdict')} missing in the run`),
      ...late(''),
    ];
    const doubts = late(' of rollouts, dev replies or policies');
    return {
      found: { opened, rollouts: { failures, unverified, doubts } },
      detail: [
        `${plural(rollouts, 'rollout')} judged again; no evaluation problem is among them`,
        ...notes,
      ].join('; '),
      status: notes.length === 0 ? 'pass' : 'findings',
    };
  },
};

/**
 * Opens the task of the run if the prompts are rendered as in the run; otherwise nothing can be
 * concluded from it.
 */
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
        reason: `${rerendered}; judge the run with the version of isopro-native that made it`,
      };
}
