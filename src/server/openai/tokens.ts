/** Token ids in and out: vLLM's /inference/v1/generate, /tokenize and /detokenize. */
import type { z } from 'zod';
import { asTemplatesKnow } from '../../engine/messages.js';
import { ofMember } from '../failures.js';
import {
  drawIds,
  openModel,
  requireDrawTokens,
  requirePromptIds,
  requireTokens,
  tokenized,
  type ServerContext,
} from './context.js';
import { allReplies, type Asking } from './replying.js';
import type { detokenizeBody, GenerateBody, tokenizeBody } from './requests.js';
import { drawSettings } from './sampling.js';
import { scorePrompt } from './scoring.js';
import { activityOf, newId, tokenLogprobs, usageOf } from './shapes.js';
import { nameById } from './token-text.js';

export async function generate(
  context: ServerContext,
  body: GenerateBody,
  asking: Asking,
): Promise<object> {
  const { token_ids: tokenIds, sampling_params: sampling } = body;
  using served = await openModel(context, body, asking);
  const { prompt_logprobs: promptCount } = sampling;
  await requirePromptIds(served, 'token_ids', tokenIds);
  requireDrawTokens(served, sampling, 'sampling_params.');
  const settings = drawSettings(
    sampling,
    Math.min(sampling.max_tokens ?? context.mostTokens, context.mostTokens),
    sampling.logprobs,
  );
  const draws = drawIds(context, sampling.seed, sampling.n ?? 1).map((id) => ({
    tokenIds,
    ...settings,
    id,
  }));
  const replies = await allReplies(served, draws, asking);
  const choices: object[] = [];
  for (const [index, reply] of replies.entries())
    choices.push({
      index,
      finish_reason: reply.finish,
      ...activityOf(reply),
      token_ids: [...reply.tokenIds],
      logprobs:
        sampling.logprobs === undefined
          ? null
          : { content: await tokenLogprobs(asking.slices, served.model, reply, nameById) },
    });
  return {
    request_id: body.request_id ?? newId('generate'),
    choices,
    prompt_logprobs:
      promptCount === undefined
        ? null
        : await scorePrompt(served, replies[0]!.promptIds, promptCount, asking),
    usage: usageOf(replies),
  };
}

export async function tokenize(
  context: ServerContext,
  body: z.output<typeof tokenizeBody>,
  asking: Asking,
): Promise<object> {
  using served = await openModel(context, body, asking);
  const { model } = served;
  const { prompt, messages } = body;
  const { addBos, bos } = model.info;
  const ids = await (messages === undefined
    ? ofMember('prompt', () => tokenized(served, asking, { text: prompt! }))
    : ofMember('messages', () =>
        tokenized(
          served,
          asking,
          { messages: asTemplatesKnow(messages) },
          { addGenerationPrompt: body.add_generation_prompt ?? true },
        ),
      ));
  const isBegun = messages === undefined && addBos && bos >= 0;
  const tokens = await asking.slices.map(
    isBegun && body.add_special_tokens === false ? ids.subarray(1) : ids,
    (id) => id,
  );
  return {
    count: tokens.length,
    max_model_len: model.contextTokens,
    tokens,
    token_strs:
      body.return_token_strs === true
        ? await asking.slices.map(tokens, (id) => model.detokenize([id], { withControl: true }))
        : null,
  };
}

export async function detokenize(
  context: ServerContext,
  body: z.output<typeof detokenizeBody>,
  asking: Asking,
): Promise<object> {
  using served = await openModel(context, body, asking);
  requireTokens(served, body.tokens, (at) => `tokens[${at}]`);
  return { prompt: served.model.detokenize(body.tokens, { withControl: true }) };
}
