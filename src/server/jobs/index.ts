/**
 * Jobs of a server with a runs folder. If the queue cannot be opened, only its own routes answer
 * with the error.
 */
import type { FastifyInstance } from 'fastify';
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import type { JobState } from '../../jobs/job.js';
import { jobSchemas } from '../../jobs/kinds.js';
import { JobQueue } from '../../jobs/queue.js';
import type { AllowedBackend } from '../../operations/names.js';
import { FineTunedModels } from '../fine-tuning/fine-tuned-models.js';
import { removeUnusedFiles } from '../fine-tuning/derived-files.js';
import { addFileRoutes } from '../fine-tuning/file-routes.js';
import { addFineTuningRoutes } from '../fine-tuning/job-routes.js';
import type { ServedModels } from '../openai/models.js';
import type { Caller } from '../keys.js';
import { addJobRoutes, addSimulationRoutes, askerOf } from './routes.js';

export interface JobOptions {
  /** Folder of the results; created if it does not exist. */
  readonly runs: string;
  /** The module that jobs of operations are run by. Default: our own. */
  readonly worker?: string | undefined;
  /** Models that requests may name in addition to the served one: by name, as --model takes it. */
  readonly models: readonly { readonly name: string; readonly model: string }[];
  /** Tasks that requests may name in addition to the built-in ones: by name, as --task takes it. */
  readonly tasks: readonly { readonly name: string; readonly task: string }[];
  /** Back ends that requests may name: by name, as --backend takes it. */
  readonly backends?: readonly ({ readonly name: string } & AllowedBackend)[];
  readonly atOnce: number;
  /** Bytes that may be taken now; default: what the system leaves. */
  readonly availableMemory?: () => number;
}

export interface JobContext {
  readonly options: JobOptions;
  /** The served model: its name, and its value for --model. */
  readonly base: { readonly name: string; readonly model: string };
  readonly adapters: readonly { readonly name: string; readonly file: string }[];
  /** Models under which adapters of jobs are served. */
  readonly models: ServedModels;
  /** Folder of the registry that is served. */
  readonly registry: string | undefined;
  readonly report: (error: unknown) => void;
}

/** What other routes may know of jobs, by the name of the run of a job. */
export interface JobsOfRuns {
  /** Undefined if there is no queue, or it cannot be opened. */
  readonly queue: JobQueue | undefined;
  /** Returns true if the caller may see the run. */
  mayRead(caller: Caller, run: string): boolean;
  /** State of the job that made a run; undefined if no job made it. */
  stateOf(run: string): JobState | undefined;
  /** Schemas of the settings of jobs, for the OpenAPI document. */
  readonly schemas: Readonly<Record<string, object>>;
}

/** Removes unused files; what cannot be removed now is removed later. */
function removeUnused(queue: JobQueue, report: (error: unknown) => void, ended?: string): void {
  try {
    removeUnusedFiles(queue, ended);
  } catch (error) {
    report(error);
  }
}

export async function addJobs(
  app: FastifyInstance,
  { options, base, adapters, models, registry, report }: JobContext,
): Promise<JobsOfRuns> {
  let queue: JobQueue | IsoproError;
  let fineTuned: FineTunedModels | undefined;
  try {
    queue = JobQueue.open({
      allowed: {
        model: base.name,
        models: new Map([
          [base.name, base.model],
          ...options.models.map(({ name, model }) => [name, model] as const),
        ]),
        tasks: new Map(options.tasks.map(({ name, task }) => [name, task])),
        backends: new Map((options.backends ?? []).map(({ name, ...backend }) => [name, backend])),
        adapters: new Map(adapters.map(({ name, file }) => [name, file])),
        registry,
        runs: options.runs,
      },
      worker: options.worker,
      atOnce: options.atOnce,
      ...given({ availableMemory: options.availableMemory }),
      onEnded: (id) => {
        void fineTuned?.serve(id);
        if (queue instanceof JobQueue) removeUnused(queue, report, id);
      },
      report,
    });
    removeUnused(queue, report);
    fineTuned = new FineTunedModels(models, queue, report);
    await fineTuned.serveAll();
  } catch (error) {
    if (!(error instanceof IsoproError)) throw error;
    report(error);
    queue = error;
  }
  const opened = (): JobQueue => {
    if (queue instanceof IsoproError) throw queue;
    return queue;
  };
  addJobRoutes(app, opened, report);
  addSimulationRoutes(app, opened);
  addFileRoutes(app, opened);
  addFineTuningRoutes(app, () => ({ queue: opened(), models: fineTuned!, base: base.name }));
  // before connections are waited for: streams of events end with the queue
  app.addHook('preClose', async () => {
    if (queue instanceof JobQueue) await queue.close();
  });
  return {
    queue: queue instanceof JobQueue ? queue : undefined,
    mayRead: (caller, run) =>
      queue instanceof JobQueue ? queue.mayRead(askerOf(caller), run) : caller.scopes.has('admin'),
    stateOf: (run) => (queue instanceof JobQueue ? queue.get(run)?.state : undefined),
    schemas: jobSchemas(),
  };
}
