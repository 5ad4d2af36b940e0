import type { FunctionComponent } from 'preact';
import { eventText } from '../event-text.ts';
import { shortId } from '../format.ts';
import { LiveJob, useJob } from '../live-job.tsx';
import { href } from '../router.ts';
import { Command, Excerpt, Fault, List, PageHead, Panel } from '../ui.tsx';

export const JobPage: FunctionComponent<{ id: string }> = ({ id }) => {
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
              Open the run
            </a>
          )
        }
      />
      <Fault error={error} />
      <LiveJob id={id} />
      {job !== null && (
        <>
          <Panel title="The same on the command line">
            <Command text={job.command} />
          </Panel>
          {told.length > 0 && (
            <Panel title="Events">
              <List
                caption="events, newest first"
                class="list"
                rows={told.slice(-200).reverse()}
                by="id"
                columns={[
                  ['', (event) => event.id],
                  ['Time', (event) => event.at.slice(11, 19)],
                  ['Event', (event) => event.type],
                  ['', (event) => eventText(event).slice(0, 300), 'long'],
                ]}
              />
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
};
