/**
 * The AI SDK's language model, specification v3, as far as a back end calls it. The types are
 * structural: a model of any provider of the AI SDK fits, and nothing here needs its packages.
 */

export interface TextPart {
  readonly type: 'text';
  readonly text: string;
}

export type PromptMessage =
  | { role: 'system'; content: string }
  | { role: 'user' | 'assistant'; content: { type: 'text'; text: string }[] };

export interface LanguageModelCall {
  prompt: PromptMessage[];
  maxOutputTokens: number;
  temperature?: number;
  topP?: number;
  topK?: number;
  seed?: number;
  stopSequences?: string[];
  responseFormat?: { type: 'json'; schema: object };
  abortSignal: AbortSignal;
  providerOptions?: Record<string, Record<string, string | number | boolean>>;
}

export interface LanguageModelReply {
  readonly content: readonly { readonly type: string; readonly text?: string }[];
  readonly finishReason: { readonly unified: string; readonly raw: string | undefined };
  readonly usage: {
    readonly inputTokens: { readonly total: number | undefined };
    readonly outputTokens: {
      readonly total: number | undefined;
      readonly reasoning: number | undefined;
    };
  };
  readonly response?: { readonly modelId?: string };
  /** What of the call had no effect. */
  readonly warnings?: readonly {
    readonly type: string;
    readonly feature?: string;
    readonly details?: string | undefined;
    readonly message?: string;
  }[];
}

/** A model of any provider of the AI SDK, by its specification v3. */
export interface LanguageModel {
  readonly specificationVersion: 'v3';
  readonly provider: string;
  readonly modelId: string;
  // a method, so that the models of the SDK, which take more, fit
  doGenerate(call: LanguageModelCall): PromiseLike<LanguageModelReply>;
}
