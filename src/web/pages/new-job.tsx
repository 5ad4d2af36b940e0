import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api.ts';
import { megabytes } from '../format.ts';
import {
  createJob,
  estimate,
  kinds,
  newKey,
  type Estimate,
  type JobKind,
  type Schema,
} from '../job-api.ts';
import { useLoaded } from '../loading.ts';
import { go } from '../router.ts';
import { SchemaForm, type Values } from '../schema-form.tsx';
import { Command, Empty, Fault, PageHead, Tabs, Waiting } from '../ui.tsx';
import { flat } from './run.tsx';

/** The list of the server's names that a field takes one of. */
const LISTS: Readonly<Record<string, string>> = {
  model: 'models',
  adapter: 'adapters',
  task: 'tasks',
  run: 'runs',
  truthRun: 'runs',
  file: 'files',
};

const fieldAt = (schema: Schema | undefined, path: readonly string[]): Schema | undefined =>
  path.reduce<Schema | undefined>((at, name) => at?.properties?.[name], schema);

/** The names that go into a field; undefined: any text. */
function listOf(
  { names, schema }: JobKind,
  path: readonly string[],
): readonly string[] | undefined {
  const list = names[LISTS[fieldAt(schema, path)?.names ?? ''] ?? ''];
  return list !== undefined && list.length > 0 ? list : undefined;
}

/** Paths of the fields that come first, in their order. */
function firstOf(schema: Schema, path: readonly string[] = []): [first: number, path: string][] {
  return Object.entries(schema.properties ?? {})
    .flatMap(([name, field]): [number, string][] => {
      const at = [...path, name];
      return field.first === undefined ? firstOf(field, at) : [[field.first, at.join('.')]];
    })
    .sort(([a], [b]) => a - b);
}

function Form({ kind }: { kind: JobKind }): JSX.Element {
  const [values, setValues] = useState<Values>({});
  const [name, setName] = useState('');
  const [told, setTold] = useState<Estimate | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState<'measure' | 'start' | null>(null);
  const key = useRef(newKey());
  const first = useMemo(() => firstOf(kind.schema).map(([, path]) => path), [kind]);
  const choicesOf = useMemo(() => (path: readonly string[]) => listOf(kind, path), [kind]);
  const changed = useRef(0);
  // what has to be chosen first is no fault yet
  const isUntouched = Object.keys(values).length === 0;
  const mend = async (measure: boolean, signal?: AbortSignal): Promise<void> => {
    try {
      setTold(await estimate(kind.kind, values, measure, signal));
      setError(null);
    } catch (cause) {
      if (signal?.aborted !== true && (measure || !isUntouched)) setError(cause as Error);
    }
  };
  useEffect(() => {
    changed.current++;
    key.current = newKey();
    const left = new AbortController();
    const timer = setTimeout(() => void mend(false, left.signal), 250);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [values]);
  const measure = async (): Promise<void> => {
    setBusy('measure');
    await mend(true);
    setBusy(null);
  };
  const start = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy('start');
    try {
      const job = await createJob(kind.kind, values, name, key.current);
      if (job.run !== null && job.kind === 'run') go(['runs', job.run]);
      else go(['jobs', job.id]);
    } catch (cause) {
      setError(cause as Error);
      setBusy(null);
    }
  };
  const { measures } = kind;
  return (
    <form class="start" onSubmit={(event) => void start(event)}>
      <div class="panel">
        <SchemaForm
          schema={kind.schema}
          values={values}
          resolved={told?.settings}
          choicesOf={choicesOf}
          first={first}
          onChange={setValues}
        />
      </div>
      <aside class="panel summary" aria-label="what will be done">
        <h2>What will be done</h2>
        {told !== null && <Command text={told.command} />}
        {told !== null && (
          <p class="estimate" role="status">
            About <b>{megabytes(told.memoryBytes)}</b> of memory
          </p>
        )}
        {told?.measured != null && (
          <dl class="facts measured">
            {flat(told.measured)
              .filter(([, value]) => value.length < 200)
              .slice(0, 40)
              .map(([at, value]) => (
                <div key={at}>
                  <dt>{at}</dt>
                  <dd>{value}</dd>
                </div>
              ))}
          </dl>
        )}
        <label class="field">
          <span>Name, if it should have one</span>
          <input
            value={name}
            maxLength={100}
            onInput={(event) => setName(event.currentTarget.value)}
          />
        </label>
        {error !== null && <Fault error={error} />}
        <div class="actions">
          <button type="submit" class="primary" disabled={busy !== null}>
            {busy === 'start' ? 'Starting…' : 'Start'}
          </button>
          {measures && (
            <button type="button" disabled={busy !== null} onClick={() => void measure()}>
              {busy === 'measure' ? 'Measuring…' : 'Estimate the time'}
            </button>
          )}
        </div>
        {measures && (
          <p class="note">The estimate samples and trains for some seconds, as --dry-run does.</p>
        )}
      </aside>
    </form>
  );
}

export function NewJobPage({ params }: { params: Readonly<Record<string, string>> }): JSX.Element {
  const { value, error } = useLoaded(kinds, 'kinds');
  const chosen = value?.find(({ kind }) => kind === (params.kind ?? 'run')) ?? value?.[0];
  const none = error instanceof ApiError && error.status === 404;
  return (
    <>
      <PageHead title="Start">
        <p class="lead">
          {chosen === undefined ? '' : `${chosen.title}. `}The fields are those of the command; what
          is left empty follows its default.
        </p>
      </PageHead>
      {none && (
        <Empty title="This server takes no jobs.">
          <p>
            Start a run with <code>isopro-native run</code>; it is shown here while it goes on.
          </p>
        </Empty>
      )}
      {error !== null && !none && <Fault error={error} />}
      {value === null && error === null && <Waiting what="Asking what can be started" />}
      {value !== null && chosen !== undefined && (
        <>
          <Tabs label="what is started">
            {value.map(({ kind, button }) => (
              <button
                type="button"
                class="tab"
                key={kind}
                aria-pressed={kind === chosen.kind}
                onClick={() => go(['new'], { kind }, true)}
              >
                {button}
              </button>
            ))}
          </Tabs>
          <Form key={chosen.kind} kind={chosen} />
        </>
      )}
    </>
  );
}
