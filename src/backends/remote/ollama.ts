/**
 * A model of Ollama's own interface. Its OpenAI form drops the size of the context and cuts what
 * does not fit into 4,096 tokens without a word.
 */
import { missingPackage, SERVICE_PACKAGES } from '../../optional-package.js';
import { TransportError } from './attempt-failure.js';
import type { Fetch } from './http.js';
import type { LanguageModel, LanguageModelCall, LanguageModelReply } from './language-model.js';

/** As much as a prompt of a task and its reply need, and as little memory as that. */
const CONTEXT_TOKENS = 8192;

/** An answer of its chat, as far as it is read. */
interface ChatAnswer {
  readonly model?: string;
  readonly message?: { readonly content?: string };
  readonly done_reason?: string;
  readonly prompt_eval_count?: number;
  readonly eval_count?: number;
}

/** @throws IsoproError PACKAGE_MISSING */
export async function ollamaModel(
  modelId: string,
  host: URL,
  fetch: Fetch,
  contextTokens = CONTEXT_TOKENS,
): Promise<LanguageModel> {
  const { Ollama } = await import('ollama').catch((cause: unknown) => {
    throw missingPackage('ollama', SERVICE_PACKAGES.ollama, 'The back end ollama', cause);
  });
  return {
    specificationVersion: 'v3',
    provider: 'ollama',
    modelId,
    async doGenerate(call) {
      // it hands no signal on, and its errors have no headers
      let answered: Response | undefined;
      const client = new Ollama({
        host: host.href.replace(/\/$/, ''),
        fetch: async (input, init) =>
          (answered = await fetch(input, { ...init, signal: call.abortSignal })),
      });
      const answer = (await client
        .chat({ ...questionOf(modelId, call, contextTokens), stream: false })
        .catch((error: unknown) => {
          throw asCallError(error, answered);
        })) as ChatAnswer;
      return replyOf(answer, call, contextTokens);
    },
  };
}

function questionOf(
  model: string,
  {
    prompt,
    maxOutputTokens,
    temperature,
    topP,
    seed,
    stopSequences,
    responseFormat,
  }: LanguageModelCall,
  contextTokens: number,
) {
  return {
    model,
    messages: prompt.map(({ role, content }) => ({
      role,
      content: typeof content === 'string' ? content : content.map(({ text }) => text).join(''),
    })),
    ...(responseFormat !== undefined && { format: responseFormat.schema }),
    options: {
      num_ctx: contextTokens,
      num_predict: maxOutputTokens,
      ...(temperature !== undefined && { temperature }),
      ...(topP !== undefined && { top_p: topP }),
      ...(seed !== undefined && { seed }),
      ...(stopSequences !== undefined && { stop: stopSequences }),
    },
  };
}

/** In the form of the AI SDK, with what the answer said. */
function asCallError(error: unknown, answered: Response | undefined): unknown {
  if (answered === undefined || answered.ok || !(error instanceof Error)) return error;
  return Object.assign(new Error(error.message), {
    statusCode: answered.status,
    responseHeaders: Object.fromEntries(answered.headers),
  });
}

function replyOf(
  answer: ChatAnswer,
  { maxOutputTokens }: LanguageModelCall,
  contextTokens: number,
): LanguageModelReply {
  const { message, done_reason: raw, prompt_eval_count: prompt, eval_count: reply, model } = answer;
  if (typeof message?.content !== 'string')
    throw new TransportError('invalid', 'the answer holds no message');
  // what was cut from the beginning of a prompt is not said anywhere
  const isFull = (prompt ?? 0) + (reply ?? 0) >= contextTokens;
  if (isFull && (reply ?? 0) < maxOutputTokens)
    throw new TransportError(
      'context',
      `prompt and reply fill the context of ${contextTokens} tokens: give a larger one with --context`,
    );
  return {
    content: [{ type: 'text', text: message.content }],
    finishReason: { unified: raw === 'stop' || raw === 'length' ? raw : 'other', raw },
    usage: {
      inputTokens: { total: prompt },
      outputTokens: { total: reply, reasoning: undefined },
    },
    ...(model !== undefined && { response: { modelId: model } }),
  };
}
