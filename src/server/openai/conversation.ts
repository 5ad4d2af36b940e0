/**
 * A conversation with or without tools, as draws of the host: what /v1/chat/completions and
 * /v1/responses have in common.
 */
import { asTemplatesKnow, type ReadMessage } from '../../engine/messages.js';
import type { ChatMessage, TemplateVariables } from '../../engine/prompt-renderer.js';
import { given } from '../../given.js';
import { requireFirstTurn } from '../../host/hosted-adapter.js';
import { ofMember, unsupported } from '../failures.js';
import { drawIds, promptIdsOf, requireDrawTokens, type ServerContext } from './context.js';
import type { Served } from './models.js';
import type { Asking, Draw } from './replying.js';
import type { ResponseFormatBody, SamplingBody, ToolBody, ToolChoiceBody } from './requests.js';
import { drawSettings, grammarOf } from './sampling.js';
import { planTools, type ToolPlan } from './tools.js';

/**
 * Adds the instructions for tools: as a system message, or before the first user message if the
 * template takes no system message.
 */
export function withInstructions(
  said: readonly ChatMessage[],
  instructions: string,
  takesSystem: boolean,
): ChatMessage[] {
  const role = takesSystem || said[0]?.role === 'system' ? 'system' : 'user';
  const [first, ...rest] = said;
  if (first?.role !== role) return [{ role, content: instructions }, ...said];
  const told = role === 'system' ? [first.content, instructions] : [instructions, first.content];
  return [{ role, content: told.join('\n\n') }, ...rest];
}

/** A conversation, and how to answer it. */
export interface ConversationRequest {
  readonly messages: readonly ReadMessage[];
  readonly tools: readonly ToolBody[] | undefined;
  readonly toolChoice: ToolChoiceBody | undefined;
  readonly parallelCalls: boolean | undefined;
  readonly format: ResponseFormatBody | undefined;
  readonly maxTokens: number | undefined;
  /** Variables of the chat template. */
  readonly variables?: TemplateVariables | undefined;
  readonly topLogprobs: number | undefined;
  readonly sampling: Partial<SamplingBody>;
}

export interface ConversationPlan {
  readonly draws: readonly Draw[];
  readonly tools: ToolPlan | null;
  /** Prompt of all draws. */
  readonly promptIds: Int32Array;
}

/** @throws RequestFailure, IsoproError */
export async function planConversation(
  context: ServerContext,
  served: Served,
  asking: Asking,
  request: ConversationRequest,
): Promise<ConversationPlan> {
  const { sampling } = request;
  const { mostTokens } = context;
  requireDrawTokens(served, sampling);
  const tools = planTools(request.tools, request.toolChoice, request.parallelCalls);
  const grammar =
    tools?.grammar ?? (await ofMember('response_format', () => grammarOf(request.format)));
  if (tools !== null && request.format !== undefined && request.format.type !== 'text')
    throw unsupported(
      'response_format',
      'response_format: JSON together with tools that may be called is not supported',
    );
  const said = asTemplatesKnow(request.messages);
  await ofMember('messages', () => requireFirstTurn(served.adapter, said));
  const messages =
    tools === null ? said : withInstructions(said, tools.instructions, served.model.takesSystem);
  const promptIds = await promptIdsOf(
    served,
    asking,
    'messages',
    { messages },
    { variables: request.variables ?? {} },
  );
  const draw: Draw = {
    tokenIds: promptIds,
    ...drawSettings(
      sampling,
      Math.min(request.maxTokens ?? mostTokens, mostTokens),
      request.topLogprobs,
    ),
    ...given({ grammar }),
    ...(tools !== null && { stopBefore: tools.stopBefore }),
  };
  return {
    draws: drawIds(context, sampling.seed, sampling.n ?? 1).map((id) => ({ ...draw, id })),
    tools,
    promptIds,
  };
}
