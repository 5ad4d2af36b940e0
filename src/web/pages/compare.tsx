import type { JSX } from 'preact';
import { get, query, type RunLine, type RunsCompared } from '../api.ts';
import { percent, plural, points, pValue, when } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href } from '../router.ts';
import { Card, Empty, Fault, PageHead, Panel, RateBar, Table, toneOf, Waiting } from '../ui.tsx';

const title = ({ model, task, name, seed, startedAt }: RunLine): string =>
  `${model} on ${task}, seed ${seed}, ${when(startedAt)} (${name.slice(0, 12)})`;

function Choose({
  label,
  runs,
  value,
  onChange,
}: {
  label: string;
  runs: readonly RunLine[];
  value: string | undefined;
  onChange: (name: string) => void;
}): JSX.Element {
  return (
    <label class="field">
      <span>{label}</span>
      <select value={value ?? ''} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="">choose a run</option>
        {runs.map((run) => (
          <option key={run.name} value={run.name}>
            {title(run)}
          </option>
        ))}
      </select>
    </label>
  );
}

function Compared({ a, b }: { a: string; b: string }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<RunsCompared>(`/api/compare${query({ a, b })}`, signal),
    `${a} ${b}`,
  );
  if (error !== null) return <Fault error={error} />;
  if (value === null) return <Waiting what="Comparing, problem by problem" />;
  const { test } = value;
  const paired = new Map(test.byTier.map((each) => [each.tier, each]));
  return (
    <>
      <div class="cards">
        <Card value={percent(value.aAfter.mean)}>A solves of the test problems</Card>
        <Card value={percent(value.bAfter.mean)}>B solves</Card>
        {test.difference !== null && (
          <Card value={points(test.difference.mean)} tone={toneOf(test.finding)}>
            points from A to B; 95 % interval {points(test.difference.low)} to{' '}
            {points(test.difference.high)}
          </Card>
        )}
        <Card value={`p ${pValue(test.p)}`}>
          exact paired test: B gains {test.gained}, loses {test.lost} of {test.n}
        </Card>
      </div>
      <Panel
        title="By tier"
        note={`The same ${plural(test.n, 'problem')} of both, paired one by one. Not adjusted for the number of tiers.`}
      >
        <Table
          caption="accuracy of both runs by tier"
          className="stacked"
          head={['Tier', 'A', 'B', 'Gained, lost', 'p']}
        >
          {value.byTier.map((tier) => (
            <tr key={tier.tier}>
              <td class="main-cell">{tier.tier}</td>
              <td data-label="A">
                <RateBar rate={tier.a} />
              </td>
              <td data-label="B">
                <RateBar rate={tier.b} against={tier.a} />
              </td>
              <td data-label="Gained, lost">
                {paired.has(tier.tier)
                  ? `+${paired.get(tier.tier)!.gained} −${paired.get(tier.tier)!.lost}`
                  : '–'}
              </td>
              <td data-label="p">{pValue(paired.get(tier.tier)?.p)}</td>
            </tr>
          ))}
        </Table>
      </Panel>
      <Panel title="What differs" note="Of everything that determines a run.">
        {value.differences.length === 0 ? (
          <p class="muted">Nothing: both are the same run, made twice.</p>
        ) : (
          <Table caption="settings that differ" className="text" head={['', 'A', 'B']}>
            {value.differences.map(({ member, a: one, b: other }) => (
              <tr key={member}>
                <td>{member}</td>
                <td>
                  <code>{one}</code>
                </td>
                <td>
                  <code>{other}</code>
                </td>
              </tr>
            ))}
          </Table>
        )}
      </Panel>
    </>
  );
}

export function ComparePage({
  params: { a, b },
}: {
  params: Readonly<Record<string, string | undefined>>;
}): JSX.Element {
  const { value, error } = useLoaded((signal) => get<RunLine[]>('/api/runs', signal), 'runs');
  const runs = (value ?? []).filter(({ after }) => after !== null);
  const set = (changed: { a?: string; b?: string }): void =>
    go(['compare'], { a, b, ...changed }, true);
  return (
    <>
      <PageHead title="Two runs, paired" above={<a href={href(['runs'])}>Runs</a>}>
        <div class="two">
          <Choose label="A" runs={runs} value={a} onChange={(name) => set({ a: name })} />
          <Choose label="B" runs={runs} value={b} onChange={(name) => set({ b: name })} />
        </div>
      </PageHead>
      {error !== null && <Fault error={error} />}
      {a && b ? <Compared a={a} b={b} /> : <Empty title="Choose two runs that have ended." />}
    </>
  );
}
