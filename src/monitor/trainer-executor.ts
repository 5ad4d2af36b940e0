import { valueOf } from '../dictionary.js';
import type { LoraTarget, TrainSequence, Trainer } from '../engine/trainer.js';
import { IsoproError } from '../errors.js';
import type { RemedyOperation } from './decision.js';
import type { TrainerSettings } from './policy.js';
import type { RemedyExecutor } from './remedies.js';

/** What only the loop can do. */
export interface LoopControl {
  /** Sequences for each optimiser step from now on; returns what is in force. */
  setBatch(sequences: number): number;
  /** Ends the loop after this iteration and restores an adapter by its digest. */
  stop(restore: string): void;
}

export interface ExecutorOptions {
  readonly learningRate: number;
  readonly maxNorm: number;
  /** Adam's; default 1e-8, as the trainer's. */
  readonly epsilon?: number;
  /** Sequences on which it is measured how far an edit moved the function. */
  readonly probe: readonly TrainSequence[];
  readonly loop: LoopControl;
}

/** What a policy may know, as far as the trainer says it; batch and digests are the loop's. */
export function trainerSettings(trainer: Trainer, loop: Omit<TrainerSettings, 'modules'>): TrainerSettings {
  const measured = trainer.stats?.modules;
  const modules = trainer.info.targets.map(({ module, rank, scale }) => [module, { rank, scale, dormantDirections: measured?.[module]?.dormantDirections ?? [] }]);
  return { ...loop, modules: Object.fromEntries(modules) };
}

/** Trainable parameters of each module, for an iteration's record. */
export const moduleParameters = (trainer: Trainer): { readonly [module: string]: number } => Object.fromEntries(trainer.info.targets.map(({ module, parameters }) => [module, parameters]));

type Measured = { readonly [name: string]: number | string };

/** `blk.3.attn_k` to its layer and target. */
const TARGETS: Readonly<Record<string, LoraTarget>> = { attn_q: 'q', attn_k: 'k', attn_v: 'v', attn_output: 'o', ffn_gate: 'gate', ffn_up: 'up', ffn_down: 'down' };

/** Carries remedies out on a trainer, and measures their consequence on it: ranks it reports, log-probabilities of the probe before and after. */
export class TrainerExecutor implements RemedyExecutor {
  readonly #trainer: Trainer;
  readonly #options: ExecutorOptions;
  readonly #snapshots = new Map<string, Uint8Array>();
  #learningRate: number;
  #maxNorm: number;
  #epsilon: number;

  constructor(trainer: Trainer, options: ExecutorOptions) {
    this.#trainer = trainer;
    this.#options = options;
    this.#learningRate = options.learningRate;
    this.#maxNorm = options.maxNorm;
    this.#epsilon = options.epsilon ?? 1e-8;
  }

  get learningRate(): number {
    return this.#learningRate;
  }

  get maxNorm(): number {
    return this.#maxNorm;
  }

  get epsilon(): number {
    return this.#epsilon;
  }

  /** Keeps the present state under a name to which `rollback` can go; only the newest two are kept. */
  async remember(digest: string): Promise<void> {
    this.#snapshots.set(digest, await this.#trainer.snapshot());
    for (const oldest of [...this.#snapshots.keys()].slice(0, -2)) this.#snapshots.delete(oldest);
  }

  async #setOptimiser(learningRate: number, maxNorm: number): Promise<Measured> {
    await this.#trainer.setOptimiser({ learningRate, maxNorm });
    this.#learningRate = learningRate;
    this.#maxNorm = maxNorm;
    return { learningRate, maxNorm };
  }

  async #probe(): Promise<Float32Array[]> {
    return (await this.#trainer.evaluate(this.#options.probe)).sequences.map(({ logprobs }) => logprobs);
  }

  /** Makes an edit that should keep the function, and measures by how much it did not: the largest change of a log-probability, nats. */
  async #edit(module: string, edit: () => Promise<void>): Promise<Measured> {
    const before = await this.#probe();
    await edit();
    const after = await this.#probe();
    let probeChange = 0;
    for (const [i, row] of before.entries()) row.forEach((value, t) => (probeChange = Math.max(probeChange, Math.abs(value - (after[i] as Float32Array)[t]!))));
    const target = this.#trainer.info.targets.find((each) => each.module === module);
    return { probeChange, ...(target === undefined ? {} : { rank: target.rank, scale: target.scale }) };
  }

  /** @throws IsoproError INVALID_ARGUMENT where the operation does not fit the trainer; its state is as before */
  async execute(operation: RemedyOperation): Promise<Measured> {
    const trainer = this.#trainer;
    switch (operation.op) {
      case 'set_lr':
        if (Math.abs(operation.from - this.#learningRate) > 1e-9 * this.#learningRate) throw new IsoproError('INVALID_ARGUMENT', `the rate is ${this.#learningRate}, not ${operation.from}`);
        return this.#setOptimiser(operation.to, this.#maxNorm);
      case 'set_clip':
        return this.#setOptimiser(this.#learningRate, operation.maxNorm);
      case 'set_batch':
        return { sequencesPerStep: this.#options.loop.setBatch(operation.to) };
      case 'stop':
        this.#options.loop.stop(operation.restore);
        return { restored: operation.restore };
      case 'skip_step':
        return { skipped: 'a step that is not finite was never applied' };
      case 'rollback': {
        const snapshot = this.#snapshots.get(operation.to);
        if (snapshot === undefined) throw new IsoproError('INVALID_ARGUMENT', `no state ${operation.to} is kept`);
        await trainer.rollbackTo(snapshot);
        return { ...(await this.#setOptimiser(operation.learningRate, operation.maxNorm)), restored: operation.to };
      }
      case 'raise_rank':
        return this.#edit(operation.module, () => trainer.raiseRank(operation.module, operation.to));
      case 'add_target': {
        const [, layer, tensor] = /^blk\.(\d+)\.(\w+)$/.exec(operation.module) ?? [];
        const target = tensor === undefined ? undefined : valueOf(TARGETS, tensor);
        if (target === undefined) throw new IsoproError('INVALID_ARGUMENT', `${operation.module} is no module that can be adapted`);
        const scale = trainer.info.targets[0]?.scale ?? 2;
        return this.#edit(operation.module, () => trainer.addTarget(Number(layer), target, { rank: operation.rank, scale }));
      }
      case 'recycle':
        return this.#edit(operation.module, () => trainer.recycleDirections(operation.module, operation.directions));
      case 'rebalance':
        return this.#edit(operation.module, () => trainer.rebalance(operation.module, operation.factor));
      case 'rescale':
        return this.#edit(operation.module, () => trainer.rescale(operation.module, operation.factor));
      case 'lr_mult':
        await trainer.setRateFactor(operation.module, operation.factor);
        return { rateFactor: operation.factor };
      case 'raise_precision': {
        if (operation.adamEps >= this.#epsilon) throw new IsoproError('INVALID_ARGUMENT', `Adam's epsilon is ${this.#epsilon} already`);
        const { learningRate, maxNorm } = this;
        await trainer.setOptimiser({ learningRate, maxNorm, epsilon: operation.adamEps });
        this.#epsilon = operation.adamEps;
        return { epsilon: operation.adamEps };
      }
    }
  }
}
