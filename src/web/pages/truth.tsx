import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, part, type TruthLine, type TruthShown, type TruthTrajectory } from '../api.ts';
import { plural } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import {
  Empty,
  Excerpt,
  Fault,
  PageHead,
  Panel,
  RunName,
  StateBadge,
  Table,
  Tabs,
  Waiting,
} from '../ui.tsx';

const number = (value: number | null, digits = 3): string =>
  value === null ? '–' : value.toFixed(digits);

/** Without a bound on a side it is null there. */
const bounds = (
  of: { readonly low: number | null; readonly high: number | null } | null,
): string =>
  of === null
    ? '–'
    : `${of.low === null ? '−∞' : number(of.low)} to ${of.high === null ? '∞' : number(of.high)}`;

export function TruthsPage(): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<TruthLine[]>('/api/truth', signal),
    'truth',
    () => 4000,
  );
  return (
    <>
      <PageHead
        title="Truth-seeking"
        actions={
          <a class="button primary" href={href(['new'], { kind: 'truth' })}>
            Start one
          </a>
        }
      >
        <p class="lead">
          Whether the reasoning of a model moves its beliefs towards the truth: runs of this folder.
        </p>
      </PageHead>
      {error !== null && <Fault error={error} />}
      {value === null && error === null && <Waiting what="Reading the runs" />}
      {value !== null && value.length === 0 && (
        <Empty title="No truth run yet">
          <p>
            Start one here, or with <code>isopro-native truth run</code>.
          </p>
        </Empty>
      )}
      {value !== null && value.length > 0 && (
        <Table
          caption="truth runs"
          className="list"
          head={['Run', 'State', 'About', 'Trajectories', 'Scores']}
        >
          {value.map((run) => (
            <tr key={run.name}>
              <td class="main-cell">
                <RunName run={run} to="truth">
                  {run.policy}
                </RunName>
              </td>
              <td>
                <StateBadge state={run.state} />
              </td>
              <td>{run.domains.join(', ')}</td>
              <td>{run.trajectories}</td>
              <td>{run.results}</td>
            </tr>
          ))}
        </Table>
      )}
    </>
  );
}

const WIDTH = 240;
const HEIGHT = 60;

/**
 * Belief in the first option at each place, from 0 below to 1 above; the dashed line is one half.
 */
function BeliefLine({
  beliefs,
  correctOption,
}: {
  beliefs: readonly number[];
  correctOption: 0 | 1 | null;
}): JSX.Element {
  const x = (i: number): number =>
    beliefs.length === 1 ? WIDTH / 2 : 4 + (i * (WIDTH - 8)) / (beliefs.length - 1);
  const y = (belief: number): number => 4 + (1 - belief) * (HEIGHT - 8);
  const right = correctOption === null ? null : correctOption === 0 ? 1 : 0;
  const label = `belief in the first option: ${beliefs.map((belief) => belief.toFixed(2)).join(', ')}`;
  return (
    <svg
      class="belief-line"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      <line
        x1="0"
        x2={WIDTH}
        y1={y(0.5)}
        y2={y(0.5)}
        stroke="currentColor"
        stroke-opacity="0.3"
        stroke-dasharray="3 3"
      />
      {right !== null && (
        <line
          x1="0"
          x2={WIDTH}
          y1={y(right)}
          y2={y(right)}
          stroke="currentColor"
          stroke-opacity="0.5"
        />
      )}
      <polyline
        fill="none"
        stroke="currentColor"
        stroke-width="2"
        points={beliefs.map((belief, i) => `${x(i)},${y(belief)}`).join(' ')}
      />
      {beliefs.map((belief, i) => (
        <circle key={i} cx={x(i)} cy={y(belief)} r="3" fill="currentColor" />
      ))}
    </svg>
  );
}

type Reading = TruthTrajectory['readers'][number]['beliefs'][number];

const reading = (found: Reading | undefined): string =>
  found === undefined
    ? 'not read'
    : 'reason' in found
      ? found.reason
      : `${found.p0.toFixed(3)}${found.error === null ? '' : ` ± ${found.error.toFixed(3)}`}`;

export function TrajectoryPage({ run, id }: { run: string; id: string }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<TruthTrajectory>(`/api/truth/${part(run)}/trajectories/${part(id)}`, signal),
    `${run} ${id}`,
  );
  const readers = value?.readers ?? [];
  const knownOf = (beliefs: readonly Reading[]): number[] =>
    beliefs.flatMap((found) => ('p0' in found ? [found.p0] : []));
  return (
    <>
      <PageHead title="Trajectory" above={<a href={href(['truth', run])}>The run</a>}>
        {value !== null && <p class="lead">{value.setup}</p>}
      </PageHead>
      {error !== null && <Fault error={error} />}
      {value === null && error === null && <Waiting what="Reading the trajectory" />}
      {value !== null && (
        <>
          <Panel title="Question">
            {value.prompt.map(({ role, content }, i) => (
              <div key={i}>
                <p class="note">{role}</p>
                <pre>{content}</pre>
              </div>
            ))}
            {value.options !== null && (
              <p>
                The answer is “{value.options[0]}” or “{value.options[1]}”
                {value.correctOption === null
                  ? '; nobody knows.'
                  : `; right is “${value.options[value.correctOption]}”.`}
              </p>
            )}
          </Panel>
          {value.options !== null && (
            <Panel title={`Belief in “${value.options[0]}”`}>
              {readers.map(({ whose, beliefs }, i) => (
                <div key={whose}>
                  <p class="note">
                    {readers.length > 1 && <b>{i + 1}. </b>}
                    {whose}
                  </p>
                  {knownOf(beliefs).length > 0 && (
                    <BeliefLine beliefs={knownOf(beliefs)} correctOption={value.correctOption} />
                  )}
                  <p>
                    Before any word: <b>{reading(beliefs[0])}</b>
                  </p>
                </div>
              ))}
              {readers.length === 0 && <p>Nobody has read any.</p>}
            </Panel>
          )}
          <Panel title="Reasoning">
            {value.steps.map(({ content, trainable }, i) => (
              <div key={i}>
                <p class="note">
                  step {i + 1}
                  {trainable ? '' : ', asked beforehand'}
                  {value.options === null
                    ? ''
                    : readers
                        .map(
                          ({ beliefs }, who) =>
                            `; belief after it${readers.length > 1 ? ` (${who + 1})` : ''}: ${reading(beliefs[i + 1])}`,
                        )
                        .join('')}
                </p>
                <Excerpt>{content}</Excerpt>
              </div>
            ))}
            {value.steps.length === 0 && <p>Nothing was said.</p>}
          </Panel>
        </>
      )}
    </>
  );
}

/** What `truth report` writes, in a frame that has neither this page's address nor its key. */
function Report({ name }: { name: string }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<{ url: string }>(`/api/truth/${part(name)}/report`, signal),
    name,
  );
  if (error !== null) return <Fault error={error} />;
  if (value === null) return <Waiting what="Writing the report" />;
  return (
    <iframe
      class="report"
      title={`report of the truth run ${name}`}
      src={value.url}
      sandbox="allow-scripts allow-popups"
    />
  );
}

export function TruthPage({ name }: { name: string }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<TruthShown>(`/api/truth/${part(name)}`, signal),
    name,
    (shown) => (shown?.line.state === 'ended' ? null : 4000),
  );
  const [whole, setWhole] = useState(false);
  const areOwn = value?.results.every(({ reader }) => reader === null) ?? true;
  return (
    <>
      <PageHead
        title={value?.line.policy ?? name}
        above={<a href={href(['truth'])}>Truth-seeking</a>}
      >
        {value !== null && (
          <p class="lead">
            {value.line.domains.join(', ')} · seed {value.line.seed} ·{' '}
            {plural(value.line.trajectories, 'trajectory', 'trajectories')}
          </p>
        )}
      </PageHead>
      {error !== null && <Fault error={error} />}
      {value === null && error === null && <Waiting what="Reading the run" />}
      {value !== null && (
        <>
          <Tabs label="what is shown">
            <button type="button" class="tab" aria-pressed={!whole} onClick={() => setWhole(false)}>
              Scores and trajectories
            </button>
            <button type="button" class="tab" aria-pressed={whole} onClick={() => setWhole(true)}>
              Whole report
            </button>
          </Tabs>
          {whole ? (
            <Report name={name} />
          ) : (
            <>
              <Panel title="Scores">
                <Table
                  caption="scores"
                  className="list"
                  head={[
                    'Strategy',
                    'Value',
                    '95 % interval',
                    'n',
                    'Better',
                    'Under',
                    ...(areOwn ? [] : ['Whose beliefs']),
                  ]}
                >
                  {value.results
                    .flatMap((each) => [
                      { ...each, isCorrected: false },
                      ...(each.withoutNoise === null
                        ? []
                        : [{ ...each, ...each.withoutNoise, isCorrected: true }]),
                    ])
                    .map(
                      ({
                        setup,
                        strategy,
                        reader,
                        value: score,
                        interval,
                        n,
                        direction,
                        isCorrected,
                      }) => (
                        <tr key={`${setup} ${strategy} ${reader ?? ''} ${isCorrected}`}>
                          <td class="long">
                            <code>{strategy}</code>
                            {isCorrected && ', without noise'}
                          </td>
                          <td>
                            <b>{number(score)}</b>
                          </td>
                          <td>{bounds(interval)}</td>
                          <td>{n}</td>
                          <td>{direction === 'zero' ? 'nearer to 0' : direction}</td>
                          <td>{setup}</td>
                          {!areOwn && <td>{reader}</td>}
                        </tr>
                      ),
                    )}
                </Table>
              </Panel>
              <Panel title="Trajectories">
                {value.whose !== null && <p class="note">Here: {value.whose}.</p>}
                <Table
                  caption="trajectories"
                  className="list"
                  head={['Question', 'Beliefs', 'Under']}
                >
                  {value.trajectories.map(({ id, question, setup, beliefs, correctOption }) => (
                    <tr key={id}>
                      <td class="main-cell">
                        <a href={href(['truth', name, id])}>{question}</a>
                      </td>
                      <td>
                        {beliefs === null ? (
                          '–'
                        ) : (
                          <BeliefLine beliefs={beliefs} correctOption={correctOption} />
                        )}
                      </td>
                      <td>{setup}</td>
                    </tr>
                  ))}
                </Table>
              </Panel>
            </>
          )}
        </>
      )}
    </>
  );
}
