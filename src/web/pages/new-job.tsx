import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ApiError } from '../api.ts';
import { megabytes } from '../format.ts';
import { createJob, estimate, kinds, newKey, type Estimate, type JobKind } from '../job-api.ts';
import { useLoaded } from '../loading.ts';
import { go } from '../router.ts';
import { SchemaForm, type Values } from '../schema-form.tsx';
import { Command, Empty, Fault, PageHead, Tabs, Waiting } from '../ui.tsx';
import { flat } from './run.tsx';

/** What most people set, before everything else. */
const FIRST: Readonly<Record<string, readonly string[]>> = {
  run: [
    'task',
    'model.name',
    'iterations',
    'sampling.rollouts',
    'sampling.samples',
    'evaluation.devSize',
    'evaluation.testSize',
    'seed',
  ],
  truth: ['domain', 'mode', 'eval', 'problems', 'seed'],
  'truth-train': ['domain', 'steps', 'measure', 'seed'],
  'truth-analyze': ['analyzer', 'runs', 'strategy'],
};

/** Kinds in a word; a further one by its title. */
const KINDS: Readonly<Record<string, string>> = {
  run: 'Run',
  train: 'Train',
  eval: 'Evaluate',
  judge: 'Judge',
  ablate: 'Ablate',
  truth: 'Truth',
  'truth-train': 'Train on truth',
  'truth-analyze': 'Analyse truth',
  gate: 'Gate',
};

/** Which list of names goes into a field, by what it is called. */
function listOf({ names }: JobKind, path: readonly string[]): readonly string[] | undefined {
  const last = path.at(-1)!;
  const wanted: Readonly<Record<string, string>> = {
    task: 'tasks',
    model: 'models',
    name: 'models',
    teacher: 'models',
    predictor: 'models',
    adapter: 'adapters',
    run: 'runs',
    data: 'files',
    outside: 'files',
  };
  if (last === 'name' && path[0] !== 'model') return undefined;
  if (last === 'judge') return names.models;
  const list = wanted[last] === undefined ? undefined : names[wanted[last]];
  return list !== undefined && list.length > 0 ? list : undefined;
}

function Form({ kind }: { kind: JobKind }): JSX.Element {
  const [values, setValues] = useState<Values>({});
  const [name, setName] = useState('');
  const [told, setTold] = useState<Estimate | null>(null);
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState<'measure' | 'start' | null>(null);
  const key = useRef(newKey());
  const first = FIRST[kind.kind] ?? [];
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
  const measures = kind.kind === 'run' || kind.kind === 'train';
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
            {value.map(({ kind, title }) => (
              <button
                type="button"
                class="tab"
                key={kind}
                aria-pressed={kind === chosen.kind}
                onClick={() => go(['new'], { kind }, true)}
              >
                {KINDS[kind] ?? title}
              </button>
            ))}
          </Tabs>
          <Form key={chosen.kind} kind={chosen} />
        </>
      )}
    </>
  );
}
