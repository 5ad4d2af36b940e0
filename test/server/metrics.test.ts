/**
 * What a server counts is what a monitor reads: names and their meaning stay, and each figure is of
 * what it says.
 */
import { expect, test } from '@jest/globals';
import { ServerMetrics } from '../../src/server/metrics.js';

const reply = (finish: 'stop' | 'length', prompt: number, reused: number, sampled: number) =>
  ({
    finish,
    promptIds: new Int32Array(prompt),
    tokenIds: new Int32Array(sampled),
    reusedTokens: reused,
  }) as never;

test('each figure has its name, what it is, and what was told of it', async () => {
  const metrics = new ServerMetrics({
    running: () => 3,
    waiting: () => 5,
    memoryBytes: () => 7000,
  });
  metrics.answered('/v1/models', 200, 0.02);
  metrics.answered('/v1/models', 200, 400);
  metrics.answered('/v1/embeddings', 429, 0.7);
  metrics.replied(reply('stop', 10, 4, 2));
  metrics.replied(reply('length', 100, 0, 30));
  metrics.left();
  const text = await metrics.text();
  const own = text
    .split('\n')
    .filter((line) => /isopro_(?!request_seconds_bucket\{[^}]*embeddings)/.test(line));
  const within = (le: string, count: number): string =>
    `isopro_request_seconds_bucket{le="${le}",route="/v1/models"} ${count}`;
  expect(own.sort()).toEqual(
    [
      '# HELP isopro_requests_total requests that were answered',
      '# TYPE isopro_requests_total counter',
      'isopro_requests_total{route="/v1/models",status="200"} 2',
      'isopro_requests_total{route="/v1/embeddings",status="429"} 1',
      '# HELP isopro_replies_total replies that ended by themselves',
      '# TYPE isopro_replies_total counter',
      'isopro_replies_total{finish="stop"} 1',
      'isopro_replies_total{finish="length"} 1',
      '# HELP isopro_prompt_tokens_total prompt tokens of those replies',
      '# TYPE isopro_prompt_tokens_total counter',
      'isopro_prompt_tokens_total 110',
      '# HELP isopro_cached_prompt_tokens_total of these, tokens that came from the prefix cache',
      '# TYPE isopro_cached_prompt_tokens_total counter',
      'isopro_cached_prompt_tokens_total 4',
      '# HELP isopro_sampled_tokens_total tokens of those replies',
      '# TYPE isopro_sampled_tokens_total counter',
      'isopro_sampled_tokens_total 32',
      '# HELP isopro_left_total requests whose client disconnected',
      '# TYPE isopro_left_total counter',
      'isopro_left_total 1',
      '# HELP isopro_request_seconds seconds from a request to the end of its answer',
      '# TYPE isopro_request_seconds histogram',
      ...['0.01'].map((le) => within(le, 0)),
      ...['0.05', '0.1', '0.5', '1', '5', '10', '30', '60', '300'].map((le) => within(le, 1)),
      within('+Inf', 2),
      'isopro_request_seconds_sum{route="/v1/models"} 400.02',
      'isopro_request_seconds_count{route="/v1/models"} 2',
      'isopro_request_seconds_sum{route="/v1/embeddings"} 0.7',
      'isopro_request_seconds_count{route="/v1/embeddings"} 1',
      '# HELP isopro_running_replies replies that are running',
      '# TYPE isopro_running_replies gauge',
      'isopro_running_replies 3',
      '# HELP isopro_waiting_replies replies that are waiting',
      '# TYPE isopro_waiting_replies gauge',
      'isopro_waiting_replies 5',
      '# HELP isopro_model_bytes memory of models and adapters',
      '# TYPE isopro_model_bytes gauge',
      'isopro_model_bytes 7000',
    ].sort(),
  );
  // of the process itself, too
  expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
  expect(metrics.contentType).toMatch(/^text\/plain/);
});
