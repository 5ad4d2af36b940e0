import { measureForgetting } from '../evaluation/forgetting.js';
import { forgettingOf, type Forgetting } from '../statistics/index.js';
import { findModel, loadingOf, loadNamed, runDefaults } from './reply-source.js';
import type { EvaluateRequest } from './evaluate-settings.js';
import type { TaskEvaluation } from './evaluate-task.js';
import type { Context } from './operation.js';

export interface ForgettingEvaluation
  extends Pick<TaskEvaluation, 'model' | 'adapter' | 'seconds'> {
  readonly forgetting: Forgetting;
}

/** Measures what a model with an adapter forgot, instead of evaluating a task. */
export async function evaluateForgetting(
  asked: EvaluateRequest,
  context: Context,
): Promise<ForgettingEvaluation> {
  const { signal, tell } = context;
  const named = await findModel(asked);
  const loading = loadingOf(await runDefaults(named.name, context), asked);
  const loaded = await loadNamed(named, loading, context);
  await using model = loaded.model;
  using adapter = loaded.adapter;
  const started = performance.now();
  const { english, replies } = await measureForgetting(model, adapter, {
    signal,
    onProgress: ({ done, total }) =>
      tell({ type: 'progress', data: { stage: 'measuring', done, total, unit: 'texts' } }),
  });
  return {
    model: { path: named.name, sha256: await model.hash() },
    adapter: adapter === null ? null : { path: adapter.path, sha256: adapter.id },
    forgetting: forgettingOf(english, replies),
    seconds: (performance.now() - started) / 1000,
  };
}
