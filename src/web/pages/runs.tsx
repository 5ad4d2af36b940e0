import type { FunctionComponent, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, type RunLine } from '../api.ts';
import { percent, plural, points, pValue, when } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href } from '../router.ts';
import { Empty, List, PageHead, RunName, Show, StateBadge, toneOf } from '../ui.tsx';

/** Change of the accuracy, coloured if it is statistically distinguishable from none. */
const Change: FunctionComponent<RunLine> = ({ before, after, pairedP, finding }) =>
  before === null || after === null ? (
    <span class="muted">–</span>
  ) : (
    <span class={toneOf(finding) ?? 'muted'}>
      {points(after - before)} <small>p {pValue(pairedP)}</small>
    </span>
  );

export function RunsPage(): JSX.Element {
  const loaded = useLoaded(
    (signal) => get<RunLine[]>('/api/runs', signal),
    'runs',
    () => 4000,
  );
  const [chosen, setChosen] = useState<readonly string[]>([]);
  const [text, setText] = useState('');
  const choose = (name: string): void =>
    setChosen((before) =>
      before.includes(name) ? before.filter((each) => each !== name) : [...before, name].slice(-2),
    );
  const shown = (loaded.value ?? []).filter(({ name, model, task }) =>
    `${name} ${model} ${task}`.toLowerCase().includes(text.toLowerCase()),
  );
  const [a, b] = chosen;
  const start = (
    <a class="button primary" href={href(['new'])}>
      Start a run
    </a>
  );
  return (
    <>
      <PageHead
        title="Runs"
        actions={
          <>
            <button
              type="button"
              disabled={b === undefined}
              onClick={() => go(['compare'], { a, b })}
            >
              {b === undefined ? 'Compare: choose two' : 'Compare the two'}
            </button>
            {start}
          </>
        }
      >
        <p class="lead">
          Training runs of this folder, with their results and the state of their logs.
        </p>
      </PageHead>
      <Show of={loaded} waiting="Reading the runs">
        {(runs) =>
          runs.length === 0 ? (
            <Empty title="No runs yet">
              <p>
                A run makes a model better at a task that a program can check. The smallest run
                takes a minute.
              </p>
              {start}
            </Empty>
          ) : (
            <>
              <div class="tools">
                <input
                  type="search"
                  placeholder="search by name, model or task"
                  aria-label="search runs"
                  value={text}
                  onInput={(event) => setText(event.currentTarget.value)}
                />
                <span class="muted" role="status">
                  {plural(shown.length, 'run')}
                </span>
              </div>
              <List
                caption="runs"
                class="list stacked runs"
                rows={shown}
                by="name"
                columns={[
                  [
                    <span class="hidden">compare</span>,
                    ({ name, after }) => (
                      <input
                        type="checkbox"
                        checked={chosen.includes(name)}
                        disabled={after === null}
                        onChange={() => choose(name)}
                        aria-label={`compare ${name}`}
                      />
                    ),
                  ],
                  [
                    'Run',
                    (run) => (
                      <RunName run={run} to="runs">
                        {run.model} on {run.task}
                      </RunName>
                    ),
                    'main-cell',
                  ],
                  ['State', ({ state }) => <StateBadge state={state} />],
                  ['Started', ({ startedAt }) => when(startedAt)],
                  ['Iterations', ({ iterations }) => iterations],
                  ['Before', ({ before }) => percent(before)],
                  ['After', ({ after }) => <b>{percent(after)}</b>],
                  ['Change', (run) => <Change {...run} />],
                ]}
              />
            </>
          )
        }
      </Show>
    </>
  );
}
