/** Routes of the OpenAI and vLLM APIs: each path with its form, its scope and its handler. */
import type { FastifyInstance } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { RequestFailure, unsupported } from '../failures.js';
import type { Scope } from '../keys.js';
import { completeChat, streamChat } from './chat.js';
import { completeText, streamText } from './completions.js';
import { askingOf, sendEvents, sendWhole, type ServerContext } from './context.js';
import { embed } from './embeddings.js';
import {
  chatBody,
  completionBody,
  detokenizeBody,
  embeddingBody,
  generateBody,
  loadAdapterBody,
  pauseQuery,
  responseBody,
  tokenizeBody,
  unloadAdapterBody,
} from './requests.js';
import { errorEvent, respond, streamResponse } from './responses.js';
import type { Asking } from './replying.js';
import { detokenize, generate, tokenize } from './tokens.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Scope that the key of a caller needs; absent: no key is needed. */
    scope?: Scope;
  }
}

const needs = (scope: Scope): { config: { scope: Scope } } => ({ config: { scope } });

/** Paths by which trainers replace the served weights: of vLLM, and of TRL's former server. */
const WEIGHT_TRANSFER = [
  '/init_weight_transfer_engine',
  '/start_weight_update',
  '/update_weights',
  '/finish_weight_update',
  '/reset_prefix_cache',
  '/init_communicator/',
  '/update_named_param/',
  '/reset_prefix_cache/',
  '/close_communicator/',
];

type Answer<Body, Result> = (context: ServerContext, body: Body, asking: Asking) => Result;

export function addRoutes(instance: FastifyInstance, context: ServerContext): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  const { models, queue, metrics } = context;

  app.get('/health', () => ({
    status: queue.open ? 'ok' : 'paused',
    matmul: models.model.info.matmul,
  }));
  app.get('/metrics', needs('read'), async (_, reply) =>
    reply.header('content-type', metrics.contentType).send(await metrics.text()),
  );
  app.get('/v1/models', needs('read'), () => ({ object: 'list', data: models.entries() }));
  // Names contain slashes.
  app.get(
    '/v1/models/*',
    { ...needs('read'), schema: { params: z.object({ '*': z.string() }) } },
    ({ params }) => models.entry(params['*']),
  );

  /** Adds a route that answers with a whole answer or, if asked to, with a stream of events. */
  const add = <Body extends object>(
    path: string,
    schema: z.ZodType<Body>,
    whole: Answer<Body, Promise<object>>,
    stream?: Answer<Body, AsyncGenerator<string, void, undefined>>,
    errorOf?: typeof errorEvent,
  ): void => {
    app.post(path, { ...needs('infer'), schema: { body: schema } }, (request, reply) => {
      const asking = askingOf(context, request);
      const body = request.body as Body & { readonly stream?: boolean };
      return stream !== undefined && body.stream === true
        ? sendEvents(context, request, reply, stream(context, body, asking), errorOf)
        : sendWhole(asking, reply, whole(context, body, asking));
    });
  };
  add('/v1/chat/completions', chatBody, completeChat, streamChat);
  add('/v1/completions', completionBody, completeText, streamText);
  add('/v1/responses', responseBody, respond, streamResponse, errorEvent);
  add('/inference/v1/generate', generateBody, generate);
  add('/v1/embeddings', embeddingBody, embed);
  for (const prefix of ['', '/v1']) {
    add(`${prefix}/tokenize`, tokenizeBody, tokenize);
    app.post(
      `${prefix}/detokenize`,
      { ...needs('infer'), schema: { body: detokenizeBody } },
      (request) => detokenize(context, request.body, askingOf(context, request)),
    );
    addAdapterRoutes(app, models, prefix);
  }
  addTrainerRoutes(app, context);
}

/** Adds vLLM's routes that load and unload adapters. */
function addAdapterRoutes(
  instance: FastifyInstance,
  models: ServerContext['models'],
  prefix: string,
): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  // Trainers expect that at the root a loaded name gets the new file.
  app.post(
    `${prefix}/load_lora_adapter`,
    { ...needs('admin'), schema: { body: loadAdapterBody } },
    async ({ body }, reply) => {
      await models.load(body.lora_name, body.lora_path, body.load_inplace ?? prefix === '');
      return reply
        .type('text/plain')
        .send(`Success: LoRA adapter '${body.lora_name}' added successfully.`);
    },
  );
  app.post(
    `${prefix}/unload_lora_adapter`,
    { ...needs('admin'), schema: { body: unloadAdapterBody } },
    async ({ body }, reply) => {
      await models.unload(body.lora_name);
      return reply
        .type('text/plain')
        .send(`Success: LoRA adapter '${body.lora_name}' removed successfully.`);
    },
  );
}

/** Adds the routes by which trainers pause the server, and refuses transfers of weights. */
function addTrainerRoutes(instance: FastifyInstance, context: ServerContext): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  const { models, queue } = context;
  app.post(
    '/pause',
    { ...needs('admin'), schema: { querystring: pauseQuery } },
    async ({ query: { mode } }) => {
      if (mode === 'keep')
        throw unsupported(
          'mode',
          'mode=keep: pausing running replies is not supported; use mode=wait or mode=abort',
        );
      await context.pause(mode);
      return { status: 'paused' };
    },
  );
  app.post('/resume', needs('admin'), () => {
    queue.reopen();
    return { status: 'resumed' };
  });
  // Trainers ask for these before they send weights, which this server does not take.
  app.get('/get_world_size', needs('read'), () => ({ world_size: 1 }));
  app.get('/server_info', needs('read'), () => ({
    vllm_config: {
      model_config: { model: models.base, max_model_len: models.model.contextTokens },
      weight_transfer_config: null,
    },
  }));
  for (const path of WEIGHT_TRANSFER)
    app.post(path, needs('admin'), () => {
      throw new RequestFailure(
        501,
        'weight transfer over the network is not supported; publish an adapter and load it by name',
        'not_implemented',
      );
    });
}
