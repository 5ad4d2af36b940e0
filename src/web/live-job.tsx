/**
 * A job while it goes on: where it is, how fast, what memory the server has, and a way to end it.
 */
import type { JSX } from 'preact';
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
  type Job,
  type JobEvent,
  type JobProgress,
} from './job-api.ts';
import { useLoaded } from './loading.ts';
import { Fault, Progress, StateBadge } from './ui.tsx';

type Points = readonly (readonly [number, number])[];
const MOST = 600;
const added = (points: Points, point: readonly [number, number]): Points =>
  [...points, point].slice(-MOST);

/** The job as its events tell it. */
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

/** Tokens a second between two events of one stage. */
function speeds(events: readonly JobEvent[]): Points {
  const points: [number, number][] = [];
  let before: { readonly at: number; readonly data: JobProgress } | null = null;
  let first: number | null = null;
  for (const { type, at: time, data } of events) {
    if (type !== 'progress') continue;
    const [at, now] = [Date.parse(time) / 1000, data as unknown as JobProgress];
    first ??= at;
    const same =
      before !== null && before.data.stage === now.stage && before.data.iteration === now.iteration;
    if (
      same &&
      at > before!.at &&
      now.tokens !== undefined &&
      before!.data.tokens !== undefined &&
      now.tokens >= before!.data.tokens
    )
      points.push([at - first, (now.tokens - before!.data.tokens) / (at - before!.at)]);
    before = { at, data: now };
  }
  return points.slice(-MOST);
}

export function JobButtons({ job, onChange }: { job: Job; onChange: () => void }): JSX.Element {
  const [error, setError] = useState<Error | null>(null);
  const [busy, setBusy] = useState(false);
  const act = async (what: 'cancel' | 'pause' | 'resume'): Promise<void> => {
    setBusy(true);
    try {
      await tell(job.id, what);
      setError(null);
    } catch (cause) {
      setError(cause as Error);
    }
    setBusy(false);
    onChange();
  };
  const button = (what: 'cancel' | 'pause' | 'resume', text: string, look = ''): JSX.Element => (
    <button
      type="button"
      class={look}
      disabled={busy}
      onClick={() => void act(what)}
      aria-label={`${what} ${job.name ?? job.id}`}
    >
      {text}
    </button>
  );
  return (
    <span class="actions">
      {(job.state === 'running' || job.state === 'queued') && button('pause', 'Pause')}
      {job.state === 'paused' && button('resume', 'Go on')}
      {!isOver(job) && button('cancel', 'Cancel', 'danger')}
      {error !== null && <Fault error={error} />}
    </span>
  );
}

export function LiveJob({ id }: { id: string }): JSX.Element | null {
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
  const speed = useMemo(() => timeChart('tokens a second', speeds(events)), [events]);
  const used = useMemo(() => timeChart('MB', memory), [memory]);
  if (job === null) return error === null ? null : <Fault error={error} />;
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
              ? 'waiting to begin'
              : stageText(progress)}
        </h2>
        <JobButtons job={job} onChange={reload} />
      </div>
      {!over && progress !== null && (
        <Progress
          done={progress.done}
          total={progress.total}
          label={`progress of ${progress.stage}`}
        />
      )}
      {job.waitingFor !== null && (
        <p class="note">It waits for {job.waitingFor === 'turn' ? 'its turn' : job.waitingFor}.</p>
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
            <h3>Tokens a second</h3>
            <Chart
              label="tokens a second since this page was opened"
              option={speed.option}
              table={speed.table}
              height={110}
            />
          </div>
          <div>
            <h3>Memory of the server, MB</h3>
            <Chart
              label="resident memory of the server, in megabytes"
              option={used.option}
              table={used.table}
              height={110}
            />
          </div>
        </div>
      )}
      <p class="note">Counted with {megabytes(job.memoryBytes)} when it was admitted.</p>
    </section>
  );
}
