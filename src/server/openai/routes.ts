/** Where requests enter: each path with its form, its scope and what answers it. */
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
import { detokenize, generate, tokenize } from './tokens.js';

declare module 'fastify' {
  interface FastifyContextConfig {
    /** What a caller's key has to have; absent: the path is everybody's. */
    scope?: Scope;
  }
}

const needs = (scope: Scope): { config: { scope: Scope } } => ({ config: { scope } });

/**
 * Of trainers that would put weights in the place of those that are served, as vLLM has them now
 * and as TRL's own server had them.
 */
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
  // Names have slashes in them.
  app.get(
    '/v1/models/*',
    { ...needs('read'), schema: { params: z.object({ '*': z.string() }) } },
    ({ params }) => models.entry(params['*']),
  );

  app.post(
    '/v1/chat/completions',
    { ...needs('infer'), schema: { body: chatBody } },
    async (request, reply) => {
      const asking = askingOf(context, request);
      if (request.body.stream === true)
        return sendEvents(context, request, reply, streamChat(context, request.body, asking));
      return sendWhole(asking, reply, completeChat(context, request.body, asking));
    },
  );
  app.post(
    '/v1/completions',
    { ...needs('infer'), schema: { body: completionBody } },
    async (request, reply) => {
      const asking = askingOf(context, request);
      if (request.body.stream === true)
        return sendEvents(context, request, reply, streamText(context, request.body, asking));
      return sendWhole(asking, reply, completeText(context, request.body, asking));
    },
  );
  app.post(
    '/v1/responses',
    { ...needs('infer'), schema: { body: responseBody } },
    async (request, reply) => {
      const asking = askingOf(context, request);
      if (request.body.stream === true)
        return sendEvents(
          context,
          request,
          reply,
          streamResponse(context, request.body, asking),
          errorEvent,
        );
      return sendWhole(asking, reply, respond(context, request.body, asking));
    },
  );
  app.post(
    '/inference/v1/generate',
    { ...needs('infer'), schema: { body: generateBody } },
    (request, reply) => {
      const asking = askingOf(context, request);
      return sendWhole(asking, reply, generate(context, request.body, asking));
    },
  );
  app.post(
    '/v1/embeddings',
    { ...needs('infer'), schema: { body: embeddingBody } },
    (request, reply) => {
      const asking = askingOf(context, request);
      return sendWhole(asking, reply, embed(context, request.body, asking));
    },
  );
  for (const prefix of ['', '/v1']) {
    app.post(
      `${prefix}/tokenize`,
      { ...needs('infer'), schema: { body: tokenizeBody } },
      (request, reply) => {
        const asking = askingOf(context, request);
        return sendWhole(asking, reply, tokenize(context, request.body, asking));
      },
    );
    app.post(
      `${prefix}/detokenize`,
      { ...needs('infer'), schema: { body: detokenizeBody } },
      (request) => detokenize(context, request.body, askingOf(context, request)),
    );
    // At the root a name that is loaded gets the new file, as trainers expect there.
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

  app.post(
    '/pause',
    { ...needs('admin'), schema: { querystring: pauseQuery } },
    async ({ query: { mode } }) => {
      if (mode === 'keep')
        throw unsupported(
          'mode',
          'mode=keep: replies that run cannot be held and gone on with here; wait or abort',
        );
      await context.pause(mode);
      return { status: 'paused' };
    },
  );
  app.post('/resume', needs('admin'), () => {
    queue.reopen();
    return { status: 'resumed' };
  });
  // What trainers ask before they send weights: there is nobody here who would take them.
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
        'server_error',
        'this server takes no weights over a network; publish an adapter and load it by its name',
        {
          code: 'not_implemented',
        },
      );
    });
}
