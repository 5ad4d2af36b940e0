/**
 * A back end of any language model of the AI SDK: text, and what the server counts. Nothing that a
 * server says is believed that can be checked, and whatever it does, each sample ends: with a
 * reply, or as failed with a reason.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Json } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { withoutKeys } from '../../keys.js';
import { Random } from '../../random.js';
import {
  TEXT_ONLY,
  type Backend,
  type Reply,
  type SamplePrompt,
  type SampleRequest,
} from '../backend.js';
import { attemptFailure, type AttemptFailure } from './attempt-failure.js';
import { Budget, type BudgetLimits, type TokenCounts } from './budget.js';
import { InFlight, together, type Place } from './in-flight.js';
import type {
  LanguageModel,
  LanguageModelCall,
  LanguageModelReply,
  PromptMessage,
} from './language-model.js';
import { keyOf, Recording, type RecordedReply } from './recording.js';
import { replySchema, type ReplySchema } from './reply-schema.js';

export interface LanguageModelOptions extends BudgetLimits {
  /** What the back end is called: `openai`. Default: the provider of the model. */
  readonly kind?: string;
  /** Address of the server, which is part of the name of a recorded reply. */
  readonly endpoint?: string;
  /** Members that are added to the body of each request: part of that name as well. */
  readonly body?: Json;
  readonly contextTokens?: number;
  /** Recording that replies are appended to, and taken from. Default: none. */
  readonly record?: string | undefined;
  /** Most seconds of one attempt. Default 300. */
  readonly attemptSeconds?: number | undefined;
  /** Most seconds of all attempts for one sample. Default: three times as many. */
  readonly requestSeconds?: number | undefined;
  /** Most repetitions of a request. Default 5. */
  readonly retries?: number;
  /** Time before the first repetition; it doubles. Default 1,000. */
  readonly retryDelayMs?: number;
  /** Changes how requests are written after one was refused; true: another attempt is worth it. */
  readonly adapt?: (failure: AttemptFailure) => boolean;
}

const ATTEMPT_SECONDS = 300;
const RETRIES = 5;
const RETRY_DELAY_MS = 1000;
/** Requests in flight where the caller does not say. */
const IN_FLIGHT = 8;
const MOST_IGNORED = 16;
/** As many stop strings as every server takes; the text is cut at all of them here. */
const MOST_STOPS = 4;
/** A template adds some tokens around each message. */
const TOKENS_AROUND_MESSAGE = 16;
/** Seeds of servers have 31 bits. */
const SEED_MASK = 0x7fff_ffffn;
/** Settings of sampling that not every service has, where they have no effect. */
const NEUTRAL = {
  topK: 0,
  minP: 0,
  repeatPenalty: 1,
  presencePenalty: 0,
  frequencyPenalty: 0,
} as const;
/** Words of servers for the end of a reply that the SDK does not know. */
const ENDS: Readonly<Record<string, 'stop' | 'length'>> = {
  eos: 'stop',
  eos_token: 'stop',
  end_turn: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
};

interface Job {
  readonly promptIndex: number;
  readonly sampleIndex: number;
  readonly prompt: SamplePrompt;
  readonly seed: bigint;
  readonly key: string;
}

/** A reply as the model gave it, before it is known for whom. */
type Given = Omit<RecordedReply, 'key'>;

/** A sample without a reply after one attempt. */
class Failed extends Error {
  readonly failure: AttemptFailure;
  constructor(failure: AttemptFailure) {
    super(failure.message);
    this.failure = failure;
  }
}

/**
 * Replies of a remote model. It has no token ids, log-probabilities, adapters nor grammar, and
 * promises no seeds, though it sends them.
 */
export function languageModelBackend(
  model: LanguageModel,
  options: LanguageModelOptions = {},
): Backend {
  if (model.specificationVersion !== 'v3')
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `the language model has the specification ${model.specificationVersion}, and v3 is needed: ` +
        'use a provider for version 6 of the AI SDK',
    );
  return new RemoteBackend(model, options);
}

class RemoteBackend implements Backend {
  readonly #model: LanguageModel;
  readonly #options: LanguageModelOptions;
  readonly #budget: Budget;
  readonly #served = new Set<string>();
  readonly #ignored = new Set<string>();
  #recording: Promise<Recording> | undefined;
  readonly capabilities = { ...TEXT_ONLY, jsonSchema: true };
  readonly contextTokens?: number;

  constructor(model: LanguageModel, options: LanguageModelOptions) {
    this.#model = model;
    this.#options = options;
    this.#budget = new Budget(options);
    if (options.contextTokens !== undefined) this.contextTokens = options.contextTokens;
  }

  get identity() {
    const { kind = this.#model.provider, endpoint } = this.#options;
    return {
      kind,
      name: this.#model.modelId,
      ...given({ endpoint }),
      ...(this.#served.size > 0 && { served: [...this.#served].sort() }),
    };
  }

  get ignored(): readonly string[] {
    return [...this.#ignored].sort();
  }

  get spending() {
    return this.#budget.spending;
  }

  async *sample(request: SampleRequest): AsyncGenerator<Reply, void, undefined> {
    const { prompts, signal, sampling, jsonSchema, maxSequences = IN_FLIGHT } = request;
    const schema = jsonSchema === undefined ? null : replySchema(jsonSchema);
    const refuse = (what: string, remedy?: string): never => {
      const { kind, name } = this.identity;
      throw new IsoproError('BACKEND_INCAPABLE', `the back end ${kind}:${name} cannot ${what}`, {
        ...given({ remedy }),
      });
    };
    for (const { id, messages } of prompts) {
      if (messages.at(-1)?.role === 'assistant')
        refuse(`continue a message of the assistant, which prompt ${id} needs`);
      if (messages.some(({ role }) => role === 'tool'))
        refuse(`read results of tools, which prompt ${id} holds`);
    }
    const unknown = Object.entries(NEUTRAL).find(
      ([name, neutral]) => (sampling[name as keyof typeof NEUTRAL] ?? neutral) !== neutral,
    );
    if (unknown !== undefined)
      refuse(
        `sample with ${unknown[0]}`,
        'Leave it out, or give it in the words of the server with --request-body.',
      );
    const recording = await this.#record();
    const jobs = prompts.flatMap((prompt, promptIndex) =>
      prompt.seeds.map((seed, sampleIndex): Job => {
        const key = this.#keyOf(request, prompt, sampleIndex, seed);
        return { promptIndex, sampleIndex, prompt, seed, key };
      }),
    );
    const open: Job[] = [];
    for (const job of jobs) {
      const found = recording?.find(job.key);
      if (found === undefined) open.push(job);
      else {
        this.#budget.found();
        yield this.#reply(job, found, schema, 0);
      }
    }
    const left = new AbortController();
    const cancelled = signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]);
    const inFlight = new InFlight(maxSequences);
    const work = (job: Job, place: Place): Promise<Reply> =>
      this.#answer({ request, job, schema, inFlight, recording, signal: cancelled }, place);
    try {
      // replies that are under way when the budget ends are paid for
      yield* together(open, inFlight, work, isExhausted);
    } catch (error) {
      if (signal?.aborted !== true) throw error; // whoever cancelled says so
    } finally {
      left.abort();
    }
  }

  async dispose(): Promise<void> {
    const recording = await this.#recording?.catch(() => undefined);
    await recording?.close();
    this.#recording = undefined;
  }

  async #record(): Promise<Recording | null> {
    const { record } = this.#options;
    return record === undefined ? null : (this.#recording ??= Recording.open(record));
  }

  #keyOf(
    { sampling, maxTokens, stop = [], jsonSchema }: SampleRequest,
    { messages }: SamplePrompt,
    index: number,
    seed: bigint,
  ): string {
    const { endpoint = '', body = null } = this.#options;
    return keyOf({
      endpoint,
      model: this.#model.modelId,
      messages,
      sampling: { ...(given(sampling) as Record<string, Json>), maxTokens, stop, body },
      schema: (jsonSchema ?? null) as Json,
      sample: { index, seed: String(seed) },
    });
  }

  /** One sample, with as many attempts as it may have. */
  async #answer(asked: Asking, first: Place): Promise<Reply> {
    const { job, schema, inFlight, recording, signal } = asked;
    const { attemptSeconds = ATTEMPT_SECONDS, retries = RETRIES, adapt } = this.#options;
    const { requestSeconds = 3 * attemptSeconds, retryDelayMs = RETRY_DELAY_MS } = this.#options;
    const random = new Random(job.seed);
    const most = upperBound(asked.request, job.prompt);
    const deadline = performance.now() + requestSeconds * 1000;
    let place = first;
    let adapted = 0;
    for (let attempts = 1; ; attempts++) {
      const reserved = await this.#budget.reserve(most, attempts > 1);
      let used: TokenCounts | null | undefined = null;
      let given: Given | undefined;
      let failure: AttemptFailure | undefined;
      try {
        signal.throwIfAborted();
        used = undefined;
        const left = Math.min(attemptSeconds * 1000, deadline - performance.now());
        given = await this.#attempt(asked, left);
        used = countsOf(given, most);
      } catch (error) {
        if (!(error instanceof Failed)) throw error;
        failure = error.failure;
        if (failure.isUnpaid) used = null;
      } finally {
        this.#budget.settle(reserved, used);
      }
      if (given !== undefined) {
        await recording?.add(recordedPrompt(job), { ...given, key: job.key });
        inFlight.replied();
        return this.#reply(job, given, schema, attempts);
      }
      if (failure!.status === 429) place = inFlight.slowed(place);
      if (adapted === 0 && adapt?.(failure!) === true) {
        adapted++;
        continue;
      }
      const repeated = attempts - 1 - adapted;
      const backOff = retryDelayMs * 2 ** repeated * (0.5 + random.nextDouble() / 2);
      const wait = Math.max(failure!.waitMs ?? 0, backOff);
      const isLast = repeated >= retries || performance.now() + wait > deadline;
      if (!failure!.isTransient || isLast) return failedReply(job, failure!, attempts);
      // a signal of its own: the common one would have a listener for each that waits
      await delay(wait, undefined, { signal: AbortSignal.any([signal]) });
    }
  }

  /** @throws Failed; the reason of the signal */
  async #attempt({ request, job, schema, signal }: Asking, ms: number): Promise<Given> {
    const tooLate = AbortSignal.timeout(Math.max(1, Math.ceil(ms)));
    const cancelled = AbortSignal.any([signal, tooLate]);
    const ended = new Promise<never>((_, reject) => {
      cancelled.addEventListener('abort', () => reject(cancelled.reason), { once: true });
    });
    ended.catch(() => undefined);
    let reply: LanguageModelReply;
    try {
      const call = callOf(request, job, schema, cancelled);
      // a model may not hear its signal
      reply = await Promise.race([this.#model.doGenerate(call), ended]);
    } catch (error) {
      signal.throwIfAborted();
      if (!tooLate.aborted) throw new Failed(attemptFailure(error));
      throw new Failed({
        kind: 'timeout',
        isTransient: true,
        isUnpaid: false,
        message: `no reply in ${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`,
      });
    }
    this.#heed(reply);
    return readReply(reply, request);
  }

  /** Some models take no temperature: whoever reads the figures should know. */
  #heed({ warnings = [] }: LanguageModelReply): void {
    for (const { feature, details, message } of warnings) {
      const text = details ?? message ?? feature;
      if (text !== undefined && this.#ignored.size < MOST_IGNORED)
        this.#ignored.add(text.slice(0, 200).toWellFormed());
    }
  }

  /** @param attempts 0: recorded */
  #reply(
    { promptIndex, sampleIndex }: Job,
    reply: Given,
    schema: ReplySchema | null,
    attempts: number,
  ): Reply {
    const { text, finish, promptTokens, tokens, model } = reply;
    if (model !== undefined) this.#served.add(model);
    const counts = given({ promptTokens, tokens });
    const message = finish === 'stop' ? (schema?.objection(text) ?? null) : null;
    if (message === null) return { promptIndex, sampleIndex, text, finish, ...counts };
    const failure = { kind: 'form', message: message.slice(0, 300), attempts } as const;
    return { promptIndex, sampleIndex, text, finish: 'failed', failure, ...counts };
  }
}

interface Asking {
  readonly request: SampleRequest;
  readonly job: Job;
  readonly schema: ReplySchema | null;
  readonly inFlight: InFlight;
  readonly recording: Recording | null;
  readonly signal: AbortSignal;
}

const recordedPrompt = ({ sampleIndex, prompt: { id, messages } }: Job) => ({
  id,
  sampleIndex,
  prompt: { messages },
});

const isExhausted = (error: unknown): boolean =>
  error instanceof IsoproError && error.code === 'BUDGET_EXHAUSTED';

const failedReply = (
  { promptIndex, sampleIndex }: Job,
  { kind, status, message }: AttemptFailure,
  attempts: number,
): Reply => ({
  promptIndex,
  sampleIndex,
  text: '',
  finish: 'failed',
  failure: { kind, message, attempts, ...given({ status }) },
});

/** A token has at least one byte. */
const upperBound = ({ maxTokens }: SampleRequest, { messages }: SamplePrompt): TokenCounts => ({
  prompt: messages.reduce(
    (sum, { content }) => sum + Buffer.byteLength(content) + TOKENS_AROUND_MESSAGE,
    0,
  ),
  reply: maxTokens,
});

/** What the server counts; where it counts nothing, the upper bound. */
const countsOf = (
  { promptTokens, tokens, reasoningTokens }: Given,
  most: TokenCounts,
): TokenCounts => ({
  prompt: promptTokens ?? most.prompt,
  reply: tokens ?? most.reply,
  ...(reasoningTokens !== undefined && { reasoning: reasoningTokens }),
});

function callOf(
  { sampling, maxTokens, stop = [] }: SampleRequest,
  { prompt: { messages }, seed }: Job,
  schema: ReplySchema | null,
  abortSignal: AbortSignal,
): LanguageModelCall {
  const { temperature = 1, topP = 1 } = sampling;
  return {
    prompt: messages.map(
      ({ role, content }): PromptMessage =>
        role === 'system'
          ? { role, content }
          : { role: role as 'user' | 'assistant', content: [{ type: 'text', text: content }] },
    ),
    maxOutputTokens: maxTokens,
    temperature,
    ...(topP !== 1 && { topP }),
    ...(temperature > 0 && { seed: Number(seed & SEED_MASK) }),
    ...(stop.length > 0 && { stopSequences: stop.slice(0, MOST_STOPS) }),
    ...(schema !== null && {
      responseFormat: { type: 'json', schema: schema.sent },
      providerOptions: { openaiCompatible: { strictJsonSchema: schema.isStrict } },
    }),
    abortSignal,
  };
}

/** @throws Failed where it ended in no way that a reply ends */
function readReply(reply: LanguageModelReply, { stop = [] }: SampleRequest): Given {
  const { unified, raw } = reply.finishReason;
  const finish =
    unified === 'stop' || unified === 'length'
      ? unified
      : unified === 'content-filter'
        ? 'refused'
        : Object.hasOwn(ENDS, raw ?? '')
          ? ENDS[raw!]!
          : null;
  if (finish === null)
    throw new Failed({
      kind: 'finish',
      isTransient: false,
      isUnpaid: false,
      message: `the reply ended with ${JSON.stringify(withoutKeys(raw ?? unified).slice(0, 100))}`,
    });
  // what a model thought is no reply, although its tokens count
  const said = reply.content.flatMap(({ type, text }) => (type === 'text' ? [text ?? ''] : []));
  // a server that repeats the key is not recorded with it
  const whole = withoutKeys(said.join('')).toWellFormed();
  const ends = stop.map((each) => whole.indexOf(each)).filter((at) => at >= 0);
  const cut = Math.min(...ends, whole.length);
  const { inputTokens, outputTokens } = reply.usage;
  const counted = (value: number | undefined): number | undefined =>
    Number.isSafeInteger(value) && value! >= 0 ? value : undefined;
  return {
    text: whole.slice(0, cut),
    finish: cut < whole.length && finish === 'length' ? 'stop' : finish,
    ...given({
      promptTokens: counted(inputTokens.total),
      tokens: counted(outputTokens.total),
      reasoningTokens: counted(outputTokens.reasoning),
      model: withoutKeys(reply.response?.modelId ?? '').slice(0, 200) || undefined,
    }),
  };
}
