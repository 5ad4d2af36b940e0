import type { EmbeddingModelV3 } from '@ai-sdk/provider';
import type { UseModel } from './models.js';

export function embeddingModel(modelId: string, use: UseModel): EmbeddingModelV3 {
  return {
    specificationVersion: 'v3',
    provider: 'isopro-native',
    modelId,
    maxEmbeddingsPerCall: Infinity,
    supportsParallelCalls: true,
    doEmbed: ({ values, abortSignal }) =>
      use(abortSignal, async ({ model, adapter }) => {
        const { rows, tokens } = await model.embed(values, {
          adapter,
          ...(abortSignal && { signal: abortSignal }),
        });
        return {
          embeddings: rows.map((row) => [...row]),
          usage: { tokens: tokens.reduce((sum, count) => sum + count, 0) },
          warnings: [],
        };
      }),
  };
}
