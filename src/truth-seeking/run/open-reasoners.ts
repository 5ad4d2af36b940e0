/** Loads the reasoners that a configuration names. */
import { loadModel, type Model } from '../../engine/model.js';
import { given } from '../../given.js';
import { humanReasoner } from '../human-reasoner.js';
import { localReasoner } from '../local-reasoner.js';
import type { Message } from '../reasoner.js';
import type { TruthConfig } from './config.js';
import type { TruthReasoners } from './reasoners.js';

export interface OpenReasonerOptions {
  /** Asks the person, if the reasoner is one. */
  readonly ask?: (messages: readonly Message[], signal?: AbortSignal) => Promise<string>;
  readonly signal?: AbortSignal;
  readonly onDownload?: (progress: {
    readonly downloadedBytes: number;
    readonly totalBytes: number | null;
  }) => void;
}

/**
 * Loads the reasoners of a configuration. The model reads the beliefs of a person; with an adapter
 * and no other predictor, the base model predicts.
 * @throws IsoproError of loadModel and loadAdapter
 */
export async function openReasoners(
  config: Pick<
    TruthConfig,
    | 'policy'
    | 'model'
    | 'adapter'
    | 'predictor'
    | 'judge'
    | 'threads'
    | 'contextTokens'
    | 'matmul'
    | 'seed'
  >,
  { ask, signal, onDownload }: OpenReasonerOptions = {},
): Promise<TruthReasoners & AsyncDisposable> {
  const { threads, contextTokens, matmul } = config;
  const models: Model[] = [];
  const seed = BigInt(config.seed);
  const dispose = async (): Promise<void> => {
    for (const model of models.splice(0)) await model.dispose();
  };
  /** Loads a model; own kernels may not support another model file. */
  const open = async (name: string, isOther = true): Promise<Model> => {
    const model = await loadModel(name, {
      fixedThreads: true,
      ...(threads !== 0 && { threads }),
      ...given({ contextTokens, signal, onDownload }),
      ...given({ matmul: matmul === 'own' && isOther ? 'auto' : matmul }),
    });
    models.push(model);
    return model;
  };
  try {
    const model = await open(config.model, false);
    const adapter = config.adapter === undefined ? null : await model.loadAdapter(config.adapter);
    const own = await localReasoner(model, { adapter, seed });
    const human = config.policy === 'human' && ask !== undefined ? humanReasoner(ask) : null;
    const opened = async (name: string | undefined) =>
      name === undefined ? null : localReasoner(await open(name), { seed });
    const other = await opened(config.predictor);
    const judge = await opened(config.judge);
    const bare = adapter === null ? null : await localReasoner(model, { seed });
    return {
      evaluated: human ?? own,
      predictor: other ?? (human === null ? bare : own),
      judge,
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}
