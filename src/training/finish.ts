/** The end of a run: the adapter that is submitted, its test accuracy, the signed end of the log. */
import { rename } from 'node:fs/promises';
import path from 'node:path';
import { summarise, type Summary } from '../statistics/index.js';
import { evaluateSet } from './evaluations.js';
import type { Learner } from './learner.js';
import { peakRssBytes, report, type RunContext, type RunState } from './run-state.js';

export const adaptersFolder = (folder: string): string => path.join(folder, 'adapters');

/** Accuracy of the task's trivial policies on the test problems. */
export async function policySummaries({ task, test, settings }: Pick<RunContext, 'task' | 'test' | 'settings'>): Promise<Record<string, Summary>> {
  const summaries: Record<string, Summary> = {};
  for (const policy of task.policies) {
    const outcomes = [];
    for (const problem of test) outcomes.push({ tier: problem.tier, kind: (await task.applyPolicy(policy, problem)).kind });
    summaries[policy] = summarise(outcomes, task.tiers, { seed: BigInt(settings.seed) });
  }
  return summaries;
}

/**
 * Exports the adapter and evaluates it on the test problems. With the gate, or after a stop that promised so, it is the one with the highest dev
 * accuracy, else the last. All of this stands in the log before the nonce is told.
 */
export async function submit(context: RunContext, state: RunState, learner: Learner): Promise<void> {
  const { settings, log, folder } = context;
  const { best } = state;
  if ((settings.gate || state.restoreBest) && best.snapshot !== null && best.adapterId !== state.adapterId) {
    await learner.restore(best.snapshot, state);
    state.adapterId = await learner.apply();
    state.adapterIteration = best.iteration;
  }
  const partial = path.join(adaptersFolder(folder), '.partial.gguf');
  const sha256 = await learner.trainer.exportAdapter(partial);
  const file = path.join(adaptersFolder(folder), `${sha256}.gguf`);
  await rename(partial, file);
  const after = await evaluateSet(context, 'test', { when: 'after', iteration: state.adapterIteration, adapterId: sha256 });
  state.spent.promptTokens += after.promptTokens;
  state.spent.sampledTokens += after.sampledTokens;
  log.append([{ stream: 'evaluations', payload: { kind: 'submission', adapterId: sha256, file: path.relative(folder, file), iteration: state.adapterIteration } }]);
  state.spent.peakRssBytes = Math.max(state.spent.peakRssBytes, peakRssBytes());
}

/** Learns the nonce and ends the session. What a run cost is told here, since only the end knows it. */
export async function close(context: RunContext, state: RunState): Promise<void> {
  report(context, { stage: 'close', iteration: state.adapterIteration });
  if (!context.log.ended) await context.log.reveal();
  const { seconds, peakRssBytes: peak, promptTokens, sampledTokens, trainedTokens } = state.spent;
  await context.log.finish({
    stopped: state.stop ?? 'all iterations done', seconds, peakRssBytes: peak,
    tokens: { prompt: promptTokens, sampled: sampledTokens, trained: trainedTokens },
    layers: [...(state.layers ?? [])],
  });
}
