/** A process that other programs talk to: a model of a host over HTTP. */
import { maxHeaderSize, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import rateLimit from '@fastify/rate-limit';
import swagger from '@fastify/swagger';
import { fastify, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { jsonSchemaTransform } from 'fastify-type-provider-zod';
import type { z } from 'zod';
import { IsoproError } from '../errors.js';
import { DEFAULT_SEQUENCES, ModelHost, type HostLoadOptions } from '../host/model-host.js';
import type { Registry } from '../registry/index.js';
import { DEFECT, ENDINGS, failureOf, forbidden, ofSchema, RequestFailure } from './failures.js';
import { FairQueue } from './fair-queue.js';
import { readerOf } from './first-issue.js';
import { takeJsonOnly } from './json-body.js';
import { Keys, type Caller, type HashedKey } from './keys.js';
import { ServerMetrics } from './metrics.js';
import type { JobOptions, JobsOfRuns } from './jobs/index.js';
import type { ServerContext } from './openai/context.js';
import { ServedModels } from './openai/models.js';
import { addRoutes } from './openai/routes.js';
import { isLoopback, requireNamed, type Names } from './origin.js';
import { registryNames, type RegistryNames } from './registry-names.js';
import { readTls, type TlsFiles, type TlsPair } from './tls.js';
import { Turnstile } from './event-loop-gate.js';
import { Unread } from './stream-backlog.js';

export interface ServerLimits {
  /** Bytes of a body. */
  readonly bodyBytes: number;
  /** Tokens of a reply. */
  readonly replyTokens: number;
  /** Replies that wait. */
  readonly waiting: number;
  readonly connections: number;
  /** Requests of a key per minute. */
  readonly requestsPerMinute: number;
  /** Seconds from the beginning of a request to the end of its answer. */
  readonly requestSeconds: number;
  /** Seconds in which a request must arrive completely. */
  readonly arrivalSeconds: number;
  /** Seconds that running replies have when the server is told to end. */
  readonly drainSeconds: number;
}

export const DEFAULT_LIMITS: ServerLimits = {
  bodyBytes: 4 * 2 ** 20,
  replyTokens: 2 ** 31 - 1,
  waiting: 256,
  connections: 512,
  requestsPerMinute: 6000,
  requestSeconds: 600,
  arrivalSeconds: 30,
  drainSeconds: 30,
};

export interface ServerOptions extends Omit<Names, 'secure'> {
  /** 0: any that is free. */
  readonly port: number;
  /** A file, an alias or a URI. */
  readonly model: string;
  /** Name of the bare model. */
  readonly name: string;
  readonly adapters: readonly { readonly name: string; readonly file: string }[];
  /** Folder from which requests may load adapters. */
  readonly adapterFolder?: string | undefined;
  /** Registry whose names are served too. */
  readonly registry?: Registry | undefined;
  /** Runs, trainings and evaluations as jobs; undefined: none. */
  readonly jobs?: JobOptions | undefined;
  /** Folder whose runs the page shows. */
  readonly runs?: string | undefined;
  readonly keys: readonly HashedKey[];
  /** Certificate and key; with them the server speaks HTTPS only. */
  readonly tls?: TlsFiles | undefined;
  readonly load: HostLoadOptions;
  readonly limits: Partial<ServerLimits>;
  /** Receives errors that are defects. */
  readonly report: (error: unknown) => void;
}

/**
 * Milliseconds for an answer to be read when everything else has ended, so that an idle reader does
 * not delay the end.
 */
const LAST_WORDS_MS = 5000;

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
    ending: AbortController;
  }
}

const NOBODY: Caller = { name: 'nobody', scopes: new Set() };
/** Names of headers that a request of an allowed page may have. */
const HEADER_NAMES = /^[\w!#$%&'*+.^`|~-]+(?: *, *[\w!#$%&'*+.^`|~-]+)*$/;

interface ServerParts {
  readonly app: FastifyInstance;
  readonly host: ModelHost;
  readonly models: ServedModels;
  readonly shutDown: (seconds: number) => Promise<void>;
  /** Frees the model and what goes with it. */
  readonly free: () => Promise<void>;
  readonly url: string;
}

export class Server {
  readonly url: string;
  readonly models: ServedModels;
  readonly #parts: ServerParts;
  #closing: Promise<void> | undefined;

  /** @internal Use startServer. */
  constructor(parts: ServerParts) {
    this.url = parts.url;
    this.models = parts.models;
    this.#parts = parts;
  }

  /** Loaded bytes, and the numbers of running and waiting replies. */
  usage(): ReturnType<ModelHost['usage']> {
    return this.#parts.host.usage();
  }

  /**
   * Takes no more requests, lets those that run end, and frees the model; harmless when repeated.
   * @param seconds after which they are ended; default: as the limits have it
   */
  close(seconds = Infinity): Promise<void> {
    this.#closing ??= (async () => {
      const { app, shutDown, free } = this.#parts;
      const closed = app.close();
      await Promise.race([shutDown(seconds), closed]);
      app.server.closeIdleConnections(); // those of replies that ended meanwhile
      const lost = setTimeout(() => app.server.closeAllConnections(), LAST_WORDS_MS);
      await closed;
      clearTimeout(lost);
      await free();
    })();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close(0);
  }
}

/** The requests that run, each of which can be ended. */
class Endings {
  readonly #all = new Set<AbortController>();
  /** Number of requests with an unsent answer, by key. */
  readonly #open = new Map<string, number>();
  #settled: (() => void) | undefined;

  /**
   * @throws RequestFailure 429 beyond so many of one caller, whose connections are none of others
   *   then
   */
  begin(
    { ending, caller: { name } }: FastifyRequest,
    reply: FastifyReply,
    seconds: number,
    most: number,
    onLeft: () => void,
  ): void {
    const open = this.#open.get(name) ?? 0;
    if (open >= most)
      throw new RequestFailure(
        429,
        `too many open requests: ${open} answers for this key are pending or unread`,
        'too_many_requests',
        { retryAfter: 1 },
      );
    this.#open.set(name, open + 1);
    this.#all.add(ending);
    let lost: NodeJS.Timeout | undefined;
    const timer = setTimeout(() => {
      ending.abort(ENDINGS.time);
      // no one reads the answer
      lost = setTimeout(() => reply.raw.destroy(), LAST_WORDS_MS).unref();
    }, seconds * 1000).unref();
    reply.raw.once('close', () => {
      clearTimeout(timer);
      clearTimeout(lost);
      const left = this.#open.get(name)! - 1;
      if (left > 0) this.#open.set(name, left);
      else this.#open.delete(name);
      if (!reply.raw.writableFinished) {
        onLeft();
        ending.abort(ENDINGS.gone);
      }
      this.#all.delete(ending);
      if (this.#all.size === 0) this.#settled?.();
    });
  }

  endAll(reason: RequestFailure): void {
    for (const ending of this.#all) ending.abort(reason);
  }

  /** Resolves when no request runs, or when the time is over. */
  async settled(seconds: number): Promise<void> {
    if (this.#all.size === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#settled = resolve;
      if (Number.isFinite(seconds)) timer = setTimeout(resolve, seconds * 1000);
    });
    clearTimeout(timer);
  }
}

/**
 * Loads the model and listens.
 * @throws IsoproError as readTls, ModelHost.load and HostedModel.loadAdapter; PORT_UNAVAILABLE
 */
export async function startServer(options: ServerOptions): Promise<Server> {
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const tls = options.tls && readTls(options.tls);
  const host = new ModelHost();
  let names: RegistryNames | undefined;
  try {
    const model = await host.load(options.model, options.load);
    names = options.registry && (await registryNames(options.registry, model, options.report));
    const models = new ServedModels(model, options.name, {
      folder: options.adapterFolder,
      service: names,
    });
    for (const { name, file } of options.adapters) await models.add(name, file);
    const free = async (): Promise<void> => {
      await names?.close();
      await host.dispose();
    };
    return await listen(options, limits, tls, host, models, free);
  } catch (error) {
    await names?.close();
    await host.dispose();
    throw error;
  }
}

async function listen(
  options: ServerOptions,
  limits: ServerLimits,
  tls: TlsPair | undefined,
  host: ModelHost,
  models: ServedModels,
  free: () => Promise<void>,
): Promise<Server> {
  const { report } = options;
  const isShared = !isOpenToAll(options);
  const queue = new FairQueue({
    running: options.load.maxSequences ?? DEFAULT_SEQUENCES,
    waiting: limits.waiting,
    isShared,
  });
  const metrics = new ServerMetrics({
    running: () => queue.running,
    waiting: () => queue.waiting,
    memoryBytes: () => host.usage().usedBytes,
  });
  const endings = new Endings();
  const turns = new Turnstile();
  let draws = 0;
  const context: ServerContext = {
    models,
    queue,
    unread: new Unread(),
    turns,
    metrics,
    mostTokens: Math.min(limits.replyTokens, models.model.contextTokens),
    signalOf: (request) => request.ending.signal,
    callerOf: (request) => request.caller,
    nextDraw: () => String(draws++),
    report,
    async pause(mode) {
      queue.close();
      if (mode === 'abort') endings.endAll(ENDINGS.paused);
      await queue.idle();
    },
  };
  const app = appOf(limits, tls, report);
  guard(app, options, { endings, turns, limits, metrics, isShared });
  await limitRate(app, limits);
  const ofRuns = await addAllRoutes(app, options, context);
  const { addPage } = await import('./page/routes.js');
  addPage(app, {
    runs: options.runs,
    registry: options.registry,
    model: models.model,
    modelName: models.base,
    ...ofRuns,
    usage: () => ({
      modelBytes: host.usage().usedBytes,
      running: queue.running,
      waiting: queue.waiting,
    }),
    report,
  });

  const jobsEnded = new Promise<void>((resolve) => {
    app.addHook('preClose', async () => resolve()); // after the hook of the jobs
  });
  const url = await listenOn(app, options, tls === undefined ? 'http' : 'https');
  const shutDown = async (seconds: number): Promise<void> => {
    await endings.settled(Math.min(seconds, limits.drainSeconds));
    endings.endAll(ENDINGS.shutdown);
    await jobsEnded;
  };
  return new Server({ app, host, models, shutDown, free, url });
}

/** Makes the HTTP server, with the form of its failures and without routes. */
function appOf(
  limits: ServerLimits,
  tls: TlsPair | undefined,
  report: (error: unknown) => void,
): FastifyInstance {
  const arrivalMs = limits.arrivalSeconds * 1000;
  const connections = { connectionsCheckingInterval: 1000, headersTimeout: arrivalMs };
  const app: FastifyInstance = fastify({
    bodyLimit: limits.bodyBytes,
    requestTimeout: arrivalMs,
    // fastify's types know servers of one kind or the other
    ...((tls === undefined
      ? { http: connections }
      : { https: { ...connections, ...tls, handshakeTimeout: arrivalMs } }) as {
      http: typeof connections;
    }),
    routerOptions: { maxParamLength: 400 },
    forceCloseConnections: 'idle',
    frameworkErrors: (error, _, reply) => void answerFailure(error, reply, report),
    clientErrorHandler(error, socket) {
      if (error.code === 'ECONNRESET' || !socket.writable) return void socket.destroy();
      const { status, body: said } = ofConnection(error.code);
      const body = JSON.stringify(said);
      const head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nconnection: close\r\ncontent-type: application/json`;
      socket.end(`${head}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    },
  });
  app.server.maxConnections = limits.connections;
  takeJsonOnly(app);
  app.setValidatorCompiler<z.ZodType>(({ schema, method, url, httpPart }) => {
    const read = readerOf(schema, `${httpPart} of ${method} ${url}`);
    return (data) => {
      const { error, data: value } = read(data);
      return error === undefined ? { value } : { error: ofSchema(error, schema) };
    };
  });
  app.setErrorHandler((error, _, reply) => answerFailure(error, reply, report));
  app.setNotFoundHandler(({ method, url }) => {
    const message = `there is no ${method} ${url.slice(0, 200)} on this server`;
    throw new RequestFailure(404, message, 'unknown_url', { type: 'invalid_request_error' });
  });
  return app;
}

const limitRate = (app: FastifyInstance, { requestsPerMinute }: ServerLimits): unknown =>
  app.register(rateLimit, {
    max: requestsPerMinute,
    timeWindow: 60_000,
    keyGenerator: ({ caller, ip }) => (caller === NOBODY ? ip : caller.name),
    errorResponseBuilder: (_, { ttl }) =>
      new RequestFailure(
        429,
        `rate limit exceeded: ${requestsPerMinute} requests per minute`,
        'rate_limit_exceeded',
        { retryAfter: Math.ceil(ttl / 1000) },
      ),
  });

/** Adds the routes of the API, of jobs, and of the document that describes them. */
async function addAllRoutes(
  app: FastifyInstance,
  options: ServerOptions,
  context: ServerContext,
): Promise<JobsOfRuns> {
  await app.register(swagger, {
    openapi: { info: { title: 'isopro-native', version: '1' } },
    transform: jsonSchemaTransform,
  });
  let ofRuns: JobsOfRuns = {
    queue: undefined,
    mayRead: ({ scopes }) => scopes.has('admin'),
    stateOf: () => undefined,
    schemas: {},
  };
  app.get('/openapi.json', { config: { scope: 'read' }, schema: { hide: true } }, () => {
    const document = app.swagger() as {
      readonly components?: { readonly schemas?: Readonly<Record<string, object>> };
    };
    const schemas = { ...document.components?.schemas, ...ofRuns.schemas };
    return { ...document, components: { ...document.components, schemas } };
  });
  addRoutes(app, context);
  // loaded after the model, because they import much
  if (options.jobs !== undefined) {
    const { addJobs } = await import('./jobs/index.js');
    const { name, model, adapters, report } = options;
    ofRuns = await addJobs(app, {
      options: options.jobs,
      base: { name, model },
      adapters,
      models: context.models,
      registry: options.registry?.paths.folder,
      report,
    });
  }
  return ofRuns;
}

/** @throws IsoproError PORT_UNAVAILABLE */
async function listenOn(
  app: FastifyInstance,
  { host, port: wanted }: ServerOptions,
  scheme: string,
): Promise<string> {
  try {
    await app.listen({ host, port: wanted });
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (!['EADDRINUSE', 'EACCES', 'EADDRNOTAVAIL', 'ENOTFOUND'].includes(code ?? '')) throw cause;
    throw new IsoproError('PORT_UNAVAILABLE', `cannot listen on ${host}:${wanted}: ${message}`, {
      cause,
    });
  }
  const { port } = app.server.address() as AddressInfo;
  return `${scheme}://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** The failure of a connection that did not become a request. */
function ofConnection(code: string | undefined): RequestFailure {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT')
    return new RequestFailure(408, 'the request did not arrive in time', 'request_timeout');
  if (code === 'HPE_HEADER_OVERFLOW')
    return new RequestFailure(
      431,
      `the headers have more than ${maxHeaderSize} bytes; a browser may be sending cookies of other programs on this host`,
      'headers_too_large',
    );
  return new RequestFailure(400, 'this is not an HTTP request', 'bad_request');
}

interface Guards {
  readonly endings: Endings;
  readonly turns: Turnstile;
  readonly limits: ServerLimits;
  readonly metrics: ServerMetrics;
  /** Whether keys share the model; else all callers without a key count as one. */
  readonly isShared: boolean;
}

/** Returns true if a caller without a key may ask. */
const isOpenToAll = ({ host, keys }: ServerOptions): boolean =>
  isLoopback(host) && keys.every(({ scopes }) => scopes.includes('admin'));

/** Adds the checks that run before anything else of a request. */
function guard(
  app: FastifyInstance,
  options: ServerOptions,
  { endings, turns, limits, metrics, isShared }: Guards,
): void {
  const keys = new Keys(options.keys, !isShared);
  const mostOpen = isShared ? Math.max(1, Math.floor(limits.connections / 2)) : Infinity;
  const names: Names = { ...options, secure: options.tls !== undefined };
  app.decorateRequest('caller', null as unknown as Caller);
  app.decorateRequest('ending', null as unknown as AbortController);
  /** Methods of all routes. */
  const methods = new Set<string>();
  app.addHook('onRoute', ({ method }) => {
    for (const each of [method].flat()) methods.add(each);
  });
  app.addHook('onRequest', async (request, reply) => {
    request.caller = NOBODY;
    request.ending = new AbortController();
    reply
      .header('x-content-type-options', 'nosniff')
      .header('content-security-policy', "default-src 'none'");
    const { host, origin, authorization } = request.headers;
    // Node shows the first of several Hosts, and a proxy in between might use the last.
    if (request.raw.headersDistinct.host?.length !== 1)
      throw forbidden('a request must have exactly one Host header', 'host_not_allowed');
    requireNamed(host, origin, names);
    // An address as a whole goes before the Host.
    const { url: target = '' } = request.raw;
    if (!target.startsWith('/'))
      requireNamed(URL.canParse(target) ? new URL(target).host : '', undefined, names);
    if (origin !== undefined && options.origins.includes(origin)) {
      reply.header('access-control-allow-origin', origin).header('vary', 'origin');
      if (request.method === 'OPTIONS') {
        const asked = request.headers['access-control-request-headers'] ?? '';
        return reply
          .headers({
            vary: 'origin, access-control-request-headers',
            'access-control-allow-methods': [...methods].join(', '),
            'access-control-allow-headers': HEADER_NAMES.test(asked)
              ? asked
              : 'authorization, content-type',
            'access-control-max-age': '600',
          })
          .code(204)
          .send();
      }
    }
    const { config, url = '' } = request.routeOptions;
    const { scope } = config;
    if (scope !== undefined)
      request.caller = keys.admit(authorization, scope, url.startsWith('/api/'));
    if (scope === 'infer') {
      endings.begin(request, reply, limits.requestSeconds, mostOpen, () => metrics.left());
      await turns.pass();
    }
    return undefined;
  });
  app.addHook('onResponse', async (request, reply) => {
    metrics.answered(
      request.routeOptions.url ?? 'unknown',
      reply.statusCode,
      reply.elapsedTime / 1000,
    );
  });
}

function answerFailure(
  error: unknown,
  reply: FastifyReply,
  report: (error: unknown) => void,
): FastifyReply {
  const failure = failureOf(error) ?? DEFECT;
  if (failure === DEFECT) report(error);
  if (failure.retryAfter !== undefined) reply.header('retry-after', String(failure.retryAfter));
  if (failure.status === 401) reply.header('www-authenticate', 'Bearer');
  return reply.code(failure.status).type('application/json').send(failure.body);
}
