/**
 * Fine-tuning jobs as OpenAI has them: jobs of the kinds train and run, whose adapter is a model of
 * this server once they have ended.
 */
import { randomInt } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { hasEndedAs, type Job } from '../../jobs/job.js';
import type { JobQueue } from '../../jobs/queue.js';
import { invalid, RequestFailure, unsupported } from '../failures.js';
import { askerOf, idempotencyKeyOf } from '../jobs/routes.js';
import { DerivedFiles } from './derived-files.js';
import type { FineTunedModels } from './fine-tuned-models.js';
import { askedOf } from './methods.js';
import { readNote, type FineTuningNote } from './note.js';
import { page, pageOf, pageQuery } from './pages.js';
import { newFineTuning } from './requests.js';
import {
  checkpointsOf,
  eventNumber,
  fineTuningEvent,
  fineTuningId,
  fineTuningJob,
  jobIdOf,
  SHOWN_EVENTS,
} from './shapes.js';

const TRAIN = { config: { scope: 'train' } } as const;
const params = z.object({ id: z.string().max(100) });

export interface FineTuningContext {
  readonly queue: JobQueue;
  readonly models: FineTunedModels;
  /** The name of the model that is served. */
  readonly base: string;
}

/**
 * @throws RequestFailure 404 where there is none, it is another's, or was not asked for as one of
 *   these
 */
function fineTuningOf({ queue }: FineTuningContext, { caller }: FastifyRequest, id: string): Job {
  const job = /^ftjob-[0-9a-f]{24}$/.test(id) ? queue.get(jobIdOf(id)) : undefined;
  const isTheirs = job !== undefined && (job.owner === caller.name || caller.scopes.has('admin'));
  if (isTheirs && readNote(queue.note(job.id)) !== null) return job;
  const message = `there is no fine-tuning job ${JSON.stringify(id)}`;
  throw new RequestFailure(404, message, 'fine_tuning_job_not_found');
}

/** @param opened gives what jobs need, or throws why there are none */
export function addFineTuningRoutes(
  instance: FastifyInstance,
  opened: () => FineTuningContext,
): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  const shape = ({ queue, models }: FineTuningContext, job: Job): object =>
    fineTuningJob(job, queue, models);

  app.post(
    '/v1/fine_tuning/jobs',
    { ...TRAIN, schema: { body: newFineTuning } },
    async (request) => {
      const context = opened();
      const { queue, base } = context;
      const { body, caller } = request;
      const asker = askerOf(caller);
      const seed = body.seed ?? randomInt(2 ** 31);
      using derived = new DerivedFiles(queue, asker);
      const { kind, settings, method, hyperparameters, trainingFile } = await askedOf(body, seed, {
        queue,
        asker,
        base,
        derived,
      });
      const fineTuning: FineTuningNote = {
        model: base,
        training_file: trainingFile,
        validation_file: body.validation_file ?? null,
        method,
        hyperparameters,
        seed,
        suffix: body.suffix ?? null,
        metadata: body.metadata ?? null,
      };
      const idempotencyKey = idempotencyKeyOf(request);
      const { job } = await queue.create(asker, {
        kind,
        settings,
        idempotencyKey,
        request: body,
        note: { fineTuning },
      });
      return shape(context, job);
    },
  );

  app.get(
    '/v1/fine_tuning/jobs',
    { ...TRAIN, schema: { querystring: z.looseObject(pageQuery.shape) } },
    ({ query, caller }) => {
      const context = opened();
      const filter = Object.keys(query).find((name) => name.startsWith('metadata'));
      if (filter !== undefined)
        throw unsupported(filter, 'metadata: filtering lists by it is not supported');
      const { after, limit } = query;
      const { jobs, hasMore } = context.queue.list({
        isNoted: true,
        limit,
        ...(after !== undefined && { after: jobIdOf(after) }),
        ...(!caller.scopes.has('admin') && { owner: caller.name }),
      });
      return page(
        jobs.map((job) => ({ ...shape(context, job), id: fineTuningId(job) })),
        hasMore,
      );
    },
  );

  app.get('/v1/fine_tuning/jobs/:id', { ...TRAIN, schema: { params } }, (request) => {
    const context = opened();
    return shape(context, fineTuningOf(context, request, request.params.id));
  });

  app.get(
    '/v1/fine_tuning/jobs/:id/events',
    { ...TRAIN, schema: { params, querystring: pageQuery } },
    (request) => {
      const context = opened();
      const job = fineTuningOf(context, request, request.params.id);
      const { after, limit } = request.query;
      const before = after === undefined ? Number.MAX_SAFE_INTEGER : (eventNumber(after) ?? 0);
      const { events, hasMore } = context.queue.latest(job.id, SHOWN_EVENTS, before, limit);
      return page(
        events.map((event) => fineTuningEvent(job, event, context.models)),
        hasMore,
      );
    },
  );

  app.get(
    '/v1/fine_tuning/jobs/:id/checkpoints',
    { ...TRAIN, schema: { params, querystring: pageQuery } },
    (request) => {
      const context = opened();
      const job = fineTuningOf(context, request, request.params.id);
      return pageOf(checkpointsOf(job, context.queue, context.models), request.query);
    },
  );

  for (const name of ['cancel', 'pause', 'resume'] as const)
    app.post(`/v1/fine_tuning/jobs/:id/${name}`, { ...TRAIN, schema: { params } }, (request) => {
      const context = opened();
      const job = fineTuningOf(context, request, request.params.id);
      if (hasEndedAs(job.state))
        throw invalid('', `cannot ${name} the job: it is ${job.state}`, 'job_ended');
      return shape(context, context.queue[name](job.id)!);
    });
}
