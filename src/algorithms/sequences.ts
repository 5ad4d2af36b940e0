/**
 * Turns accepted rollouts into training sequences, with the activations of the frozen layers if
 * they are kept.
 */
import type { Boundary, Trainer, TrainSequence } from '../engine/trainer.js';
import { given } from '../given.js';
import { episodeIds, lossMask, type Episode } from '../rollouts/episode.js';
import type { JudgedRollout, RolloutGroup } from '../rollouts/sample.js';

/** A sampled episode under its name in the run. */
export interface Sampled {
  readonly key: string;
  readonly episode: Episode;
}

export interface KeyedRollout extends Sampled {
  readonly problem: RolloutGroup['problem'];
  readonly rollout: JudgedRollout;
}

/** Returns all rollouts of an iteration, whatever their verdict. */
export const keyedRollouts = (groups: readonly RolloutGroup[], iteration: number): KeyedRollout[] =>
  groups.flatMap(({ problem, rollouts }) =>
    rollouts.map((rollout) => ({
      key: `${iteration}/${problem.id}/${rollout.sampleIndex}`,
      episode: rollout.episode,
      problem,
      rollout,
    })),
  );

/** Equal where two samples answer the same prompt. */
const promptOf = ({ episode }: Sampled): string => episode[0]!.ids.join();

/** The exact ids; what was not sampled is masked. */
export const trainSequence = (episode: Episode): TrainSequence => ({
  tokenIds: episodeIds(episode),
  labelMask: lossMask(episode),
});

/** Rows of a prompt, which all samples of a problem have in common. */
interface PromptRows {
  readonly key: string;
  readonly rows: Uint16Array;
  samples: number;
}

interface KeptRows {
  readonly layer: number;
  readonly modelHash: string;
  readonly prompt: PromptRows;
  /** Rows after the prompt. */
  readonly rest: Uint16Array;
}

/**
 * Cache of boundary rows of sequences that are trained on again, newest last, within a byte limit;
 * the rows of a prompt are kept once. Rows always come from the trainer: cached and recaptured rows
 * have the same bits, so the limit never changes a result.
 */
export class BoundaryCache {
  readonly #trainer: Trainer;
  readonly #limit: number;
  readonly #samples = new Map<string, KeptRows>();
  readonly #prompts = new Map<string, PromptRows>();
  #bytes = 0;

  constructor(trainer: Trainer, limit: number) {
    this.#trainer = trainer;
    this.#limit = limit;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Returns the sequences of the traces, with boundaries if there are layers below the trained
   * ones.
   */
  async sequences(traces: readonly Sampled[], signal?: AbortSignal): Promise<TrainSequence[]> {
    const plain = traces.map(({ episode }) => trainSequence(episode));
    const layer = this.#trainer.info.lowestTrained;
    if (layer === 0) return plain;
    const known = traces.map(({ key }) => this.#recall(key, layer));
    const missing = plain.filter((_, index) => known[index] === undefined);
    const captured =
      missing.length === 0 ? [] : await this.#trainer.captureBoundary(missing, given({ signal }));
    let next = 0;
    return plain.map((sequence, index) => {
      let boundary = known[index];
      if (boundary === undefined) {
        boundary = captured[next++]!;
        this.#add(traces[index]!, boundary);
      }
      return { ...sequence, boundary };
    });
  }

  #recall(key: string, layer: number): Boundary | undefined {
    const found = this.#samples.get(key);
    if (found === undefined) return undefined;
    if (found.layer !== layer) {
      this.#forget(key, found); // a remedy added a lower target
      return undefined;
    }
    this.#samples.delete(key);
    this.#samples.set(key, found);
    const rows = new Uint16Array(found.prompt.rows.length + found.rest.length);
    rows.set(found.prompt.rows);
    rows.set(found.rest, found.prompt.rows.length);
    return { layer, modelHash: found.modelHash, rows };
  }

  #add(sample: Sampled, { layer, modelHash, rows }: Boundary): void {
    const { key, episode } = sample;
    const old = this.#samples.get(key);
    if (old !== undefined) this.#forget(key, old);
    const tokens = episode.reduce((sum, { ids }) => sum + ids.length, 0);
    const split = (episode[0]!.ids.length * rows.length) / tokens;
    const promptKey = `${layer}/${promptOf(sample)}`;
    let prompt = this.#prompts.get(promptKey);
    if (prompt === undefined) {
      prompt = { key: promptKey, rows: rows.slice(0, split), samples: 0 };
      this.#prompts.set(promptKey, prompt);
      this.#bytes += prompt.rows.byteLength;
    }
    prompt.samples++;
    const rest = rows.slice(split);
    this.#samples.set(key, { layer, modelHash, prompt, rest });
    this.#bytes += rest.byteLength;
    for (const [oldest, kept] of this.#samples) {
      if (this.#bytes <= this.#limit) break;
      this.#forget(oldest, kept);
    }
  }

  #forget(key: string, { prompt, rest }: KeptRows): void {
    this.#samples.delete(key);
    this.#bytes -= rest.byteLength;
    if (--prompt.samples > 0) return;
    this.#prompts.delete(prompt.key);
    this.#bytes -= prompt.rows.byteLength;
  }
}
