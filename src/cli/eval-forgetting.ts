import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { loadModel } from '../engine/model.js';
import { measureForgetting } from '../evaluation/forgetting.js';
import { forgettingSentences } from '../report/figures.js';
import { nameAdapter, requireServable } from '../report/named-adapter.js';
import { forgettingOf } from '../statistics/index.js';
import { noteOtherBase } from './adapter-notes.js';
import { loadingOf, runDefaults, type BackendFlags } from './answering.js';
import { interruption, print, printJson } from './output.js';
import { Progress } from './progress.js';
import { registryOf } from './registry-flags.js';

/**
 * `eval --forgetting`: what a model with an adapter lost of what it was not trained on, in place of
 * a task.
 */
export async function evalForgetting({
  model: name = EMBEDDED_MODEL,
  adapter: named,
  registry,
  threads,
  matmul,
  context,
  json,
}: Pick<BackendFlags, 'model' | 'adapter' | 'registry' | 'threads' | 'matmul' | 'context'> & {
  readonly json: boolean;
}): Promise<void> {
  const found =
    named === undefined ? undefined : await nameAdapter(named, registryOf({ registry }));
  const signal = interruption();
  const defaults = loadingOf(await runDefaults(name, signal));
  const given = {
    ...(threads === undefined ? {} : { threads }),
    ...(matmul === undefined ? {} : { matmul }),
    ...(context === undefined ? {} : { contextTokens: context }),
  };
  await using model = await loadModel(name, { ...defaults, ...given, signal, fixedThreads: true });
  if (found !== undefined) await requireServable(found, model);
  using adapter = found === undefined ? null : await model.loadAdapter(found.file);
  if (found !== undefined) await noteOtherBase(found, model);
  using progress = new Progress({ label: 'measuring', unit: 'texts' });
  const started = performance.now();
  const onProgress = ({ done, total }: { done: number; total: number }): void =>
    progress.update(done, { total });
  const { english, replies } = await measureForgetting(model, adapter, { signal, onProgress });
  progress.clear();
  const seconds = (performance.now() - started) / 1000;
  const forgetting = forgettingOf(english, replies);
  if (json) {
    const of = { path: name, sha256: await model.hash() };
    return printJson({
      model: of,
      adapter: adapter === null ? null : { path: adapter.path, sha256: adapter.id },
      forgetting,
      seconds,
    });
  }
  print(`${forgettingSentences(forgetting).join('\n')}\nintervals are over texts\n`);
}
