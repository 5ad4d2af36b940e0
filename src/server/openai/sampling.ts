/** How a body asks for its replies to be drawn, as a host's request has it; what the engine does not have yet is refused by name. */
import type { HostRequest } from '../../host/host-request.js';
import { withoutSafeBounds } from '../../host/structured-reply.js';
import { unsupported } from '../failures.js';
import type { ResponseFormatBody, SamplingBody } from './requests.js';

/** Of a request, whatever its prompt. */
export type DrawSettings = Pick<
  HostRequest,
  'sampling' | 'maxTokens' | 'stop' | 'stopTokens' | 'ignoreEndOfSequence' | 'whenContextFull' | 'jsonSchema' | 'grammar'
>;

/** As many as there are. */
const ALL_TOKENS = 1_000_000;

/** @throws RequestFailure */
export function drawSettings(body: Partial<SamplingBody>, maxTokens: number): DrawSettings {
  const { temperature, top_k: topK = 0, top_p: topP, min_p: minP, repetition_penalty: repeatPenalty, seed, stop } = body;
  for (const member of ['presence_penalty', 'frequency_penalty'] as const)
    if ((body[member] ?? 0) !== 0) throw unsupported(member, `${member}: this server has none yet; repetition_penalty is there`);
  if (Object.keys(body.logit_bias ?? {}).length > 0) throw unsupported('logit_bias', 'logit_bias: this server has none yet');
  if ((body.min_tokens ?? 0) > 0) throw unsupported('min_tokens', 'min_tokens: this server has none yet');
  return {
    sampling: {
      temperature: temperature ?? 1,
      ...(topK > 0 && { topK }),
      ...(topP !== undefined && { topP }),
      ...(minP !== undefined && { minP }),
      ...(repeatPenalty !== undefined && { repeatPenalty, repeatWindow: ALL_TOKENS }),
      ...(seed !== undefined && { seed: BigInt.asUintN(64, BigInt(seed)) }),
    },
    maxTokens,
    whenContextFull: 'stop',
    stop: (stop === undefined ? [] : [stop].flat()).filter((text) => text !== ''),
    stopTokens: body.stop_token_ids ?? [],
    ignoreEndOfSequence: body.ignore_eos ?? false,
  };
}

/** More than the sampled token's own. @throws RequestFailure */
export function refuseAlternatives(param: string, count: number | undefined): void {
  if ((count ?? 0) > 0) throw unsupported(param, `${param}: this server has the log-probability of the sampled token only; ask for 0`);
}

const ANY_OBJECT = { type: 'object', additionalProperties: true };

/** What a reply has to be a document of; undefined: text. @throws RequestFailure */
export function schemaOf(format: ResponseFormatBody | undefined): object | undefined {
  if (format === undefined || format.type === 'text') return undefined;
  if (format.type === 'json_object') return withoutSafeBounds(format.schema ?? ANY_OBJECT);
  const schema = format.json_schema?.schema ?? format.schema;
  if (schema === undefined) throw unsupported('response_format', 'response_format: json_schema without a schema; give one, or json_object');
  return withoutSafeBounds(schema);
}
