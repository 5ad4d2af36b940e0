import type { JSX } from 'preact';
import { ApiError } from '../api.ts';
import { when } from '../format.ts';
import { isOver, listJobs } from '../job-api.ts';
import { JobButtons, stageText } from '../live-job.tsx';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import { Empty, Fault, PageHead, Progress, StateBadge, Table, Waiting } from '../ui.tsx';

export function JobsPage(): JSX.Element {
  const { value, error, reload } = useLoaded(listJobs, 'jobs', (list) =>
    list?.data.every(isOver) === false ? 1500 : 6000,
  );
  const none = error instanceof ApiError && error.status === 404;
  return (
    <>
      <PageHead
        title="Jobs"
        actions={
          <a class="button primary" href={href(['new'])}>
            Start one
          </a>
        }
      >
        <p class="lead">
          Runs, trainings, evaluations and judgements, one after the other. They outlive the server.
        </p>
      </PageHead>
      {none && <Empty title="This server takes no jobs." />}
      {error !== null && !none && <Fault error={error} />}
      {value === null && error === null && <Waiting what="Reading the queue" />}
      {value !== null && value.data.length === 0 && (
        <Empty title="Nothing was started from here yet." />
      )}
      {value !== null && value.data.length > 0 && (
        <Table
          caption="jobs, newest first"
          className="list stacked"
          head={['Job', 'State', 'Where it is', 'Begun', 'Ended', '']}
        >
          {value.data.map((job) => (
            <tr key={job.id}>
              <td class="main-cell">
                <a
                  href={
                    job.run !== null && job.kind === 'run'
                      ? href(['runs', job.run])
                      : href(['jobs', job.id])
                  }
                >
                  <b>
                    {job.name ??
                      [job.kind, job.settings.task]
                        .filter((each) => typeof each === 'string')
                        .join(' on ')}
                  </b>
                  <small>{job.id}</small>
                </a>
              </td>
              <td data-label="State">
                <StateBadge state={job.state} />
                {job.waitingFor !== null && (
                  <small>
                    {' '}
                    waits for {job.waitingFor === 'turn' ? 'its turn' : job.waitingFor}
                  </small>
                )}
              </td>
              <td class="long">
                {job.error !== null && <small class="bad">{job.error.message}</small>}
                {job.progress !== null && !isOver(job) && (
                  <>
                    <Progress
                      done={job.progress.done}
                      total={job.progress.total}
                      label={`progress of ${job.name ?? job.id}`}
                    />
                    <small>{stageText(job.progress)}</small>
                  </>
                )}
              </td>
              <td data-label="Begun">{when(job.startedAt)}</td>
              <td data-label="Ended">{when(job.endedAt)}</td>
              <td>
                <JobButtons job={job} onChange={reload} />
              </td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}
