/** Settings of whoever answers, and how it is opened. */
import { createHash } from 'node:crypto';
import path from 'node:path';
import { z } from 'zod';
import type { Backend } from '../backends/backend.js';
import { BACKEND_FORMS, backendKind } from '../backends/names.js';
import { openBackend } from '../backends/open-backend.js';
import { canonicalJson, type Json } from '../canonical-json.js';
import { given } from '../given.js';
import { isoproHome } from '../log/home.js';
import { output } from './members.js';
import { WrongSetting, type Context } from './operation.js';

/** Requests in flight to others, where the user does not say. */
export const IN_FLIGHT = 8;

const local = { local: true } as const;
const whole = z.int().min(1).max(Number.MAX_SAFE_INTEGER);
const PRICE = /^(\d+(?:\.\d+)?)\/(\d+(?:\.\d+)?)$/;

function jsonObject(text: string): { readonly [name: string]: Json } | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as { readonly [name: string]: Json })
      : null;
  } catch {
    return null;
  }
}

export const backendMembers = {
  backend: z
    .string()
    .min(1)
    .refine(
      (spec) => spec === 'local' || /^https?:\/\//i.test(spec) || backendKind(spec) !== null,
      `expected ${BACKEND_FORMS}`,
    )
    .default('local')
    .describe(`who answers: ${BACKEND_FORMS}`)
    .meta(local),
  keyEnv: z
    .string()
    .min(1)
    .optional()
    .describe('environment variable that holds the key of the service')
    .meta({ ...local, defaultText: 'OPENAI_API_KEY, ANTHROPIC_API_KEY or HF_TOKEN' }),
  insecure: z
    .boolean()
    .default(false)
    .describe('allow http without encryption to other machines')
    .meta(local),
  maxRequests: whole
    .optional()
    .describe('max requests to a service, repeated ones included')
    .meta(local),
  maxTokensTotal: whole
    .optional()
    .describe('max tokens of a service, prompts and replies together')
    .meta(local),
  maxCost: z
    .number()
    .gt(0)
    .optional()
    .describe('max cost of a service by --price, in its currency')
    .meta(local),
  price: z
    .string()
    .regex(PRICE, 'expected IN/OUT, such as 0.15/0.60')
    .optional()
    .describe('IN/OUT: price of a million tokens of prompts and of replies')
    .meta(local),
  maxFailed: z
    .number()
    .min(0)
    .max(1)
    .default(0.01)
    .describe('share of samples that may have no reply; one always may')
    .meta(local),
  record: output
    .optional()
    .describe(
      'JSONL file that each reply of a service is added to, and that answers what was asked before; recorded:FILE reads it',
    )
    .meta({ defaultText: 'a file in $ISOPRO_HOME/replies' }),
  attemptTimeout: z
    .number()
    .gt(0)
    .max(86_400)
    .optional()
    .describe('max seconds of one attempt; all attempts for a reply may take three times as long')
    .meta({ ...local, defaultText: '300' }),
  requestBody: z
    .string()
    .refine((text) => jsonObject(text) !== null, 'expected a JSON object')
    .optional()
    .describe('JSON object whose members are added to each request to a service')
    .meta(local),
} as const;

const schema = z.object(backendMembers);
export type BackendSettings = z.output<typeof schema>;

/** Whether a kind of back end goes over a network, and may have to be paid for. */
const isOfService = (kind: string): boolean =>
  !['local', 'recorded', 'command', 'human'].includes(kind);

/** Whether requests go over a network, and may have to be paid for. */
export const isService = (backend: string): boolean => isOfService(kindOf({ backend }));

/** Kind of what answers: `local` also for a model that `local:MODEL` names. */
export const kindOf = ({ backend }: Pick<BackendSettings, 'backend'>): string =>
  backend === 'local' ? backend : (backendKind(backend) ?? 'server');

/** The model of `local:MODEL`; undefined for others. */
export const modelNamed = ({ backend }: Pick<BackendSettings, 'backend'>): string | undefined =>
  backend.startsWith('local:') ? backend.slice('local:'.length) : undefined;

/** Settings that mean something to a service alone. */
const OF_SERVICE = [
  'keyEnv',
  'maxRequests',
  'maxTokensTotal',
  'maxCost',
  'price',
  'record',
  'requestBody',
] as const;

export function contradictionsOf(asked: BackendSettings): string[] {
  const kind = kindOf(asked);
  const useless = isOfService(kind)
    ? []
    : OF_SERVICE.filter((name) => asked[name] !== undefined).map(
        (name) => `${name}: it has no effect with the back end ${kind}`,
      );
  return [
    ...useless,
    ...(asked.maxCost !== undefined && asked.price === undefined
      ? ['maxCost: it needs price, which is the price of a million tokens']
      : []),
  ];
}

export interface OpenedBackend {
  readonly backend: Backend;
  /** File of recorded replies; null: none is written. */
  readonly record: string | null;
}

/**
 * Opens whoever answers, except a local model.
 * @param asked what else the replies depend on: the name of the file of recorded replies
 * @throws IsoproError as openBackend; WrongSetting
 */
export async function openAsked(
  settings: BackendSettings,
  { ask }: Pick<Context, 'ask'>,
  purpose: string,
  asked: Json,
  contextTokens?: number,
): Promise<OpenedBackend> {
  const { backend: spec, price, requestBody, attemptTimeout, ...stated } = settings;
  const kind = kindOf(settings);
  const record = isOfService(kind)
    ? path.resolve(stated.record ?? usualRecord(purpose, settings, asked))
    : null;
  const [, prompt, reply] = PRICE.exec(price ?? '') ?? [];
  try {
    const backend = await openBackend(spec, {
      ...given(stated, 'keyEnv', 'insecure', 'maxRequests', 'maxTokensTotal', 'maxCost'),
      ...given({ attemptSeconds: attemptTimeout, contextTokens, ask }),
      ...(record !== null && { record }),
      ...(price !== undefined && { price: { prompt: Number(prompt), reply: Number(reply) } }),
      ...(requestBody !== undefined && { requestBody: jsonObject(requestBody)! }),
    });
    return { backend, record };
  } catch (error) {
    throw asSetting(error);
  }
}

/** The command line names the flag of a wrong setting. */
function asSetting(error: unknown): unknown {
  const { code, message } = (error ?? {}) as { code?: string; message?: string };
  return code === 'INVALID_ARGUMENT' && /^\w+: /.test(message!)
    ? new WrongSetting(message!)
    : error;
}

/** One file for each way of asking: `recorded:` tells replies apart by prompt and sample alone. */
function usualRecord(
  purpose: string,
  { backend, requestBody }: BackendSettings,
  asked: Json,
): string {
  const name = createHash('sha256')
    .update(canonicalJson([backend, requestBody ?? null, asked]))
    .digest('hex')
    .slice(0, 16);
  return path.join(isoproHome(), 'replies', `${purpose}-${name}.jsonl`);
}
