import { lstatSync } from 'node:fs';
import { canonicalJson, type Json } from '../canonical-json.js';
import { hashFile, type Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import { createTrainer } from '../engine/trainer.js';
import { probeBatch } from '../evaluation/probe.js';
import { inTurns, type LogReader, type LogRecord } from '../log/read.js';
import {
  readManifest,
  startDigests,
  type RunManifest,
  type RunStart,
} from '../run-folder/manifest.js';
import { runPaths } from '../run-folder/paths.js';
import {
  adapterTargets,
  submission,
  type AdapterTargets,
  type Submission,
} from '../run-folder/course-records.js';
import { readRecord } from '../run-folder/record.js';
import { HardFail, onFiles } from './hard-fail.js';

/**
 * What was submitted is there, is what was submitted, loads, and belongs to the run
 * in the log. Everything of the run is data.
 */

const isFile = (path: string): boolean =>
  lstatSync(path, { throwIfNoEntry: false })?.isFile() === true;

export interface Deliverables {
  readonly manifest: RunManifest;
  /** Null where the bare base was submitted. */
  readonly adapter: { readonly path: string; readonly sha256: string } | null;
}

/** @throws HardFail, IsoproError RUN_MANIFEST_INVALID, RUN_NOT_FOUND */
export function findDeliverables(folder: string): Deliverables {
  const paths = runPaths(folder);
  const fail = (what: string): never => {
    throw new HardFail('deliverables_exist', what);
  };
  if (!isFile(paths.manifest)) return fail('manifest.json is missing or no plain file');
  const manifest = readManifest(folder);
  if (manifest.result === null) return fail('the manifest names no result');
  const { adapter: sha256 } = manifest.result;
  if (sha256 === null) return { manifest, adapter: null };
  const path = paths.adapter(sha256);
  if (!isFile(path)) return fail(`adapters/${sha256}.gguf is missing or no plain file`);
  return { manifest, adapter: { path, sha256 } };
}

/** The live submission record. @throws HardFail */
function readSubmission(records: readonly LogRecord[]): Submission & { readonly gseq: number } {
  const fail = (what: string): never => {
    throw new HardFail('deliverables_as_submitted', what);
  };
  const found = records.filter(
    ({ stream, payload }) => stream === 'metrics' && payload.kind === 'submission',
  );
  const [record] = found;
  if (record === undefined || found.length > 1)
    return fail(`the log holds ${found.length} submission records, not one`);
  return { ...readRecord(submission, record, fail), gseq: record.gseq };
}

/**
 * The file has the digest that the manifest and the log name, and the log named it before
 * the witness told the nonce.
 * @returns what was submitted, and the nonce as the final head has it
 * @throws HardFail
 */
export async function checkSubmission(
  reader: LogReader,
  records: readonly LogRecord[],
  { manifest, adapter }: Deliverables,
  signal?: AbortSignal,
): Promise<{ readonly submitted: Submission; readonly nonce: string }> {
  const fail = (what: string): never => {
    throw new HardFail('deliverables_as_submitted', what);
  };
  const submitted = readSubmission(records);
  if (submitted.adapter !== manifest.result?.adapter)
    return fail(
      `the log submits ${submitted.adapter ?? 'the bare base'} and the manifest names ${manifest.result?.adapter ?? 'the bare base'}`,
    );
  if (adapter !== null) {
    const actual = await hashFile(adapter.path);
    if (actual !== adapter.sha256)
      return fail(`the adapter file has SHA-256 ${actual}, not the one that was submitted`);
  }
  const revealed = reader.checkpoints().find(({ final }) => final)?.revealed ?? null;
  if (revealed === null)
    return fail(
      'the nonce was never asked for, so nothing shows that the adapter was fixed before the probe was known',
    );
  // also what a resume abandoned: who has seen the nonce may not submit anew
  let before: LogRecord | undefined;
  for await (const record of inTurns(
    reader.records({ stream: 'metrics', abandoned: true }),
    signal,
  ))
    if (record.gseq < revealed.size && record.payload.kind === 'submission') before = record;
  if (before === undefined || before.payload.adapter !== submitted.adapter)
    return fail('the adapter was submitted after the nonce had been told');
  return { submitted, nonce: revealed.nonce };
}

/**
 * The adapter fits the base model, all of it is finite, llama.cpp loads it and gives finite
 * logits.
 * @returns modules and ranks as the file's tensors have them
 * @throws HardFail
 */
export function checkAdapter(
  model: Model,
  adapter: { readonly path: string } | null,
  threads: number,
): Promise<{ readonly targets: AdapterTargets; readonly loaded: Adapter | null }> {
  return onFiles(
    'adapter_loads',
    ['ADAPTER_CORRUPT', 'ADAPTER_MISMATCH', 'NUMERIC_FAILURE'],
    async () => {
      if (adapter === null) return { targets: {}, loaded: null };
      await using trainer = await createTrainer(model, {
        threads,
        lora: { targets: ['q'], layers: { top: 1 }, rank: 1 },
      });
      await trainer.importAdapter(adapter.path);
      const loaded = await model.loadAdapter(adapter.path);
      const tokens = [
        ...probeBatch('0'.repeat(64), model.info.vocabularySize).sequences[0]!.tokenIds,
      ];
      await model.setAdapter(loaded);
      const [logprobs] = await model.score(tokens.slice(0, 4), [tokens.slice(4, 12)]);
      if (logprobs?.every(Number.isFinite) !== true)
        throw new HardFail('adapter_loads', 'the adapter gives logits that are not finite');
      await model.setAdapter(null);
      return { targets: adapterTargets(trainer.info.targets), loaded };
    },
  );
}

/** Manifest and log speak of one run with one configuration. @throws HardFail */
export function checkStart(records: readonly LogRecord[], manifest: RunManifest): RunStart {
  const fail = (what: string): never => {
    throw new HardFail('run_config_consistency', what);
  };
  const { runId, runConfig, digests } = records[0]!.payload;
  if (runId !== manifest.runId)
    fail(`the log is of run ${String(runId)} and the manifest of run ${manifest.runId}`);
  if (canonicalJson(runConfig as Json) !== canonicalJson(manifest.start as Json))
    fail('the configuration in the manifest is not the one with which the session started');
  if (canonicalJson(digests as Json) !== canonicalJson(startDigests(manifest.start) as Json))
    fail('the digests of the session start are not those of its configuration');
  return manifest.start;
}
