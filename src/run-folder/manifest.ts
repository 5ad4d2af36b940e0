import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { canonicalJson, type Json } from '../canonical-json.js';
import { durable } from '../durable.js';
import { KERNELS } from '../engine/addon.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { IsoproError } from '../errors.js';
import { isRunId } from '../log/checkpoint.js';
import type { RunDigests } from '../log/leaf.js';
import { deciderCommitment } from '../monitor/policies/commitment.js';
import { monitorDigests } from '../monitor/rule-set.js';
import { ruleConfig } from '../monitor/rules.js';
import { PROMPT_STYLES } from '../tasks/task.js';
import { LORA } from '../trainees/lora/trainee.js';
import { isRunFolder, runPaths } from './paths.js';
import { sha256 } from './record.js';
import { byPart } from './written-settings.js';

/**
 * manifest.json: `start` is everything that determines the run and is written before the first
 * record, `result` what it submits, written at the end. The log's session start commits to `start`
 * (startDigests, runConfig), and a submission record to the adapter.
 */

/** Of what is written now; readers know the one before too. */
export const MANIFEST_FORMAT = 'isopro.run.v2';

const MAX_MANIFEST_CHARACTERS = 4_000_000;

const count = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

const json: z.ZodType<Json> = z.json();

const evaluationSet = z.strictObject({
  /**
   * `frozen`: a prefix of each tier of the committed file; `generated`: from a fixed seed, for a
   * task without such files; `split`: rows of a data file that are kept from training.
   */
  origin: z.enum(['frozen', 'generated', 'split']),
  /** SHA-256 of the committed file; null if there is none. */
  file: sha256.nullable(),
  /** Problems of each tier. */
  perTier: z.number().int().min(1).max(100_000),
  problems: count,
  /** SHA-256 of the RFC 8785 list of the problems' ids, in order. */
  sha256,
});

/**
 * Machines of one class compute the same replies and log-probabilities, bit for bit. Where every
 * operation is computed by our own kernels, the processor's architecture and the version of the
 * bits decide that; where ggml computes, its back end and release do.
 */
export const machine = z.union([
  z.strictObject({
    arch: z.string().max(50),
    kernels: z.literal('own'),
    /** Raised by hand whenever a bit changes (native/inference/own_operations.h). */
    version: count,
  }),
  z.strictObject({
    platform: z.string().max(50),
    arch: z.string().max(50),
    /** Release of llama.cpp. */
    llamaRelease: z.string().max(100),
    /** Instruction sets that the loaded CPU back end uses, ascending. */
    features: z.array(z.string().max(100)).max(200),
  }),
]);
export type MachineClass = z.infer<typeof machine>;

const start = z.strictObject({
  code: z.strictObject({
    /** Version of the package. */
    version: z.string().min(1).max(100),
    /** SHA-256 over the package's own modules that decide a run (code-hash.ts). */
    javascript: sha256,
    /** SHA-256 of the addon's binary. */
    addon: sha256,
  }),
  machine,
  model: z.strictObject({
    sha256,
    name: z.string().max(1000),
    architecture: z.string().max(100),
    quantisation: z.string().max(100),
  }),
  task: z
    .strictObject({
      id: z.string().min(1).max(200),
      version: z.string().min(1).max(200),
      /**
       * SHA-256 over a user's task file and everything that it imports (src/tasks/task-bundle.ts;
       * of a task in Python assets/python/bridge.py; of a data file src/tasks/data/open-data.ts);
       * null for a built-in task, which `code` covers.
       */
      file: sha256.nullable(),
    })
    // never a path: openTask would run the file behind it
    .refine(({ id, file }) => file !== null || /^[a-z0-9][\w-]*$/i.test(id), {
      path: ['id'],
      message: 'not the name of a built-in task',
    }),
  sets: z.strictObject({ dev: evaluationSet, test: evaluationSet }),
  /** Settings of the greedy held-out evaluation. */
  evaluation: z.strictObject({
    style: z.enum(PROMPT_STYLES),
    maxTokens: z.number().int().min(1).max(65_536),
    maxSequences: z.number().int().min(1).max(255),
    contextTokens: z
      .number()
      .int()
      .min(1)
      .max(2 ** 26),
    threads: z.number().int().min(1).max(256),
    /** Matrix kernels; absent in manifests from before there was a choice: ggml's. */
    matmul: z.enum(KERNELS).optional(),
    /** Identifies the chat template and its renderer. */
    rendererId: sha256,
  }),
  /** Learning-rate schedule of the trainer; remedies change the base rate that it multiplies. */
  schedule: z.strictObject({
    schedule: z.enum(['constant', 'linear', 'cosine']),
    warmupSteps: count,
    totalSteps: count,
    finalFactor: z.number().min(0).max(1),
  }),
  rules: ruleConfig,
  policy: z.string().min(1).max(100),
  /** What the answers of a policy that chooses from a menu depend on; absent for any other. */
  decider: deciderCommitment.optional(),
  /**
   * Every resolved setting of the loop, as it was written (written-settings.ts reads it), seeds as
   * decimal strings.
   */
  settings: z.record(z.string(), json),
});
/** Everything that determines a run. */
export type RunStart = z.infer<typeof start>;
export type EvaluationSetIdentity = z.infer<typeof evaluationSet>;
const manifest = z.strictObject({
  /** Version 1 has its settings side by side, version 2 by part. */
  format: z.enum(['isopro.run.v1', MANIFEST_FORMAT]),
  runId: z.string().refine(isRunId, 'must have 32 hex digits'),
  start,
  /**
   * Null until the run has ended. `adapter` is null if nothing was trained: the base model is
   * submitted alone.
   */
  result: z.strictObject({ adapter: sha256.nullable() }).nullable(),
});
export type RunManifest = z.infer<typeof manifest>;

const digest = (value: Json): string => hash('sha256', canonicalJson(value));

/** The digests that the log's genesis is made of, by name. */
export function startDigests({
  code,
  model,
  task,
  sets,
  rules,
  settings,
  ...rest
}: RunStart): RunDigests {
  return {
    code: digest(code),
    model: model.sha256,
    task: digest(task),
    devSet: sets.dev.sha256,
    testSet: sets.test.sha256,
    settings: digest(settings),
    ...monitorDigests(LORA.ruleSet, rules),
    start: digest({ code, model, task, sets, rules, settings, ...rest } as Json),
  };
}

/**
 * A member that differs between two values, by its path, such as `settings.seed`; undefined if one
 * value does not have it.
 */
export interface Change {
  readonly path: string;
  readonly was: Json | undefined;
  readonly is: Json | undefined;
}

/** Returns the differing members of two values; empty if they are equal. */
export function jsonChanges(a: Json, b: Json): Change[] {
  const changes: Change[] = [];
  const compare = (x: Json | undefined, y: Json | undefined, path: string): void => {
    const isObject = (value: Json | undefined): value is { readonly [key: string]: Json } =>
      typeof value === 'object' && value !== null && !Array.isArray(value);
    if (isObject(x) && isObject(y)) {
      for (const key of [...new Set([...Object.keys(x), ...Object.keys(y)])].sort())
        compare(x[key], y[key], path === '' ? key : `${path}.${key}`);
    } else if (x === undefined || y === undefined ? x !== y : canonicalJson(x) !== canonicalJson(y))
      changes.push({ path, was: x, is: y });
  };
  compare(a, b, '');
  return changes;
}

type TaskIdentity = RunStart['task'];

/**
 * Returns true if a task is rows of data, whose version is the beginning of the hash over
 * everything that decides their verdicts (src/tasks/data/open-data.ts).
 */
export const isOfRows = ({ version, file }: TaskIdentity): boolean =>
  file?.slice(0, 12) === version;

/** Returns true if two tasks are the same. The name of a data file is not part of its task. */
export const isSameTask = (a: TaskIdentity, b: TaskIdentity): boolean =>
  a.version === b.version && (a.id === b.id || (isOfRows(a) && isOfRows(b)));

/** Returns the paths of the members that differ. */
export const jsonDifferences = (a: Json, b: Json): string[] =>
  jsonChanges(a, b).map(({ path }) => path);

/**
 * Returns the differences between two starts with settings by part; empty if they are the same run.
 */
export function startChanges(a: RunStart, b: RunStart): Change[] {
  const whole = (start: RunStart): Json => ({ ...start, settings: byPart(start.settings) }) as Json;
  return jsonChanges(whole(a), whole(b));
}

export const startDifferences = (a: RunStart, b: RunStart): string[] =>
  startChanges(a, b).map(({ path }) => path);

const SHOWN_CHARACTERS = 60;

function valueShown(value: Json | undefined): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  if (/^"[0-9a-f]{64}"$/.test(text)) return `${text.slice(1, 13)}…`;
  return text.length > SHOWN_CHARACTERS ? `${text.slice(0, SHOWN_CHARACTERS)}…` : text;
}

/** Formats changes: `settings.iterations 3 (now 2)`. */
export const changesText = (changes: readonly Change[]): string =>
  changes
    .map(({ path, was, is }) => `${path} ${valueShown(was)} (now ${valueShown(is)})`)
    .join(', ');

export const CONTINUE_ELSEWHERE =
  'Start again in another folder with --out, or continue with the version of isopro-native that started the run.';

/**
 * Returns RUN_DIFFERS for a run that started with other values. An earlier version computed the
 * hash of the code differently; a manifest does not say which way, so the message names both
 * reasons.
 * @param paths of the members that differ
 */
export const runDiffers = (message: string, paths: readonly string[]): IsoproError =>
  paths.includes('code.javascript')
    ? new IsoproError(
        'RUN_DIFFERS',
        `${message}. The code of isopro-native has changed since then, or the version that ` +
          'began it computed the hash of the code differently',
        { remedy: CONTINUE_ELSEWHERE },
      )
    : new IsoproError('RUN_DIFFERS', message);

/** Writes a manifest. @throws IsoproError WRITE_FAILED; an earlier manifest stays */
export async function writeManifest(folder: string, value: RunManifest): Promise<void> {
  await writeFileAtomically(runPaths(folder).manifest, [
    Buffer.from(`${JSON.stringify(manifest.parse(value), null, 2)}\n`),
  ]);
  durable(value.result === null ? 'run.manifest' : 'run.result');
}

/** Reads the manifest of a folder. @throws IsoproError RUN_NOT_FOUND, RUN_MANIFEST_INVALID */
export function readManifest(folder: string): RunManifest {
  const file = runPaths(folder).manifest;
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new IsoproError('RUN_NOT_FOUND', `${folder} has no manifest.json`, { cause });
  }
  if (text.length > MAX_MANIFEST_CHARACTERS)
    throw new IsoproError(
      'RUN_MANIFEST_INVALID',
      `${file} has more than ${MAX_MANIFEST_CHARACTERS} characters`,
    );
  let parsed: ReturnType<typeof manifest.safeParse>;
  try {
    const value = JSON.parse(text) as Json;
    // what has no digest, such as half a character, is told here, by the file's name
    canonicalJson(value);
    parsed = manifest.safeParse(value); // nested too deeply is a RangeError of any of the three
  } catch (cause) {
    throw new IsoproError(
      'RUN_MANIFEST_INVALID',
      `${file} is not readable JSON: ${(cause as Error).message}`,
      { cause },
    );
  }
  if (!parsed.success)
    throw new IsoproError('RUN_MANIFEST_INVALID', `${file}: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

/**
 * Returns the run that a log must belong to (VerifyOptions.runId): the one in its folder's
 * manifest, or any if there is no manifest.
 * @throws IsoproError RUN_MANIFEST_INVALID
 */
export const namedRun = (target: string): { readonly runId?: string } =>
  isRunFolder(target) ? { runId: readManifest(target).runId } : {};
