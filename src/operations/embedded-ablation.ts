/**
 * Measurements of the embedded model: the heuristics that its replies name before and after, and
 * the value of forcing the best one.
 */
import path from 'node:path';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { evaluationSet } from '../evaluation/evaluation-set.js';
import { given } from '../given.js';
import { runPaths } from '../run-folder/paths.js';
import { openTask } from '../tasks/open-task.js';
import type { Ablation } from './ablation.js';
import {
  forcedPrefix,
  heuristicShares,
  type ForcedPrefix,
  type HeuristicReport,
} from '../embedded/heuristic-replies.js';
import { openModel } from '../training/open-run.js';
import { resolveSettings, type RunSettingsInput } from '../training/settings.js';

export interface EmbeddedAblation {
  readonly forcedPrefix: ForcedPrefix;
  readonly before: HeuristicReport;
  readonly after: readonly ({ readonly seed: string } & HeuristicReport)[];
}

/**
 * Returns null for other models than the embedded one, and for other tasks than its own.
 * @param out the ablation's folder
 */
export async function ablateEmbedded(
  input: RunSettingsInput,
  out: string,
  { conditions }: Ablation,
  signal?: AbortSignal,
): Promise<EmbeddedAblation | null> {
  const settings = resolveSettings(input);
  if (settings.model.name !== EMBEDDED_MODEL || settings.task !== 'scheduling') return null;
  await using task = await openTask(settings.task);
  await using model = await openModel(settings, signal);
  const { problems: dev } = await evaluationSet(task, 'dev', settings.evaluation.devSize);
  const { problems: test } = await evaluationSet(task, 'test', settings.evaluation.testSize);
  const asking = { model, task, settings, adapter: null, ...given({ signal }) };
  const after: EmbeddedAblation['after'][number][] = [];
  for (const { seed, folder, adapter } of conditions.find(({ condition }) => condition === 'full')!
    .runs) {
    after.push({
      seed,
      ...(await heuristicShares(
        { ...asking, adapter: runPaths(path.join(out, folder)).adapter(adapter) },
        test,
      )),
    });
  }
  return {
    forcedPrefix: await forcedPrefix(asking, dev, test),
    before: await heuristicShares(asking, test),
    after,
  };
}
