import { ownValue } from '../../dictionary.js';
import type { LoraModule, StepStatistics, TrainSequence, Trainer } from '../../engine/trainer.js';
import { IsoproError } from '../../errors.js';
import type { RemedyExecutor } from '../../monitor/remedies.js';
import type { Measured } from '../../monitor/trainee.js';
import type { LoraOperation } from './operations.js';
import type { TrainerSettings } from './settings.js';

/** `blk.3.attn_k` to its layer and target. */
const TARGETS: Readonly<Record<string, LoraModule>> = {
  attn_q: 'q',
  attn_k: 'k',
  attn_v: 'v',
  attn_output: 'o',
  ffn_gate: 'gate',
  ffn_up: 'up',
  ffn_down: 'down',
  attn_qkv: 'qkv',
};
const TENSORS = Object.fromEntries(
  Object.entries(TARGETS).map(([tensor, target]) => [target, tensor]),
) as Readonly<Record<LoraModule, string>>;

/** Actions that only the loop can do. */
export interface LoopControl {
  /** Sequences for each optimiser step from now on; returns what is in force. */
  setBatch(sequences: number): number;
  /** The state that is kept under a digest; undefined where there is none. */
  kept(digest: string): Uint8Array | undefined;
  /** Digest of the trainer's present state, as states are named. */
  digest(): Promise<string>;
  /** Ends the loop after this iteration with the adapter that the trainer now has. */
  stop(): void;
}

/** Base rate, clipping norm and Adam's epsilon of the next step. */
export interface OptimiserInForce {
  learningRate: number;
  maxNorm: number;
  epsilon: number;
}

export interface ExecutorOptions {
  /** The executor changes it; whoever gives it keeps it, so that it outlives a process. */
  readonly inForce: OptimiserInForce;
  readonly loop: LoopControl;
  /** Dropout on the adapter's inputs, also for added modules. Default 0. */
  readonly dropout?: number;
}

/** The iteration that a decision is about. */
export interface ExecutedIteration {
  /** Sequences on which it is measured how far an edit moves the function. */
  readonly probe: readonly TrainSequence[];
  readonly steps: readonly StepStatistics[];
}

/** Returns what a policy may know from the trainer; batch and digests come from the loop. */
export function trainerSettings(
  trainer: Trainer,
  loop: Omit<TrainerSettings, 'modules' | 'unadapted'>,
): TrainerSettings {
  const measured = trainer.stats?.modules;
  const modules = trainer.info.targets.map(({ module, rank, scale }) => [
    module,
    { rank, scale, dormantDirections: measured?.[module]?.dormantDirections ?? [] },
  ]);
  const adapted = trainer.info.targets.map(({ module }) => module);
  const layers = [...new Set(adapted.map((module) => Number(/^blk\.(\d+)\./.exec(module)?.[1])))];
  const unadapted = trainer
    .adaptable(layers)
    .map(({ layer, module }) => `blk.${layer}.${TENSORS[module]}`)
    .filter((module) => !adapted.includes(module));
  return { ...loop, modules: Object.fromEntries(modules), unadapted };
}

/** Trainable parameters of each module, for an iteration's record. */
export const moduleParameters = (trainer: Trainer): { readonly [module: string]: number } =>
  Object.fromEntries(trainer.info.targets.map(({ module, parameters }) => [module, parameters]));

/**
 * Carries remedies out on a trainer, and measures their consequence on it: ranks it reports,
 * log-probabilities of the probe before and after, the digest of what was restored. One serves a
 * whole run; it has no state of its own that a checkpoint would have to keep.
 */
export class TrainerExecutor implements RemedyExecutor<LoraOperation> {
  readonly #trainer: Trainer;
  readonly #options: ExecutorOptions;
  #iteration: ExecutedIteration = { probe: [], steps: [] };

  constructor(trainer: Trainer, options: ExecutorOptions) {
    this.#trainer = trainer;
    this.#options = options;
  }

  get inForce(): Readonly<OptimiserInForce> {
    return this.#options.inForce;
  }

  /** Before the decisions of each iteration. */
  begin(iteration: ExecutedIteration): void {
    this.#iteration = iteration;
  }

  async #setOptimiser(change: Partial<OptimiserInForce>): Promise<Measured> {
    const { learningRate, maxNorm, epsilon } = this.inForce;
    const next = { learningRate, maxNorm, epsilon, ...change };
    await this.#trainer.setOptimiser(next);
    Object.assign(this.#options.inForce, next);
    return { learningRate: next.learningRate, maxNorm: next.maxNorm };
  }

  /** @returns the digest of what is there afterwards */
  async #restore(digest: string): Promise<string> {
    const { loop } = this.#options;
    const snapshot = loop.kept(digest);
    if (snapshot === undefined)
      throw new IsoproError('INVALID_ARGUMENT', `there is no saved state ${digest}`);
    await this.#trainer.rollbackTo(snapshot);
    return loop.digest();
  }

  async #probe(): Promise<Float32Array[]> {
    return (await this.#trainer.evaluate(this.#iteration.probe)).sequences.map(
      ({ logprobs }) => logprobs,
    );
  }

  /**
   * Makes an edit that should keep the function, and measures by how much it did not: the largest
   * change of a log-probability, nats.
   */
  async #edit(module: string, edit: () => Promise<void>): Promise<Measured> {
    const before = await this.#probe();
    await edit();
    const after = await this.#probe();
    let probeChange = 0;
    for (const [i, row] of before.entries())
      row.forEach((value, t) => {
        probeChange = Math.max(probeChange, Math.abs(value - (after[i] as Float32Array)[t]!));
      });
    const target = this.#trainer.info.targets.find((each) => each.module === module);
    return {
      probeChange,
      ...(target === undefined ? {} : { rank: target.rank, scale: target.scale }),
    };
  }

  /**
   * @throws IsoproError INVALID_ARGUMENT where the operation does not fit the trainer; its state is
   *   as before
   */
  async execute(operation: LoraOperation): Promise<Measured> {
    const trainer = this.#trainer;
    switch (operation.op) {
      case 'set_lr': {
        const { learningRate } = this.inForce;
        if (Math.abs(operation.from - learningRate) > 1e-9 * learningRate)
          throw new IsoproError(
            'INVALID_ARGUMENT',
            `the learning rate is ${learningRate}, not ${operation.from}`,
          );
        return this.#setOptimiser({ learningRate: operation.to });
      }
      case 'set_clip':
        return this.#setOptimiser({ maxNorm: operation.maxNorm });
      case 'set_batch':
        return { sequencesPerStep: this.#options.loop.setBatch(operation.to) };
      case 'stop': {
        const restored = await this.#restore(operation.restore);
        this.#options.loop.stop();
        return { restored };
      }
      case 'skip_step': {
        const skipped = this.#iteration.steps.filter(({ applied }) => !applied).length;
        if (skipped === 0)
          throw new IsoproError(
            'INVALID_ARGUMENT',
            'every step of the iteration was finite and applied, so there is no step to skip',
          );
        return { skipped };
      }
      case 'rollback': {
        const restored = await this.#restore(operation.to);
        return {
          ...(await this.#setOptimiser({
            learningRate: operation.learningRate,
            maxNorm: operation.maxNorm,
          })),
          restored,
        };
      }
      case 'raise_rank':
        return this.#edit(operation.module, () =>
          trainer.raiseRank(operation.module, operation.to),
        );
      case 'add_target': {
        const [, layer, tensor] = /^blk\.(\d+)\.(\w+)$/.exec(operation.module) ?? [];
        const target = tensor === undefined ? undefined : ownValue(TARGETS, tensor);
        if (target === undefined)
          throw new IsoproError(
            'INVALID_ARGUMENT',
            `${operation.module} is not a module that can be adapted`,
          );
        const scale = trainer.info.targets[0]?.scale ?? 2;
        const { dropout = 0 } = this.#options;
        return this.#edit(operation.module, () =>
          trainer.addTarget(Number(layer), target, { rank: operation.rank, scale, dropout }),
        );
      }
      case 'recycle':
        return this.#edit(operation.module, () =>
          trainer.recycleDirections(operation.module, operation.directions),
        );
      case 'rebalance':
        return this.#edit(operation.module, () =>
          trainer.rebalance(operation.module, operation.factor),
        );
      case 'rescale':
        return this.#edit(operation.module, () =>
          trainer.rescale(operation.module, operation.factor),
        );
      case 'lr_mult':
        await trainer.setRateFactor(operation.module, operation.factor);
        return { rateFactor: operation.factor };
      case 'raise_precision': {
        const { epsilon } = this.inForce;
        if (operation.adamEps >= epsilon)
          throw new IsoproError('INVALID_ARGUMENT', `Adam's epsilon is already ${epsilon}`);
        await this.#setOptimiser({ epsilon: operation.adamEps });
        return { epsilon: operation.adamEps };
      }
    }
  }
}
