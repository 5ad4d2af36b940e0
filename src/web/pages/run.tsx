import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import {
  get,
  part,
  query,
  type IntegrityAnswer,
  type Rate,
  type RunDetail,
  type RunEvent,
} from '../api.ts';
import { Chart } from '../chart.tsx';
import { bufferChart, lossChart, ratesChart, speedChart, type Drawn } from '../charts.tsx';
import {
  duration,
  figure,
  megabytes,
  percent,
  plural,
  points,
  pValue,
  shortId,
  when,
  whole,
} from '../format.ts';
import { jobOfRun } from '../job-api.ts';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import { LiveJob } from '../live-job.tsx';
import {
  Badge,
  Card,
  Fault,
  PageHead,
  Panel,
  RateBar,
  StateBadge,
  Table,
  Tabs,
  toneOf,
  Waiting,
} from '../ui.tsx';

const LIVE_MS = 1500;
/** A run that has ended is signed, judged and compared after it. */
const SETTLED_MS = 10_000;

function Integrity({ run: { name, stamp } }: { run: RunDetail }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<IntegrityAnswer>(`/api/runs/${part(name)}/integrity`, signal),
    `${name} ${stamp}`,
  );
  const [open, setOpen] = useState(false);
  if (error !== null) return <Badge tone="fair">log not checked</Badge>;
  if (value === null) return <Badge tone="plain">checking the log…</Badge>;
  return (
    <>
      <Badge tone={value.judged.tone}>{value.judged.text}</Badge>
      <button
        type="button"
        class={`badge ${value.badge.tone}`}
        aria-expanded={open}
        onClick={() => setOpen(!open)}
      >
        {value.badge.text}
      </button>
      {open && (
        <span class="explained">
          {value.sentences.map((each) => (
            <span key={each}>{each} </span>
          ))}
        </span>
      )}
    </>
  );
}

const Cards = ({
  run: { before, after, change, policies, end, rollouts },
}: {
  run: RunDetail;
}): JSX.Element => {
  const best = [...policies].sort((a, b) => (b.mean ?? -1) - (a.mean ?? -1))[0];
  return (
    <div class="cards">
      {before !== null && (
        <Card value={percent(before.mean)}>of the test problems solved before</Card>
      )}
      {after !== null && <Card value={percent(after.mean)}>solved after</Card>}
      {change?.difference != null && (
        <Card value={points(change.difference.mean)} tone={toneOf(change.finding)}>
          points of change; 95 % interval {points(change.difference.low)} to{' '}
          {points(change.difference.high)}
        </Card>
      )}
      {change !== null && (
        <Card value={`p ${pValue(change.p)}`}>
          exact paired test: {change.gained} gained, {change.lost} lost of {change.n}
        </Card>
      )}
      {best?.mean != null && (
        <Card value={percent(best.mean)}>by {best.name}, the best program without a model</Card>
      )}
      {end !== null && (
        <Card value={duration(end.seconds)}>and at most {megabytes(end.peakRssBytes)}</Card>
      )}
      <Card value={whole(rollouts)}>rollouts, each with its verdict</Card>
    </div>
  );
};

const Drawing = ({
  drawn,
  label,
  height,
}: {
  drawn: Drawn;
  label: string;
  height?: number;
}): JSX.Element => (
  <Chart label={label} option={drawn.option} table={drawn.table} height={height} />
);

function Charts({ run }: { run: RunDetail }): JSX.Element {
  const dev = useMemo(() => ratesChart(run.dev, 'all tiers'), [run]);
  const hits = useMemo(() => ratesChart(run.hits, 'all rollouts'), [run]);
  const loss = useMemo(() => lossChart(run), [run]);
  const buffer = useMemo(() => bufferChart(run), [run]);
  const speed = useMemo(() => speedChart(run), [run]);
  const none = <p class="muted">{run.state === 'unfinished' ? 'Nothing yet.' : 'Nothing.'}</p>;
  return (
    <div class="charts">
      <Panel
        title="Dev problems solved"
        note="By iteration, 0 before any training; bars are 95 % intervals."
      >
        {run.dev.length === 0 ? (
          none
        ) : (
          <Drawing drawn={dev} label="share of the dev problems solved, by iteration and tier" />
        )}
      </Panel>
      <Panel
        title="Rollouts that passed"
        note="By tier. Easier tiers weigh more where more is drawn from them."
      >
        {run.hits.length === 0 ? (
          none
        ) : (
          <Drawing drawn={hits} label="share of the rollouts that passed, by iteration and tier" />
        )}
      </Panel>
      <Panel title="Replay buffer" note="Accepted rollouts that are kept, by tier.">
        {run.buffer.every(({ byTier }) => Object.keys(byTier).length === 0) ? (
          none
        ) : (
          <Drawing drawn={buffer} label="rollouts in the replay buffer, by iteration and tier" />
        )}
      </Panel>
      <Panel title="Loss" note="By optimiser step, nats a token.">
        {run.steps.length === 0 ? none : <Drawing drawn={loss} label="loss by optimiser step" />}
      </Panel>
      <Panel title="Speed" note="Tokens a second.">
        {run.iterations.length === 0 ? (
          none
        ) : (
          <Drawing drawn={speed} label="tokens a second, sampled and trained on, by iteration" />
        )}
      </Panel>
      <Rules run={run} />
    </div>
  );
}

const toneOfEvent = ({ what }: RunEvent): string =>
  /fail|back/.test(what)
    ? 'bad'
    : /fired/.test(what)
      ? 'fair'
      : /remedy/.test(what)
        ? 'good'
        : 'plain';

const Rules = ({ run: { events, iterations } }: { run: RunDetail }): JSX.Element => (
  <Panel
    title="Rules on a time line"
    note={`${plural(events.length, 'event')} in ${plural(iterations.length, 'iteration')}.`}
  >
    {events.length === 0 ? (
      <p class="muted">No rule fired, and the gate put no earlier adapter back.</p>
    ) : (
      // biome-ignore lint/a11y/noNoninteractiveTabindex: a keyboard scrolls only what it can reach
      <ol class="timeline" tabIndex={0} aria-label="rules, remedies and the gate, by iteration">
        {events.map((event, i) => (
          <li key={i} class={toneOfEvent(event)}>
            <span class="when">{event.iteration}</span>
            <span>
              <b>{event.what}</b>
              <small>{event.text}</small>
            </span>
          </li>
        ))}
      </ol>
    )}
  </Panel>
);

const Tests = ({
  run: { testByTier, policies, change, tiers },
}: {
  run: RunDetail;
}): JSX.Element => {
  const paired = new Map(change?.byTier.map((each) => [each.tier, each]));
  const title = (id: string): string => tiers.find((tier) => tier.id === id)?.title ?? '';
  const cell = (rate: Rate | null, against?: Rate | null): JSX.Element => (
    <RateBar rate={rate} against={against} />
  );
  return (
    <Panel
      title="Test problems"
      note="Before and after, with 95 % intervals; the small line is where it was before."
    >
      <Table
        caption="accuracy on the test problems by tier"
        className="stacked"
        head={['Tier', 'Before', 'After', 'Gained, lost', 'p']}
      >
        {testByTier.map(({ tier, before, after }) => (
          <tr key={tier}>
            <td class="main-cell">
              {tier} <small>{title(tier)}</small>
            </td>
            <td data-label="Before">{cell(before)}</td>
            <td data-label="After">{cell(after, before)}</td>
            <td data-label="Gained, lost">
              {paired.has(tier) ? `+${paired.get(tier)!.gained} −${paired.get(tier)!.lost}` : '–'}
            </td>
            <td data-label="p">{pValue(paired.get(tier)?.p)}</td>
          </tr>
        ))}
        {policies.map(({ name, ...rate }) => (
          <tr key={`policy ${name}`} class="policy">
            <td class="main-cell">
              {name} <small>a program without a model</small>
            </td>
            <td colSpan={4} data-label="Solved">
              {cell(rate)}
            </td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
};

/** Every setting by its path, such as `sampling.rollouts`. */
export function flat(value: unknown, at = ''): (readonly [string, string])[] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value))
    return Object.entries(value).flatMap(([name, inner]) =>
      flat(inner, at === '' ? name : `${at}.${name}`),
    );
  return [[at, typeof value === 'string' ? value : JSON.stringify(value)]];
}

const Origin = ({ run }: { run: RunDetail }): JSX.Element => (
  <Panel title="Settings and origin">
    <details>
      <summary>Everything that determines the run</summary>
      <dl class="settings">
        {(
          [
            ['run', run.runId],
            ['model', `${run.model} (SHA-256 ${run.modelSha256})`],
            ['layers', run.layers.join(', ') || '–'],
            ['adapter', run.adapter ?? 'none'],
            ...flat(run.settings),
          ] as const
        ).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </details>
  </Panel>
);

/** report.html in a frame that has neither this page's address nor its key. */
function Report({ name, stamp }: { name: string; stamp: string }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<{ url: string }>(`/api/runs/${part(name)}/report`, signal),
    `${name} ${stamp}`,
  );
  if (error !== null) return <Fault error={error} />;
  if (value === null) return <Waiting what="Writing the report" />;
  return (
    <>
      <p class="note">
        The same as report.html of the folder.{' '}
        <a href={value.url} target="_blank" rel="noreferrer noopener">
          Open it alone
        </a>
      </p>
      <iframe
        class="report"
        title={`report of the run ${name}`}
        src={value.url}
        sandbox="allow-scripts allow-popups"
      />
    </>
  );
}

const Tab = ({
  on,
  onClick,
  children,
}: {
  on: boolean;
  onClick: () => void;
  children: ComponentChildren;
}): JSX.Element => (
  <button type="button" class="tab" aria-pressed={on} onClick={onClick}>
    {children}
  </button>
);

export function RunPage({ name }: { name: string }): JSX.Element {
  const { value: run, error } = useLoaded<RunDetail>(
    async (signal, before) =>
      (await get<RunDetail | null>(
        `/api/runs/${part(name)}${query({ since: before?.stamp })}`,
        signal,
      )) ?? before!,
    name,
    (value) => (value === null || value.state === 'unfinished' ? LIVE_MS : SETTLED_MS),
  );
  const job = useLoaded((signal) => jobOfRun(name, signal), name);
  const [tab, setTab] = useState<'course' | 'report'>('course');
  const over = run?.state === 'ended';
  useEffect(() => setTab('course'), [name]);
  if (run === null)
    return (
      <>
        <PageHead title="Run" above={<a href={href(['runs'])}>Runs</a>} />
        {job.value !== null && <LiveJob id={name} />}
        {error !== null && job.value === null ? (
          <Fault error={error} />
        ) : (
          <Waiting what={job.value === null ? 'Reading the log' : 'The run begins'} />
        )}
      </>
    );
  return (
    <>
      <PageHead
        title={`${run.model} on ${run.task}`}
        above={
          <>
            <a href={href(['runs'])}>Runs</a> / {shortId(run.name)} · seed {run.seed} ·{' '}
            {when(run.startedAt)}
          </>
        }
        badges={<StateBadge state={run.state} />}
        actions={
          <>
            <a class="button" href={href(['runs', name, 'rollouts'])}>
              Rollouts
            </a>
            <a class="button" href={href(['compare'], { a: name })}>
              Compare
            </a>
          </>
        }
      >
        <p class="lead">{run.conclusion}</p>
        <p class="badge-row">
          <Integrity run={run} />
        </p>
        {run.defects.map((defect) => (
          <p class="fault" key={defect}>
            {defect}
          </p>
        ))}
      </PageHead>
      {job.value !== null && (!over || job.value.state === 'running') && <LiveJob id={name} />}
      <Cards run={run} />
      <Tabs label="what is shown">
        <Tab on={tab === 'course'} onClick={() => setTab('course')}>
          Course
        </Tab>
        <Tab on={tab === 'report'} onClick={() => setTab('report')}>
          Whole report
        </Tab>
      </Tabs>
      {tab === 'report' ? (
        <Report name={name} stamp={over ? 'ended' : run.stamp} />
      ) : (
        <>
          <Charts run={run} />
          <Tests run={run} />
          <Iterations run={run} />
          <Origin run={run} />
        </>
      )}
    </>
  );
}

const Iterations = ({ run: { iterations } }: { run: RunDetail }): JSX.Element | null =>
  iterations.length === 0 ? null : (
    <Panel title="Iterations">
      <Table
        caption="what each iteration cost"
        head={[
          'Iteration',
          'Loss',
          'Learning rate',
          'Sampled',
          'Trained on',
          'Rollouts',
          'Training',
          'Evaluation',
        ]}
      >
        {iterations.map(({ iteration, loss, learningRate, tokens, seconds }) => (
          <tr key={iteration}>
            <td>{iteration}</td>
            <td>{figure(loss)}</td>
            <td>{figure(learningRate)}</td>
            <td>{whole(tokens.sampled)}</td>
            <td>{whole(tokens.trained)}</td>
            <td>{duration(seconds.rollouts)}</td>
            <td>{duration(seconds.training)}</td>
            <td>{duration(seconds.evaluation)}</td>
          </tr>
        ))}
      </Table>
    </Panel>
  );
