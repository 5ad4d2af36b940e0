/**
 * Routes of the page: it reads runs, rollouts and the registry, and moves names. Everything under
 * /api needs a key; a key with the scope train sees its own runs.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { FastifyInstance, FastifyRequest, RouteShorthandOptions } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { packageRoot } from '../../engine/addon.js';
import { IsoproError, type ErrorCode } from '../../errors.js';
import type { HostedModel } from '../../host/hosted-model.js';
import type { Registry } from '../../registry/index.js';
import { requireAlias } from '../../registry/names.js';
import { visible } from '../../visible-text.js';
import { RequestFailure, smallLetters } from '../failures.js';
import { goneWith, sendEvents } from '../event-stream.js';
import type { JobsOfRuns } from '../jobs/index.js';
import { askerOf } from '../jobs/routes.js';
import { addPageFiles, readPage } from './files.js';
import { noRun } from './no-run.js';
import { failedEvent, promotion, promotionBody, rollbackBody } from './promotion.js';
import { ReadingThread } from './reading-thread.js';
import { registryView } from './registry-view.js';
import { ReportTickets } from './report-tickets.js';
import type { PromotionEvent, RunLine, Status, TokenScores } from './shapes.js';

export interface PageContext extends JobsOfRuns {
  /** Folder of the runs; undefined: none are shown. */
  readonly runs: string | undefined;
  readonly registry: Registry | undefined;
  readonly model: HostedModel;
  /** Name under which the model is served. */
  readonly modelName: string;
  usage(): Pick<Status, 'modelBytes' | 'running' | 'waiting'>;
  /** Receives errors that are defects. */
  report(error: unknown): void;
}

const STATUS: Partial<Record<ErrorCode, number>> = {
  RUN_NOT_FOUND: 404,
  LOG_NOT_FOUND: 404,
  REGISTRY_NOT_FOUND: 404,
  RUN_MANIFEST_INVALID: 409,
  LOG_UNREADABLE: 409,
  RUNS_NOT_COMPARABLE: 409,
  REGISTRY_REFUSED: 409,
  REGISTRY_INVALID: 409,
  LOG_TAMPERED: 409,
  CONFLICT: 409,
};

/** Turns errors of the library about a run or a registry into answers. */
async function answered<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const status = error instanceof IsoproError ? STATUS[error.code] : undefined;
    if (status === undefined) throw error;
    const { code, message } = error as IsoproError;
    throw new RequestFailure(status, message, smallLetters(code));
  }
}

const absent = (message: string): RequestFailure => new RequestFailure(404, message, 'not_found');

const runParams = z.object({ run: z.string().max(300) });
const rolloutParams = runParams.extend({ id: z.coerce.number().int().min(0) });
const digest = z.string().regex(/^[0-9a-f]{64}$/);
const rolloutQuery = z.object({
  tier: z.string().max(200).optional(),
  iteration: z.coerce.number().int().min(0).optional(),
  verdict: z.enum(['pass', 'fail', 'none']).optional(),
  problem: z.string().max(200).optional(),
  text: z.string().max(500).optional(),
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

/** Adds the routes and, if it was built, the page itself. */
export function addPage(instance: FastifyInstance, context: PageContext): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  const { model, registry } = context;
  const admin = { config: { scope: 'admin' as const } };
  const { version } = JSON.parse(
    readFileSync(path.join(packageRoot(), 'package.json'), 'utf8'),
  ) as { version: string };
  addPageFiles(app, readPage());

  app.get(
    '/api/status',
    { config: { scope: 'train' } },
    async (): Promise<Status> => ({
      version,
      model: context.modelName,
      modelSha256: await model.hash(),
      registry: registry !== undefined,
      rssBytes: process.memoryUsage.rss(),
      ...context.usage(),
    }),
  );
  addRuns(app, context);

  const opened = (): Registry => {
    if (registry === undefined)
      throw absent('this server has no registry; start it with --registry');
    return registry;
  };
  app.get('/api/adapters', admin, async () => registryView(await answered(opened().read())));
  app.post(
    '/api/adapters/rollback',
    { ...admin, schema: { body: rollbackBody } },
    async ({ body: { alias: named, reason } }) => {
      const { slot, alias } = requireAlias(named);
      return answered(opened().rollback({ slot, alias, reason }));
    },
  );
  app.post(
    '/api/adapters/promote',
    { ...admin, schema: { body: promotionBody } },
    async ({ body, caller }, reply) => {
      const events = promotion(body, {
        registry: opened(),
        model: { name: context.modelName, path: model.path },
        queue: context.queue,
        asker: askerOf(caller),
        signal: goneWith(reply),
      });
      // a refusal before anything was done is an answer with its own status
      const first = await answered(events.next());
      return sendEvents(reply, streamed(first, events, context));
    },
  );
}

async function* streamed(
  first: IteratorResult<PromotionEvent, void>,
  events: AsyncGenerator<PromotionEvent, void, undefined>,
  { report }: PageContext,
): AsyncGenerator<string> {
  const line = (event: PromotionEvent): string => `data: ${JSON.stringify(event)}\n\n`;
  try {
    if (first.done !== true) yield line(first.value);
    for await (const event of events) yield line(event);
  } catch (error) {
    if (!(error instanceof IsoproError)) report(error);
    yield line(failedEvent(error));
  }
}

function addRuns(instance: FastifyInstance, context: PageContext): void {
  const { runs, mayRead, stateOf } = context;
  if (runs === undefined) return;
  const app = instance.withTypeProvider<ZodTypeProvider>();
  // checks every run that a request names, before anything is read
  const requireOwn = async ({ caller, params, query }: FastifyRequest): Promise<void> => {
    const named = { ...(query as { a?: string; b?: string }), ...(params as { run?: string }) };
    for (const run of [named.run, named.a, named.b])
      if (run !== undefined && !mayRead(caller, run)) await answered(Promise.reject(noRun(run)));
  };
  const config = { config: { scope: 'train' as const }, preHandler: requireOwn };
  const reading = new ReadingThread(runs);
  const tickets = new ReportTickets();
  tickets.addRoute(app);
  app.addHook('onClose', () => reading.close());

  const own = <Line extends { readonly name: string }>(
    { caller }: FastifyRequest,
    lines: readonly Line[],
  ): Line[] => lines.filter(({ name }) => mayRead(caller, name));
  /** The log of an unfinished run does not say why it ended; the job that wrote it does. */
  const asItsJob = (line: RunLine): RunLine => {
    const state = line.state === 'unfinished' ? stateOf(line.name) : undefined;
    return state === 'cancelled' || state === 'failed' || state === 'paused'
      ? { ...line, state }
      : line;
  };
  app.get('/api/runs', config, async (request) =>
    own(request, await reading.value('list')).map(asItsJob),
  );
  app.get('/api/truth', config, async (request) => own(request, await reading.value('truths')));

  /** Adds a route that answers with the JSON of the reading thread. */
  const addRead = <Params extends z.ZodType, Query extends z.ZodType>(
    path: string,
    schema: { readonly params?: Params; readonly querystring?: Query },
    read: (params: z.output<Params>, query: z.output<Query>) => Promise<string>,
  ): void => {
    app.get(path, { ...config, schema }, async ({ params, query }, reply) =>
      reply
        .type('application/json')
        .send(await answered(read(params as z.output<Params>, query as z.output<Query>))),
    );
  };
  const of = { params: runParams };
  const since = z.object({ since: z.string().max(100).optional() });
  addRead('/api/runs/:run', { ...of, querystring: since }, ({ run }, query) =>
    reading.json('run', run, query.since),
  );
  addRead('/api/runs/:run/integrity', of, ({ run }) => reading.json('integrity', run));
  addRead('/api/runs/:run/rollouts', { ...of, querystring: rolloutQuery }, ({ run }, query) =>
    reading.json('rollouts', run, query),
  );
  addRead('/api/runs/:run/rollouts/:id', { params: rolloutParams }, ({ run, id }) =>
    reading.json('rollout', run, id),
  );
  addRead('/api/runs/:run/problems', of, ({ run }) => reading.json('problems', run));
  addRead('/api/truth/:run', of, ({ run }) => reading.json('truth', run));
  const trajectory = { params: runParams.extend({ id: digest }) };
  addRead('/api/truth/:run/trajectories/:id', trajectory, ({ run, id }) =>
    reading.json('trajectory', run, id),
  );
  const pair = z.object({ a: z.string().max(300), b: z.string().max(300) });
  addRead('/api/compare', { querystring: pair }, (_, { a, b }) => reading.json('compare', a, b));
  for (const [path, method] of [
    ['/api/runs/:run/report', 'report'],
    ['/api/truth/:run/report', 'truthReport'],
  ] as const)
    app.get(path, { ...config, schema: of }, async ({ params: { run } }) => ({
      url: tickets.issue(await answered(reading.value(method, run))),
    }));
  addModelRoutes(instance, config, reading, context);
}

/** Adds the routes for which the served model reads or scores tokens of a run. */
function addModelRoutes(
  instance: FastifyInstance,
  config: RouteShorthandOptions,
  reading: ReadingThread,
  { model, modelName }: PageContext,
): void {
  const app = instance.withTypeProvider<ZodTypeProvider>();
  /** @throws RequestFailure 409 if the run used another model than the one that is served */
  const originOf = async (run: string): Promise<{ readonly adapterFile: string | null }> => {
    const origin = await answered(reading.value('origin', run));
    if (origin.modelSha256 === (await model.hash())) return origin;
    const message = `the run used a model other than ${modelName}, which this server serves`;
    throw new RequestFailure(409, message, 'other_model');
  };
  app.get(
    '/api/runs/:run/problems/:problem',
    { ...config, schema: { params: runParams.extend({ problem: digest }) } },
    async ({ params: { run, problem } }) => {
      await originOf(run);
      const { replies, ...rest } = await answered(reading.value('replies', run, problem));
      const texts = replies.map(({ tokenIds, ...reply }) => ({
        ...reply,
        text: visible(model.detokenize(tokenIds)),
      }));
      return { ...rest, replies: texts };
    },
  );
  const scoresQuery = z.object({ under: z.enum(['base', 'adapter']).default('base') });
  app.get(
    '/api/runs/:run/rollouts/:id/scores',
    { ...config, schema: { params: rolloutParams, querystring: scoresQuery } },
    async ({ params: { run, id }, query: { under } }): Promise<TokenScores> => {
      const { adapterFile } = await originOf(run);
      const { promptIds, tokenIds, turns } = await answered(reading.value('rollout', run, id));
      if (promptIds.length === 0 || tokenIds.length === 0 || turns.length > 0)
        throw absent(
          'the log lacks the token ids of this prompt, or the rollout has several turns',
        );
      if (under === 'adapter' && adapterFile === null)
        throw absent('the run has submitted no adapter');
      const adapter = under === 'adapter' ? await model.loadAdapter(adapterFile!) : null;
      try {
        const [scores] = await model.score(promptIds, [tokenIds], { adapter });
        const text = (token: number): string =>
          visible(model.detokenize([token], { withControl: true }));
        return {
          model: under === 'adapter' ? `${modelName} with the run's adapter` : modelName,
          tokens: [...scores!].map((logprob, i) => ({ text: text(tokenIds[i]!), logprob })),
        };
      } finally {
        await adapter?.dispose();
      }
    },
  );
}
