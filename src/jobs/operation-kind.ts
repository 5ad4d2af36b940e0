/** An operation as a kind of job: what a request may state of it, and what its process is given. */
import { checked } from '../engine/checked.js';
import { withoutAliases } from '../operations/aliases.js';
import { NotAllowed } from '../operations/not-allowed.js';
import type { Operation } from '../operations/operation.js';
import { requestSettings, resolvedNames } from '../operations/requests.js';
import type { JobKind } from './kinds/kind.js';

// biome-ignore lint/suspicious/noExplicitAny: an operation of any settings and result
export function operationKind(operation: Operation<any, any>): JobKind {
  const { id, title, settings: schema, flags, job } = operation;
  if (job === undefined) throw new TypeError(`${id} is not a job`);
  const requested = job.stated ?? requestSettings(schema, job.contradictions);
  return {
    id: job.kind ?? id,
    title: job.title ?? title,
    button: job.button ?? title,
    settings: requested,
    ...(job.isForAdmin === true && { isForAdmin: true }),
    ...(job.adapterOf !== undefined && { adapterOf: job.adapterOf }),
    ...(job.measure !== undefined && { measureWith: job.measure as object }),
    // Checked, and kept as it was stated: what follows from defaults is the operation's to say.
    read: (given) => {
      const stated = withoutAliases(
        flags,
        isRecord(given) ? (job.earlier?.(given) ?? given) : given,
      );
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
    ...(job.again !== undefined && { againWith: (place) => job.again!(place) as object }),
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
