import type { FunctionComponent, JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import {
  events,
  get,
  post,
  type AdapterLine,
  type AdaptersAnswer,
  type AliasLine,
  type PromotionEvent,
} from '../api.ts';
import { megabytes, percent, plural, shortId, when, whole } from '../format.ts';
import { useAction, useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import {
  Badge,
  Dialog,
  Empty,
  Facts,
  Fault,
  LabelledField,
  List,
  PageHead,
  Panel,
  Progress,
  Show,
} from '../ui.tsx';

type Named = (id: string | null) => string;

const Rollback: FunctionComponent<{
  alias: AliasLine;
  named: Named;
  onDone: (moved: boolean) => void;
}> = ({ alias, named, onDone }) => {
  const [reason, setReason] = useState('');
  const { error, run } = useAction();
  const act = run(async () => {
    await post('/api/adapters/rollback', { alias: alias.name, reason });
    onDone(true);
  });
  return (
    <Dialog title={`Roll back ${alias.name}`} onClose={() => onDone(false)}>
      <form onSubmit={(event) => void act(event)}>
        <p>
          The name moves from <b>{named(alias.current)}</b> back to{' '}
          <b>{named(alias.before ?? null)}</b>, at once and without a gate.
        </p>
        <LabelledField label="Reason, for the record" value={reason} onText={setReason} />
        <Fault error={error} />
        <div class="actions">
          <button type="submit" class="danger">
            Roll back
          </button>
        </div>
      </form>
    </Dialog>
  );
};

const WAYS = [
  [
    'gate',
    'By a gate',
    'Both versions answer fresh problems here. The name moves only if the new version is shown to be better.',
  ],
  ['force', 'By force', 'At once, without evidence. The record says so.'],
  ['assign', 'Assign', 'At once. Only a champion needs a gate.'],
] as const;

const Told: FunctionComponent<{ told: readonly PromotionEvent[]; named: Named }> = ({
  told,
  named,
}) => {
  const last = told.at(-1);
  const progress = told.findLast((event) => event.type === 'progress');
  const decision = told.findLast((event) => event.type === 'decision');
  const gate = told.findLast((event) => event.type === 'gate');
  const job = told.findLast((event) => event.type === 'job');
  if (last === undefined) return null;
  return (
    <div class="told-events" role="status">
      {job !== undefined && (
        <p class="note">
          Measured by <a href={href(['jobs', job.id])}>a job</a>, which continues if you close this.
        </p>
      )}
      {gate !== undefined && (
        <p class="note">
          Gate {gate.gate}, attempt {gate.attempt} with alpha {gate.alpha.toPrecision(3)}, against{' '}
          {named(gate.incumbent)}.
        </p>
      )}
      {last.type === 'progress' && progress !== undefined && (
        <>
          <Progress {...progress} label="problems that both versions were asked" />
          <p class="note">
            {progress.done} of at most {progress.total}
          </p>
        </>
      )}
      {decision !== undefined && (
        <div class={`answer ${decision.decision === 'accepted' ? 'good' : 'bad'}`}>
          <b>{decision.decision}</b> after {plural(decision.problems, 'problem')}
          <ul>
            {decision.reasons.map((reason) => (
              <li key={reason}>{reason}</li>
            ))}
          </ul>
        </div>
      )}
      {last.type === 'moved' && (
        <p class="answer good">
          {last.name} is now {named(last.to)}; before it was {named(last.from)}.
        </p>
      )}
      {last.type === 'kept' && <p class="answer fair">{last.name} did not move.</p>}
      {last.type === 'failed' && <p class="fault">{last.message}</p>}
    </div>
  );
};

const Promote: FunctionComponent<{
  adapter: AdapterLine;
  answer: AdaptersAnswer;
  named: Named;
  onDone: () => void;
}> = ({ adapter, answer, named, onDone }) => {
  const [as, setAs] = useState(() => {
    const alias = answer.aliases.find(({ current }) => current === adapter.id);
    return `${alias?.name.split('@')[0] ?? answer.tasks[0]}@champion`;
  });
  const [chosen, setWay] = useState<(typeof WAYS)[number][0]>('gate');
  // a champion needs evidence or force; any other name is assigned
  const isChampion = as.endsWith('@champion') || !as.includes('@');
  const ways = WAYS.filter(([name]) => (name === 'assign') !== isChampion);
  const way = ways.some(([name]) => name === chosen) ? chosen : ways[0]![0];
  const [problems, setProblems] = useState(100);
  const [reason, setReason] = useState('');
  const [told, setTold] = useState<readonly PromotionEvent[]>([]);
  const { busy, error, run } = useAction();
  const gone = useMemo(() => new AbortController(), []);
  useEffect(() => () => gone.abort(), [gone]);
  const act = run(async () => {
    setTold([]);
    const body = { adapter: adapter.id, as, way, problems, reason };
    const path = '/api/adapters/promote';
    for await (const each of events<PromotionEvent>(path, { body, signal: gone.signal }))
      setTold((before) => [...before, each]);
  });
  return (
    <Dialog title={`Promote ${adapter.name}`} onClose={onDone}>
      <form onSubmit={(event) => void act(event)}>
        <LabelledField
          label="Name that will point to it"
          value={as}
          onText={setAs}
          list="aliases"
          required
        >
          <datalist id="aliases">
            {answer.aliases.map(({ name }) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </LabelledField>
        <fieldset class="ways">
          <legend>How</legend>
          {ways.map(([name, title, text]) => (
            <label key={name}>
              <input type="radio" name="way" checked={way === name} onChange={() => setWay(name)} />
              <span>
                <b>{title}</b>
                <small>{text}</small>
              </span>
            </label>
          ))}
        </fieldset>
        {way === 'gate' && (
          <LabelledField
            label="Max problems for both versions"
            type="number"
            min={1}
            max={100000}
            value={problems}
            onText={(text) => setProblems(Number(text))}
          />
        )}
        <LabelledField label="Reason, for the record" value={reason} onText={setReason} />
        <div class="actions">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? 'Asking…' : 'Promote'}
          </button>
        </div>
        <Fault error={error} />
        <Told told={told} named={named} />
      </form>
    </Dialog>
  );
};

const DECISIONS: Readonly<Record<string, 'good' | 'fair' | 'bad'>> = {
  accepted: 'good',
  rejected: 'bad',
  invalid: 'bad',
  inconclusive: 'fair',
};

/** What is shown if the server has no registry: the models that it serves. */
function NoRegistry(): JSX.Element {
  const { value: models } = useLoaded(
    (signal) =>
      get<{ data: readonly { id: string; parent: string | null }[] }>('/v1/models', signal),
    'models',
  );
  const served = models?.data.flatMap(({ id, parent }) => (parent === null ? [] : [id])) ?? [];
  return (
    <Empty title="This server has no registry.">
      <p>
        {served.length === 0 ? 'It serves its base model only.' : `It serves ${served.join(', ')}.`}{' '}
        For versions, evidence and movable names, start it with a registry:{' '}
        <code>--registry FOLDER</code>.
      </p>
    </Empty>
  );
}

const AliasName: FunctionComponent<AliasLine> = ({ name, probation }) => (
  <>
    <b>{name}</b>
    {probation !== null && (
      <small>
        on probation: {percent(probation.share, 0)} of the keys, {probation.seen} of{' '}
        {probation.problems} problems
      </small>
    )}
  </>
);

const Adapter: FunctionComponent<{
  adapter: AdapterLine;
  uses: readonly AliasLine[];
  onPromote: () => void;
}> = ({ adapter, uses, onPromote }) => (
  <article class="adapter">
    <div class="panel-head">
      <h3>{adapter.name}</h3>
      <button
        type="button"
        class="primary"
        disabled={adapter.withdrawn !== null || adapter.collected}
        onClick={onPromote}
        aria-label={`promote ${adapter.name}`}
      >
        Promote
      </button>
    </div>
    <p class="badge-row">
      {uses.map(({ name }) => (
        <Badge key={name} tone="good">
          {name}
        </Badge>
      ))}
      {adapter.withdrawn !== null && <Badge tone="bad">withdrawn: {adapter.withdrawn}</Badge>}
      {adapter.collected && <Badge tone="fair">bytes deleted</Badge>}
    </p>
    <Facts
      rows={[
        ['base', adapter.base],
        ['published', when(adapter.publishedAt)],
        [
          'size',
          `rank ${adapter.rank}, ${plural(adapter.layers.length, 'layer')}, ${megabytes(adapter.bytes)}`,
        ],
        adapter.dataset !== null && ['trained on', adapter.dataset],
        ...adapter.producedBy.map((by) => ['made by', by] as const),
        ...adapter.evidence.map(
          ({ description, sha256 }) =>
            [
              'evidence',
              <>
                {description} <code>{shortId(sha256)}</code>
              </>,
            ] as const,
        ),
      ]}
    />
  </article>
);

const Gates: FunctionComponent<{ gates: AdaptersAnswer['gates']; named: Named }> = ({
  gates,
  named,
}) => (
  <Panel
    title="Gates"
    note="Every gate that was started spends part of the allowed error probability, whatever its result."
  >
    <List
      caption="gates"
      class="list"
      rows={[...gates].reverse()}
      by="gate"
      columns={[
        ['Gate', ({ gate }) => gate],
        ['Name', ({ name }) => name],
        ['Challenger', ({ challenger }) => named(challenger)],
        ['Against', ({ incumbent }) => named(incumbent)],
        ['Attempt', ({ attempt }) => whole(attempt)],
        ['Alpha', ({ alpha }) => alpha.toPrecision(3)],
        [
          'Decision',
          ({ decision }) => (
            <Badge tone={DECISIONS[decision ?? ''] ?? 'plain'}>{decision ?? 'open'}</Badge>
          ),
        ],
      ]}
    />
  </Panel>
);

const Moves: FunctionComponent<{ moves: AdaptersAnswer['moves']; named: Named }> = ({
  moves,
  named,
}) => (
  <Panel title="Moves">
    <List
      caption="moves of names, newest first"
      class="list"
      rows={moves.slice(0, 100)}
      columns={[
        ['When', ({ at }) => when(at)],
        ['Name', ({ name }) => name],
        ['From', ({ from }) => named(from)],
        ['To', ({ to }) => named(to)],
        ['By', ({ by }) => by],
        ['Reason', ({ reason }) => reason],
      ]}
    />
  </Panel>
);

const Adapters: FunctionComponent<{ answer: AdaptersAnswer; reload: () => void }> = ({
  answer,
  reload,
}) => {
  const [promoted, setPromoted] = useState<AdapterLine | null>(null);
  const [rolled, setRolled] = useState<AliasLine | null>(null);
  const named: Named = (id) =>
    id === null
      ? 'the base without an adapter'
      : (answer.adapters.find((adapter) => adapter.id === id)?.name ?? shortId(id));
  return (
    <>
      <Panel title="In use">
        {answer.aliases.length === 0 ? (
          <p class="muted">No name points to anything yet.</p>
        ) : (
          <List
            caption="names in use"
            class="list"
            rows={answer.aliases}
            by="name"
            columns={[
              ['Name', (alias) => <AliasName {...alias} />],
              ['Points to', ({ current }) => named(current)],
              ['Since', ({ movedAt }) => when(movedAt)],
              [
                'By',
                ({ by, reason }) => (
                  <>
                    {by} {reason !== '' && <small>{reason}</small>}
                  </>
                ),
              ],
              ['Before', ({ before }) => (before === undefined ? '–' : named(before))],
              [
                '',
                (alias) => (
                  <button
                    type="button"
                    disabled={alias.before === undefined}
                    onClick={() => setRolled(alias)}
                    aria-label={`roll back ${alias.name}`}
                  >
                    Roll back
                  </button>
                ),
              ],
            ]}
          />
        )}
      </Panel>
      <Panel title="Published">
        {answer.adapters.length === 0 ? (
          <Empty title="Nothing is published">
            <p>
              <code>isopro-native run --publish</code> publishes the adapter of a run.
            </p>
          </Empty>
        ) : (
          <div class="adapters">
            {answer.adapters.map((adapter) => (
              <Adapter
                key={adapter.id}
                adapter={adapter}
                uses={answer.aliases.filter(({ current }) => current === adapter.id)}
                onPromote={() => setPromoted(adapter)}
              />
            ))}
          </div>
        )}
      </Panel>
      {answer.gates.length > 0 && <Gates gates={answer.gates} named={named} />}
      {answer.moves.length > 0 && <Moves moves={answer.moves} named={named} />}
      <p class="note">
        Try one in the <a href={href(['play'])}>playground</a>.
      </p>
      {promoted !== null && (
        <Promote
          adapter={promoted}
          answer={answer}
          named={named}
          onDone={() => {
            setPromoted(null);
            reload();
          }}
        />
      )}
      {rolled !== null && (
        <Rollback
          alias={rolled}
          named={named}
          onDone={(moved) => {
            setRolled(null);
            if (moved) reload();
          }}
        />
      )}
    </>
  );
};

export function AdaptersPage(): JSX.Element {
  const loaded = useLoaded((signal) => get<AdaptersAnswer>('/api/adapters', signal), 'adapters');
  return (
    <>
      <PageHead title="Adapters">
        <p class="lead">
          Published adapters, the names that programs ask for, and the evidence for each move of a
          name.
        </p>
      </PageHead>
      <Show of={loaded} waiting="Reading the registry" absent={<NoRegistry />}>
        {(answer) => <Adapters answer={answer} reload={loaded.reload} />}
      </Show>
    </>
  );
}
