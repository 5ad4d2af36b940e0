import type { JSX } from 'preact';
import { eventText } from '../event-text.ts';
import { shortId } from '../format.ts';
import { LiveJob, useJob } from '../live-job.tsx';
import { href } from '../router.ts';
import { Command, Excerpt, Fault, PageHead, Panel, Table } from '../ui.tsx';

export function JobPage({ id }: { id: string }): JSX.Element {
  const { job, events, error } = useJob(id);
  const told = events.filter(({ type }) => type !== 'progress');
  return (
    <>
      <PageHead
        title={job?.name ?? `Job ${shortId(id)}`}
        above={<a href={href(['jobs'])}>Jobs</a>}
        actions={
          job?.run != null && (
            <a class="button" href={href([job.kind === 'truth' ? 'truth' : 'runs', job.run])}>
              The run
            </a>
          )
        }
      />
      {error !== null && <Fault error={error} />}
      <LiveJob id={id} />
      {job !== null && (
        <>
          <Panel title="The same on the command line">
            <Command text={job.command} />
          </Panel>
          {told.length > 0 && (
            <Panel title="Events">
              <Table
                caption="events, newest first"
                className="list"
                head={['', 'When', 'What', '']}
              >
                {[...told]
                  .reverse()
                  .slice(0, 200)
                  .map((event) => (
                    <tr key={event.id}>
                      <td>{event.id}</td>
                      <td>{event.at.slice(11, 19)}</td>
                      <td>{event.type}</td>
                      <td class="long">{eventText(event).slice(0, 300)}</td>
                    </tr>
                  ))}
              </Table>
            </Panel>
          )}
          {job.result !== null && (
            <Panel title="Result">
              <Excerpt label="the result as JSON">{JSON.stringify(job.result, null, 2)}</Excerpt>
            </Panel>
          )}
        </>
      )}
    </>
  );
}
