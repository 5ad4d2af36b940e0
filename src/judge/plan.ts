import type { ReplayBuffer } from '../algorithms/replay-buffer.js';
import type { Model } from '../engine/model.js';
import { wholeSets } from '../evaluation/evaluation-set.js';
import { Undrawn } from '../evaluation/exclusions.js';
import { allocate } from '../rollouts/allocation.js';
import { planRollouts } from '../rollouts/plan.js';
import type { RunStart } from '../run-folder/manifest.js';
import type { OpenTask } from '../tasks/task.js';
import { courseSettings } from './course-settings.js';
import { HardFail } from './hard-fail.js';

/** The rollouts of an iteration, as the log has them. */
export interface IterationRollouts {
  readonly iteration: number;
  /** Problems in the order of the log. */
  readonly problems: readonly { readonly problemId: string; readonly tier: string }[];
  /** Verdicts of the iterations before it. */
  readonly buffer: ReplayBuffer;
}

/**
 * Returns a check of the problems that an iteration had to draw: they follow from the seed, the
 * settings, the task and the earlier verdicts, by the functions that `run` uses.
 * @throws what the task throws
 */
export async function planCheck(
  start: RunStart,
  task: OpenTask,
  model: Model,
): Promise<(of: IterationRollouts) => Promise<void>> {
  const { seed, sampling } = courseSettings(start);
  const { style, maxTokens } = start.evaluation;
  const { rollouts, samples, allocation, allocationFloor } = sampling;
  const excluded = new Undrawn(await wholeSets(task), { model, task, style, maxTokens });
  const tiers = task.tiers.filter(({ trains }) => trains).map(({ id }) => id);
  return async ({ iteration, problems, buffer }) => {
    const counts = allocate({
      tiers,
      problems: Math.max(1, Math.round(rollouts / samples)),
      records: buffer.records(iteration),
      floor: allocation === 'uniform' ? 1 : allocationFloor,
    });
    const runSeed = BigInt(seed);
    const plan = await planRollouts({ task, runSeed, iteration, counts, samples: 1, excluded });
    const at = plan.findIndex(
      ({ problem }, i) =>
        problem.id !== problems[i]?.problemId || problem.tier !== problems[i]?.tier,
    );
    if (at >= 0 || plan.length !== problems.length)
      throw new HardFail(
        'course_verification',
        `iteration ${iteration} has ${problems.length} problems, but the run's seed, its settings and the earlier verdicts give ` +
          `${at < 0 ? plan.length : `${plan.length}, and number ${at + 1} differs`}`,
      );
  };
}
