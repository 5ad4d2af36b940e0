/**
 * The figures of a fine-tuning job, step by step, as a file: derived from its events whenever
 * somebody asks.
 */
import type { Job } from '../../jobs/job.js';
import type { JobQueue } from '../../jobs/queue.js';
import type { Upload } from '../../jobs/store.js';
import type { Caller } from '../keys.js';

const PREFIX = 'file-results-';
const COLUMNS = [
  'step',
  'train_loss',
  'valid_loss',
  'train_mean_reward',
  'valid_mean_reward',
] as const;
export type Figures = { readonly step: number } & {
  readonly [name in (typeof COLUMNS)[number]]?: number;
};

export const resultsId = ({ id }: Pick<Job, 'id'>): string => `${PREFIX}${id.slice('job-'.length)}`;

const number = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined;

/** Figures of a step in an event of a training or a run; undefined for other events. */
export function figuresOf(type: string, data: unknown): Figures | undefined {
  if ((type !== 'step' && type !== 'iteration') || typeof data !== 'object' || data === null)
    return undefined;
  const of = data as Readonly<Record<string, unknown>>;
  const step = number(of.step) ?? number(of.iteration);
  if (step === undefined) return undefined;
  const dev = of.dev as { readonly mean?: unknown } | undefined;
  const found = {
    train_loss: number(of.loss),
    valid_loss: number(of.validationLoss),
    train_mean_reward: number(of.hitRate),
    valid_mean_reward: number(dev?.mean),
  };
  return {
    step,
    ...Object.fromEntries(Object.entries(found).filter(([, value]) => value !== undefined)),
  };
}

/** All figures of a job in order, one row a step. */
export function allFigures(queue: JobQueue, { id }: Job): Figures[] {
  const rows = new Map<number, Figures>();
  for (let after = 0, hasMore = true; hasMore; ) {
    const read = queue.events(id, after, 1000);
    for (const { type, data } of read.events) {
      const figures = figuresOf(type, data);
      if (figures !== undefined) rows.set(figures.step, { ...rows.get(figures.step), ...figures });
    }
    after = read.events.at(-1)?.id ?? after;
    hasMore = read.hasMore;
  }
  return [...rows.values()].sort((a, b) => a.step - b.step);
}

/** The file of that id; undefined where it is of no ended job of this caller. */
export function resultsOf(
  queue: JobQueue,
  caller: Caller,
  id: string,
): (Omit<Upload, 'owner' | 'file'> & { readonly text: string }) | undefined {
  if (!id.startsWith(PREFIX)) return undefined;
  const job = queue.get(`job-${id.slice(PREFIX.length)}`);
  if (job?.state !== 'succeeded' || (job.owner !== caller.name && !caller.scopes.has('admin')))
    return undefined;
  const rows = allFigures(queue, job).map((figures) =>
    COLUMNS.map((name) => figures[name] ?? '').join(','),
  );
  const text = `${[COLUMNS.join(','), ...rows].join('\n')}\n`;
  return {
    id,
    filename: 'step_metrics.csv',
    purpose: 'fine-tune-results',
    bytes: Buffer.byteLength(text),
    createdAt: job.endedAt ?? job.createdAt,
    text,
  };
}
