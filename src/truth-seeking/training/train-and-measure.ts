/**
 * A training and its measurements in one folder: held-out questions before, the training, the same
 * questions after. Each part continues after an interruption, and equal settings give equal bytes.
 */
import { existsSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import type { Json } from '../../canonical-json.js';
import { hashFile } from '../../engine/adapter.js';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import type { Model } from '../../engine/model.js';
import { createTrainer } from '../../engine/trainer.js';
import type { Precision } from '../../engine/training-request.js';
import { IsoproError } from '../../errors.js';
import { makeFolder, readJson } from '../../files.js';
import { given } from '../../given.js';
import { OwnerLock } from '../../log/owner-lock.js';
import { codeVersion, machineClass } from '../../run-folder/machine.js';
import { jsonDifferences, runDiffers } from '../../run-folder/manifest.js';
import { generateAtMost, type GeneratedDomain } from '../domains/domain.js';
import { localReasoner } from '../local-reasoner.js';
import { REASONING_MODES } from '../modes/mode.js';
import type { BinaryProblem } from '../problem.js';
import { readTruthConfig, type TruthConfigInput } from '../run/config.js';
import { readTruthRun } from '../run/folder.js';
import { runTruth, type TruthProgress } from '../run/evaluation-run.js';
import type { SessionOptions } from '../run/session.js';
import { beforeAndAfter, type FigureChange } from './before-after.js';
import {
  NO_SLOPE,
  trainOnReadout,
  type ReadoutControl,
  type ReadoutStep,
  type ReadoutTraining,
} from './readout-training.js';

const FORMAT = 'isopro.truth-training.v1';
const record = z.strictObject({
  format: z.literal(FORMAT),
  /** Everything that determines the training. */
  start: z.custom<Json>((value) => value !== undefined),
  /** Figures of each step. */
  steps: z.array(z.custom<Json>()),
  /** Name of the file that holds the trainer after the last of them. */
  state: z
    .string()
    .regex(/^state-\d+\.bin$/)
    .nullable(),
  /** SHA-256 of the adapter; null until it is trained. */
  adapter: z.string().nullable(),
});
type TrainingRecord = z.output<typeof record>;

/** A training that can continue: its state is on disk after each step. */
export class TrainingFolder {
  readonly adapter: string;
  readonly #file: string;
  readonly #lock: OwnerLock;
  #record: TrainingRecord;

  /**
   * @throws IsoproError LOG_BUSY, RUN_DIFFERS, RUN_MANIFEST_INVALID, WRITE_FAILED, FILE_UNREADABLE
   */
  constructor(
    readonly folder: string,
    start: Json,
  ) {
    makeFolder(folder);
    this.adapter = path.join(folder, 'adapter.gguf');
    this.#file = path.join(folder, 'training.json');
    const lock = OwnerLock.take(path.join(folder, 'lock.sqlite'));
    if (lock === null)
      throw new IsoproError('LOG_BUSY', `another process is using the training in ${folder}`);
    this.#lock = lock;
    this.#record = { format: FORMAT, start, steps: [], state: null, adapter: null };
    if (!existsSync(this.#file)) return;
    const found = record.safeParse(readJson(this.#file));
    if (!found.success)
      throw new IsoproError(
        'RUN_MANIFEST_INVALID',
        `${this.#file}: ${z.prettifyError(found.error)}`,
      );
    const differences = jsonDifferences(found.data.start, start);
    if (differences.length > 0)
      throw runDiffers(
        `the training in ${folder} was started with different values of ${differences.join(', ')}`,
        differences,
      );
    this.#record = found.data;
  }

  get steps(): readonly Json[] {
    return this.#record.steps;
  }

  /** True if the adapter is trained and its file unchanged. */
  async isDone(): Promise<boolean> {
    const { adapter } = this.#record;
    return (
      adapter !== null && existsSync(this.adapter) && (await hashFile(this.adapter)) === adapter
    );
  }

  /** The trainer's file of the last step; null before the first. */
  get state(): string | null {
    return this.#record.state === null ? null : path.join(this.folder, this.#record.state);
  }

  /** Steps in the saved state; 0 if an ended training is repeated because its adapter is gone. */
  get kept(): number {
    return this.#record.state === null ? 0 : this.#record.steps.length;
  }

  /** After a step. @param save writes the trainer's state to a file */
  async keep(step: Json, save: (file: string) => Promise<unknown>): Promise<void> {
    const steps = [...this.#record.steps.slice(0, this.kept), step];
    const state = `state-${steps.length}.bin`;
    await save(path.join(this.folder, state));
    await this.#write({ ...this.#record, steps, state, adapter: null });
  }

  /** At the end. @returns the adapter's SHA-256 */
  async finish(steps: readonly Json[] = this.#record.steps): Promise<string> {
    const adapter = await hashFile(this.adapter);
    await this.#write({ ...this.#record, steps: [...steps], state: null, adapter });
    return adapter;
  }

  /** Writes the record, then deletes states that it does not name. */
  async #write(next: TrainingRecord): Promise<void> {
    await writeFileAtomically(this.#file, [Buffer.from(`${JSON.stringify(next, null, 2)}\n`)]);
    this.#record = next;
    for (const name of readdirSync(this.folder))
      if (/^state-\d+\.bin$/.test(name) && name !== next.state)
        rmSync(path.join(this.folder, name), { force: true });
  }

  [Symbol.dispose](): void {
    this.#lock.release();
  }
}

/**
 * Questions that are trained on: of the part of each domain that nothing is measured on, as many as
 * there are.
 */
export const trainingProblems = (
  domains: readonly GeneratedDomain[],
  wanted: number,
  seed: bigint,
): BinaryProblem[] =>
  domains.flatMap((domain) =>
    generateAtMost(domain, 'train', Math.ceil(wanted / domains.length), seed),
  );

export interface ReadoutTrainer {
  readonly problems: readonly BinaryProblem[];
  readonly mode: string;
  readonly how: ReadoutTraining;
  readonly rank: number;
  readonly learningRate: number;
  readonly threads: number;
  readonly precision?: Precision;
}

/**
 * Trains on the readout, or continues.
 * @throws IsoproError as trainOnReadout, and of trainer and folder
 */
export async function trainInFolder(
  model: Model,
  folder: TrainingFolder,
  { problems, mode, how, rank, learningRate, threads, precision }: ReadoutTrainer,
  { signal, onStep }: Pick<ReadoutControl, 'signal'> & { onStep?(step: ReadoutStep): void } = {},
): Promise<void> {
  if (await folder.isDone()) return;
  await using trainer = await createTrainer(model, {
    seed: how.seed,
    threads,
    lora: { rank },
    optimiser: { learningRate },
    ...given({ precision }),
  });
  if (folder.state !== null) await trainer.load(folder.state);
  const control = { done: folder.kept, signal };
  const asked = REASONING_MODES.parse(mode);
  for await (const step of trainOnReadout(model, trainer, problems, asked, how, control)) {
    await folder.keep({ ...step } as Json, (file) => trainer.save(file));
    onStep?.(step);
  }
  const steps = folder.steps as unknown as readonly ReadoutStep[];
  if (steps.every(({ replies, failed }) => replies === failed[NO_SLOPE]))
    throw new IsoproError(
      'NUMERIC_FAILURE',
      'the beliefs varied no more between questions than between probe wordings, so there is no slope to train on',
      {
        remedy:
          "Ask more questions per step (--questions), from domains where the model's beliefs differ.",
      },
    );
  await trainer.exportAdapter(folder.adapter);
  await folder.finish();
}

export interface Measuring {
  /** Configuration without the reasoner. */
  readonly config: Omit<TruthConfigInput, 'model' | 'adapter' | 'predictor' | 'policy'>;
  /**
   * Folder of the run before; several trainings may share one. Default: `before`, in the training's
   * folder.
   */
  readonly before?: string;
}

export interface MeasureControl extends SessionOptions {
  readonly onProgress?: (when: 'before' | 'after', progress: TruthProgress) => void;
}

/** A run of held-out questions by the model, with the adapter or without. */
export async function measureHeldOut(
  model: Model,
  name: string,
  { folder, adapter }: TrainingFolder,
  when: 'before' | 'after',
  { config, before }: Measuring,
  { onProgress, ...session }: MeasureControl = {},
): Promise<string> {
  const trained = when === 'after' ? adapter : null;
  const adapted = trained === null ? {} : { adapter: trained };
  const full = readTruthConfig({ ...config, model: name, ...adapted });
  const loaded = trained === null ? null : await model.loadAdapter(trained);
  const evaluated = await localReasoner(model, { adapter: loaded, seed: BigInt(full.seed) });
  const out = when === 'before' && before !== undefined ? before : path.join(folder, when);
  await runTruth(full, {
    ...session,
    out,
    policies: { evaluated, predictor: null },
    ...(onProgress && { onProgress: (progress: TruthProgress) => onProgress(when, progress) }),
  });
  loaded?.dispose();
  return out;
}

/**
 * Changes between two existing measurements.
 * @throws IsoproError of readTruthRun and beforeAndAfter
 */
export const changesBetween = (before: string, after: string, seed: bigint): FigureChange[] =>
  beforeAndAfter(readTruthRun(before), readTruthRun(after), seed);

/** Start of a training; repeating it requires the same start. */
export const trainingStart = async (model: Model, settings: Json): Promise<Json> => ({
  code: { ...(await codeVersion('beliefs')) },
  machine: { ...machineClass([model.info]) },
  model: await model.hash(),
  settings,
});
