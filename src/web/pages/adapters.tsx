import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import {
  ApiError,
  events,
  get,
  post,
  type AdapterLine,
  type AdaptersAnswer,
  type AliasLine,
  type PromotionEvent,
} from '../api.ts';
import { megabytes, percent, plural, shortId, when, whole } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { href } from '../router.ts';
import { Badge, Dialog, Empty, Fault, PageHead, Panel, Progress, Table, Waiting } from '../ui.tsx';

type Named = (id: string | null) => string;

function Rollback({
  alias,
  named,
  onDone,
}: {
  alias: AliasLine;
  named: Named;
  onDone: (moved: boolean) => void;
}): JSX.Element {
  const [reason, setReason] = useState('');
  const [error, setError] = useState<Error | null>(null);
  const act = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await post('/api/adapters/rollback', { alias: alias.name, reason });
      onDone(true);
    } catch (cause) {
      setError(cause as Error);
    }
  };
  return (
    <Dialog title={`Roll back ${alias.name}`} onClose={() => onDone(false)}>
      <form onSubmit={(event) => void act(event)}>
        <p>
          It goes from <b>{named(alias.current)}</b> back to <b>{named(alias.before ?? null)}</b>,
          at once and without a gate.
        </p>
        <label class="field">
          <span>Reason, for the record</span>
          <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        {error !== null && <Fault error={error} />}
        <div class="actions">
          <button type="submit" class="danger">
            Roll back
          </button>
        </div>
      </form>
    </Dialog>
  );
}

const WAYS = [
  [
    'gate',
    'By a gate',
    'Both versions answer fresh problems here; it moves only where the newer one is shown to be better.',
  ],
  ['force', 'By force', 'At once, without evidence. It is on record as such.'],
  ['assign', 'Assign', 'At once: only a champion needs a gate.'],
] as const;

function Told({
  told,
  named,
}: {
  told: readonly PromotionEvent[];
  named: Named;
}): JSX.Element | null {
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
          Measured by <a href={href(['jobs', job.id])}>a job</a>, which goes on when this is closed.
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
          <Progress
            done={progress.done}
            total={progress.total}
            label="problems that both were asked"
          />
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
      {last.type === 'kept' && <p class="answer fair">{last.name} stays as it was.</p>}
      {last.type === 'failed' && <p class="fault">{last.message}</p>}
    </div>
  );
}

function Promote({
  adapter,
  answer,
  named,
  onDone,
}: {
  adapter: AdapterLine;
  answer: AdaptersAnswer;
  named: Named;
  onDone: () => void;
}): JSX.Element {
  const [as, setAs] = useState(() => {
    const scenario =
      answer.aliases.find(({ current }) => current === adapter.id)?.name.split('@')[0] ??
      answer.tasks[0];
    return `${scenario}@champion`;
  });
  const [chosen, setWay] = useState<(typeof WAYS)[number][0]>('gate');
  // a champion takes evidence or force; any other name is assigned
  const isChampion = as.endsWith('@champion') || !as.includes('@');
  const ways = WAYS.filter(([name]) => (name === 'assign') !== isChampion);
  const way = ways.some(([name]) => name === chosen) ? chosen : ways[0]![0];
  const [problems, setProblems] = useState(100);
  const [reason, setReason] = useState('');
  const [told, setTold] = useState<readonly PromotionEvent[]>([]);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<Error | null>(null);
  const gone = useMemo(() => new AbortController(), []);
  useEffect(() => () => gone.abort(), [gone]);
  const act = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setError(null);
    setTold([]);
    try {
      const body = { adapter: adapter.id, as, way, problems, reason };
      const path = '/api/adapters/promote';
      for await (const each of events<PromotionEvent>(path, { body, signal: gone.signal }))
        setTold((before) => [...before, each]);
    } catch (cause) {
      setError(cause as Error);
    }
    setBusy(false);
  };
  return (
    <Dialog title={`Promote ${adapter.name}`} onClose={onDone}>
      <form onSubmit={(event) => void act(event)}>
        <label class="field">
          <span>Name that will stand for it</span>
          <input
            value={as}
            onInput={(event) => setAs(event.currentTarget.value)}
            list="aliases"
            required
          />
          <datalist id="aliases">
            {answer.aliases.map(({ name }) => (
              <option key={name} value={name} />
            ))}
          </datalist>
        </label>
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
          <label class="field">
            <span>Most problems that both are asked</span>
            <input
              type="number"
              min={1}
              max={100000}
              value={problems}
              onInput={(event) => setProblems(Number(event.currentTarget.value))}
            />
          </label>
        )}
        <label class="field">
          <span>Reason, for the record</span>
          <input value={reason} onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        <div class="actions">
          <button type="submit" class="primary" disabled={busy}>
            {busy ? 'Asking…' : 'Promote'}
          </button>
        </div>
        {error !== null && <Fault error={error} />}
        <Told told={told} named={named} />
      </form>
    </Dialog>
  );
}

const DECISIONS: Readonly<Record<string, 'good' | 'fair' | 'bad' | 'plain'>> = {
  accepted: 'good',
  rejected: 'bad',
  invalid: 'bad',
  inconclusive: 'fair',
};

export function AdaptersPage(): JSX.Element {
  const { value, error, reload } = useLoaded(
    (signal) => get<AdaptersAnswer>('/api/adapters', signal),
    'adapters',
  );
  const none = error instanceof ApiError && error.status === 404;
  const { value: models } = useLoaded(
    (signal) =>
      get<{ data: readonly { id: string; parent: string | null }[] }>('/v1/models', signal),
    'models',
  );
  const served = models?.data.flatMap(({ id, parent }) => (parent === null ? [] : [id])) ?? [];
  const [promoted, setPromoted] = useState<AdapterLine | null>(null);
  const [rolled, setRolled] = useState<AliasLine | null>(null);
  const named: Named = (id) =>
    id === null
      ? 'the base without an adapter'
      : (value?.adapters.find((adapter) => adapter.id === id)?.name ?? shortId(id));
  const uses = (id: string): readonly AliasLine[] =>
    value?.aliases.filter(({ current }) => current === id) ?? [];
  return (
    <>
      <PageHead title="Adapters">
        <p class="lead">
          Published adapters, the names that programs ask for, and on what evidence each name was
          moved.
        </p>
      </PageHead>
      {none && (
        <Empty title="This server has no registry.">
          <p>
            {served.length === 0
              ? 'It answers for its model alone.'
              : `It answers for ${served.join(', ')}.`}{' '}
            Versions, evidence and names that move are those of a registry:{' '}
            <code>--registry FOLDER</code> at its start.
          </p>
        </Empty>
      )}
      {error !== null && !none && <Fault error={error} />}
      {value === null && error === null && <Waiting what="Reading the registry" />}
      {value !== null && (
        <>
          <Panel title="In use">
            {value.aliases.length === 0 ? (
              <p class="muted">No name stands for anything yet.</p>
            ) : (
              <Table
                caption="names in use"
                className="list"
                head={['Name', 'Stands for', 'Since', 'By', 'Before it', '']}
              >
                {value.aliases.map((alias) => (
                  <tr key={alias.name}>
                    <td>
                      <b>{alias.name}</b>
                      {alias.probation !== null && (
                        <small>
                          on probation: {percent(alias.probation.share, 0)} of the keys,{' '}
                          {alias.probation.seen} of {alias.probation.problems} problems
                        </small>
                      )}
                    </td>
                    <td>{named(alias.current)}</td>
                    <td>{when(alias.movedAt)}</td>
                    <td>
                      {alias.by} {alias.reason !== '' && <small>{alias.reason}</small>}
                    </td>
                    <td>{alias.before === undefined ? '–' : named(alias.before)}</td>
                    <td>
                      <button
                        type="button"
                        disabled={alias.before === undefined}
                        onClick={() => setRolled(alias)}
                        aria-label={`roll back ${alias.name}`}
                      >
                        Roll back
                      </button>
                    </td>
                  </tr>
                ))}
              </Table>
            )}
          </Panel>
          <Panel title="Published">
            {value.adapters.length === 0 ? (
              <Empty title="Nothing is published">
                <p>
                  <code>isopro-native run --publish</code> puts the adapter of a run here.
                </p>
              </Empty>
            ) : (
              <div class="adapters">
                {value.adapters.map((adapter) => (
                  <article key={adapter.id} class="adapter">
                    <div class="panel-head">
                      <h3>{adapter.name}</h3>
                      <button
                        type="button"
                        class="primary"
                        disabled={adapter.withdrawn !== null || adapter.collected}
                        onClick={() => setPromoted(adapter)}
                        aria-label={`promote ${adapter.name}`}
                      >
                        Promote
                      </button>
                    </div>
                    <p class="badge-row">
                      {uses(adapter.id).map(({ name }) => (
                        <Badge key={name} tone="good">
                          {name}
                        </Badge>
                      ))}
                      {adapter.withdrawn !== null && (
                        <Badge tone="bad">withdrawn: {adapter.withdrawn}</Badge>
                      )}
                      {adapter.collected && <Badge tone="fair">bytes deleted</Badge>}
                    </p>
                    <dl class="facts">
                      <div>
                        <dt>base</dt>
                        <dd>{adapter.base}</dd>
                      </div>
                      <div>
                        <dt>published</dt>
                        <dd>{when(adapter.publishedAt)}</dd>
                      </div>
                      <div>
                        <dt>form</dt>
                        <dd>
                          rank {adapter.rank}, {plural(adapter.layers.length, 'layer')},{' '}
                          {megabytes(adapter.bytes)}
                        </dd>
                      </div>
                      {adapter.dataset !== null && (
                        <div>
                          <dt>trained on</dt>
                          <dd>{adapter.dataset}</dd>
                        </div>
                      )}
                      {adapter.producedBy.map((by) => (
                        <div key={by}>
                          <dt>made by</dt>
                          <dd>{by}</dd>
                        </div>
                      ))}
                      {adapter.evidence.map(({ description, sha256 }) => (
                        <div key={sha256}>
                          <dt>evidence</dt>
                          <dd>
                            {description} <code>{shortId(sha256)}</code>
                          </dd>
                        </div>
                      ))}
                    </dl>
                  </article>
                ))}
              </div>
            )}
          </Panel>
          {value.gates.length > 0 && (
            <Panel
              title="Gates"
              note="Each one that was begun spends a part of what may go wrong by chance, whatever becomes of it."
            >
              <Table
                caption="gates"
                className="list"
                head={['Gate', 'Name', 'Challenger', 'Against', 'Attempt', 'Alpha', 'Answer']}
              >
                {[...value.gates].reverse().map((gate) => (
                  <tr key={gate.gate}>
                    <td>{gate.gate}</td>
                    <td>{gate.name}</td>
                    <td>{named(gate.challenger)}</td>
                    <td>{named(gate.incumbent)}</td>
                    <td>{whole(gate.attempt)}</td>
                    <td>{gate.alpha.toPrecision(3)}</td>
                    <td>
                      <Badge tone={DECISIONS[gate.decision ?? ''] ?? 'plain'}>
                        {gate.decision ?? 'open'}
                      </Badge>
                    </td>
                  </tr>
                ))}
              </Table>
            </Panel>
          )}
          {value.moves.length > 0 && (
            <Panel title="Moves">
              <Table
                caption="moves of names, newest first"
                className="list"
                head={['When', 'Name', 'From', 'To', 'By', 'Reason']}
              >
                {value.moves.slice(0, 100).map((move, i) => (
                  <tr key={i}>
                    <td>{when(move.at)}</td>
                    <td>{move.name}</td>
                    <td>{named(move.from)}</td>
                    <td>{named(move.to)}</td>
                    <td>{move.by}</td>
                    <td>{move.reason}</td>
                  </tr>
                ))}
              </Table>
            </Panel>
          )}
          <p class="note">
            Try one in the <a href={href(['play'])}>playground</a>.
          </p>
          {promoted !== null && (
            <Promote
              adapter={promoted}
              answer={value}
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
      )}
    </>
  );
}
