/** A job while it runs: its progress, its speed, the server's memory, and buttons to end it. */
import type { FunctionComponent } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { get, type Status } from './api.ts';
import { Chart } from './chart.tsx';
import { timeChart } from './charts.tsx';
import { figure, megabytes, percent, whole } from './format.ts';
import {
  follow,
  getJob,
  isOver,
  tell,
  waitText,
  type Job,
  type JobEvent,
  type JobProgress,
} from './job-api.ts';
import { useAction, useLoaded } from './loading.ts';
import { Fault, Progress, StateBadge } from './ui.tsx';

type Points = readonly (readonly [number, number])[];
const MOST = 600;
const added = (points: Points, point: readonly [number, number]): Points =>
  [...points, point].slice(-MOST);

/** Follows a job by its events. */
export function useJob(id: string): {
  job: Job | null;
  events: readonly JobEvent[];
  error: Error | null;
  reload: () => void;
} {
  const [events, setEvents] = useState<readonly JobEvent[]>([]);
  const [error, setError] = useState<Error | null>(null);
  const loaded = useLoaded((signal) => getJob(id, signal), id);
  const { reload } = loaded;
  useEffect(() => {
    const left = new AbortController();
    setEvents([]);
    const listen = async (): Promise<void> => {
      try {
        for await (const event of follow(id, left.signal)) {
          setEvents((before) => [...before, event].slice(-2000));
          if (event.type === 'state') reload();
        }
        reload();
      } catch (cause) {
        if (!left.signal.aborted) setError(cause as Error);
      }
    };
    void listen();
    return () => left.abort();
  }, [id]);
  return { job: loaded.value, events, error: loaded.error ?? error, reload };
}

const progressOf = (job: Job, events: readonly JobEvent[]): JobProgress | null =>
  (events.findLast(({ type }) => type === 'progress')?.data as JobProgress | undefined) ??
  job.progress;

export function stageText({ stage, iteration, iterations, done, total }: JobProgress): string {
  const at =
    iteration === undefined || iterations === undefined || iteration === 0
      ? ''
      : `iteration ${iteration} of ${iterations}: `;
  return `${at}${stage}${total > 0 ? `, ${whole(done)} of ${whole(total)}` : ''}`;
}

/** Tokens per second between two events of one stage. */
function speeds(events: readonly JobEvent[]): Points {
  const points: [number, number][] = [];
  let before: { readonly at: number; readonly data: JobProgress } | null = null;
  let first: number | null = null;
  for (const { type, at: time, data } of events) {
    if (type !== 'progress') continue;
    const [at, now] = [Date.parse(time) / 1000, data as unknown as JobProgress];
    first ??= at;
    if (before?.data.stage === now.stage && before.data.iteration === now.iteration) {
      const sampled = (now.tokens ?? NaN) - (before.data.tokens ?? NaN);
      if (at > before.at && sampled >= 0) points.push([at - first, sampled / (at - before.at)]);
    }
    before = { at, data: now };
  }
  return points.slice(-MOST);
}

const ACTS = [
  ['pause', 'Pause', ({ state }: Job) => state === 'running' || state === 'queued', ''],
  ['resume', 'Resume', ({ state }: Job) => state === 'paused', ''],
  ['cancel', 'Cancel', (job: Job) => !isOver(job), 'danger'],
] as const;

export const JobButtons: FunctionComponent<{ job: Job; onChange: () => void }> = ({
  job,
  onChange,
}) => {
  const { busy, error, run } = useAction();
  return (
    <span class="actions">
      {ACTS.filter(([, , isPossible]) => isPossible(job)).map(([what, text, , look]) => (
        <button
          type="button"
          key={what}
          class={look}
          disabled={busy}
          onClick={() => void run(() => tell(job.id, what).finally(onChange))()}
          aria-label={`${what} ${job.name ?? job.id}`}
        >
          {text}
        </button>
      ))}
      <Fault error={error} />
    </span>
  );
};

export const LiveJob: FunctionComponent<{ id: string }> = ({ id }) => {
  const { job, events, error, reload } = useJob(id);
  const begun = useRef(Date.now());
  const [memory, setMemory] = useState<Points>([]);
  const over = job === null || isOver(job);
  useLoaded(
    async (signal) => {
      const { rssBytes } = await get<Status>('/api/status', signal);
      setMemory((before) => added(before, [(Date.now() - begun.current) / 1000, rssBytes / 1e6]));
      return rssBytes;
    },
    `memory ${id}`,
    () => (over ? null : 2000),
  );
  const speed = useMemo(() => timeChart('tokens per second', speeds(events)), [events]);
  const used = useMemo(() => timeChart('MB', memory), [memory]);
  if (job === null) return <Fault error={error} />;
  const progress = progressOf(job, events);
  const hits = Object.entries(progress?.hits ?? {}).filter(([, { decided }]) => decided > 0);
  return (
    <section class={over ? 'panel' : 'panel live'} aria-label="the job">
      <div class="panel-head">
        <h2>
          <StateBadge state={job.state} />{' '}
          {over
            ? `${job.kind}, as a job`
            : progress === null
              ? 'waiting to start'
              : stageText(progress)}
        </h2>
        <JobButtons job={job} onChange={reload} />
      </div>
      {!over && progress !== null && (
        <Progress {...progress} label={`progress of ${progress.stage}`} />
      )}
      {job.waitingFor !== null && (
        <p class="note">The job is waiting for {waitText(job.waitingFor)}.</p>
      )}
      {job.error !== null && (
        <p class="fault">
          {job.error.message} {job.error.remedy}
        </p>
      )}
      {hits.length > 0 && (
        <p class="hits">
          {hits.map(([tier, { passed, decided }]) => (
            <span key={tier}>
              {tier} <b>{percent(passed / decided, 0)}</b>{' '}
              <small>
                {passed} of {decided}
              </small>
            </span>
          ))}
          {progress?.loss != null && (
            <span>
              loss <b>{figure(progress.loss)}</b>
            </span>
          )}
        </p>
      )}
      {!over && (
        <div class="two">
          <div>
            <h3>Tokens per second</h3>
            <Chart {...speed} label="tokens per second since this page was opened" height={110} />
          </div>
          <div>
            <h3>Memory of the server, MB</h3>
            <Chart {...used} label="resident memory of the server, in megabytes" height={110} />
          </div>
        </div>
      )}
      <p class="note">Reserved memory: {megabytes(job.memoryBytes)}.</p>
    </section>
  );
};
