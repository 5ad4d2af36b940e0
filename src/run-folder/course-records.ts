/**
 * Records of a run's course: which layers are trained, the adapter's states, gates, checkpoints,
 * the submission and the end. Their order in the log is the order in which things happened;
 * docs/run-folder.md says what must come before what.
 */
import { z } from 'zod';
import { dictionary } from '../dictionary.js';
import { dictionaryOf } from '../dictionary-schema.js';
import { LORA_MODULE } from '../trainees/lora/structure.js';
import { iteration, number, recordOf, sha256 } from './record.js';

/** Returns the schema of a trainee's structure by module. */
export const structureOf = <S extends z.ZodType>(module: S) =>
  dictionaryOf(module).refine(
    (of) => Object.keys(of).every((name) => name.length >= 1 && name.length <= 200),
    'a module name must have 1 to 200 characters',
  );
const targets = structureOf(LORA_MODULE.form);
/** Rank and scale by module name (blk.3.attn_k). */
export type AdapterTargets = z.infer<typeof targets>;

/** Returns `Trainer.info.targets` in the form of the log. */
export const adapterTargets = (
  list: readonly { readonly module: string; readonly rank: number; readonly scale: number }[],
): AdapterTargets => dictionary(list.map(({ module, rank, scale }) => [module, { rank, scale }]));

/** Returns the targets scaled to a part of their strength. */
export const weakened = (of: AdapterTargets, strength: number): AdapterTargets =>
  dictionary(
    Object.entries(of).map(([module, { rank, scale }]) => [
      module,
      { rank, scale: scale * strength },
    ]),
  );

export const layers = z.object({
  kind: z.literal('layers'),
  iteration,
  method: z.string(),
  /** Ascending. */
  layers: z.array(z.int().min(0)).max(10_000),
  /** Measurements of the method by layer. */
  scores: z.array(number).max(10_000).nullable(),
});
/** Metrics: the layers that are trained, chosen before the first step. */
export type LayersRecord = z.infer<typeof layers>;

export const adapterState = z.object({
  kind: z.literal('adapter_state'),
  iteration,
  digest: sha256,
  targets,
});
/**
 * Metrics: a restorable adapter, under the digest that `rollback`, `stop` and a gate name. The
 * first one precedes the first step.
 */
export type AdapterState = z.infer<typeof adapterState>;

export const gate = z.object({
  kind: z.literal('gate'),
  iteration,
  cause: z.string().min(1).max(1000),
  restored: sha256,
});
/**
 * Effects: the dev gate restored an earlier adapter, named by its adapter_state. It creates no
 * obligation.
 */
export type Gate = z.infer<typeof gate>;

const stage = z.enum(['prepared', 'iteration', 'submitted']);
export const checkpoint = z.object({
  kind: z.literal('checkpoint'),
  stage,
  iteration,
  digest: sha256,
});
/**
 * Metrics: a checkpoint by the digest over all of it. The run continues only from checkpoints that
 * live records under a signed head name.
 */
export type CheckpointNamed = z.infer<typeof checkpoint>;

export const keptReplies = z.object({
  kind: z.literal('kept_replies'),
  /**
   * Records of the log up to the checkpoint that the run continues from; 1 before there is one. It
   * names the file.
   */
  after: z.int().min(1),
  replies: z.int().min(0),
  /** Bytes at the beginning of the file, with their SHA-256. */
  bytes: z.int().min(0),
  sha256,
});
/**
 * Metrics: finished replies in a file next to the log, so that they need not be sampled again after
 * an interruption. They count as far as such a record under a signed head names them.
 */
export type KeptRepliesNamed = z.infer<typeof keptReplies>;

const text = z.string().max(1000);
export const refusedCheckpoint = z.object({
  kind: z.literal('refused_checkpoint'),
  name: text,
  reason: text,
});
/** Metrics: a checkpoint that a resumed run rejected, and why. */
export type RefusedCheckpoint = z.infer<typeof refusedCheckpoint>;

const strength = z.number().gt(0).max(1);
const restraint = z.object({
  limit: number,
  strength,
  tried: z
    .array(z.object({ strength, lost: number }))
    .max(100)
    .readonly(),
});
export const submission = z.object({
  kind: z.literal('submission'),
  adapter: sha256.nullable(),
  targets,
  restraint: restraint.optional(),
});
/**
 * Metrics: SHA-256 of the exported adapter file; null: nothing was trained. Under a limit on
 * forgetting, `restraint` states its strength in that file; the scales of `targets` are those of
 * the file.
 */
export type Submission = z.infer<typeof submission>;

export const probe = z.object({
  kind: z.literal('probe'),
  adapter: sha256.nullable(),
  batch: sha256,
  sequenceLosses: z.array(number).readonly(),
  gradNorm: number,
  modules: dictionaryOf(number),
});
/** Metrics: what the live diagnostic measured on the submitted adapter. */
export type ProbeRecord = z.infer<typeof probe>;

const count = z.number().int().min(0);

export const sessionEnd = z.object({
  kind: z.literal('session_end'),
  /** Reason why the run ended. */
  stopped: z.string(),
  seconds: z.number(),
  peakRssBytes: z.number(),
  tokens: z.object({ prompt: count, sampled: count, trained: count }),
  /** Trained layers. */
  layers: z.array(z.int()),
  /** Iteration of the submitted adapter. */
  adapterIteration: iteration,
});
/** Control: members of a run in the record that ends its session, in addition to the log's own. */
export type SessionEnd = z.infer<typeof sessionEnd>;

export const layersRecord = recordOf('metrics', layers);
export const adapterStateRecord = recordOf('metrics', adapterState);
export const checkpointRecord = recordOf('metrics', checkpoint);
export const keptRepliesRecord = recordOf('metrics', keptReplies);
export const refusedCheckpointRecord = recordOf('metrics', refusedCheckpoint);
export const gateRecord = recordOf('effects', gate);
export const submissionRecord = recordOf('metrics', submission);
export const probeRecord = recordOf('metrics', probe);
/** Checks the members for `EventLog.finish`, which writes them. */
export const sessionEndMembers = (value: Omit<SessionEnd, 'kind'>): Omit<SessionEnd, 'kind'> =>
  sessionEnd.omit({ kind: true }).parse(value);
