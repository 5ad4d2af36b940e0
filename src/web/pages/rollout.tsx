import type { FunctionComponent } from 'preact';
import { useState } from 'preact/hooks';
import {
  get,
  part,
  query,
  type RolloutDetail,
  type RolloutPage as Found,
  type TokenScores,
} from '../api.ts';
import { Diff } from '../dev-diff.tsx';
import { figure, plural, shortId } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href, useKeys } from '../router.ts';
import {
  Excerpt,
  Facts,
  Fault,
  PageHead,
  Panel,
  Show,
  Tabs,
  VerdictBadge,
  Waiting,
} from '../ui.tsx';

const ADMISSIONS: Readonly<Record<string, string>> = {
  admitted: 'in the replay buffer: trained on when it is drawn',
  contrasted: 'trained on with its advantage over the other samples of its problem',
  distilled: 'trained on: each token was moved towards the distribution of the teacher',
  uninformative: 'not trained on: all samples of its problem have the same reward',
  failed: 'not trained on',
  undecided: 'not trained on: no verdict',
  incomplete: 'not trained on: the reply was cut off',
  contradictory: 'not trained on: its reasoning contradicts the problem',
  duplicate: 'not trained on: like an earlier sample',
};

/** Bounds of the colours in nats, from nearly certain to very unlikely. */
const STEPS = [-0.05, -0.3, -1, -2.5, -5] as const;
const stepOf = (logprob: number): number => {
  const found = STEPS.findIndex((bound) => logprob >= bound);
  return found < 0 ? STEPS.length : found;
};

const Tokens: FunctionComponent<TokenScores> = ({ tokens, model }) => {
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
};

const Reply: FunctionComponent<{ run: string; rollout: RolloutDetail }> = ({ run, rollout }) => {
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
  return (
    <Panel
      title="Reply"
      actions={
        <Tabs
          small
          label="view of the reply"
          tabs={[
            ['text', 'Text'],
            ['base', 'By log-probability, base'],
            ['adapter', 'after training'],
          ]}
          on={look}
          onPick={setLook}
        />
      }
    >
      {rollout.turns.map(({ text, said }, i) => (
        <div key={i}>
          <Excerpt>{text}</Excerpt>
          <p class="told">environment: {said}</p>
        </div>
      ))}
      {look !== 'text' && error !== null && (
        <p class="note">No log-probabilities: {error.message}.</p>
      )}
      {look !== 'text' && value === null && error === null && <Waiting what="Scoring the tokens" />}
      {look !== 'text' && value !== null ? (
        <Tokens {...value} />
      ) : (
        <Excerpt>{rollout.text}</Excerpt>
      )}
    </Panel>
  );
};

const Verdict: FunctionComponent<{ rollout: RolloutDetail }> = ({ rollout }) => (
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
    <Facts
      rows={[
        [
          'training',
          (ADMISSIONS[rollout.admission] ?? rollout.admission) +
            (rollout.advantage === null ? '' : ` (${figure(rollout.advantage)})`),
        ],
        ['ended by', rollout.finish],
        ['mean log-probability', `${figure(rollout.meanLogprob)}, when it was sampled`],
        ['record', `${rollout.id} of the log`],
      ]}
    />
  </Panel>
);

/** Other samples of the same problem, each to be compared with this one. */
const Siblings: FunctionComponent<{ run: string; rollout: RolloutDetail }> = ({ run, rollout }) => {
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
      note="Choose one to see how it differs."
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
      <Fault error={error} />
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
};

export const RolloutPage: FunctionComponent<{
  run: string;
  id: number;
  params: Readonly<Record<string, string>>;
}> = ({ run, id, params }) => {
  const loaded = useLoaded(
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
  useKeys({ j: () => open(after), k: () => open(before) });
  const head = loaded.value;
  return (
    <>
      <PageHead
        title={head === null ? 'Rollout' : `Rollout of ${head.tier}, iteration ${head.iteration}`}
        above={
          <>
            <a href={href(['runs'])}>Runs</a> / <a href={href(['runs', run])}>{shortId(run)}</a> /{' '}
            <a href={href(['runs', run, 'rollouts'], params)}>Rollouts</a>
          </>
        }
        badges={head === null ? undefined : <VerdictBadge verdict={head.verdict} />}
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
      <Show of={loaded} waiting="Reading the log">
        {(rollout) => (
          <div class="rollout">
            <div>
              <Reply run={run} rollout={rollout} />
              <Siblings run={run} rollout={rollout} />
            </div>
            <div>
              <Verdict rollout={rollout} />
              <Panel title="Prompt">
                <Excerpt class="prompt">
                  {rollout.prompt === '' ? 'The log does not contain this prompt.' : rollout.prompt}
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
      </Show>
    </>
  );
};
