/** Jobs, their events and what they have made, as OpenAI shows them. */
import { hasEndedAs, type Job, type JobEvent } from '../../jobs/job.js';
import type { JobQueue } from '../../jobs/queue.js';
import type { FineTunedModels } from './fine-tuned-models.js';
import { readNote } from './note.js';
import { allFigures, figuresOf, resultsId, type Figures } from './results.js';

const seconds = (iso: string): number => Math.floor(Date.parse(iso) / 1000);
const hexOf = ({ id }: Pick<Job, 'id'>): string => id.slice('job-'.length);
export const fineTuningId = (job: Pick<Job, 'id'>): string => `ftjob-${hexOf(job)}`;
/** Id of the job behind a fine-tuning id. */
export const jobIdOf = (id: string): string => `job-${id.replace(/^ftjob-/, '')}`;

/** A job has succeeded once its adapter answers. */
function endOf(job: Job, models: FineTunedModels): Pick<Job, 'state' | 'error'> {
  if (job.state !== 'succeeded') return job;
  const outcome = models.outcomeOf(job);
  if (outcome === 'served') return job;
  return outcome === null
    ? { state: 'running', error: null }
    : { state: 'failed', error: outcome.toJSON() };
}

/** Tokens trained on: as a run counted them; for a training, those of the file times its passes. */
function trainedTokens({ result }: Job, epochs: unknown): number | null {
  const { tokens, steps, stepsTaken } = (result ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof tokens === 'object' && tokens !== null)
    return (tokens as { readonly trained?: number }).trained ?? null;
  const all = [tokens, steps, stepsTaken, epochs].every((value) => typeof value === 'number');
  return all
    ? Math.round(
        ((tokens as number) * (epochs as number) * (stepsTaken as number)) / (steps as number),
      )
    : null;
}

export function fineTuningJob(job: Job, queue: JobQueue, models: FineTunedModels): object {
  const { model, training_file, validation_file, method, hyperparameters, seed, metadata } =
    readNote(queue.note(job.id))!;
  const { state, error } = endOf(job, models);
  const isDone = state === 'succeeded';
  return {
    object: 'fine_tuning.job',
    id: fineTuningId(job),
    created_at: seconds(job.createdAt),
    error:
      error === null
        ? null
        : { code: error.code.toLowerCase(), message: error.message, param: null },
    fine_tuned_model: isDone ? models.nameOf(job) : null,
    finished_at: hasEndedAs(state) && job.endedAt !== null ? seconds(job.endedAt) : null,
    hyperparameters,
    model,
    organization_id: job.owner,
    result_files: isDone ? [resultsId(job)] : [],
    seed,
    status: state,
    trained_tokens: isDone ? trainedTokens(job, hyperparameters.n_epochs) : null,
    training_file,
    validation_file,
    estimated_finish: null,
    integrations: [],
    metadata,
    method,
  };
}

const MESSAGES: Readonly<Record<string, string>> = {
  queued: 'The job is queued',
  running: 'Fine-tuning job started',
  paused: 'The job is paused',
  succeeded: 'The job has successfully completed',
  failed: 'The job failed',
  cancelled: 'The job was cancelled',
};

const FIGURE_NAMES = {
  train_loss: 'training loss',
  valid_loss: 'validation loss',
  train_mean_reward: 'train mean reward',
  valid_mean_reward: 'valid mean reward',
} as const;
const metricsMessage = ({ step, ...figures }: Figures): string =>
  `Step ${step}: ${Object.entries(FIGURE_NAMES)
    .flatMap(([name, title]) => {
      const value = figures[name as keyof typeof FIGURE_NAMES];
      return value === undefined ? [] : [`${title}=${value.toFixed(4)}`];
    })
    .join(', ')}`;

/** Types of events that are shown. */
export const SHOWN_EVENTS = ['state', 'iteration', 'rule', 'step', 'notice'] as const;

const PREFIX = 'ftevent-';
/** Number of the event with an id; undefined for another id. */
export const eventNumber = (id: string): number | undefined => {
  const [, number] = new RegExp(`^${PREFIX}[0-9a-f]+-(\\d+)$`).exec(id) ?? [];
  return number === undefined ? undefined : Number(number);
};

export function fineTuningEvent(
  job: Job,
  { id, at, type, data }: JobEvent,
  models: FineTunedModels,
): { readonly id: string } {
  const common = {
    object: 'fine_tuning.job.event',
    id: `${PREFIX}${hexOf(job)}-${id}`,
    created_at: seconds(at),
  };
  const figures = figuresOf(type, data);
  if (figures !== undefined)
    return {
      ...common,
      level: 'info',
      message: metricsMessage(figures),
      type: 'metrics',
      data: figures,
    } as { id: string };
  const said = data as { state?: Job['state']; error?: { message: string } | null; text?: string };
  const { state, error } = said.state === 'succeeded' ? endOf(job, models) : said;
  const { text } = said;
  const message =
    text ?? (type === 'rule' ? 'Rules of the monitor fired' : (MESSAGES[state ?? ''] ?? type));
  const level =
    state === 'failed' ? 'error' : type === 'notice' || type === 'rule' ? 'warn' : 'info';
  return {
    ...common,
    level,
    message: error == null ? message : `${message}: ${error.message}`,
    type: 'message',
    data: {},
  } as { id: string };
}

/** Checkpoints of a job whose adapter is served: the one that is kept. */
export function checkpointsOf(
  job: Job,
  queue: JobQueue,
  models: FineTunedModels,
): { readonly id: string }[] {
  if (endOf(job, models).state !== 'succeeded' || job.state !== 'succeeded') return [];
  const figures = allFigures(queue, job);
  const { adapter, validation, stepsTaken } = (job.result ?? {}) as {
    adapter?: { iteration?: number };
    validation?: { best: { step: number } } | null;
    stepsTaken?: number;
  };
  const step = adapter?.iteration ?? validation?.best.step ?? stepsTaken ?? 0;
  return [
    {
      object: 'fine_tuning.job.checkpoint',
      id: `ftckpt-${hexOf(job)}-${step}`,
      created_at: seconds(job.endedAt ?? job.createdAt),
      fine_tuned_model_checkpoint: models.nameOf(job),
      fine_tuning_job_id: fineTuningId(job),
      metrics: figures.find((each) => each.step === step) ?? { step },
      step_number: step,
    } as { id: string },
  ];
}
