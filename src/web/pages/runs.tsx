import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, type RunLine } from '../api.ts';
import { percent, plural, points, pValue, when } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href } from '../router.ts';
import { Empty, Fault, PageHead, RunName, StateBadge, Table, toneOf, Waiting } from '../ui.tsx';

/** Whether the change may be called one. */
function Change({ before, after, pairedP, finding }: RunLine): JSX.Element {
  if (before === null || after === null) return <span class="muted">–</span>;
  return (
    <span class={toneOf(finding) ?? 'muted'}>
      {points(after - before)} <small>p {pValue(pairedP)}</small>
    </span>
  );
}

export function RunsPage(): JSX.Element {
  const { value: runs, error } = useLoaded(
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
  const shown = (runs ?? []).filter(({ name, model, task }) =>
    `${name} ${model} ${task}`.toLowerCase().includes(text.toLowerCase()),
  );
  const [a, b] = chosen;
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
            <a class="button primary" href={href(['new'])}>
              Start a run
            </a>
          </>
        }
      >
        <p class="lead">
          What was trained in this folder, what came of it, and whether its log holds.
        </p>
      </PageHead>
      {error !== null && <Fault error={error} />}
      {runs === null && error === null && <Waiting what="Reading the runs" />}
      {runs !== null && runs.length === 0 && (
        <Empty title="No runs yet">
          <p>
            A run makes a model better at a task that a program can check. The smallest one takes a
            minute.
          </p>
          <a class="button primary" href={href(['new'])}>
            Start a run
          </a>
        </Empty>
      )}
      {runs !== null && runs.length > 0 && (
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
          <Table
            caption="runs"
            className="list stacked runs"
            head={[
              <span class="hidden">compare</span>,
              'Run',
              'State',
              'Started',
              'Iterations',
              'Before',
              'After',
              'Change',
            ]}
          >
            {shown.map((run) => (
              <tr key={run.name}>
                <td>
                  <input
                    type="checkbox"
                    checked={chosen.includes(run.name)}
                    disabled={run.after === null}
                    onChange={() => choose(run.name)}
                    aria-label={`compare ${run.name}`}
                  />
                </td>
                <td class="main-cell">
                  <RunName run={run} to="runs">
                    {run.model} on {run.task}
                  </RunName>
                </td>
                <td data-label="State">
                  <StateBadge state={run.state} />
                </td>
                <td data-label="Started">{when(run.startedAt)}</td>
                <td data-label="Iterations">{run.iterations}</td>
                <td data-label="Before">{percent(run.before)}</td>
                <td data-label="After">
                  <b>{percent(run.after)}</b>
                </td>
                <td data-label="Change">
                  <Change {...run} />
                </td>
              </tr>
            ))}
          </Table>
        </>
      )}
    </>
  );
}
