import { lstatSync } from 'node:fs';
import { availableParallelism, totalmem } from 'node:os';
import { canonicalJson, type Json } from '../canonical-json.js';
import { hashFile, type Adapter } from '../engine/adapter.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { loadModel, type Model } from '../engine/model.js';
import { createTrainer } from '../engine/trainer.js';
import { IsoproError } from '../errors.js';
import { probeBatch } from '../evaluation/probe.js';
import { given } from '../given.js';
import { inTurns, type LogRecord } from '../log/read.js';
import { adapterTargets, submission, type AdapterTargets } from '../run-folder/course-records.js';
import {
  codeVersion,
  isSameMachine,
  machineClass,
  machineText,
  otherModels,
} from '../run-folder/machine.js';
import { readManifest, startDigests, type RunStart } from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import { readWrittenSettings } from '../run-folder/written-settings.js';
import { failing, onlyMetric } from './hard-fail.js';
import type { Step } from './step.js';
import { lines, plural } from './trace.js';

/**
 * Checks that the deliverables exist, match the submission, load, and belong to the run in the log.
 * Everything that comes from the run is treated as data.
 */

const isFile = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;

export const deliverablesExist: Step<'options', 'deliverables'> = {
  name: 'deliverables_exist',
  gate: 'hard_fail_gate',
  faults: ['RUN_MANIFEST_INVALID', 'RUN_NOT_FOUND'],
  run: ({ options: { folder } }) => {
    const paths = runPaths(folder);
    const fail = failing('deliverables_exist');
    if (!isFile(paths.manifest)) return fail('manifest.json is missing or is not a regular file');
    const manifest = readManifest(folder);
    if (manifest.result === null) return fail('the manifest has no result');
    const { adapter: sha256 } = manifest.result;
    if (sha256 === null)
      return {
        found: { deliverables: { manifest, adapter: null } },
        detail: 'the manifest; the base model is submitted without an adapter',
      };
    const path = paths.adapter(sha256);
    if (!isFile(path)) return fail(`adapters/${sha256}.gguf is missing or is not a regular file`);
    return {
      found: { deliverables: { manifest, adapter: { path, sha256 } } },
      detail: `the manifest and adapter ${sha256.slice(0, 12)}`,
    };
  },
};

/**
 * Checks that the file has the digest in manifest and log, and that the log named it before the
 * witness revealed the nonce.
 */
export const deliverablesAsSubmitted: Step<
  'options' | 'reader' | 'records' | 'deliverables',
  'submitted' | 'nonce'
> = {
  name: 'deliverables_as_submitted',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async ({ options, reader, records, deliverables: { manifest, adapter } }) => {
    const fail = failing('deliverables_as_submitted');
    const submitted = onlyMetric(records, submission, fail);
    if (submitted.adapter !== manifest.result?.adapter)
      return fail(
        `the log submits ${submitted.adapter ?? 'the bare base'}, but the manifest names ${manifest.result?.adapter ?? 'the bare base'}`,
      );
    if (adapter !== null) {
      const actual = await hashFile(adapter.path);
      if (actual !== adapter.sha256)
        return fail(`the adapter file has SHA-256 ${actual}, not the submitted one`);
    }
    const revealed = reader.checkpoints().find(({ final }) => final)?.revealed ?? null;
    if (revealed === null)
      return fail(
        'the nonce was never requested, so nothing shows that the adapter was fixed before the probe was known',
      );
    // abandoned records count too: a run that has seen the nonce must not submit again
    let before: LogRecord | undefined;
    const metrics = reader.records({ stream: 'metrics', abandoned: true });
    for await (const record of inTurns(metrics, options.signal))
      if (record.gseq < revealed.size && record.payload.kind === 'submission') before = record;
    if (before === undefined || before.payload.adapter !== submitted.adapter)
      return fail('the adapter was submitted after the nonce was revealed');
    return {
      found: { submitted, nonce: revealed.nonce },
      detail: 'submitted before the nonce was revealed, and unchanged since',
    };
  },
};

export const adapterLoads: Step<
  'options' | 'closers' | 'records' | 'deliverables',
  'threads' | 'model' | 'targets' | 'loaded'
> = {
  name: 'adapter_loads',
  gate: 'hard_fail_gate',
  faults: ['ADAPTER_CORRUPT', 'ADAPTER_MISMATCH', 'NUMERIC_FAILURE'],
  run: async ({ options, closers, records, deliverables: { manifest, adapter } }) => {
    const { evaluation } = manifest.start;
    // a folder cannot ask for more than this machine has
    const threads = Math.min(evaluation.threads, availableParallelism());
    const model = await loadModel(options.model ?? EMBEDDED_MODEL, {
      threads,
      matmul: evaluation.matmul ?? 'ggml',
      fixedThreads: true,
      contextTokens: evaluation.contextTokens,
      ...given(options, 'signal'),
    });
    closers.add(() => model.dispose());
    await requireBase(model, options.model, records, manifest.start);
    requireMemory(model, evaluation.contextTokens);
    if (adapter === null)
      return { found: { threads, model, targets: {}, loaded: null }, detail: 'nothing to load' };
    const { layers } = readWrittenSettings(manifest.start.settings);
    const invocationTokens =
      layers.adapterFrom === 'reply' ? model.generationPrompt() : new Int32Array();
    const { targets, loaded } = await loadFinite(model, adapter.path, threads, invocationTokens);
    return {
      found: { threads, model, targets, loaded },
      detail: `${plural(Object.keys(targets).length, 'module')}, all values finite`,
    };
  },
};

/**
 * Requires the run's base model.
 * @throws IsoproError INVALID_ARGUMENT if another model was named
 */
async function requireBase(
  model: Model,
  named: string | undefined,
  records: readonly LogRecord[],
  start: RunStart,
): Promise<void> {
  const committed = (records[0]!.payload.digests as { model?: string }).model;
  const actual = await model.hash();
  if (actual === committed) return;
  throw new IsoproError(
    'INVALID_ARGUMENT',
    named === undefined
      ? `the run's base model is ${start.model.name}, by its manifest, and you did not name a model`
      : `${named} is not the run's base model: it has SHA-256 ${actual.slice(0, 12)}…, and that has ` +
          `${committed === undefined ? 'none' : `${committed.slice(0, 12)}…`}`,
    {
      remedy: `Name the run's base model with --model; the manifest calls it ${start.model.name}.`,
    },
  );
}

/** @throws IsoproError OUT_OF_MEMORY */
function requireMemory(model: Model, contextTokens: number): void {
  const cacheBytes = contextTokens * model.info.kvBytesPerToken + model.info.stateBytes;
  if (cacheBytes > totalmem())
    throw new IsoproError(
      'OUT_OF_MEMORY',
      `the run's context of ${contextTokens} tokens takes ${(cacheBytes / 1e9).toFixed(0)} GB, but this machine has ` +
        `${(totalmem() / 1e9).toFixed(0)}`,
      { remedy: 'Judge it on a machine with more memory.' },
    );
}

/**
 * The adapter fits the base model, all of it is finite, llama.cpp loads it and gives finite logits.
 * @returns modules and ranks as the file's tensors have them
 * @throws HardFail, IsoproError ADAPTER_CORRUPT, ADAPTER_MISMATCH, NUMERIC_FAILURE
 */
async function loadFinite(
  model: Model,
  path: string,
  threads: number,
  invocationTokens: Int32Array,
): Promise<{ readonly targets: AdapterTargets; readonly loaded: Adapter }> {
  await using trainer = await createTrainer(model, {
    threads,
    lora: { targets: ['q'], layers: { top: 1 }, rank: 1 },
    invocationTokens,
  });
  await trainer.importAdapter(path);
  const loaded = await model.loadAdapter(path);
  const tokens = [...probeBatch('0'.repeat(64), model.info.vocabularySize).sequences[0]!.tokenIds];
  await model.setAdapter(loaded);
  const prefix = [...tokens.slice(0, 4), ...invocationTokens];
  const [logprobs] = await model.score(prefix, [tokens.slice(4, 12)]);
  if (logprobs?.every(Number.isFinite) !== true)
    return failing('adapter_loads')('the adapter produces non-finite logits');
  await model.setAdapter(null);
  return { targets: adapterTargets(trainer.info.targets), loaded };
}

/** Checks that manifest and log describe one run with one configuration. */
export const runConfigConsistency: Step<
  'records' | 'deliverables' | 'threads' | 'model',
  'start' | 'sameMachine'
> = {
  name: 'run_config_consistency',
  gate: 'hard_fail_gate',
  run: async ({ records, deliverables: { manifest }, threads, model }) => {
    const fail = failing('run_config_consistency');
    const code = await codeVersion();
    const { start } = manifest;
    const { runId, runConfig, digests } = records[0]!.payload;
    if (runId !== manifest.runId)
      fail(`the log belongs to run ${String(runId)} and the manifest to run ${manifest.runId}`);
    if (!isSame(runConfig, start))
      fail('the configuration in the manifest differs from the one that the session started with');
    if (!isSame(digests, startDigests(start)))
      fail('the digests in the session start do not match its configuration');
    const here = { code, machine: machineClass([model.info, ...otherModels(start.settings)]) };
    const sameMachine = threads === start.evaluation.threads && isSameMachine(start, here);
    const other = (['version', 'javascript', 'addon'] as const)
      .filter((part) => start.code[part] !== code[part])
      .map((part) => `${part} ${start.code[part].slice(0, 12)} (${code[part].slice(0, 12)})`);
    const [theirs, ours] = [machineText(start), machineText({ ...start, ...here })];
    const differences = [
      ...lines(
        other.length > 0 && `the run's code differs from this judge's: ${other.join(', ')}`,
        theirs !== ours && `the run sampled with ${theirs}, and this judge samples with ${ours}`,
      ),
    ];
    return {
      found: { start, sameMachine },
      detail: ['manifest and session start agree', ...differences].join('; '),
      status: other.length === 0 ? 'pass' : 'findings',
    };
  },
};

const isSame = (a: unknown, b: unknown): boolean =>
  canonicalJson(a as Json) === canonicalJson(b as Json);
