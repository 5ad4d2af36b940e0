import type { FunctionComponent } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, part, query, type IntegrityAnswer, type RunDetail, type RunEvent } from '../api.ts';
import { Chart, type Drawn } from '../chart.tsx';
import { bufferChart, lossChart, ratesChart, speedChart } from '../charts.tsx';
import {
  duration,
  figure,
  flat,
  megabytes,
  paired,
  percent,
  plural,
  points,
  pValue,
  shortId,
  when,
  whole,
} from '../format.ts';
import { jobOfRun } from '../job-api.ts';
import { LiveJob } from '../live-job.tsx';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import {
  Badge,
  Card,
  Facts,
  Fault,
  List,
  PageHead,
  Panel,
  RateBar,
  Report,
  StateBadge,
  Tabs,
  toneOf,
  Waiting,
} from '../ui.tsx';

const LIVE_MS = 1500;
/** A run that has ended is signed, judged and compared after it. */
const SETTLED_MS = 10_000;

type OfRun = FunctionComponent<{ run: RunDetail }>;

const Integrity: OfRun = ({ run: { name, stamp } }) => {
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
};

const Cards: OfRun = ({ run: { before, after, change, policies, end, rollouts } }) => {
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

interface Drawing {
  readonly title: string;
  readonly note: string;
  readonly label: string;
  /** Null if the run has no figures of this kind. */
  readonly draw: (run: RunDetail) => Drawn | null;
}

const DRAWINGS: readonly Drawing[] = [
  {
    title: 'Dev problems solved',
    note: 'By iteration, 0 before any training; bars are 95 % intervals.',
    label: 'share of the dev problems solved, by iteration and tier',
    draw: ({ dev }) => (dev.length === 0 ? null : ratesChart(dev, 'all tiers')),
  },
  {
    title: 'Rollouts that passed',
    note: 'By tier. Tiers that are drawn more often weigh more.',
    label: 'share of the rollouts that passed, by iteration and tier',
    draw: ({ hits }) => (hits.length === 0 ? null : ratesChart(hits, 'all rollouts')),
  },
  {
    title: 'Replay buffer',
    note: 'Accepted rollouts that are kept, by tier.',
    label: 'rollouts in the replay buffer, by iteration and tier',
    draw: (run) =>
      run.buffer.every(({ byTier }) => Object.keys(byTier).length === 0) ? null : bufferChart(run),
  },
  {
    title: 'Loss',
    note: 'By optimiser step, in nats per token.',
    label: 'loss by optimiser step',
    draw: (run) => (run.steps.length === 0 ? null : lossChart(run)),
  },
  {
    title: 'Speed',
    note: 'Tokens per second.',
    label: 'tokens per second, sampled and trained on, by iteration',
    draw: (run) => (run.iterations.length === 0 ? null : speedChart(run)),
  },
];

const ChartPanel: FunctionComponent<Drawing & { run: RunDetail }> = ({
  run,
  title,
  note,
  label,
  draw,
}) => {
  const drawn = useMemo(() => draw(run), [run]);
  return (
    <Panel title={title} note={note}>
      {drawn === null ? (
        <p class="muted">{run.state === 'unfinished' ? 'Nothing yet.' : 'Nothing.'}</p>
      ) : (
        <Chart {...drawn} label={label} />
      )}
    </Panel>
  );
};

const toneOfEvent = ({ what }: RunEvent): string =>
  /fail|back/.test(what)
    ? 'bad'
    : /fired/.test(what)
      ? 'fair'
      : /remedy/.test(what)
        ? 'good'
        : 'plain';

const Rules: OfRun = ({ run: { events, iterations } }) => (
  <Panel
    title="Rules on a timeline"
    note={`${plural(events.length, 'event')} in ${plural(iterations.length, 'iteration')}.`}
  >
    {events.length === 0 ? (
      <p class="muted">No rule fired, and the gate did not restore an earlier adapter.</p>
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

const Tests: OfRun = ({ run: { testByTier, policies, change, tiers } }) => {
  const pairs = new Map(change?.byTier.map((each) => [each.tier, each]));
  const title = (id: string): string => tiers.find((tier) => tier.id === id)?.title ?? '';
  return (
    <Panel
      title="Test problems"
      note="Before and after, with 95 % intervals; the small line marks the rate before."
    >
      <List
        caption="accuracy on the test problems by tier"
        class="stacked"
        rows={testByTier}
        by="tier"
        columns={[
          [
            'Tier',
            ({ tier }) => (
              <>
                {tier} <small>{title(tier)}</small>
              </>
            ),
            'main-cell',
          ],
          ['Before', ({ before }) => <RateBar rate={before} />],
          ['After', ({ before, after }) => <RateBar rate={after} against={before} />],
          ['Gained, lost', ({ tier }) => paired(pairs.get(tier))],
          ['p', ({ tier }) => pValue(pairs.get(tier)?.p)],
        ]}
      >
        {policies.map(({ name, ...rate }) => (
          <tr key={`policy ${name}`} class="policy">
            <td class="main-cell">
              {name} <small>a program without a model</small>
            </td>
            <td colSpan={4} data-label="Solved">
              <RateBar rate={rate} />
            </td>
          </tr>
        ))}
      </List>
    </Panel>
  );
};

const Origin: OfRun = ({ run }) => (
  <Panel title="Settings and origin">
    <details>
      <summary>Everything that determines the run</summary>
      <Facts
        class="settings"
        rows={[
          ['run', run.runId],
          ['model', `${run.model} (SHA-256 ${run.modelSha256})`],
          ['layers', run.layers.join(', ') || '–'],
          ['adapter', run.adapter ?? 'none'],
          ...flat(run.settings),
        ]}
      />
    </details>
  </Panel>
);

const Iterations: OfRun = ({ run: { iterations } }) =>
  iterations.length > 0 && (
    <Panel title="Iterations">
      <List
        caption="cost of each iteration"
        rows={iterations}
        by="iteration"
        columns={[
          ['Iteration', ({ iteration }) => iteration],
          ['Loss', ({ loss }) => figure(loss)],
          ['Learning rate', ({ learningRate }) => figure(learningRate)],
          ['Sampled', ({ tokens }) => whole(tokens.sampled)],
          ['Trained on', ({ tokens }) => whole(tokens.trained)],
          ['Rollouts', ({ seconds }) => duration(seconds.rollouts)],
          ['Training', ({ seconds }) => duration(seconds.training)],
          ['Evaluation', ({ seconds }) => duration(seconds.evaluation)],
        ]}
      />
    </Panel>
  );

const Course: OfRun = ({ run }) => (
  <>
    <div class="charts">
      {DRAWINGS.map((drawing) => (
        <ChartPanel key={drawing.title} {...drawing} run={run} />
      ))}
      <Rules run={run} />
    </div>
    <Tests run={run} />
    <Iterations run={run} />
    <Origin run={run} />
  </>
);

export const RunPage: FunctionComponent<{ name: string }> = ({ name }) => {
  const { value: run, error } = useLoaded<RunDetail>(
    async (signal, before) =>
      (await get<RunDetail | null>(
        `/api/runs/${part(name)}${query({ since: before?.stamp })}`,
        signal,
      )) ?? before!,
    name,
    (value) => (value === null || value.state === 'unfinished' ? LIVE_MS : SETTLED_MS),
  );
  const job = useLoaded((signal) => jobOfRun(name, signal), name).value;
  const [tab, setTab] = useState<'course' | 'report'>('course');
  const over = run?.state === 'ended';
  useEffect(() => setTab('course'), [name]);
  if (run === null)
    return (
      <>
        <PageHead title="Run" above={<a href={href(['runs'])}>Runs</a>} />
        {job !== null && <LiveJob id={name} />}
        {error !== null && job === null ? (
          <Fault error={error} />
        ) : (
          <Waiting what={job === null ? 'Reading the log' : 'The run is starting'} />
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
      {job !== null && (!over || job.state === 'running') && <LiveJob id={name} />}
      <Cards run={run} />
      <Tabs
        label="view"
        tabs={[
          ['course', 'Course'],
          ['report', 'Whole report'],
        ]}
        on={tab}
        onPick={setTab}
      />
      {tab === 'report' ? (
        <Report
          path={`/api/runs/${part(name)}/report`}
          title={`report of the run ${name}`}
          stamp={over ? 'ended' : run.stamp}
        />
      ) : (
        <Course run={run} />
      )}
    </>
  );
};
