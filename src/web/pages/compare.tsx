import type { FunctionComponent } from 'preact';
import { get, query, type RunLine, type RunsCompared } from '../api.ts';
import { paired, percent, plural, points, pValue, when } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href } from '../router.ts';
import {
  Card,
  Empty,
  Fault,
  LabelledField,
  List,
  PageHead,
  Panel,
  RateBar,
  Select,
  Show,
  toneOf,
} from '../ui.tsx';

const title = ({ model, task, name, seed, startedAt }: RunLine): string =>
  `${model} on ${task}, seed ${seed}, ${when(startedAt)} (${name.slice(0, 12)})`;

const Compared: FunctionComponent<RunsCompared> = ({
  aAfter,
  bAfter,
  test,
  byTier,
  differences,
}) => {
  const pairs = new Map(test.byTier.map((each) => [each.tier, each]));
  return (
    <>
      <div class="cards">
        <Card value={percent(aAfter.mean)}>of the test problems solved by A</Card>
        <Card value={percent(bAfter.mean)}>solved by B</Card>
        {test.difference !== null && (
          <Card value={points(test.difference.mean)} tone={toneOf(test.finding)}>
            points from A to B; 95 % interval {points(test.difference.low)} to{' '}
            {points(test.difference.high)}
          </Card>
        )}
        <Card value={`p ${pValue(test.p)}`}>
          exact paired test: B gains {test.gained} and loses {test.lost} of {test.n}
        </Card>
      </div>
      <Panel
        title="By tier"
        note={`Both runs on the same ${plural(test.n, 'problem')}, paired by problem. p values are not adjusted for the number of tiers.`}
      >
        <List
          caption="accuracy of both runs by tier"
          class="stacked"
          rows={byTier}
          by="tier"
          columns={[
            ['Tier', ({ tier }) => tier, 'main-cell'],
            ['A', ({ a }) => <RateBar rate={a} />],
            ['B', ({ a, b }) => <RateBar rate={b} against={a} />],
            ['Gained, lost', ({ tier }) => paired(pairs.get(tier))],
            ['p', ({ tier }) => pValue(pairs.get(tier)?.p)],
          ]}
        />
      </Panel>
      <Panel title="Differences" note="Among everything that determines a run.">
        {differences.length === 0 ? (
          <p class="muted">None: one run repeats the other.</p>
        ) : (
          <List
            caption="settings that differ"
            class="text"
            rows={differences}
            by="member"
            columns={[
              ['', ({ member }) => member],
              ['A', ({ a }) => <code>{a}</code>],
              ['B', ({ b }) => <code>{b}</code>],
            ]}
          />
        )}
      </Panel>
    </>
  );
};

const Comparison: FunctionComponent<{ a: string; b: string }> = ({ a, b }) => {
  const loaded = useLoaded(
    (signal) => get<RunsCompared>(`/api/compare${query({ a, b })}`, signal),
    `${a} ${b}`,
  );
  return (
    <Show of={loaded} waiting="Comparing the runs problem by problem">
      {(compared) => <Compared {...compared} />}
    </Show>
  );
};

export const ComparePage: FunctionComponent<{
  params: Readonly<Record<string, string | undefined>>;
}> = ({ params: { a, b } }) => {
  const { value, error } = useLoaded((signal) => get<RunLine[]>('/api/runs', signal), 'runs');
  const runs = (value ?? []).filter(({ after }) => after !== null);
  const options = [
    ['', 'choose a run'],
    ...runs.map((run) => [run.name, title(run)] as const),
  ] as const;
  return (
    <>
      <PageHead title="Two runs, paired" above={<a href={href(['runs'])}>Runs</a>}>
        <div class="two">
          {(['a', 'b'] as const).map((side) => (
            <LabelledField key={side} label={side.toUpperCase()}>
              <Select
                label={side.toUpperCase()}
                value={{ a, b }[side]}
                options={options}
                onPick={(name) => go(['compare'], { a, b, [side]: name }, true)}
              />
            </LabelledField>
          ))}
        </div>
      </PageHead>
      <Fault error={error} />
      {a && b ? <Comparison a={a} b={b} /> : <Empty title="Choose two runs that have ended." />}
    </>
  );
};
