/** Services that answer, by the first word of what the user names, and servers by their address. */
import type { Json } from '../../canonical-json.js';
import { IsoproError } from '../../errors.js';
import { declareKey, defaultKeyName, keyFor } from '../../keys.js';
import { missingPackage, SERVICE_PACKAGES } from '../../optional-package.js';
import type { Backend } from '../backend.js';
import type { ServiceName } from '../names.js';
import type { AttemptFailure } from './attempt-failure.js';
import { fetchFrom, serverUrl, type Fetch } from './http.js';
import type { LanguageModel } from './language-model.js';
import { languageModelBackend, type LanguageModelOptions } from './language-model-backend.js';
import { ollamaModel } from './ollama.js';

export interface ServiceOptions
  extends Omit<LanguageModelOptions, 'kind' | 'endpoint' | 'adapt' | 'body'> {
  /** Variable that holds the key. Default: that of the service, if it has one. */
  readonly keyEnv?: string | undefined;
  /** Allows http to other machines. */
  readonly insecure?: boolean | undefined;
  /** Members that are added to the body of each request. */
  readonly requestBody?: { readonly [name: string]: Json } | undefined;
}

const SERVICES = {
  openai: { url: 'https://api.openai.com/v1', variable: 'OPENAI_BASE_URL' },
  anthropic: { url: 'https://api.anthropic.com/v1', variable: 'ANTHROPIC_BASE_URL' },
  huggingface: { url: 'https://router.huggingface.co/v1', variable: 'HF_BASE_URL' },
  ollama: { url: 'http://127.0.0.1:11434', variable: 'OLLAMA_HOST' },
} as const satisfies Record<ServiceName, unknown>;

/** The path of an OpenAI-compatible interface, where an address has none. */
const USUAL_PATH = '/v1';

/** The key at the moment of sending; none is kept. */
const keyHeader =
  (name: string | undefined, header: (key: string) => Record<string, string>) =>
  (): Record<string, string> => {
    const key = name === undefined ? undefined : keyFor(name);
    return key === undefined ? {} : header(key);
  };
const bearer = (key: string): Record<string, string> => ({ authorization: `Bearer ${key}` });

type Body = Record<string, Json>;

/** A fetch that adds the key and members of the body to what the SDK sends. */
const sending =
  (fetch: Fetch, headers: () => Record<string, string>, written: (body: Body) => Body): Fetch =>
  async (input, init = {}) => {
    const all = Object.fromEntries(new Headers(init.headers));
    const { body } = init;
    return fetch(input, {
      ...init,
      headers: { ...all, ...headers() },
      ...(typeof body === 'string' && {
        body: JSON.stringify(written(JSON.parse(body) as Body)),
      }),
    });
  };

/**
 * How a server wants the limit of a reply to be called. OpenAI's reasoning models refuse
 * `max_tokens`, and some servers refuse `max_completion_tokens`: the first refusal tells.
 */
class LimitName {
  #isOfReasoning: boolean;

  constructor(isOfReasoning: boolean) {
    this.#isOfReasoning = isOfReasoning;
  }

  written({ max_tokens: limit, ...rest }: Body): Body {
    return limit === undefined
      ? rest
      : { ...rest, [this.#isOfReasoning ? 'max_completion_tokens' : 'max_tokens']: limit };
  }

  adapt({ status, message }: AttemptFailure): boolean {
    if (status !== 400 && status !== 422) return false;
    const [refused, other] = this.#isOfReasoning
      ? [/max_completion_tokens/, /max_tokens/]
      : [/max_tokens/, /max_completion_tokens/];
    if (!refused.test(message) && !other.test(message)) return false;
    this.#isOfReasoning = !this.#isOfReasoning;
    return true;
  }
}

async function compatibleModel(name: string, url: URL, fetch: Fetch): Promise<LanguageModel> {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible').catch(
    (cause: unknown) => {
      const wanted = '@ai-sdk/openai-compatible';
      throw missingPackage(wanted, SERVICE_PACKAGES[wanted], 'A back end of a server', cause);
    },
  );
  return createOpenAICompatible({
    name: 'openaiCompatible',
    baseURL: url.href,
    fetch,
    supportsStructuredOutputs: true, // else a schema is dropped
  }).chatModel(name);
}

async function anthropicModel(name: string, url: URL, fetch: Fetch): Promise<LanguageModel> {
  const { createAnthropic } = await import('@ai-sdk/anthropic').catch((cause: unknown) => {
    const wanted = '@ai-sdk/anthropic';
    throw missingPackage(wanted, SERVICE_PACKAGES[wanted], 'The back end anthropic', cause);
  });
  // the key itself comes with each request
  return createAnthropic({ baseURL: url.href, apiKey: 'of each request', fetch })(name);
}

/**
 * @param service a service by its name, or the address of an OpenAI-compatible server
 * @throws IsoproError INVALID_ARGUMENT, KEY_MISSING, PACKAGE_MISSING
 */
export async function serviceBackend(
  service: ServiceName | URL,
  model: string,
  { keyEnv, insecure = false, requestBody = {}, ...options }: ServiceOptions = {},
): Promise<Backend> {
  if (keyEnv !== undefined) declareKey(keyEnv);
  const kind = service instanceof URL ? 'server' : service;
  const url = service instanceof URL ? service : addressOf(service, insecure);
  const keyName = keyEnv ?? defaultKeyName(`${kind}:`);
  if (keyName !== undefined && keyFor(keyName) === undefined)
    throw new IsoproError('KEY_MISSING', `the variable ${keyName}, the key of ${kind}, is not set`);
  const limit = new LimitName(kind === 'openai');
  const isCompatible = kind !== 'anthropic' && kind !== 'ollama';
  const fetch = sending(
    fetchFrom(url),
    keyHeader(keyName, kind === 'anthropic' ? (key) => ({ 'x-api-key': key }) : bearer),
    (body) => ({ ...(isCompatible ? limit.written(body) : body), ...requestBody }),
  );
  const languageModel =
    kind === 'ollama'
      ? await ollamaModel(model, url, fetch, options.contextTokens)
      : await (kind === 'anthropic' ? anthropicModel : compatibleModel)(model, url, fetch);
  return languageModelBackend(languageModel, {
    ...options,
    kind,
    endpoint: url.href,
    body: requestBody,
    ...(isCompatible && { adapt: (failure: AttemptFailure) => limit.adapt(failure) }),
  });
}

/** Address of a service, which its vendor's usual variable may replace. */
function addressOf(service: ServiceName, insecure: boolean): URL {
  const { url, variable } = SERVICES[service];
  const stated = process.env[variable];
  if (stated === undefined || stated === '') return new URL(url);
  const whole = /^[a-z]+:\/\//i.test(stated) ? stated : `http://${stated}`; // OLLAMA_HOST=host:port
  return serverUrl(whole, insecure, variable);
}

/**
 * Address and model of `URL#MODEL`.
 * @throws IsoproError INVALID_ARGUMENT
 */
export function serverNamed(spec: string, insecure = false): { url: URL; model: string } {
  const at = spec.indexOf('#');
  const [address, model] = at < 0 ? [spec, ''] : [spec.slice(0, at), spec.slice(at + 1)];
  const url = serverUrl(address, insecure);
  if (model === '')
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `backend: expected URL#MODEL, such as ${url.href.replace(/\/$/, '')}#my-model`,
    );
  if (url.pathname === '/') url.pathname = USUAL_PATH;
  return { url, model };
}
