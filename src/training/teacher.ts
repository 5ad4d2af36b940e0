/**
 * The teacher of a distillation: a second model in this process, asked as the run asks, and held
 * against the student before it teaches.
 */
import type { Teacher } from '../algorithms/algorithm.js';
import type { KeyedRollout } from '../algorithms/sequences.js';
import { localBackend } from '../backends/local.js';
import { inspectModel } from '../engine/inspect.js';
import { loadModel, type Model } from '../engine/model.js';
import { resolveModel } from '../engine/model-files.js';
import { createTrainer, type Trainer, type TrainSequence } from '../engine/trainer.js';
import { IsoproError } from '../errors.js';
import type { EvaluationSet } from '../evaluation/evaluation-set.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { temperedLogprobs } from '../algorithms/steps.js';
import { given } from '../given.js';
import { episodeIds, lossMask } from '../rollouts/episode.js';
import { teacherRecord } from '../run-folder/evaluation-records.js';
import type { RunLog } from '../run-folder/streams.js';
import { askedOtherwise } from '../tasks/asking-wrapper.js';
import type { OpenTask } from '../tasks/task.js';
import type { RunSettings } from './settings.js';

const WHERE = 'algorithm.teacher';

/** Token ids mean the same to both, one by one. @throws IsoproError INVALID_ARGUMENT */
function requireSameTokens(teacher: Model, student: Model): void {
  for (let id = 0; id < student.info.vocabularySize; id++) {
    const [theirs, own] = [teacher, student].map((model) =>
      model.detokenize([id], { withControl: true }),
    );
    if (theirs !== own)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `${WHERE}: token ${id} is ${JSON.stringify(theirs)} to the teacher and ${JSON.stringify(own)} to the student`,
      );
  }
}

export class TeacherModel implements Teacher {
  readonly #model: Model;
  /** False for the student's own model, without its adapter. */
  readonly #owned: boolean;
  readonly #settings: RunSettings;
  /** Task as the teacher is prompted. */
  readonly #task: OpenTask;
  /** Opened with the first samples: until then only the model's evaluation needs memory. */
  #scorer: Trainer | null = null;

  private constructor(model: Model, owned: boolean, settings: RunSettings, task: OpenTask) {
    this.#model = model;
    this.#owned = owned;
    this.#settings = settings;
    this.#task = task;
  }

  /**
   * Opens the teacher; null if the algorithm has none. Vocabularies are compared by size before the
   * model is loaded, and then token by token. A teacher that is the student's own file with another
   * prompt is not loaded again.
   * @throws IsoproError INVALID_ARGUMENT, and as loadModel
   */
  static async open(
    settings: RunSettings,
    student: Model,
    task: OpenTask,
    signal?: AbortSignal,
  ): Promise<TeacherModel | null> {
    const { teacher: name, teacherExamples: examples } = settings.algorithm;
    if (name === undefined) return null; // a setting of no other algorithm is accepted with it
    const cancelling = given({ signal });
    const asked = examples === undefined ? task : askedOtherwise(task, { examples });
    const { path } = await resolveModel(name, cancelling);
    if (path === student.path) return new TeacherModel(student, false, settings, asked);
    const { vocabularySize } = await inspectModel(path);
    const { contextTokens } = student;
    if (vocabularySize !== student.info.vocabularySize)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `${WHERE}: the teacher has ${vocabularySize} tokens and the student ${student.info.vocabularySize}, so they cannot be compared`,
      );
    const model = await loadModel(path, {
      threads: student.info.threads,
      fixedThreads: true,
      contextTokens,
      ...cancelling,
    });
    try {
      requireSameTokens(model, student);
      return new TeacherModel(model, true, settings, asked);
    } catch (error) {
      await model.dispose();
      throw error;
    }
  }

  hash(): Promise<string> {
    return this.#model.hash();
  }

  /**
   * The teacher answers the dev problems too; one that is hardly better than the student has
   * nothing to teach. Its answers are logged.
   * @param student mean of its greedy answers to the same problems
   * @throws IsoproError TEACHER_NO_BETTER, and as evaluateGreedy
   */
  async requireHeadroom(
    {
      dev,
      log,
      signal,
    }: {
      readonly dev: EvaluationSet;
      readonly log: Pick<RunLog, 'append'>;
      readonly signal?: AbortSignal;
    },
    student: number | null,
  ): Promise<void> {
    const { sampling, model, algorithm } = this.#settings;
    const { style, maxTokens } = sampling;
    const { outcomes, summary } = await evaluateGreedy(
      localBackend(this.#model),
      this.#task,
      dev.problems,
      { adapter: null, style, maxTokens, maxSequences: model.maxSequences, ...given({ signal }) },
    );
    await this.#model.releaseContext();
    log.append([
      teacherRecord({
        model: await this.hash(),
        outcomes: outcomes.map(({ problemId, tier, kind }) => [problemId, tier, kind]),
      }),
    ]);
    const [theirs, own] = [summary.mean ?? 0, student ?? 0];
    if (theirs > own && theirs - own >= algorithm.headroom) return;
    const percent = (mean: number): string => `${(100 * mean).toFixed(1)} %`;
    throw new IsoproError(
      'TEACHER_NO_BETTER',
      `the teacher reaches ${percent(theirs)} on the ${dev.problems.length} dev problems and the student ${percent(own)}; ` +
        `--headroom requires ${percent(algorithm.headroom)} more`,
    );
  }

  async logprobs(
    samples: readonly KeyedRollout[],
    { temperature, signal }: { readonly temperature: number; readonly signal?: AbortSignal },
  ): Promise<Float32Array[]> {
    const { sampling, layers } = this.#settings;
    this.#scorer ??= await createTrainer(this.#model, {
      // never trained: what is asked of it is the base model
      lora: { targets: ['q'], layers: { top: 1 }, rank: 1 },
      threads: this.#model.info.threads,
      memoryBytes: layers.trainerMemory,
    });
    const sequences: TrainSequence[] = [];
    for (const { problem, episode } of samples) {
      // the teacher's own template and examples, and then what was said, token by token
      const { tokenIds } = this.#model.renderChat(await this.#task.prompt(problem, sampling.style));
      const said = [{ ...episode[0]!, ids: tokenIds }, ...episode.slice(1)];
      sequences.push({ tokenIds: episodeIds(said), labelMask: lossMask(said) });
    }
    const options = { temperature, adapter: false, ...given({ signal }) };
    const rows = await temperedLogprobs(this.#scorer, sequences, options);
    return rows.map((row, i) => row.filter((_, t) => sequences[i]!.labelMask[t] === 1));
  }

  async dispose(): Promise<void> {
    try {
      await this.#scorer?.dispose();
    } finally {
      if (this.#owned) await this.#model.dispose();
    }
  }
}
