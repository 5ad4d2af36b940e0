import type {
  LanguageModelV3,
  LanguageModelV3CallOptions,
  LanguageModelV3FinishReason,
  LanguageModelV3GenerateResult,
  LanguageModelV3StreamPart,
  LanguageModelV3StreamResult,
  LanguageModelV3Usage,
} from '@ai-sdk/provider';
import type { HostReply } from '../host/host-request.js';
import { requireFirstTurn } from '../host/hosted-adapter.js';
import { callOf, type Call } from './call.js';
import type { UseModel } from './models.js';

const finishOf = ({ finish }: HostReply): LanguageModelV3FinishReason => ({
  unified: finish,
  raw: finish,
});

const usageOf = ({ promptIds, tokenIds, reusedTokens }: HostReply): LanguageModelV3Usage => ({
  inputTokens: {
    total: promptIds.length,
    noCache: promptIds.length - reusedTokens,
    cacheRead: reusedTokens,
    cacheWrite: undefined,
  },
  outputTokens: { total: tokenIds.length, text: tokenIds.length, reasoning: undefined },
});

/** @param nextCall the number of a call, which no other call of the provider has */
export function languageModel(
  modelId: string,
  use: UseModel,
  maxOutputTokens: number,
  nextCall: () => number,
): LanguageModelV3 {
  const call = (options: LanguageModelV3CallOptions): Call =>
    callOf(options, maxOutputTokens, nextCall());
  return {
    specificationVersion: 'v3',
    provider: 'isopro-native',
    modelId,
    supportedUrls: {},

    async doGenerate(options): Promise<LanguageModelV3GenerateResult> {
      const { request, warnings } = call(options);
      return use(options.abortSignal, async ({ model, adapter }) => {
        requireFirstTurn(adapter, options.prompt);
        const reply = await model.generate({ ...request, adapter });
        return {
          content: [{ type: 'text', text: reply.text }],
          finishReason: finishOf(reply),
          usage: usageOf(reply),
          warnings,
        };
      });
    },

    async doStream(options): Promise<LanguageModelV3StreamResult> {
      const left = new AbortController();
      const signal =
        options.abortSignal === undefined
          ? left.signal
          : AbortSignal.any([options.abortSignal, left.signal]);
      const { request, warnings } = call({ ...options, abortSignal: signal });
      const reply = (
        controller: ReadableStreamDefaultController<LanguageModelV3StreamPart>,
      ): Promise<HostReply> =>
        use(signal, async ({ model, adapter }) => {
          requireFirstTurn(adapter, options.prompt);
          const tokens = model.stream({ ...request, adapter });
          controller.enqueue({ type: 'text-start', id: '0' });
          for (;;) {
            const next = await tokens.next();
            if (next.done === true) return next.value;
            if (next.value.text !== '')
              controller.enqueue({ type: 'text-delta', id: '0', delta: next.value.text });
          }
        });
      return {
        stream: new ReadableStream<LanguageModelV3StreamPart>({
          start: (controller) => controller.enqueue({ type: 'stream-start', warnings }),
          // Once: a token is some bytes, and the reply goes on with those of others whether or not
          // anybody reads it.
          async pull(controller) {
            try {
              const whole = await reply(controller);
              controller.enqueue({ type: 'text-end', id: '0' });
              controller.enqueue({
                type: 'finish',
                finishReason: finishOf(whole),
                usage: usageOf(whole),
              });
              controller.close();
            } catch (error) {
              if (left.signal.aborted) return; // nobody reads any more
              if (signal.aborted) throw error;
              controller.enqueue({ type: 'error', error });
              controller.close();
            }
          },
          cancel: () => left.abort(),
        }),
      };
    },
  };
}
