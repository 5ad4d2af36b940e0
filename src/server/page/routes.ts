/**
 * What the page reads and moves: runs, rollouts, the registry. All of /api needs a key: of runs,
 * one that trains sees its own.
 */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import { z } from 'zod';
import { packageRoot } from '../../engine/addon.js';
import { IsoproError, type ErrorCode } from '../../errors.js';
import type { HostedModel } from '../../host/hosted-model.js';
import type { Registry } from '../../registry/index.js';
import { requireAlias } from '../../registry/names.js';
import { visible } from '../../visible-text.js';
import { RequestFailure, smallLetters, type FailureType } from '../failures.js';
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
  /** That it answers to. */
  readonly modelName: string;
  usage(): Pick<Status, 'modelBytes' | 'running' | 'waiting'>;
  /** Told what failed by a defect. */
  report(error: unknown): void;
}

const STATUS: Partial<Record<ErrorCode, readonly [status: number, type: FailureType]>> = {
  RUN_NOT_FOUND: [404, 'not_found_error'],
  LOG_NOT_FOUND: [404, 'not_found_error'],
  REGISTRY_NOT_FOUND: [404, 'not_found_error'],
  RUN_MANIFEST_INVALID: [409, 'invalid_request_error'],
  LOG_UNREADABLE: [409, 'invalid_request_error'],
  RUNS_NOT_COMPARABLE: [409, 'invalid_request_error'],
  REGISTRY_REFUSED: [409, 'invalid_request_error'],
  REGISTRY_INVALID: [409, 'invalid_request_error'],
  LOG_TAMPERED: [409, 'invalid_request_error'],
  CONFLICT: [409, 'invalid_request_error'],
};

/** What the library says of a run or a registry, as an answer. */
async function answered<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const known = error instanceof IsoproError ? STATUS[error.code] : undefined;
    if (known === undefined) throw error;
    const { code, message } = error as IsoproError;
    throw new RequestFailure(...known, message, { code: smallLetters(code) });
  }
}

const absent = (what: string): RequestFailure =>
  new RequestFailure(404, 'not_found_error', what, { code: 'not_found' });

const runParams = z.object({ run: z.string().max(300) });
const rolloutParams = runParams.extend({ id: z.coerce.number().int().min(0) });
const rolloutQuery = z.object({
  tier: z.string().max(200).optional(),
  iteration: z.coerce.number().int().min(0).optional(),
  verdict: z.enum(['pass', 'fail', 'none']).optional(),
  problem: z.string().max(200).optional(),
  text: z.string().max(500).optional(),
  offset: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(200).default(50),
});

/** The routes and, where it was built, the page itself. */
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
      throw absent('this server has no registry: start it with --registry');
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
      // what is refused before anything was done is an answer of its own
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

function addRuns(
  instance: FastifyInstance,
  { runs, model, modelName, mayRead, stateOf }: PageContext,
): void {
  if (runs === undefined) return;
  const app = instance.withTypeProvider<ZodTypeProvider>();
  // of whatever run is named, before anything is read
  const requireOwn = async ({ caller, params, query }: FastifyRequest): Promise<void> => {
    const named = { ...(query as { a?: string; b?: string }), ...(params as { run?: string }) };
    for (const run of [named.run, named.a, named.b])
      if (run !== undefined && !mayRead(caller, run)) await answered(Promise.reject(noRun(run)));
  };
  const config = { config: { scope: 'train' as const }, preHandler: requireOwn };
  const at = { ...config, schema: { params: runParams } };
  const reading = new ReadingThread(runs);
  const tickets = new ReportTickets();
  tickets.addRoute(app);
  app.addHook('onClose', () => reading.close());
  const json = async (
    work: Promise<string>,
    reply: { type(type: string): { send(text: string): unknown } },
  ): Promise<unknown> => reply.type('application/json').send(await answered(work));

  const own = <Line extends { readonly name: string }>(
    { caller }: FastifyRequest,
    lines: readonly Line[],
  ): Line[] => lines.filter(({ name }) => mayRead(caller, name));
  /** A log that does not end says nothing of why; the job that wrote it does. */
  const asItsJob = (line: RunLine): RunLine => {
    const state = line.state === 'unfinished' ? stateOf(line.name) : undefined;
    return state === 'cancelled' || state === 'failed' || state === 'paused'
      ? { ...line, state }
      : line;
  };
  app.get('/api/runs', config, async (request) =>
    own(request, await reading.value('list')).map(asItsJob),
  );
  app.get(
    '/api/runs/:run',
    {
      ...config,
      schema: {
        params: runParams,
        querystring: z.object({ since: z.string().max(100).optional() }),
      },
    },
    async ({ params, query }, reply) => json(reading.json('run', params.run, query.since), reply),
  );
  app.get('/api/runs/:run/integrity', at, async ({ params: { run } }, reply) =>
    json(reading.json('integrity', run), reply),
  );
  app.get('/api/runs/:run/report', at, async ({ params: { run } }) => ({
    url: tickets.issue(await answered(reading.value('report', run))),
  }));
  app.get(
    '/api/runs/:run/rollouts',
    { ...config, schema: { params: runParams, querystring: rolloutQuery } },
    async ({ params: { run }, query }, reply) => json(reading.json('rollouts', run, query), reply),
  );
  app.get(
    '/api/runs/:run/rollouts/:id',
    { ...config, schema: { params: rolloutParams } },
    async ({ params: { run, id } }, reply) => json(reading.json('rollout', run, id), reply),
  );
  app.get('/api/runs/:run/problems', at, async ({ params: { run } }, reply) =>
    json(reading.json('problems', run), reply),
  );
  app.get('/api/truth', config, async (request) => own(request, await reading.value('truths')));
  app.get('/api/truth/:run', at, async ({ params: { run } }, reply) =>
    json(reading.json('truth', run), reply),
  );
  app.get('/api/truth/:run/report', at, async ({ params: { run } }) => ({
    url: tickets.issue(await answered(reading.value('truthReport', run))),
  }));
  app.get(
    '/api/truth/:run/trajectories/:id',
    { ...config, schema: { params: runParams.extend({ id: z.string().regex(/^[0-9a-f]{64}$/) }) } },
    async ({ params: { run, id } }, reply) => json(reading.json('trajectory', run, id), reply),
  );
  app.get(
    '/api/compare',
    {
      ...config,
      schema: { querystring: z.object({ a: z.string().max(300), b: z.string().max(300) }) },
    },
    async ({ query: { a, b } }, reply) => json(reading.json('compare', a, b), reply),
  );

  /** @throws RequestFailure 409 where the run is of another model than the one that is served */
  const originOf = async (run: string): Promise<{ readonly adapterFile: string | null }> => {
    const origin = await answered(reading.value('origin', run));
    if (origin.modelSha256 === (await model.hash())) return origin;
    throw new RequestFailure(
      409,
      'invalid_request_error',
      `the run is of another model than ${modelName}, which is served here`,
      {
        code: 'other_model',
      },
    );
  };
  app.get(
    '/api/runs/:run/problems/:problem',
    {
      ...config,
      schema: { params: runParams.extend({ problem: z.string().regex(/^[0-9a-f]{64}$/) }) },
    },
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
  app.get(
    '/api/runs/:run/rollouts/:id/scores',
    {
      ...config,
      schema: {
        params: rolloutParams,
        querystring: z.object({ under: z.enum(['base', 'adapter']).default('base') }),
      },
    },
    async ({ params: { run, id }, query: { under } }): Promise<TokenScores> => {
      const { adapterFile } = await originOf(run);
      const { promptIds, tokenIds, turns } = await answered(reading.value('rollout', run, id));
      if (promptIds.length === 0 || tokenIds.length === 0 || turns.length > 0)
        throw absent(
          'the log does not hold the ids of this prompt, or the reply is one of several turns',
        );
      if (under === 'adapter' && adapterFile === null)
        throw absent('the run has submitted no adapter');
      const adapter = under === 'adapter' ? await model.loadAdapter(adapterFile!) : null;
      try {
        const [scores] = await model.score(promptIds, [tokenIds], { adapter });
        const text = (token: number): string =>
          visible(model.detokenize([token], { withControl: true }));
        const tokens = [...scores!].map((logprob, i) => ({ text: text(tokenIds[i]!), logprob }));
        return {
          model: under === 'adapter' ? `${modelName} with the run's adapter` : modelName,
          tokens,
        };
      } finally {
        await adapter?.dispose();
      }
    },
  );
}
