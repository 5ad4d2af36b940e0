/** Sampling options of a body, in the form of a host's request. */
import { grammarOfJsonSchema } from '../../engine/json-schema.js';
import { given } from '../../given.js';
import { asMeant } from '../../host/structured-reply.js';
import { invalid, unsupported } from '../failures.js';
import type { Draw } from './replying.js';
import type { ResponseFormatBody, SamplingBody } from './requests.js';

/** Window of the repetition penalty: all tokens. */
const ALL_TOKENS = 1_000_000;

/**
 * @param topLogprobs number of the likeliest tokens to report with each token
 * @throws RequestFailure
 */
export function drawSettings(
  body: Partial<SamplingBody>,
  maxTokens: number,
  topLogprobs = 0,
): Omit<Draw, 'tokenIds' | 'id'> {
  const { top_k: topK = 0, repetition_penalty: repeatPenalty, seed, stop = [] } = body;
  const { min_tokens: minTokens = 0 } = body;
  if (minTokens > maxTokens)
    throw invalid(
      'min_tokens',
      `min_tokens: more than the ${maxTokens} tokens that the reply may have`,
    );
  return {
    sampling: {
      temperature: body.temperature ?? 1,
      ...(topK > 0 && { topK }),
      ...given({
        topP: body.top_p,
        minP: body.min_p,
        presencePenalty: body.presence_penalty,
        frequencyPenalty: body.frequency_penalty,
        logitBias: body.logit_bias,
      }),
      ...(repeatPenalty !== undefined && { repeatPenalty, repeatWindow: ALL_TOKENS }),
      ...(seed !== undefined && { seed: BigInt.asUintN(64, BigInt(seed)) }),
    },
    maxTokens,
    minTokens,
    topLogprobs,
    whenContextFull: 'stop',
    stop: [stop].flat().filter((text) => text !== ''),
    stopTokens: body.stop_token_ids ?? [],
    ignoreEndOfSequence: body.ignore_eos ?? false,
    deterministic: body.deterministic ?? false,
  };
}

const ANY_OBJECT = { type: 'object', additionalProperties: true };

/** Grammar of all draws; undefined for text. @throws RequestFailure; IsoproError GRAMMAR_INVALID */
export function grammarOf(format: ResponseFormatBody | undefined): string | undefined {
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object')
    return grammarOfJsonSchema(asMeant(format.schema ?? ANY_OBJECT));
  const schema = format.json_schema?.schema ?? format.schema;
  if (schema === undefined)
    throw unsupported(
      'response_format',
      'response_format: json_schema requires a schema; give one, or use json_object',
    );
  return grammarOfJsonSchema(asMeant(schema));
}
