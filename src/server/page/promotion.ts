/**
 * A promotion that a person asks for on the page: the operation of that name. A gate is a job,
 * where this server has a queue of jobs.
 */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import type { Asker, JobQueue } from '../../jobs/queue.js';
import {
  promote,
  publishedId,
  type GateNotice,
  type Promotion,
} from '../../operations/gates/promote.js';
import { Names } from '../../operations/names.js';
import type { Registry } from '../../registry/index.js';
import { aliasText, CHAMPION, requireAlias } from '../../registry/names.js';
import { label } from '../../text/hostile-text.js';
import type { PromotionEvent } from './shapes.js';

const { as, problems, reason } = promote.settings.shape;

export const promotionBody = z.strictObject({
  adapter: publishedId,
  as,
  way: z.enum(['gate', 'force', 'assign']),
  problems: problems.unwrap().default(100),
  reason,
});

export const rollbackBody = z.strictObject({
  alias: z.string().min(1).max(400),
  reason: z.string().max(2000).default(''),
});

type Settings = Parameters<typeof promote.run>[0];
type Events<Result> = AsyncGenerator<PromotionEvent, Result, undefined>;

export interface Promoting {
  readonly registry: Registry;
  /** The served model: its name and its file. */
  readonly model: { readonly name: string; readonly path: string };
  readonly queue: JobQueue | undefined;
  readonly asker: Asker;
  readonly signal: AbortSignal;
}

/** Collects the values of a callback, and yields them while work runs. */
class Heard<T> {
  readonly #values: T[] = [];
  #wake = (): void => {};

  push = (...values: readonly T[]): void => {
    this.#values.push(...values);
    this.#wake();
  };

  async *until<R>(work: Promise<R>): AsyncGenerator<T, R> {
    let ended = false;
    const end = (): void => {
      ended = true;
      this.#wake();
    };
    work.then(end, end);
    for (;;) {
      yield* this.#values.splice(0);
      if (ended) return await work;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

function eventsOf({
  type,
  data,
}: {
  readonly type: string;
  readonly data: unknown;
}): PromotionEvent[] {
  if (type === 'progress') {
    const { done, total } = data as { readonly done: number; readonly total: number };
    return [{ type, done, total }];
  }
  if (type !== 'notice') return [];
  const { gate, attempt, alpha, incumbent } = data as GateNotice;
  return [{ type: 'gate', gate, attempt, alpha, incumbent }];
}

/** Promotes in this process, with the served model and the tasks of the package. */
function here(settings: Settings, { registry, model, signal }: Promoting): Events<Promotion> {
  const allowed = {
    model: model.name,
    models: new Map([[model.name, model.path]]),
    tasks: new Map(),
    adapters: new Map(),
    registry: registry.paths.folder,
    runs: '',
  };
  const names = new Names(allowed, {
    isAdmin: true,
    adapterOf: () => null,
    mayRead: () => false,
    fileOf: () => null,
  });
  const heard = new Heard<PromotionEvent>();
  const work = promote.run(
    { ...promote.job!.resolve!(settings, names), registry: registry.paths.folder },
    { signal, tell: (told) => heard.push(...eventsOf(told)) },
  );
  return heard.until(work as Promise<Promotion>); // it is not asked to begin a gate alone
}

/** Promotes by a job. Returns null if it failed and the failure was reported. */
async function* byJob(
  settings: Settings,
  { asker, signal }: Promoting,
  queue: JobQueue,
): Events<Promotion | null> {
  const { id } = (await queue.create(asker, { kind: 'gate', settings })).job;
  yield { type: 'job', id };
  for await (const event of queue.follow(id, 0, signal)) yield* eventsOf(event);
  const { state, result, error } = queue.get(id)!;
  if (state === 'succeeded') return result as Promotion;
  yield { type: 'failed', message: label(error?.message ?? `the job is ${state}`, 600) };
  return null;
}

/**
 * @throws IsoproError as the operation, REGISTRY_REFUSED; NotAllowed for a scenario that is not a
 *   task of this server
 */
export async function* promotion(
  { way, problems: most, reason: why, ...body }: z.output<typeof promotionBody>,
  promoting: Promoting,
): Events<void> {
  const { slot, alias } = requireAlias(body.as);
  const name = aliasText(slot, alias);
  if (way === 'assign' && alias === CHAMPION)
    throw new IsoproError('REGISTRY_REFUSED', `${name} can only be moved by a gate or by force`);
  const settings = {
    ...body,
    ...(way === 'gate' && { problems: most }),
    ...(way === 'force' && { force: true }),
    ...(why !== '' && { reason: why }),
  };
  const { queue } = promoting;
  const result = yield* way === 'gate' && queue !== undefined
    ? byJob(settings, promoting, queue)
    : here(settings, promoting);
  if (result === null) return;
  const { gate, decision, moved } = result;
  if (decision !== null)
    yield {
      type: 'decision',
      gate: gate!,
      decision: decision.decision,
      problems: decision.blocks,
      reasons: decision.reasons.map((each) => label(each, 400)),
    };
  yield moved === null
    ? { type: 'kept', name }
    : { type: 'moved', name: moved.alias, from: moved.from, to: moved.to };
}

export const failedEvent = (error: unknown): PromotionEvent => ({
  type: 'failed',
  message:
    error instanceof IsoproError
      ? label(error.message, 600)
      : 'internal server error; see the server log',
});
