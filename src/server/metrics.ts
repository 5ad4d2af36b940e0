/** Counters of the server in the format of Prometheus. */
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';
import type { HostReply } from '../host/host-request.js';

/** Values that are read when metrics are requested. */
export interface Gauges {
  running(): number;
  waiting(): number;
  memoryBytes(): number;
}

export class ServerMetrics {
  readonly #registry = new Registry();
  readonly #requests: Counter<'route' | 'status'>;
  readonly #seconds: Histogram<'route'>;
  readonly #replies: Counter<'finish'>;
  readonly #promptTokens: Counter;
  readonly #cachedTokens: Counter;
  readonly #sampledTokens: Counter;
  readonly #left: Counter;

  constructor(gauges: Gauges) {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    const counter = <Label extends string>(
      name: string,
      help: string,
      labelNames: Label[] = [],
    ): Counter<Label> => new Counter({ name, help, labelNames, registers });
    const gauge = (name: string, help: string, value: () => number): void => {
      new Gauge({
        name,
        help,
        registers,
        collect() {
          this.set(value());
        },
      });
    };
    this.#requests = counter('isopro_requests_total', 'requests that were answered', [
      'route',
      'status',
    ]);
    this.#replies = counter('isopro_replies_total', 'replies that ended by themselves', ['finish']);
    this.#promptTokens = counter('isopro_prompt_tokens_total', 'prompt tokens of those replies');
    this.#cachedTokens = counter(
      'isopro_cached_prompt_tokens_total',
      'of these, tokens that came from the prefix cache',
    );
    this.#sampledTokens = counter('isopro_sampled_tokens_total', 'tokens of those replies');
    this.#left = counter('isopro_left_total', 'requests whose client disconnected');
    this.#seconds = new Histogram({
      name: 'isopro_request_seconds',
      help: 'seconds from a request to the end of its answer',
      labelNames: ['route'],
      buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300],
      registers,
    });
    gauge('isopro_running_replies', 'replies that are running', gauges.running);
    gauge('isopro_waiting_replies', 'replies that are waiting', gauges.waiting);
    gauge('isopro_model_bytes', 'memory of models and adapters', gauges.memoryBytes);
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  answered(route: string, status: number, seconds: number): void {
    this.#requests.inc({ route, status: String(status) });
    this.#seconds.observe({ route }, seconds);
  }

  replied({ finish, promptIds, tokenIds, reusedTokens }: HostReply): void {
    this.#replies.inc({ finish });
    this.#promptTokens.inc(promptIds.length);
    this.#cachedTokens.inc(reusedTokens);
    this.#sampledTokens.inc(tokenIds.length);
  }

  left(): void {
    this.#left.inc();
  }
}
