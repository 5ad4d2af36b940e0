import { Fragment, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import {
  get,
  part,
  query,
  type DevProblem,
  type RolloutPage as Found,
  type RunDetail,
} from '../api.ts';
import { plural, shortId, whole } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href } from '../router.ts';
import { DevDiff } from '../dev-diff.tsx';
import { Empty, Fault, PageHead, Panel, Table, VerdictBadge, Waiting } from '../ui.tsx';

const LIMIT = 50;

interface Params {
  readonly [name: string]: string | undefined;
}

function Choice({
  name,
  all,
  values,
  value,
  onChange,
}: {
  name: string;
  all: string;
  values: readonly (string | number)[];
  value: string | undefined;
  onChange: (value: string) => void;
}): JSX.Element {
  return (
    <select
      aria-label={name}
      value={value ?? ''}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {(value === undefined || value === '' || values.map(String).includes(value)
        ? values
        : [...values, value]
      ).map((each) => (
        <option key={each} value={String(each)}>
          {name === 'iteration' ? `iteration ${each}` : each}
        </option>
      ))}
    </select>
  );
}

export function RolloutsPage({ run, params }: { run: string; params: Params }): JSX.Element {
  const { tier, iteration, verdict, text, problem } = params;
  const offset = Number(params.offset ?? 0) || 0;
  const asked = query({ tier, iteration, verdict, text, problem, offset, limit: LIMIT });
  const { value: page, error } = useLoaded(
    (signal) => get<Found>(`/api/runs/${part(run)}/rollouts${asked}`, signal),
    run + asked,
  );
  const [last, setLast] = useState<Found | null>(null);
  useEffect(() => {
    if (page !== null) setLast(page);
  }, [page]);
  const shown = page ?? last;
  const detail = useLoaded((signal) => get<RunDetail>(`/api/runs/${part(run)}`, signal), run);
  const set = (changed: Params): void =>
    go(['runs', run, 'rollouts'], { ...params, offset: undefined, ...changed }, true);
  const search = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => {
    const keys = (event: KeyboardEvent): void => {
      if (
        event.key !== '/' ||
        event.ctrlKey ||
        event.metaKey ||
        /^(INPUT|TEXTAREA|SELECT)$/.test((event.target as Element).tagName)
      )
        return;
      event.preventDefault();
      search.current?.focus();
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, []);
  const title =
    detail.value === null
      ? 'Rollouts'
      : `Rollouts of ${detail.value.model} on ${detail.value.task}`;
  return (
    <>
      <PageHead
        title={title}
        above={
          <>
            <a href={href(['runs'])}>Runs</a> / <a href={href(['runs', run])}>{shortId(run)}</a>
          </>
        }
      />
      <search class="tools">
        <input
          ref={search}
          type="search"
          placeholder="search in prompts, replies and violations  ( / )"
          aria-label="search rollouts"
          defaultValue={text ?? ''}
          onInput={({ currentTarget: { value } }) => {
            clearTimeout(timer.current);
            timer.current = setTimeout(() => set({ text: value }), 250);
          }}
        />
        <Choice
          name="tier"
          all="all tiers"
          values={shown?.tiers ?? []}
          value={tier}
          onChange={(value) => set({ tier: value })}
        />
        <Choice
          name="iteration"
          all="all iterations"
          values={shown?.iterations ?? []}
          value={iteration}
          onChange={(value) => set({ iteration: value })}
        />
        <Choice
          name="verdict"
          all="all verdicts"
          values={['pass', 'fail', 'none']}
          value={verdict}
          onChange={(value) => set({ verdict: value })}
        />
        {problem !== undefined && (
          <button type="button" onClick={() => set({ problem: undefined })}>
            problem {shortId(problem)} ✕
          </button>
        )}
        <span class="muted" role="status">
          {shown === null ? '' : plural(shown.total, 'rollout')}
        </span>
      </search>
      {error !== null && <Fault error={error} />}
      {shown === null && error === null && <Waiting what="Reading the log" />}
      {shown !== null && shown.total === 0 && <Empty title="No rollout is like this." />}
      {shown !== null && shown.total > 0 && (
        <>
          <Table
            caption="rollouts"
            className="list rollouts"
            head={['Verdict', 'Tier', 'Iteration', 'Question and reply', 'Tokens']}
          >
            {shown.data.map((each) => (
              <tr key={each.id}>
                <td>
                  <VerdictBadge verdict={each.verdict} />
                </td>
                <td>{each.tier}</td>
                <td>{each.iteration}</td>
                <td class="main-cell">
                  <a
                    href={href(['runs', run, 'rollouts', String(each.id)], {
                      tier,
                      iteration,
                      verdict,
                      text,
                    })}
                  >
                    <small class="excerpt muted">{each.question}</small>
                    <span class="excerpt">{each.text === '' ? '(an empty reply)' : each.text}</span>
                    {each.violations.length > 0 && (
                      <small class="bad">{[...new Set(each.violations)].join(', ')}</small>
                    )}
                  </a>
                </td>
                <td>{whole(each.tokens)}</td>
              </tr>
            ))}
          </Table>
          {shown.total > LIMIT && (
            <div class="pager">
              <button
                type="button"
                disabled={offset === 0}
                onClick={() => set({ offset: String(Math.max(0, offset - LIMIT)) })}
              >
                ← earlier
              </button>
              <span class="muted">
                {offset + 1} to {Math.min(offset + LIMIT, shown.total)} of {whole(shown.total)}
              </span>
              <button
                type="button"
                disabled={offset + LIMIT >= shown.total}
                onClick={() => set({ offset: String(offset + LIMIT) })}
              >
                later →
              </button>
            </div>
          )}
        </>
      )}
      <DevProblems run={run} />
    </>
  );
}

/**
 * The problems that every iteration answers, so that what changed between two of them can be read.
 */
function DevProblems({ run }: { run: string }): JSX.Element | null {
  const { value: problems } = useLoaded(
    (signal) => get<DevProblem[]>(`/api/runs/${part(run)}/problems`, signal),
    run,
  );
  const [open, setOpen] = useState<string | null>(null);
  if (problems === null || problems.length === 0) return null;
  const iterations = problems[0]!.verdicts.map(({ iteration }) => iteration);
  return (
    <Panel
      title="Dev problems by iteration"
      note="Each iteration answers the same ones. Choose one to read what changed in its reply."
    >
      <Table
        caption="verdict of each dev problem in each iteration"
        className="list"
        head={['Problem', 'Tier', ...iterations.map((i) => `${i}`)]}
      >
        {problems.slice(0, 200).map(({ problem, tier, verdicts }) => (
          <Fragment key={problem}>
            <tr>
              <td>
                <button
                  type="button"
                  class="link"
                  aria-expanded={open === problem}
                  onClick={() => setOpen(open === problem ? null : problem)}
                >
                  <code>{shortId(problem)}</code>
                </button>
              </td>
              <td>{tier}</td>
              {verdicts.map(({ iteration, verdict }) => (
                <td key={iteration}>
                  <span
                    class={verdict === 'pass' ? 'good' : verdict === 'fail' ? 'bad' : 'fair'}
                    title={verdict}
                  >
                    <span aria-hidden="true">
                      {verdict === 'pass' ? '✓' : verdict === 'fail' ? '✗' : '?'}
                    </span>
                    <span class="hidden">{verdict}</span>
                  </span>
                </td>
              ))}
            </tr>
            {open === problem && (
              <tr>
                <td class="long" colSpan={2 + verdicts.length}>
                  <DevDiff run={run} problem={problem} />
                </td>
              </tr>
            )}
          </Fragment>
        ))}
      </Table>
    </Panel>
  );
}
