/**
 * The end of a run: the adapter that is submitted, its test accuracy, the signed end of the log.
 */
import { hash } from 'node:crypto';
import { rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { asJson, canonicalJson, type Json } from '../canonical-json.js';
import { durable } from '../durable.js';
import type { Adapter } from '../engine/adapter.js';
import { weakenAdapter } from '../engine/adapter-files.js';
import { FORGETTING_TEXTS, measureForgetting } from '../evaluation/forgetting.js';
import { measureProbe } from '../evaluation/probe.js';
import { restrain, type Restraint } from '../evaluation/restraint.js';
import { given } from '../given.js';
import { isoproHome } from '../log/home.js';
import { MANIFEST_FORMAT, writeManifest, type RunStart } from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import {
  adapterTargets,
  gateRecord,
  probeRecord,
  sessionEndMembers,
  submissionRecord,
  weakened,
} from '../run-folder/course-records.js';
import { forgettingRecord } from '../run-folder/evaluation-records.js';
import type { NewRunRecord } from '../run-folder/streams.js';
import { forgettingOf } from '../statistics/index.js';
import { evaluateTest } from './evaluations.js';
import type { Learner } from './learner.js';
import {
  report,
  type Answering,
  type EvaluationSets,
  type InForce,
  type Present,
  type Recording,
  type Reporting,
  type RunState,
} from './run-state.js';

/**
 * Exports the adapter and evaluates it on the test problems. After a stop it is the restored
 * adapter; with the gate the one with the highest dev accuracy, otherwise the last; at reduced
 * strength if it forgets too much. All of this is logged before the nonce is revealed.
 */
export async function submit(
  context: Reporting & Answering & Recording & EvaluationSets,
  state: InForce & Present & Pick<RunState, 'best' | 'settled' | 'spent'>,
  learner: Learner,
): Promise<void> {
  const { settings, log, folder } = context;
  const { best } = state;
  if (
    settings.evaluation.gate &&
    !state.settled &&
    best.snapshot !== null &&
    best.adapterId !== state.adapterId
  ) {
    await learner.restore(best.snapshot, state);
    state.adapterId = await learner.apply();
    state.adapterIteration = best.iteration;
    log.append([
      gateRecord({
        iteration: best.iteration,
        cause: 'the adapter with the highest dev accuracy is submitted',
        restored: best.adapterId!,
      }),
    ]);
  }
  const paths = runPaths(folder);
  const partial = path.join(paths.adapters, '.partial.gguf');
  const trained = await learner.trainer.exportAdapter(partial);
  const restraint = await restraintOf(context, learner, { file: partial, sha256: trained });
  const { strength = 1 } = restraint ?? {};
  const sha256 =
    strength === 1
      ? trained
      : await weakenAdapter(partial, { model: context.model.path, strength, out: partial });
  await rename(partial, paths.adapter(sha256));
  durable('run.adapter');
  const targets = weakened(adapterTargets(learner.trainer.info.targets), strength);
  log.append([
    submissionRecord({ adapter: sha256, targets, ...(restraint === null ? {} : { restraint }) }),
  ]);
  await learner.use(paths.adapter(sha256));
  const after = await evaluateTest(context, {
    when: 'after',
    iteration: state.adapterIteration,
    adapter: sha256,
  });
  const { forgetting: prompts = 0 } = settings.evaluation;
  if (prompts > 0)
    log.append([await forgettingOfAdapter(context, sha256, learner.adapter!, prompts)]);
  if (strength < 1)
    await rm(keptFiles(context.start, prompts, trained).adapter, { force: true }).catch(
      () => undefined,
    );
  state.adapterId = sha256;
  state.spent.promptTokens += after.promptTokens;
  state.spent.sampledTokens += after.sampledTokens;
}

/**
 * Named by all that their figures follow from: another run of the same finds the base's, and this
 * one both after an interruption.
 */
function keptFiles(
  { code, machine, model, evaluation }: RunStart,
  prompts: number,
  adapter: string,
): { base: string; adapter: string } {
  const base = {
    code,
    machine,
    model: model.sha256,
    evaluation: asJson(evaluation),
    prompts,
    texts: { ...FORGETTING_TEXTS },
  };
  const file = (of: Json): string =>
    path.join(isoproHome(), 'forgetting', `${hash('sha256', canonicalJson(of))}.json`);
  return { base: file(base), adapter: file({ ...base, adapter }) };
}

/** Context for measuring forgetting. */
type Measuring = Reporting & Pick<Answering, 'model'> & Pick<Recording, 'start'>;

/**
 * Strength of the trained adapter under the forgetting limit; null without a limit, or if
 * forgetting is not measured.
 */
async function restraintOf(
  context: Measuring,
  learner: Learner,
  trained: { readonly file: string; readonly sha256: string },
): Promise<Restraint | null> {
  const { forgetting: prompts = 0, maxForgetting: limit } = context.settings.evaluation;
  if (prompts === 0 || limit === undefined) return null;
  await learner.use(trained.file);
  const kept = keptFiles(context.start, prompts, trained.sha256);
  let [passed, texts] = [0, 0];
  return restrain(limit, async (strength) => {
    const { english } = await measureForgetting(context.model, learner.adapter, {
      prompts,
      strength,
      englishOnly: true,
      kept,
      ...given(context, 'signal'),
      onNotice: (text) => context.hooks.onNotice?.(text),
      onProgress: ({ done, total }) => {
        texts = total;
        report(context, { stage: 'restraint', done: passed + done, total: passed + total });
      },
    });
    passed += texts;
    return forgettingOf(english, []).lost.mean;
  });
}

async function forgettingOfAdapter(
  context: Measuring,
  sha256: string,
  adapter: Adapter,
  prompts: number,
): Promise<NewRunRecord> {
  const { english, replies } = await measureForgetting(context.model, adapter, {
    prompts,
    kept: keptFiles(context.start, prompts, sha256),
    ...given(context, 'signal'),
    onNotice: (text) => context.hooks.onNotice?.(text),
    onProgress: ({ done, total }) => report(context, { stage: 'forgetting', done, total }),
  });
  return forgettingRecord({
    adapter: sha256,
    texts: FORGETTING_TEXTS,
    english: [...english],
    replies: replies.map((reply) => ({ ...reply, tokenIds: [...reply.tokenIds] })),
  });
}

/**
 * Reveals the nonce, measures the gradients on the batch that it selects, and ends the session with
 * the costs of the run.
 */
export async function close(
  context: Reporting & Recording & Pick<Answering, 'model'>,
  state: Present & Pick<RunState, 'stop' | 'spent' | 'layers'>,
): Promise<void> {
  const { log, model, folder, runId, start, settings } = context;
  report(context, { stage: 'close', iteration: state.adapterIteration });
  const sha256 = state.adapterId!;
  const nonce = await log.reveal();
  await model.releaseContext();
  const adapter = { path: runPaths(folder).adapter(sha256), sha256 };
  const measured = await measureProbe({
    modelPath: model.path,
    adapter,
    nonce,
    threads: settings.model.threads,
    ...given(context, 'signal'),
  });
  log.append([probeRecord(measured)]);
  await writeManifest(folder, {
    format: MANIFEST_FORMAT,
    runId,
    start,
    result: { adapter: sha256 },
  });
  const { seconds, peakRssBytes: peak, promptTokens, sampledTokens, trainedTokens } = state.spent;
  const end = sessionEndMembers({
    stopped: state.stop ?? 'all iterations done',
    seconds,
    peakRssBytes: peak,
    tokens: { prompt: promptTokens, sampled: sampledTokens, trained: trainedTokens },
    layers: [...(state.layers ?? [])],
    adapterIteration: state.adapterIteration,
  });
  await log.finish(end);
  // the adapter's half stands in the log now; the base's serves other runs
  const { forgetting: prompts = 0 } = settings.evaluation;
  if (prompts > 0)
    await rm(keptFiles(start, prompts, sha256).adapter, { force: true }).catch(() => undefined);
}
