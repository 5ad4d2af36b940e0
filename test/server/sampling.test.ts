/** What a body asks of the sampler, member by member, and what it means where it is left out. */
import { expect, test } from '@jest/globals';
import { drawSettings, grammarOf } from '../../src/server/openai/sampling.js';

const PLAIN = {
  sampling: { temperature: 1 },
  maxTokens: 9,
  minTokens: 0,
  topLogprobs: 0,
  whenContextFull: 'stop',
  stop: [],
  stopTokens: [],
  ignoreEndOfSequence: false,
  deterministic: false,
};
type Body = Parameters<typeof drawSettings>[0];

test.each<[Body, object]>([
  [{}, {}],
  [{ temperature: 0 }, { temperature: 0 }],
  [{ top_k: -1 }, {}],
  [{ top_k: 0 }, {}],
  [{ top_k: 1 }, { topK: 1 }],
  [{ top_p: 0 }, { topP: 0 }],
  [{ min_p: 0 }, { minP: 0 }],
  // vLLM's goes over all that there is, prompt included
  [{ repetition_penalty: 1.5 }, { repeatPenalty: 1.5, repeatWindow: 1_000_000 }],
  [{ presence_penalty: -2 }, { presencePenalty: -2 }],
  [{ frequency_penalty: 2 }, { frequencyPenalty: 2 }],
  [{ logit_bias: { 5: -1 } as never }, { logitBias: { 5: -1 } }],
  [{ seed: 7 as never }, { seed: 7n }],
  [{ seed: -1 as never }, { seed: 2n ** 64n - 1n }],
  [{ seed: (2n ** 64n + 3n) as never }, { seed: 3n }],
])('%j is sampled with %j', (body, sampling) => {
  expect(drawSettings(body, 9)).toEqual({ ...PLAIN, sampling: { temperature: 1, ...sampling } });
});

test.each<[Body, object]>([
  [{ min_tokens: 9 }, { minTokens: 9 }],
  [{ stop: 'x' }, { stop: ['x'] }],
  [{ stop: ['x', '', 'y'] }, { stop: ['x', 'y'] }],
  [{ stop: '' }, {}],
  [{ stop_token_ids: [3, 4] }, { stopTokens: [3, 4] }],
  [{ ignore_eos: true }, { ignoreEndOfSequence: true }],
  [{ deterministic: true }, { deterministic: true }],
])('%j ends or is drawn by %j', (body, settings) => {
  expect(drawSettings(body, 9)).toEqual({ ...PLAIN, ...settings });
});

test('the likeliest tokens are as many as asked; more tokens at least than at most are refused', () => {
  expect(drawSettings({}, 9, 5).topLogprobs).toBe(5);
  expect(() => drawSettings({ min_tokens: 10 }, 9)).toThrow(
    expect.objectContaining({
      status: 400,
      param: 'min_tokens',
      message: 'min_tokens: more than the 9 tokens that the reply may have',
    }),
  );
});

test('a form is a grammar: that of its schema, wherever it stands, or of any object; text is none', () => {
  const schema = { const: 'only this' };
  const own = grammarOf({ type: 'json_schema', json_schema: { name: 'x', schema } } as never)!;
  expect(own).toContain('only this');
  expect(grammarOf({ type: 'json_schema', schema } as never)).toBe(own);
  expect(grammarOf({ type: 'json_object', schema } as never)).toBe(own);
  const bounds = { minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER };
  const whole = (of: object) => grammarOf({ type: 'json_schema', schema: of } as never);
  expect(whole({ type: 'integer', ...bounds })).toBe(whole({ type: 'integer' }));
  const any = grammarOf({ type: 'json_object' } as never)!;
  expect(any).toContain('root');
  expect(any).toBe(
    grammarOf({
      type: 'json_object',
      schema: { type: 'object', additionalProperties: true },
    } as never),
  );
  expect(grammarOf(undefined)).toBeUndefined();
  expect(grammarOf({ type: 'text' } as never)).toBeUndefined();
  expect(() => grammarOf({ type: 'json_schema' } as never)).toThrow(
    expect.objectContaining({
      status: 400,
      param: 'response_format',
      code: 'unsupported_parameter',
    }),
  );
});
