/** Which layers are trained. */
import type { Model } from '../engine/model.js';
import { createTrainer, type TrainSequence } from '../engine/trainer.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { Random } from '../random.js';
import { seedOf, type LayerMethod, type RunSettings } from './settings.js';
import { PROBES } from './probe-sequences.js';

export interface LayerChoice {
  readonly method: LayerMethod | 'list';
  /** Ascending. */
  readonly layers: readonly number[];
  /** Scores of activation and gradient, by layer. */
  readonly scores: readonly number[] | null;
}

/**
 * Directions of the adapter whose gradient is measured; with B = 0 its rank scales all layers
 * alike.
 */
const PROBE_RANK = 4;

export interface LayerOptions {
  readonly model: Model;
  readonly settings: Pick<RunSettings, 'seed'> & {
    readonly model: Pick<RunSettings['model'], 'threads'>;
    readonly layers: Pick<
      RunSettings['layers'],
      'choice' | 'topLayers' | 'targets' | 'trainerMemory'
    >;
  };
  /** Accepted traces of the base model, or its prompts where nothing was accepted. */
  readonly probes: readonly TrainSequence[];
  readonly signal?: AbortSignal;
}

/** @throws IsoproError INVALID_ARGUMENT where a named layer does not exist */
export async function chooseLayers(options: LayerOptions): Promise<LayerChoice> {
  const { model, settings } = options;
  const { layers: count } = model.info;
  const top = Math.min(settings.layers.topLayers, count);
  const numbers = Array.from({ length: count }, (_, layer) => layer);
  const ascending = (layers: readonly number[]): number[] => [...layers].sort((a, b) => a - b);
  const best = (scores: readonly number[]): number[] =>
    ascending(numbers.toSorted((a, b) => scores[b]! - scores[a]! || b - a).slice(0, top));
  switch (settings.layers.choice) {
    case 'all':
      return { method: 'all', layers: numbers, scores: null };
    case 'last':
      return { method: 'last', layers: numbers.slice(-top), scores: null };
    case 'random': {
      const random = new Random(seedOf(settings, 'layers'));
      let drawn: number[];
      // a control that draws the layers it is to be compared with would be none
      do drawn = ascending(random.shuffle(numbers).slice(0, top));
      while (top < count && drawn[0] === count - top);
      return { method: 'random', layers: drawn, scores: null };
    }
    case 'activation': {
      const scores = await residualUpdates(options);
      return { method: 'activation', layers: best(scores), scores };
    }
    case 'gradient': {
      const scores = await gradientNorms(options);
      return { method: 'gradient', layers: best(scores), scores };
    }
    default: {
      const listed = [...new Set(settings.layers.choice.split(',').map(Number))];
      const beyond = listed.find((layer) => layer >= count);
      if (beyond !== undefined)
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `layers.choice: the model has layers 0 to ${count - 1}, no layer ${beyond}`,
        );
      return { method: 'list', layers: ascending(listed), scores: null };
    }
  }
}

/** Mean over sequences of ‖h_out - h_in‖ / ‖h_in‖ by layer; norms are means over tokens. */
async function residualUpdates({ model, probes, signal }: LayerOptions): Promise<number[]> {
  const layers = Array.from({ length: model.info.layers }, (_, layer) => layer);
  const sums = layers.map(() => 0);
  const used = probes.slice(0, PROBES);
  for (const { tokenIds } of used) {
    const norms = await model.hidden({
      tokens: tokenIds,
      layers,
      reduce: 'norms',
      ...given({ signal }),
    });
    for (const { layer, update, in: input } of norms) sums[layer]! += update / input / used.length;
  }
  return sums;
}

/** Gradient norms of all adapter pairs of a layer, in one backward pass without an update. */
async function gradientNorms({ model, settings, probes, signal }: LayerOptions): Promise<number[]> {
  await using trainer = await createTrainer(model, {
    lora: { targets: settings.layers.targets, layers: 'all', rank: PROBE_RANK, alpha: PROBE_RANK },
    seed: seedOf(settings, 'layers'),
    threads: settings.model.threads,
    memoryBytes: settings.layers.trainerMemory,
  });
  const { modules } = await trainer.differentiate(probes.slice(0, PROBES), given({ signal }));
  const squares = Array.from({ length: model.info.layers }, () => 0);
  for (const [module, { pairGradNorm }] of Object.entries(modules))
    squares[Number(/^blk\.(\d+)\./.exec(module)?.[1])]! += pairGradNorm ** 2;
  return squares.map(Math.sqrt);
}
