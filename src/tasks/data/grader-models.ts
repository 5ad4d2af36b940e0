/**
 * Models that score replies. Each is loaded once per process, when the first reply is scored, and
 * shared by all tasks and threads. Scores are reproducible: greedy decoding, one reply at a time,
 * with a fixed number of threads.
 */
import { hashFile } from '../../engine/adapter.js';
import { loadModel, type Model } from '../../engine/model.js';
import { resolveModel } from '../../engine/model-files.js';
import { IsoproError } from '../../errors.js';
import type { ChatMessage } from '../task.js';
import type { Check } from './check.js';
import { grammarOf, type Graded } from './score-model.js';

export type ModelCheck = Check & { readonly kind: 'model' };

/** Threads of the model, which affect its scores; one leaves the others to sampling. */
export const GRADER_THREADS = 1;
/** Most tokens of a prompt with its number. */
export const GRADER_CONTEXT = 4096;

/**
 * Finds the file of a model and its SHA-256.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_DOWNLOAD_FAILED, FILE_UNREADABLE
 */
export async function graderFile(
  name: string,
): Promise<{ readonly path: string; readonly sha256: string }> {
  const { path } = await resolveModel(name);
  return { path, sha256: await hashFile(path) };
}

interface Loaded {
  users: number;
  model: Promise<Model> | undefined;
  queue: Promise<unknown>;
}

const loaded = new Map<string, Loaded>();

/** One user of a shared model. Disposing it stops its requests. */
export class GraderModel {
  readonly #check: ModelCheck;
  readonly #grammar: string;
  readonly #key: string;
  readonly #shared: Loaded;
  readonly #gone = new AbortController();

  constructor(check: ModelCheck) {
    this.#check = check;
    this.#grammar = grammarOf(check.grading);
    this.#key = `${check.model.sha256} ${check.model.path}`;
    this.#shared = loaded.get(this.#key) ?? {
      users: 0,
      model: undefined,
      queue: Promise.resolve(),
    };
    this.#shared.users++;
    loaded.set(this.#key, this.#shared);
  }

  /**
   * Scores one reply at a time, in the order of the calls. Never rejects: an error becomes the
   * reason why there is no number.
   */
  grade(messages: readonly ChatMessage[]): Promise<Graded> {
    const found = this.#shared.queue.then(() =>
      this.#ask(messages).catch((error: unknown) => ({
        none: error instanceof Error ? error.message : String(error),
      })),
    );
    this.#shared.queue = found;
    return found;
  }

  /** Frees the model with its last user. */
  async dispose(): Promise<void> {
    if (this.#gone.signal.aborted) return;
    this.#gone.abort();
    if (--this.#shared.users > 0) return;
    loaded.delete(this.#key);
    await this.#shared.queue;
    await (await this.#shared.model?.catch(() => undefined))?.dispose();
  }

  async #ask(messages: readonly ChatMessage[]): Promise<Graded> {
    if (this.#gone.signal.aborted) return { none: 'no one waits for it any more' };
    const model = await this.#model();
    const { maxTokens } = this.#check.grading;
    const request = {
      prompts: [{ messages }],
      sampling: { temperature: 0 },
      grammar: this.#grammar,
      maxTokens,
    };
    for await (const { text, finish } of model.generate({
      ...request,
      maxSequences: 1,
      signal: this.#gone.signal,
    }))
      return finish === 'stop'
        ? { text }
        : { none: `it was cut off after ${JSON.stringify(text)}` };
    return { none: 'it said nothing' };
  }

  /**
   * Loads the model; after a failure, the next reply tries again.
   * @throws IsoproError as loadModel, FILE_UNREADABLE if the file has changed
   */
  #model(): Promise<Model> {
    const shared = this.#shared;
    shared.model ??= this.#load().catch((error: unknown) => {
      shared.model = undefined;
      throw error;
    });
    return shared.model;
  }

  async #load(): Promise<Model> {
    const { path, sha256 } = this.#check.model;
    const model = await loadModel(path, {
      threads: GRADER_THREADS,
      fixedThreads: true,
      gpuLayers: 0, // whose sums are not promised to be the same again
      contextTokens: GRADER_CONTEXT,
    });
    try {
      if ((await model.hash()) !== sha256)
        throw new IsoproError('FILE_UNREADABLE', 'its file was changed while the task was open');
      return model;
    } catch (error) {
      await model.dispose();
      throw error;
    }
  }
}
