/**
 * A call of the AI SDK as a request of a host, and what of it a model of this process does not
 * know.
 */
import {
  UnsupportedFunctionalityError,
  type LanguageModelV3CallOptions,
  type LanguageModelV3Message,
  type SharedV3Warning,
} from '@ai-sdk/provider';
import type { ChatMessage } from '../engine/prompt-renderer.js';
import { given as stated } from '../given.js';
import type { HostRequest } from '../host/host-request.js';
import { asMeant } from '../host/structured-reply.js';

type Part = Exclude<LanguageModelV3Message['content'][number], string>;

function textOf(part: Part): string {
  if (part.type === 'text') return part.text;
  if (part.type === 'reasoning') return ''; // no template here takes it back
  throw new UnsupportedFunctionalityError({
    functionality: `a prompt part of type ${part.type}`,
  });
}

const messageOf = ({ role, content }: LanguageModelV3Message): ChatMessage => ({
  role,
  content: typeof content === 'string' ? content : content.map(textOf).join(''),
});

export interface Call {
  readonly request: HostRequest;
  readonly warnings: SharedV3Warning[];
}

/**
 * @param index of the call; without a seed of its own each has other draws, as the first, the
 *   second and so on of the provider
 * @throws UnsupportedFunctionalityError for files and tools in the prompt
 */
export function callOf(
  options: LanguageModelV3CallOptions,
  maxOutputTokens: number,
  index: number,
): Call {
  const { prompt, temperature, topK, topP, seed, stopSequences, responseFormat, abortSignal } =
    options;
  const warnings: SharedV3Warning[] = [];
  const unsupported = (feature: string, given: boolean, details?: string): void => {
    if (given) warnings.push({ type: 'unsupported', feature, ...stated({ details }) });
  };
  unsupported('presencePenalty', (options.presencePenalty ?? 0) !== 0);
  unsupported('frequencyPenalty', (options.frequencyPenalty ?? 0) !== 0);
  unsupported('tools', (options.tools ?? []).length > 0, 'the model does not see them');
  const schema = responseFormat?.type === 'json' ? responseFormat.schema : undefined;
  unsupported(
    'responseFormat',
    responseFormat?.type === 'json' && schema === undefined,
    'JSON output needs a schema; without one the reply is plain text',
  );
  return {
    warnings,
    request: {
      messages: prompt.map(messageOf),
      maxTokens: options.maxOutputTokens ?? maxOutputTokens,
      whenContextFull: 'stop',
      stop: stopSequences ?? [],
      sampling: {
        ...stated({ temperature, topK, topP, seed }),
      },
      ...(seed === undefined && { id: String(index) }),
      ...(schema !== undefined && { jsonSchema: asMeant(schema) }),
      ...stated({ signal: abortSignal }),
    },
  };
}
