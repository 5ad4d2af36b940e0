/**
 * Jobs over HTTP (docs/jobs.md). Whose a job is, is its key's name; `admin` sees all, and what is
 * another's is not there.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { hasEndedAs, JOB_STATES, type Job, type JobEvent } from '../../jobs/job.js';
import type { Asker, JobQueue } from '../../jobs/queue.js';
import { IsoproError } from '../../errors.js';
import { DEFECT, failureOf, invalid, RequestFailure } from '../failures.js';
import { mostMembers } from '../first-issue.js';
import type { Caller } from '../keys.js';
import { goneWith, sendEvents } from '../event-stream.js';

const TRAIN = { config: { scope: 'train' } } as const;

export const askerOf = ({ name, scopes }: Caller): Asker => ({
  name,
  isAdmin: scopes.has('admin'),
});

export const noJob = (id: string): RequestFailure =>
  new RequestFailure(404, `there is no job ${JSON.stringify(id.slice(0, 100))}`, 'job_not_found');

/** @throws RequestFailure 404 where there is none, or it is another's */
export function jobOf(queue: JobQueue, { caller }: FastifyRequest, id: string): Job {
  const job = queue.get(id);
  if (job === undefined || (job.owner !== caller.name && !caller.scopes.has('admin')))
    throw noJob(id);
  return job;
}

/** Adds the name of the wrong setting to the failure, as param. */
async function naming<T>(asked: Promise<T>): Promise<T> {
  try {
    return await asked;
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'INVALID_ARGUMENT') throw error;
    const [, member] = /^((?:\w+\.)*\w+): /.exec(error.message) ?? [];
    if (member === undefined) throw error;
    throw invalid(
      /^(?:kind|settings)\b/.test(member) ? member : `settings.${member}`,
      error.message,
      'invalid_argument',
    );
  }
}

interface JsonForm {
  readonly default?: unknown;
  readonly properties?: Readonly<Record<string, JsonForm>> | undefined;
}

/** Their kind reads them, when it is known that they are short. */
const settings = z.record(z.string(), z.unknown()).check(mostMembers(1024));
const newJob = z.strictObject({
  kind: z.string().min(1).max(100),
  settings: settings.default({}),
  name: z.string().min(1).max(200).nullish(),
});
const estimated = z.strictObject({
  kind: z.string().min(1).max(100),
  settings: settings.default({}),
  measure: z.boolean().default(false),
});
const idempotencyKey = z.string().min(1).max(200).optional();

/** @throws RequestFailure 400 */
export function idempotencyKeyOf({ headers }: FastifyRequest): string | undefined {
  const key = idempotencyKey.safeParse(headers['idempotency-key']);
  if (key.success) return key.data;
  throw invalid('', 'Idempotency-Key: 1 to 200 characters');
}

const jobParams = z.object({ id: z.string().max(100) });
const listQuery = z.object({
  kind: z.string().max(100).optional(),
  state: z.enum(JOB_STATES).optional(),
  after: z.string().max(100).optional(),
  limit: z.coerce.number().int().min(1).max(100).default(20),
});
const eventId = z.coerce.number().int().min(0).max(Number.MAX_SAFE_INTEGER);
const eventsQuery = z.object({
  after: eventId.optional(),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
});

/** Sets the served model as the default of a job that names none. */
function withModel({ properties, ...schema }: JsonForm, served: string): JsonForm {
  const of = properties?.model;
  if (of === undefined) return { ...schema, properties };
  const model = of.properties === undefined ? { ...of, default: served } : withName(of, served);
  return { ...schema, properties: { ...properties, model } };
}
const withName = ({ default: _, properties, ...of }: JsonForm, served: string): JsonForm => ({
  ...of,
  properties: { ...properties, name: { ...properties?.name, default: served } },
});

/** @param opened gives the queue, or throws why there is none */
export function addJobRoutes(
  instance: FastifyInstance,
  opened: () => JobQueue,
  report: (error: unknown) => void,
): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();

  app.get('/api/jobs/kinds', TRAIN, ({ caller }) => {
    const queue = opened();
    const { names } = queue.catalogue(askerOf(caller));
    const data = queue
      .kinds(askerOf(caller))
      .map(({ id, title, button, settings: read, measure }) => ({
        kind: id,
        title,
        button,
        schema: withModel(
          z.toJSONSchema(read, { io: 'input', unrepresentable: 'any' }) as JsonForm,
          names.models[0]!,
        ),
        measures: measure !== undefined,
        names,
      }));
    return { data };
  });

  app.post(
    '/api/jobs/estimate',
    { ...TRAIN, schema: { body: estimated } },
    async (request, reply) => {
      const { kind, settings: asked, measure } = request.body;
      const queue = opened();
      const asker = askerOf(request.caller);
      const estimate = await naming(queue.estimate(asker, kind, asked));
      return {
        ...estimate,
        measured: measure ? await queue.measure(asker, kind, asked, goneWith(reply)) : null,
      };
    },
  );

  app.post('/api/jobs', { ...TRAIN, schema: { body: newJob } }, async (request, reply) => {
    const asked = { ...request.body, idempotencyKey: idempotencyKeyOf(request) };
    const { job, isNew } = await naming(opened().create(askerOf(request.caller), asked));
    return reply
      .code(isNew ? 201 : 200)
      .header('location', `/api/jobs/${job.id}`)
      .send(job);
  });

  app.get('/api/jobs', { ...TRAIN, schema: { querystring: listQuery } }, ({ query, caller }) => {
    const { jobs, hasMore } = opened().list({
      ...query,
      ...(!caller.scopes.has('admin') && { owner: caller.name }),
    });
    return { data: jobs, hasMore };
  });

  app.get('/api/jobs/:id', { ...TRAIN, schema: { params: jobParams } }, (request) =>
    jobOf(opened(), request, request.params.id),
  );

  app.get(
    '/api/jobs/:id/events',
    { ...TRAIN, schema: { params: jobParams, querystring: eventsQuery } },
    (request, reply) => {
      const queue = opened();
      const { id } = jobOf(queue, request, request.params.id);
      const { after, limit } = request.query;
      const last = eventId.safeParse(request.headers['last-event-id']);
      const from = last.success ? last.data : (after ?? 0);
      if (request.headers.accept?.includes('text/event-stream') === true)
        return sendEvents(reply, texts(queue.follow(id, from, goneWith(reply)), report));
      const { events, hasMore } = queue.events(id, from, limit);
      return { data: events, hasMore };
    },
  );

  for (const name of ['cancel', 'pause', 'resume'] as const)
    app.post(`/api/jobs/:id/${name}`, { ...TRAIN, schema: { params: jobParams } }, (request) => {
      const queue = opened();
      const job = jobOf(queue, request, request.params.id);
      if (name !== 'cancel' && hasEndedAs(job.state))
        throw new RequestFailure(409, `the job is ${job.state}`, 'job_ended');
      return queue[name](job.id);
    });
}

/**
 * Endpoints of isopro, where a simulation was answered at once under one of four names: each
 * creates a job of the kind with that name.
 */
export function addSimulationRoutes(instance: FastifyInstance, opened: () => JobQueue): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  const begin = async (
    request: FastifyRequest,
    reply: FastifyReply,
    type: string,
    asked: object,
  ): Promise<FastifyReply> => {
    const queue = opened();
    const kinds = queue.kinds(askerOf(request.caller)).map(({ id }) => id);
    if (!kinds.includes(type)) {
      const what = `there is no simulation ${JSON.stringify(type.slice(0, 100))}; use one of ${kinds.join(', ')}`;
      throw new RequestFailure(404, what, 'kind_not_found', { param: 'type' });
    }
    const idempotencyKey = idempotencyKeyOf(request);
    const { job } = await queue.create(askerOf(request.caller), {
      kind: type,
      settings: asked,
      idempotencyKey,
    });
    return reply.code(202).header('location', `/api/jobs/${job.id}`).send(job);
  };

  app.get('/healthcheck', () => ({ status: 'healthy', timestamp: new Date().toISOString() }));
  const typed = z.looseObject({ type: z.string().min(1) });
  app.post('/simulate', { ...TRAIN, schema: { body: typed } }, (request, reply) => {
    const { type, ...asked } = request.body;
    return begin(request, reply, type, asked);
  });
  const params = z.object({ type: z.string() });
  app.post(
    '/simulate/:type',
    { ...TRAIN, schema: { params, body: settings.default({}) } },
    (request, reply) => begin(request, reply, request.params.type, request.body),
  );
}

const textOf = (event: JobEvent): string =>
  `id: ${event.id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;

/** Events of a job; where a fault ends them the last one says which. */
async function* texts(
  events: AsyncGenerator<JobEvent, void, undefined>,
  report: (error: unknown) => void,
): AsyncGenerator<string, void, undefined> {
  yield ': \n\n'; // the head is sent at once
  try {
    for await (const event of events) yield textOf(event);
  } catch (error) {
    const failure = failureOf(error) ?? DEFECT;
    if (failure === DEFECT) report(error);
    yield `event: error\ndata: ${JSON.stringify(failure.body)}\n\n`;
  }
}
