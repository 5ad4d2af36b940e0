import type { FunctionComponent } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { flat, megabytes } from '../format.ts';
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
import { schemaAt, SchemaForm, type Values } from '../schema-form.tsx';
import { Command, Empty, Facts, Fault, LabelledField, PageHead, Show, Tabs } from '../ui.tsx';

/** The server's list of names for each kind of field. */
const LISTS: Readonly<Record<string, string>> = {
  model: 'models',
  adapter: 'adapters',
  task: 'tasks',
  backend: 'backends',
  run: 'runs',
  truthRun: 'runs',
  file: 'files',
};

/** Names that a field takes; undefined: any text. */
function listOf(
  { names, schema }: JobKind,
  path: readonly string[],
): readonly string[] | undefined {
  const list = names[LISTS[schemaAt(schema, path)?.names ?? ''] ?? ''];
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

const Form: FunctionComponent<{ kind: JobKind }> = ({ kind }) => {
  const [values, setValues] = useState<Values>({});
  const [name, setName] = useState('');
  const [told, setTold] = useState<Estimate | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState<'measure' | 'start' | null>(null);
  const key = useRef(newKey());
  const first = useMemo(() => firstOf(kind.schema).map(([, path]) => path), [kind]);
  const choicesOf = useMemo(() => (path: readonly string[]) => listOf(kind, path), [kind]);
  // a field that still has to be filled in is not an error yet
  const isUntouched = Object.keys(values).length === 0;
  const update = async (measure: boolean, signal?: AbortSignal): Promise<void> => {
    try {
      setTold(await estimate(kind.kind, values, measure, signal));
      setError(null);
    } catch (cause) {
      if (signal?.aborted !== true && (measure || !isUntouched)) setError(cause as Error);
    }
  };
  useEffect(() => {
    key.current = newKey();
    const left = new AbortController();
    const timer = setTimeout(() => void update(false, left.signal), 250);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [values]);
  const measure = async (): Promise<void> => {
    setBusy('measure');
    await update(true);
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
      <aside class="panel summary" aria-label="summary">
        <h2>Summary</h2>
        {told !== null && <Command text={told.command} />}
        {told !== null && (
          <p class="estimate" role="status">
            About <b>{megabytes(told.memoryBytes)}</b> of memory
          </p>
        )}
        {told?.measured != null && (
          <Facts
            class="facts measured"
            rows={flat(told.measured)
              .filter(([, value]) => value.length < 200)
              .slice(0, 40)}
          />
        )}
        <LabelledField label="Name (optional)" value={name} maxLength={100} onText={setName} />
        <Fault error={error} />
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
          <p class="note">The estimate samples and trains for a few seconds, as --dry-run does.</p>
        )}
      </aside>
    </form>
  );
};

export const NewJobPage: FunctionComponent<{ params: Readonly<Record<string, string>> }> = ({
  params,
}) => {
  const loaded = useLoaded(kinds, 'kinds');
  const { value } = loaded;
  const chosen = value?.find(({ kind }) => kind === (params.kind ?? 'run')) ?? value?.[0];
  return (
    <>
      <PageHead title="Start">
        <p class="lead">
          {chosen === undefined ? '' : `${chosen.title}. `}The fields are the options of the
          command. Empty fields take their defaults.
        </p>
      </PageHead>
      <Show
        of={loaded}
        waiting="Listing what can be started"
        absent={
          <Empty title="Jobs are disabled on this server.">
            <p>
              Start a run with <code>isopro-native run</code>; this page shows it while it runs.
            </p>
          </Empty>
        }
      >
        {(all) =>
          chosen !== undefined && (
            <>
              <Tabs
                label="kind of job"
                tabs={all.map(({ kind, button }) => [kind, button] as const)}
                on={chosen.kind}
                onPick={(kind) => go(['new'], { kind }, true)}
              />
              <Form key={chosen.kind} kind={chosen} />
            </>
          )
        }
      </Show>
    </>
  );
};
