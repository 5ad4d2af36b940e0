/**
 * The provider: language and embedding models by name, loaded at their first call and shared by all
 * that name them.
 */
import {
  NoSuchModelError,
  type EmbeddingModelV3,
  type ImageModelV3,
  type LanguageModelV3,
  type ProviderV3,
} from '@ai-sdk/provider';
import { z } from 'zod';
import { checked } from '../engine/argument-check.js';
import { ModelHost, type HostLoadOptions } from '../host/model-host.js';
import { languageModel } from './language-model.js';
import { Models, type UseModel } from './models.js';

export interface IsoproModelSettings {
  /** Path of a LoRA adapter in GGUF. Default: the bare base model. */
  readonly adapter?: string;
  /**
   * Maximum number of tokens of a reply if a call does not set `maxOutputTokens`. Default 1024. A
   * reply always ends when the context is full.
   */
  readonly maxOutputTokens?: number;
}

export interface IsoproProviderOptions {
  /**
   * Host that loads the models; `dispose` does not dispose of it. Default: the provider's own host.
   */
  readonly host?: ModelHost;
  /** Options for loading models. */
  readonly load?: Omit<HostLoadOptions, 'signal'>;
}

export interface IsoproProvider extends ProviderV3 {
  (modelId: string, settings?: IsoproModelSettings): LanguageModelV3;
  /** Returns a model by the path of a GGUF file, an alias or an `hf:` URI. */
  languageModel(modelId: string, settings?: IsoproModelSettings): LanguageModelV3;
  embeddingModel(
    modelId: string,
    settings?: Pick<IsoproModelSettings, 'adapter'>,
  ): EmbeddingModelV3;
  /** Ends running calls and frees the models. */
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const modelName = z.string().min(1);
const modelSettings = z.strictObject({
  adapter: z.string().min(1).optional(),
  maxOutputTokens: z
    .int()
    .min(1)
    .max(2 ** 31 - 1)
    .default(1024),
});
const providerOptions = z.strictObject({
  host: z.instanceof(ModelHost).optional(),
  load: z.custom<HostLoadOptions>().optional(),
});

function embeddingModel(modelId: string, use: UseModel): EmbeddingModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'isopro-native',
    modelId,
    maxEmbeddingsPerCall: Infinity,
    supportsParallelCalls: true,
    doEmbed: ({ values, abortSignal }) =>
      use(abortSignal, async ({ model, adapter }) => {
        const { rows, tokens } = await model.embed(values, { adapter, signal: abortSignal });
        return {
          embeddings: rows.map((row) => [...row]),
          usage: { tokens: tokens.reduce((sum, count) => sum + count, 0) },
          warnings: [],
        };
      }),
  };
}

/**
 * @example const isopro = createIsopro(); await generateText({ model: isopro('smollm2-135m'),
 *   prompt: 'Name a river.' });
 * @throws IsoproError INVALID_ARGUMENT
 */
export function createIsopro(options: IsoproProviderOptions = {}): IsoproProvider {
  checked(providerOptions, options, 'options');
  const models = new Models(options.host, options.load);
  let calls = 0;
  const language = (modelId: string, settings: IsoproModelSettings = {}): LanguageModelV3 => {
    const { adapter, maxOutputTokens } = checked(modelSettings, settings, 'settings');
    return languageModel(
      checked(modelName, modelId, 'modelId'),
      models.use(modelId, adapter),
      maxOutputTokens,
      () => calls++,
    );
  };
  const embedding = (
    modelId: string,
    settings: Pick<IsoproModelSettings, 'adapter'> = {},
  ): EmbeddingModelV3 => {
    const { adapter } = checked(modelSettings, settings, 'settings');
    return embeddingModel(checked(modelName, modelId, 'modelId'), models.use(modelId, adapter));
  };
  return Object.assign(
    (modelId: string, settings?: IsoproModelSettings) => language(modelId, settings),
    {
      specificationVersion: 'v3' as const,
      languageModel: language,
      embeddingModel: embedding,
      imageModel: (modelId: string): ImageModelV3 => {
        throw new NoSuchModelError({ modelId, modelType: 'imageModel' });
      },
      dispose: () => models.dispose(),
      [Symbol.asyncDispose]: () => models.dispose(),
    },
  );
}
