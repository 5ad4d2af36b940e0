import { availableParallelism, totalmem } from 'node:os';
import { canonicalJson, type Json } from '../canonical-json.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { loadModel, type Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { LogRecord } from '../log/read.js';
import { codeVersion, machineClass } from '../run-folder/machine.js';
import type { RunStart } from '../run-folder/manifest.js';
import { checkAdapter, checkStart, checkSubmission, findDeliverables } from './deliverables.js';
import { given } from './options.js';
import type { Step } from './step.js';
import { plural } from './trace.js';

/** The judge's steps on what was submitted, and on the model and the machine that it is from. */

export const deliverablesExist: Step<'options', 'deliverables'> = {
  name: 'deliverables_exist',
  gate: 'hard_fail_gate',
  faults: ['RUN_MANIFEST_INVALID', 'RUN_NOT_FOUND'],
  run: ({ options }) => {
    const deliverables = findDeliverables(options.folder);
    const { adapter } = deliverables;
    return {
      found: { deliverables },
      detail:
        adapter === null
          ? 'the manifest; the bare base is submitted'
          : `the manifest and adapter ${adapter.sha256.slice(0, 12)}`,
    };
  },
};

export const deliverablesAsSubmitted: Step<
  'options' | 'reader' | 'records' | 'deliverables',
  'submitted' | 'nonce'
> = {
  name: 'deliverables_as_submitted',
  gate: 'hard_fail_gate',
  faults: ['LOG_UNREADABLE'],
  run: async ({ options, reader, records, deliverables }) => ({
    found: await checkSubmission(reader, records, deliverables, options.signal),
    detail: 'submitted before the nonce was told, and unchanged',
  }),
};

export const adapterLoads: Step<
  'options' | 'closers' | 'records' | 'deliverables',
  'threads' | 'model' | 'targets' | 'loaded'
> = {
  name: 'adapter_loads',
  gate: 'hard_fail_gate',
  run: async ({ options, closers, records, deliverables: { manifest, adapter } }) => {
    const { evaluation } = manifest.start;
    // what a folder asks for ends at what this machine has
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
    const { targets, loaded } = await checkAdapter(model, adapter, threads);
    return {
      found: { threads, model, targets, loaded },
      detail:
        adapter === null
          ? 'nothing to load'
          : `${plural(Object.keys(targets).length, 'module')}, all values finite`,
    };
  },
};

export const runConfigConsistency: Step<
  'records' | 'deliverables' | 'threads',
  'start' | 'sameMachine'
> = {
  name: 'run_config_consistency',
  gate: 'hard_fail_gate',
  run: async ({ records, deliverables, threads }) => {
    const code = await codeVersion();
    const start = checkStart(records, deliverables.manifest);
    const sameMachine =
      threads === start.evaluation.threads &&
      canonicalJson({ machine: machineClass(), addon: code.addon } as unknown as Json) ===
        canonicalJson({ machine: start.machine, addon: start.code.addon } as unknown as Json);
    const other = (['version', 'javascript', 'addon'] as const)
      .filter((part) => start.code[part] !== code[part])
      .map((part) => `${part} ${start.code[part].slice(0, 12)} (${code[part].slice(0, 12)})`);
    const differences =
      other.length === 0 ? '' : `; the run's code is not this judge's: ${other.join(', ')}`;
    return {
      found: { start, sameMachine },
      detail: `manifest and session start agree${differences}`,
      status: other.length === 0 ? 'pass' : 'findings',
    };
  },
};

/** @throws IsoproError INVALID_ARGUMENT where another model was named than the run was on */
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
      ? `the run's base model is ${start.model.name}, by its manifest, and none was named`
      : `${named} is not the run's base model: it has SHA-256 ${actual.slice(0, 12)}…, and that has ` +
          `${committed === undefined ? 'none' : `${committed.slice(0, 12)}…`}`,
    {
      remedy: `Name the model that the run was on with --model; its manifest calls it ${start.model.name}.`,
    },
  );
}

/** @throws IsoproError OUT_OF_MEMORY */
function requireMemory(model: Model, contextTokens: number): void {
  const cacheBytes = contextTokens * model.info.kvBytesPerToken;
  if (cacheBytes > totalmem())
    throw new IsoproError(
      'OUT_OF_MEMORY',
      `the run's context of ${contextTokens} tokens takes ${(cacheBytes / 1e9).toFixed(0)} GB, but this machine has ` +
        `${(totalmem() / 1e9).toFixed(0)}`,
      { remedy: 'Judge it on a machine with more memory.' },
    );
}
