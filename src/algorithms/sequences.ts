/** From accepted rollouts to training sequences, with the frozen layers' activations where they are kept. */
import type { Boundary, Trainer, TrainSequence } from '../engine/trainer.js';
import { episodeIds, lossMask, type Episode } from '../rollouts/episode.js';
import type { JudgedRollout, RolloutGroup } from '../rollouts/sample.js';

/** What was sampled, under the name that it has within the run. */
export interface Sampled {
  readonly key: string;
  readonly episode: Episode;
}

export interface KeyedRollout extends Sampled {
  readonly rollout: JudgedRollout;
}

/** All rollouts of an iteration, whatever their verdict. */
export const keyedRollouts = (groups: readonly RolloutGroup[], iteration: number): KeyedRollout[] =>
  groups.flatMap(({ problem, rollouts }) =>
    rollouts.map((rollout) => ({
      key: `${iteration}/${problem.id}/${rollout.sampleIndex}`,
      episode: rollout.episode,
      rollout,
    })),
  );

/** The exact ids; what was not sampled is masked. */
export const trainSequence = (episode: Episode): TrainSequence => ({ tokenIds: episodeIds(episode), labelMask: lossMask(episode) });

/**
 * Boundary rows of sequences that are trained on again, newest last, within a limit of bytes. Rows are always the trainer's own:
 * whether they come from here or are captured anew, their bits are the same, so the limit never changes a result.
 */
export class BoundaryCache {
  readonly #trainer: Trainer;
  readonly #limit: number;
  readonly #rows = new Map<string, Boundary>();
  #bytes = 0;

  constructor(trainer: Trainer, limit: number) {
    this.#trainer = trainer;
    this.#limit = limit;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The sequences of the traces, with boundaries where layers lie below the trained ones. */
  async sequences(traces: readonly Sampled[], signal?: AbortSignal): Promise<TrainSequence[]> {
    const plain = traces.map(({ episode }) => trainSequence(episode));
    const layer = this.#trainer.info.lowestTrained;
    if (layer === 0) return plain;
    const known = traces.map(({ key }) => this.#recall(key, layer));
    const missing = plain.filter((_, index) => known[index] === undefined);
    const captured = missing.length === 0 ? [] : await this.#trainer.captureBoundary(missing, signal === undefined ? {} : { signal });
    let next = 0;
    return plain.map((sequence, index) => {
      let boundary = known[index];
      if (boundary === undefined) {
        boundary = captured[next++]!;
        this.#keep(traces[index]!.key, boundary);
      }
      return { ...sequence, boundary };
    });
  }

  #recall(key: string, layer: number): Boundary | undefined {
    const found = this.#rows.get(key);
    if (found === undefined) return undefined;
    this.#forget(key, found);
    if (found.layer !== layer) return undefined; // a remedy added a lower target
    this.#keep(key, found);
    return found;
  }

  #keep(key: string, boundary: Boundary): void {
    const old = this.#rows.get(key);
    if (old !== undefined) this.#forget(key, old);
    this.#rows.set(key, boundary);
    this.#bytes += boundary.rows.byteLength;
    for (const [oldest, rows] of this.#rows) {
      if (this.#bytes <= this.#limit) break;
      this.#forget(oldest, rows);
    }
  }

  #forget(key: string, boundary: Boundary): void {
    this.#rows.delete(key);
    this.#bytes -= boundary.rows.byteLength;
  }
}
