/** Operations as kinds of job: what a request may state of each, and what its process is given. */
import { z } from 'zod';
import { checked } from '../engine/argument-check.js';
import { given } from '../given.js';
import { withoutAliases } from '../operations/aliases.js';
import { OPERATIONS } from '../operations/index.js';
import { NotAllowed } from '../operations/not-allowed.js';
import type { Operation, Place } from '../operations/operation.js';
import { requestSettings, resolvedNames } from '../operations/requests.js';
import type { Work } from './worker.js';

export interface Prepared {
  /** The command line that does the same, without the program. */
  readonly args: readonly string[];
  readonly work: Work;
  /** Name of what it makes below the runs folder; null: nothing. */
  readonly run: string | null;
  readonly memoryBytes: number;
  /** Settings with the defaults of the model and of the operation, for display. */
  readonly resolved: unknown;
}

// biome-ignore lint/suspicious/noExplicitAny: an operation of any settings and result
export function kindOf(operation: Operation<any, any, any, any>) {
  const { id, title, settings: schema, flags } = operation;
  const job = operation.job!;
  const requested = job.stated ?? requestSettings(schema, job.contradictions);
  return {
    id: job.kind ?? id,
    title: job.title ?? title,
    /** Text of the button on the page. */
    button: job.button ?? title,
    /** Schema of the settings that a request may state. */
    settings: requested,
    ...given(job, 'isForAdmin', 'adapterOf', 'measure', 'again'),
    /**
     * Checks what a request states, and returns it without defaults: those are the operation's.
     * @throws IsoproError INVALID_ARGUMENT
     */
    read(value: unknown): unknown {
      const stated = withoutAliases(
        flags,
        isRecord(value) ? (job.earlier?.(value) ?? value) : value,
      );
      const found = requested.safeParse(stated);
      // Settings in parts know where one is that was named without its part.
      if (!found.success && flags.all.some(({ part }) => part !== null)) operation.read(stated);
      checked(requested, stated, 'settings');
      return stated;
    },
    /**
     * @param stated settings as `read` returns them
     * @throws NotAllowed; IsoproError INVALID_ARGUMENT where settings contradict each other
     */
    async prepare(stated: unknown, place: Place): Promise<Prepared> {
      const { names } = place;
      const asked = stated as Readonly<Record<string, unknown>>;
      for (const { path, field } of flags.all)
        if (field.admin === true && asked[path] !== undefined && !names.isAdmin)
          throw new NotAllowed(
            'setting_not_allowed',
            `settings.${path}`,
            `${path}: only a key with full access may set it`,
          );
      const resolved = job.resolve?.(asked, names) ?? resolvedNames(schema, asked, names);
      const settings = { ...resolved, ...job.local?.(place, resolved) };
      operation.read(settings); // what contradicts itself is refused now, and not by the job
      return {
        args: [...id.split(' '), ...flags.words(settings)],
        work: { operation: id, settings },
        run: job.makesRun === true ? place.id : null,
        memoryBytes: await job.memoryBytes(resolved),
        resolved: (await job.shown?.(asked, resolved, names)) ?? withServed(schema, asked, names),
      };
    },
  };
}

export type JobKind = ReturnType<typeof kindOf>;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Settings as stated, with the served model if none is named. */
const withServed = (
  { shape }: Operation['settings'],
  stated: Readonly<Record<string, unknown>>,
  { allowed }: { readonly allowed: { readonly model: string } },
): object => ('model' in shape ? { ...stated, model: stated.model ?? allowed.model } : stated);

export const JOB_KINDS: readonly JobKind[] = OPERATIONS.filter(({ job }) => job !== undefined).map(
  kindOf,
);

/** JSON Schema of what a request may state, by kind, for an OpenAPI document. */
export const jobSchemas = (
  kinds: readonly Pick<JobKind, 'id' | 'settings'>[] = JOB_KINDS,
): Record<string, object> =>
  Object.fromEntries(
    kinds.map(({ id, settings }) => [
      `JobSettings.${id}`,
      z.toJSONSchema(settings, { io: 'input', unrepresentable: 'any' }),
    ]),
  );
