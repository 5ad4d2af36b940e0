import type { FunctionComponent, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, part, type TruthLine, type TruthShown, type TruthTrajectory } from '../api.ts';
import { plural } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import {
  Empty,
  Excerpt,
  List,
  PageHead,
  Panel,
  Report,
  RunName,
  Show,
  StateBadge,
  Tabs,
} from '../ui.tsx';

const number = (value: number | null, digits = 3): string =>
  value === null ? '–' : value.toFixed(digits);

/** Text of an interval; a side without a bound is null. */
const bounds = (
  of: { readonly low: number | null; readonly high: number | null } | null,
): string =>
  of === null
    ? '–'
    : `${of.low === null ? '−∞' : number(of.low)} to ${of.high === null ? '∞' : number(of.high)}`;

export function TruthsPage(): JSX.Element {
  const loaded = useLoaded(
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
            Start a truth run
          </a>
        }
      >
        <p class="lead">
          Runs of this folder that measure whether a model's reasoning moves its beliefs towards the
          truth.
        </p>
      </PageHead>
      <Show of={loaded} waiting="Reading the runs">
        {(runs) =>
          runs.length === 0 ? (
            <Empty title="No truth run yet">
              <p>
                Start one here, or with <code>isopro-native truth run</code>.
              </p>
            </Empty>
          ) : (
            <List
              caption="truth runs"
              class="list"
              rows={runs}
              by="name"
              columns={[
                [
                  'Run',
                  (run) => (
                    <RunName run={run} to="truth">
                      {run.policy}
                    </RunName>
                  ),
                  'main-cell',
                ],
                ['State', ({ state }) => <StateBadge state={state} />],
                ['Domains', ({ domains }) => domains.join(', ')],
                ['Trajectories', ({ trajectories }) => trajectories],
                ['Scores', ({ results }) => results],
              ]}
            />
          )
        }
      </Show>
    </>
  );
}

const WIDTH = 240;
const HEIGHT = 60;

/** Belief in the first option step by step, from 0 at the bottom to 1; the dashed line is ½. */
const BeliefLine: FunctionComponent<{
  beliefs: readonly number[];
  correctOption: 0 | 1 | null;
}> = ({ beliefs, correctOption }) => {
  const x = (i: number): number =>
    beliefs.length === 1 ? WIDTH / 2 : 4 + (i * (WIDTH - 8)) / (beliefs.length - 1);
  const y = (belief: number): number => 4 + (1 - belief) * (HEIGHT - 8);
  const across = (belief: number, style: object): JSX.Element => (
    <line x1="0" x2={WIDTH} y1={y(belief)} y2={y(belief)} stroke="currentColor" {...style} />
  );
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
      {across(0.5, { 'stroke-opacity': 0.3, 'stroke-dasharray': '3 3' })}
      {correctOption !== null && across(1 - correctOption, { 'stroke-opacity': 0.5 })}
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
};

type Reading = TruthTrajectory['readers'][number]['beliefs'][number];

const reading = (found: Reading | undefined): string =>
  found === undefined
    ? 'not read'
    : 'reason' in found
      ? found.reason
      : `${found.p0.toFixed(3)}${found.error === null ? '' : ` ± ${found.error.toFixed(3)}`}`;

const Trajectory: FunctionComponent<TruthTrajectory> = ({
  prompt,
  options,
  correctOption,
  readers,
  steps,
}) => {
  const several = readers.length > 1;
  const knownOf = (beliefs: readonly Reading[]): number[] =>
    beliefs.flatMap((found) => ('p0' in found ? [found.p0] : []));
  return (
    <>
      <Panel title="Question">
        {prompt.map(({ role, content }, i) => (
          <div key={i}>
            <p class="note">{role}</p>
            <pre>{content}</pre>
          </div>
        ))}
        {options !== null && (
          <p>
            The answer is “{options[0]}” or “{options[1]}”.{' '}
            {correctOption === null
              ? 'The correct answer is unknown.'
              : `“${options[correctOption]}” is correct.`}
          </p>
        )}
      </Panel>
      {options !== null && (
        <Panel title={`Belief in “${options[0]}”`}>
          {readers.map(({ whose, beliefs }, i) => (
            <div key={whose}>
              <p class="note">
                {several && <b>{i + 1}. </b>}
                {whose}
              </p>
              {knownOf(beliefs).length > 0 && (
                <BeliefLine beliefs={knownOf(beliefs)} correctOption={correctOption} />
              )}
              <p>
                Before the first step: <b>{reading(beliefs[0])}</b>
              </p>
            </div>
          ))}
          {readers.length === 0 && <p>No beliefs were read.</p>}
        </Panel>
      )}
      <Panel title="Reasoning">
        {steps.map(({ content, trainable }, i) => (
          <div key={i}>
            <p class="note">
              step {i + 1}
              {!trainable && ', part of the prompt'}
              {options !== null &&
                readers.map(
                  ({ beliefs }, who) =>
                    `; belief after it${several ? ` (${who + 1})` : ''}: ${reading(beliefs[i + 1])}`,
                )}
            </p>
            <Excerpt>{content}</Excerpt>
          </div>
        ))}
        {steps.length === 0 && <p>The model wrote nothing.</p>}
      </Panel>
    </>
  );
};

export const TrajectoryPage: FunctionComponent<{ run: string; id: string }> = ({ run, id }) => {
  const loaded = useLoaded(
    (signal) => get<TruthTrajectory>(`/api/truth/${part(run)}/trajectories/${part(id)}`, signal),
    `${run} ${id}`,
  );
  return (
    <>
      <PageHead title="Trajectory" above={<a href={href(['truth', run])}>The run</a>}>
        {loaded.value !== null && <p class="lead">{loaded.value.setup}</p>}
      </PageHead>
      <Show of={loaded} waiting="Reading the trajectory">
        {(trajectory) => <Trajectory {...trajectory} />}
      </Show>
    </>
  );
};

const Scores: FunctionComponent<{ results: TruthShown['results'] }> = ({ results }) => (
  <Panel title="Scores">
    <List
      caption="scores"
      class="list"
      rows={results.flatMap((each) => [
        { ...each, isCorrected: false },
        ...(each.withoutNoise === null
          ? []
          : [{ ...each, ...each.withoutNoise, isCorrected: true }]),
      ])}
      columns={[
        [
          'Strategy',
          ({ strategy, isCorrected }) => (
            <>
              <code>{strategy}</code>
              {isCorrected && ', without noise'}
            </>
          ),
          'long',
        ],
        ['Value', ({ value }) => <b>{number(value)}</b>],
        ['95 % interval', ({ interval }) => bounds(interval)],
        ['n', ({ n }) => n],
        ['Better', ({ direction }) => (direction === 'zero' ? 'nearer to 0' : direction)],
        ['Setup', ({ setup }) => setup],
        results.some(({ reader }) => reader !== null) && ['Whose beliefs', ({ reader }) => reader],
      ]}
    />
  </Panel>
);

export const TruthPage: FunctionComponent<{ name: string }> = ({ name }) => {
  const loaded = useLoaded(
    (signal) => get<TruthShown>(`/api/truth/${part(name)}`, signal),
    name,
    (shown) => (shown?.line.state === 'ended' ? null : 4000),
  );
  const [tab, setTab] = useState<'scores' | 'report'>('scores');
  const line = loaded.value?.line;
  return (
    <>
      <PageHead title={line?.policy ?? name} above={<a href={href(['truth'])}>Truth-seeking</a>}>
        {line !== undefined && (
          <p class="lead">
            {line.domains.join(', ')} · seed {line.seed} ·{' '}
            {plural(line.trajectories, 'trajectory', 'trajectories')}
          </p>
        )}
      </PageHead>
      <Show of={loaded} waiting="Reading the run">
        {({ results, whose, trajectories }) => (
          <>
            <Tabs
              label="view"
              tabs={[
                ['scores', 'Scores and trajectories'],
                ['report', 'Whole report'],
              ]}
              on={tab}
              onPick={setTab}
            />
            {tab === 'report' ? (
              <Report
                path={`/api/truth/${part(name)}/report`}
                title={`report of the truth run ${name}`}
              />
            ) : (
              <>
                <Scores results={results} />
                <Panel
                  title="Trajectories"
                  note={whose === null ? undefined : `Beliefs: ${whose}.`}
                >
                  <List
                    caption="trajectories"
                    class="list"
                    rows={trajectories}
                    by="id"
                    columns={[
                      [
                        'Question',
                        ({ id, question }) => <a href={href(['truth', name, id])}>{question}</a>,
                        'main-cell',
                      ],
                      [
                        'Beliefs',
                        ({ beliefs, correctOption }) =>
                          beliefs === null ? (
                            '–'
                          ) : (
                            <BeliefLine beliefs={beliefs} correctOption={correctOption} />
                          ),
                      ],
                      ['Setup', ({ setup }) => setup],
                    ]}
                  />
                </Panel>
              </>
            )}
          </>
        )}
      </Show>
    </>
  );
};
