import type { FunctionComponent, JSX } from 'preact';
import { when } from '../format.ts';
import { isOver, listJobs, waitText, type Job } from '../job-api.ts';
import { JobButtons, stageText } from '../live-job.tsx';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import { Empty, List, PageHead, Progress, Show, StateBadge } from '../ui.tsx';

const JobName: FunctionComponent<Job> = ({ id, run, kind, name, settings }) => (
  <a href={run !== null && kind === 'run' ? href(['runs', run]) : href(['jobs', id])}>
    <b>{name ?? [kind, settings.task].filter((each) => typeof each === 'string').join(' on ')}</b>
    <small>{id}</small>
  </a>
);

const JobCourse: FunctionComponent<Job> = (job) => (
  <>
    {job.error !== null && <small class="bad">{job.error.message}</small>}
    {job.progress !== null && !isOver(job) && (
      <>
        <Progress {...job.progress} label={`progress of ${job.name ?? job.id}`} />
        <small>{stageText(job.progress)}</small>
      </>
    )}
  </>
);

const JobState: FunctionComponent<Job> = ({ state, waitingFor }) => (
  <>
    <StateBadge state={state} />
    {waitingFor !== null && <small> waiting for {waitText(waitingFor)}</small>}
  </>
);

export function JobsPage(): JSX.Element {
  const loaded = useLoaded(listJobs, 'jobs', (list) =>
    list?.data.every(isOver) === false ? 1500 : 6000,
  );
  return (
    <>
      <PageHead
        title="Jobs"
        actions={
          <a class="button primary" href={href(['new'])}>
            Start a job
          </a>
        }
      >
        <p class="lead">
          Runs, training, evaluations and audits, in the order of their start. Jobs continue after a
          restart of the server.
        </p>
      </PageHead>
      <Show
        of={loaded}
        waiting="Reading the queue"
        absent={<Empty title="Jobs are disabled on this server." />}
      >
        {({ data }) =>
          data.length === 0 ? (
            <Empty title="No jobs yet." />
          ) : (
            <List
              caption="jobs, newest first"
              class="list stacked"
              rows={data}
              by="id"
              columns={[
                ['Job', (job) => <JobName {...job} />, 'main-cell'],
                ['State', (job) => <JobState {...job} />],
                ['Progress', (job) => <JobCourse {...job} />, 'long'],
                ['Started', ({ startedAt }) => when(startedAt)],
                ['Ended', ({ endedAt }) => when(endedAt)],
                ['', (job) => <JobButtons job={job} onChange={loaded.reload} />],
              ]}
            />
          )
        }
      </Show>
    </>
  );
}
