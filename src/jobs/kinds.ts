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
  /** With what follows from the model and from defaults, for whoever wants to see them. */
  readonly resolved: unknown;
}

export interface JobKind {
  readonly id: string;
  readonly title: string;
  /** Its name on a button of the page. */
  readonly button: string;
  /** What a request may state. */
  readonly settings: z.ZodType;
  /** Whether only a key that may do everything may ask for it: it changes what is everybody's. */
  readonly isForAdmin?: boolean;
  /** Settings with which the work is tried for some seconds; absent: it cannot be. */
  readonly measure?: object;
  /** What a request states, checked. @throws IsoproError INVALID_ARGUMENT */
  read(given: unknown): unknown;
  /**
   * @param settings as `read` gives them
   * @throws NotAllowed; IsoproError INVALID_ARGUMENT where settings contradict each other
   */
  prepare(settings: unknown, place: Place): Promise<Prepared>;
  /** Settings besides, when a job starts again, by what lies on the disk. */
  again?(place: Place): object;
  /** The file of the adapter that it made, of a result. */
  adapterOf?(result: unknown): string | null;
}

// biome-ignore lint/suspicious/noExplicitAny: an operation of any settings and result
export function kindOf(operation: Operation<any, any, any, any>): JobKind {
  const { id, title, settings: schema, flags } = operation;
  const job = operation.job!;
  const requested = job.stated ?? requestSettings(schema, job.contradictions);
  return {
    id: job.kind ?? id,
    title: job.title ?? title,
    button: job.button ?? title,
    settings: requested,
    ...given(job, 'isForAdmin', 'adapterOf', 'measure'),
    // Checked, and kept as it was stated: what follows from defaults is the operation's to say.
    read: (given) => {
      const stated = withoutAliases(
        flags,
        isRecord(given) ? (job.earlier?.(given) ?? given) : given,
      );
      const found = requested.safeParse(stated);
      // Settings in parts know where one is that was named without its part.
      if (!found.success && flags.all.some(({ part }) => part !== null)) operation.read(stated);
      checked(requested, stated, 'settings');
      return stated;
    },
    async prepare(stated, place) {
      const { names } = place;
      const asked = stated as Readonly<Record<string, unknown>>;
      for (const { path, field } of flags.all)
        if (field.admin === true && asked[path] !== undefined && !names.isAdmin)
          throw new NotAllowed(
            'setting_not_allowed',
            `settings.${path}`,
            `${path}: only a key that may do everything may state it`,
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
    ...(job.again !== undefined && { again: (place) => job.again!(place) as object }),
  };
}

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What was stated, with the model that is served where none is named. */
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
