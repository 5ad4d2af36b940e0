/**
 * A promotion that a person asks for: by a gate that is measured here, by force, or without either
 * for names other than the champion.
 */
import { z } from 'zod';
import { IsoproError } from '../../errors.js';
import { measureGate } from '../../operations/gates/measure-gate.js';
import { openGate, type Registry } from '../../registry/index.js';
import { aliasText, requireAlias } from '../../registry/names.js';
import { label } from '../../report/hostile-text.js';
import { isBuiltIn } from '../../tasks/registry.js';
import { forbidden } from '../failures.js';
import type { PromotionEvent } from './shapes.js';

export const promotionBody = z.strictObject({
  /** Whole id of a published adapter. */
  adapter: z.string().regex(/^[0-9a-f]{64}$/),
  /** SCENARIO@ALIAS. */
  as: z.string().min(1).max(400),
  way: z.enum(['gate', 'force', 'assign']),
  /** Most fresh problems that a gate asks both versions. */
  problems: z.int().min(1).max(10_000).default(100),
  reason: z.string().max(2000).default(''),
});
export type Promotion = z.output<typeof promotionBody>;

export const rollbackBody = z.strictObject({
  alias: z.string().min(1).max(400),
  reason: z.string().max(2000).default(''),
});

interface Gated {
  readonly registry: Registry;
  /** File of the model that gates measure with. */
  readonly model: string;
  readonly signal: AbortSignal;
}

/** What a callback is told, as a stream. */
class Told<T> {
  readonly #queue: T[] = [];
  #wake = (): void => {};

  push = (value: T): void => {
    this.#queue.push(value);
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
      yield* this.#queue.splice(0);
      if (ended) return await work;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

/**
 * @throws IsoproError as openGate, measureGate and Registry.move; RequestFailure 403 for a scenario
 *   that is no task of the package
 */
export async function* promote(
  { adapter: id, as, way, problems, reason }: Promotion,
  { registry, model, signal }: Gated,
): AsyncGenerator<PromotionEvent, void, undefined> {
  const { slot, alias } = requireAlias(as);
  const name = aliasText(slot, alias);
  const to = { slot, alias, id, reason };
  if (way !== 'gate') {
    const { from } = await registry.move({ ...to, force: way === 'force' });
    yield { type: 'moved', name, from, to: id };
    return;
  }
  // A scenario that were read as a task's file would run a program that a request names.
  if (!isBuiltIn(slot.scenario))
    throw forbidden(
      `a gate asks problems of a task of the package here, and ${slot.scenario} is none`,
      'task_not_allowed',
      'as',
    );
  const { gate, attempt, alpha, incumbent } = await openGate(registry, {
    slot,
    alias,
    challenger: id,
  });
  yield { type: 'gate', gate, attempt, alpha, incumbent };
  const told = new Told<PromotionEvent>();
  const measured = yield* told.until(
    measureGate(registry, gate, {
      problems,
      model,
      signal,
      onProgress: ({ done, total }) => told.push({ type: 'progress', done, total }),
    }),
  );
  const { decision, reasons } = measured.decision;
  yield {
    type: 'decision',
    gate,
    decision,
    problems: measured.problems,
    reasons: reasons.map((each) => label(each, 400)),
  };
  if (decision !== 'accepted') {
    yield { type: 'kept', name };
    return;
  }
  const { from } = await registry.move({ ...to, gate });
  yield { type: 'moved', name, from, to: id };
}

export const failedEvent = (error: unknown): PromotionEvent => ({
  type: 'failed',
  message:
    error instanceof IsoproError
      ? label(error.message, 600)
      : 'the server failed; its own output says why',
});
