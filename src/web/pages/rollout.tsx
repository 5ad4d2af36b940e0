import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import {
  get,
  part,
  query,
  type RolloutDetail,
  type RolloutPage as Found,
  type TokenScores,
} from '../api.ts';
import { figure, plural, shortId } from '../format.ts';
import { Diff } from '../dev-diff.tsx';
import { useLoaded } from '../loading.ts';
import { go, href } from '../router.ts';
import { Excerpt, Fault, PageHead, Panel, Tabs, VerdictBadge, Waiting } from '../ui.tsx';

const ADMISSIONS: Readonly<Record<string, string>> = {
  admitted: 'in the replay buffer: trained on where it is drawn',
  contrasted: 'trained on with its advantage over the other samples of its problem',
  distilled: 'trained on, each token towards what the teacher makes of it',
  uninformative: 'not trained on: no sample of its problem has another reward',
  failed: 'not trained on',
  undecided: 'not trained on: no verdict',
  incomplete: 'not trained on: it did not end by itself',
  contradictory: 'not trained on: its reasoning contradicts the problem',
  duplicate: 'not trained on: like an earlier sample',
};

/** From nearly certain to hardly thinkable. */
const STEPS = [-0.05, -0.3, -1, -2.5, -5] as const;
const stepOf = (logprob: number): number => {
  const found = STEPS.findIndex((bound) => logprob >= bound);
  return found < 0 ? STEPS.length : found;
};

function Tokens({ scores: { tokens, model } }: { scores: TokenScores }): JSX.Element {
  const mean = tokens.reduce((sum, { logprob }) => sum + logprob, 0) / tokens.length;
  return (
    <>
      <p class="note">
        Under {model}, as it is served now: mean log-probability {figure(mean)} over{' '}
        {plural(tokens.length, 'token')}.
      </p>
      <p class="legend" aria-hidden="true">
        {['> 95 %', '> 74 %', '> 37 %', '> 8 %', '> 0.7 %', 'less'].map((text, i) => (
          <span key={text} class={`token p${i}`}>
            {text}
          </span>
        ))}
      </p>
      <Excerpt class="tokens" label="the reply, token by token, coloured by probability">
        {tokens.map(({ text, logprob }, i) => (
          <span
            key={i}
            class={`token p${stepOf(logprob)}`}
            title={`${figure(logprob)} nats, ${figure(100 * Math.exp(logprob))} %`}
          >
            {text}
          </span>
        ))}
      </Excerpt>
    </>
  );
}

function Reply({ run, rollout }: { run: string; rollout: RolloutDetail }): JSX.Element {
  const [look, setLook] = useState<'base' | 'adapter' | 'text'>('base');
  const { value, error } = useLoaded(
    async (signal) =>
      look === 'text'
        ? null
        : await get<TokenScores>(
            `/api/runs/${part(run)}/rollouts/${rollout.id}/scores?under=${look}`,
            signal,
          ),
    `${run} ${rollout.id} ${look}`,
  );
  const button = (name: typeof look, text: string): JSX.Element => (
    <button type="button" class="tab" aria-pressed={look === name} onClick={() => setLook(name)}>
      {text}
    </button>
  );
  return (
    <Panel
      title="Reply"
      actions={
        <Tabs small label="how the reply is shown">
          {button('text', 'Text')}
          {button('base', 'By log-probability, base')}
          {button('adapter', 'after training')}
        </Tabs>
      }
    >
      {rollout.turns.map(({ text, said }, i) => (
        <div key={i}>
          <Excerpt>{text}</Excerpt>
          <p class="told">told: {said}</p>
        </div>
      ))}
      {look !== 'text' && error !== null && (
        <p class="note">No log-probabilities: {error.message}.</p>
      )}
      {look !== 'text' && value === null && error === null && <Waiting what="Scoring the tokens" />}
      {look !== 'text' && value !== null ? (
        <Tokens scores={value} />
      ) : (
        <Excerpt>{rollout.text}</Excerpt>
      )}
    </Panel>
  );
}

const Verdict = ({ rollout }: { rollout: RolloutDetail }): JSX.Element => (
  <Panel title="Verdict">
    <p>
      <VerdictBadge verdict={rollout.verdict} /> {rollout.reason}
    </p>
    {rollout.violations.length > 0 && (
      <ul>
        {rollout.violations.map((each, i) => (
          <li key={i}>
            <b>{each}</b> {rollout.details[i]}
          </li>
        ))}
      </ul>
    )}
    {rollout.score !== null && <p class="note">Score {figure(rollout.score)}</p>}
    {rollout.results !== null && (
      <div class="two">
        <div>
          <h3>Found</h3>
          <Excerpt>{rollout.results.found}</Excerpt>
        </div>
        <div>
          <h3>Expected</h3>
          <Excerpt>{rollout.results.expected}</Excerpt>
        </div>
      </div>
    )}
    <dl class="facts">
      <div>
        <dt>training</dt>
        <dd>
          {ADMISSIONS[rollout.admission] ?? rollout.admission}
          {rollout.advantage !== null && ` (${figure(rollout.advantage)})`}
        </dd>
      </div>
      <div>
        <dt>ended by</dt>
        <dd>{rollout.finish}</dd>
      </div>
      <div>
        <dt>mean log-probability</dt>
        <dd>{figure(rollout.meanLogprob)}, when it was sampled</dd>
      </div>
      <div>
        <dt>record</dt>
        <dd>{rollout.id} of the log</dd>
      </div>
    </dl>
  </Panel>
);

/** The other samples of its problem, each to be read beside this one. */
function Siblings({ run, rollout }: { run: string; rollout: RolloutDetail }): JSX.Element | null {
  const others = rollout.siblings.filter(({ id }) => id !== rollout.id);
  const [chosen, setChosen] = useState<number | null>(null);
  const { value, error } = useLoaded(
    async (signal) =>
      chosen === null
        ? null
        : await get<RolloutDetail>(`/api/runs/${part(run)}/rollouts/${chosen}`, signal),
    `${run} ${chosen}`,
  );
  if (others.length === 0) return null;
  return (
    <Panel
      title={`${plural(others.length, 'other reply', 'other replies')} to this problem`}
      note="Choose one to see what it says otherwise."
    >
      <div class="chips">
        {others.map(({ id, iteration, sample, verdict }) => (
          <button
            type="button"
            key={id}
            class="chip"
            aria-pressed={chosen === id}
            onClick={() => setChosen(chosen === id ? null : id)}
          >
            <VerdictBadge verdict={verdict} /> iteration {iteration}, sample {sample}
          </button>
        ))}
      </div>
      {error !== null && <Fault error={error} />}
      {chosen !== null && value !== null && (
        <>
          <p class="note">
            Struck out: only in this reply. Underlined: only in the other one.{' '}
            <a href={href(['runs', run, 'rollouts', String(chosen)])}>Open it</a>
          </p>
          <Diff before={rollout.text} after={value.text} />
        </>
      )}
    </Panel>
  );
}

export function RolloutPage({
  run,
  id,
  params,
}: {
  run: string;
  id: number;
  params: Readonly<Record<string, string>>;
}): JSX.Element {
  const { value: rollout, error } = useLoaded(
    (signal) => get<RolloutDetail>(`/api/runs/${part(run)}/rollouts/${id}`, signal),
    `${run} ${id}`,
  );
  const list = useLoaded(
    (signal) =>
      get<Found>(`/api/runs/${part(run)}/rollouts${query({ ...params, limit: 200 })}`, signal),
    `${run} ${JSON.stringify(params)}`,
  );
  const ids = list.value?.data.map((each) => each.id) ?? [];
  const at = ids.indexOf(id);
  const [before, after] = at < 0 ? [undefined, undefined] : [ids[at - 1], ids[at + 1]];
  const open = (target: number | undefined): void => {
    if (target !== undefined) go(['runs', run, 'rollouts', String(target)], params, true);
  };
  useEffect(() => {
    const keys = (event: KeyboardEvent): void => {
      if (
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        /^(INPUT|TEXTAREA|SELECT)$/.test((event.target as Element).tagName)
      )
        return;
      if (event.key === 'j') open(after);
      if (event.key === 'k') open(before);
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  });
  return (
    <>
      <PageHead
        title={
          rollout === null
            ? 'Rollout'
            : `Rollout of ${rollout.tier}, iteration ${rollout.iteration}`
        }
        above={
          <>
            <a href={href(['runs'])}>Runs</a> / <a href={href(['runs', run])}>{shortId(run)}</a> /{' '}
            <a href={href(['runs', run, 'rollouts'], params)}>Rollouts</a>
          </>
        }
        badges={rollout === null ? undefined : <VerdictBadge verdict={rollout.verdict} />}
        actions={
          <>
            <button
              type="button"
              disabled={before === undefined}
              onClick={() => open(before)}
              title="key k"
            >
              ← previous
            </button>
            <button
              type="button"
              disabled={after === undefined}
              onClick={() => open(after)}
              title="key j"
            >
              next →
            </button>
          </>
        }
      />
      {error !== null && <Fault error={error} />}
      {rollout === null && error === null && <Waiting what="Reading the log" />}
      {rollout !== null && (
        <div class="rollout">
          <div>
            <Reply run={run} rollout={rollout} />
            <Siblings run={run} rollout={rollout} />
          </div>
          <div>
            <Verdict rollout={rollout} />
            <Panel title="Prompt">
              <Excerpt class="prompt">
                {rollout.prompt === '' ? 'The log does not hold it.' : rollout.prompt}
              </Excerpt>
              <p class="note">
                Problem <code>{shortId(rollout.problem)}</code>,{' '}
                <a href={href(['runs', run, 'rollouts'], { problem: rollout.problem })}>
                  all its rollouts
                </a>
              </p>
            </Panel>
          </div>
        </div>
      )}
    </>
  );
}
