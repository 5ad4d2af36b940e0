import { Fragment, type FunctionComponent, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import {
  get,
  part,
  query,
  type DevProblem,
  type RolloutLine,
  type RolloutPage as Found,
  type RunDetail,
} from '../api.ts';
import { DevDiff } from '../dev-diff.tsx';
import { plural, shortId, whole } from '../format.ts';
import { useLoaded } from '../loading.ts';
import { go, href, useKeys } from '../router.ts';
import {
  Empty,
  Fault,
  List,
  PageHead,
  Panel,
  Select,
  Table,
  VerdictBadge,
  Waiting,
} from '../ui.tsx';

const LIMIT = 50;

interface Params {
  readonly [name: string]: string | undefined;
}

const RolloutLink: FunctionComponent<RolloutLine & { to: string }> = ({
  to,
  question,
  text,
  violations,
}) => (
  <a href={to}>
    <small class="excerpt muted">{question}</small>
    <span class="excerpt">{text === '' ? '(an empty reply)' : text}</span>
    {violations.length > 0 && <small class="bad">{[...new Set(violations)].join(', ')}</small>}
  </a>
);

const Pager: FunctionComponent<{
  offset: number;
  total: number;
  onMove: (offset: number) => void;
}> = ({ offset, total, onMove }) => (
  <div class="pager">
    <button
      type="button"
      disabled={offset === 0}
      onClick={() => onMove(Math.max(0, offset - LIMIT))}
    >
      ← earlier
    </button>
    <span class="muted">
      {offset + 1} to {Math.min(offset + LIMIT, total)} of {whole(total)}
    </span>
    <button type="button" disabled={offset + LIMIT >= total} onClick={() => onMove(offset + LIMIT)}>
      later →
    </button>
  </div>
);

export const RolloutsPage: FunctionComponent<{ run: string; params: Params }> = ({
  run,
  params,
}) => {
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
  const detail = useLoaded((signal) => get<RunDetail>(`/api/runs/${part(run)}`, signal), run).value;
  const set = (changed: Params): void =>
    go(['runs', run, 'rollouts'], { ...params, offset: undefined, ...changed }, true);
  const search = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useKeys({ '/': () => search.current?.focus() });
  const filter = (
    name: 'tier' | 'iteration' | 'verdict',
    all: string,
    values: readonly (string | number)[],
    of = '',
  ): JSX.Element => {
    const chosen = params[name];
    const choices = [...new Set([...values.map(String), ...(chosen ? [chosen] : [])])];
    return (
      <Select
        label={name}
        value={chosen}
        options={[['', all], ...choices.map((each) => [each, `${of}${each}`] as const)]}
        onPick={(value) => set({ [name]: value })}
      />
    );
  };
  return (
    <>
      <PageHead
        title={detail === null ? 'Rollouts' : `Rollouts of ${detail.model} on ${detail.task}`}
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
        {filter('tier', 'all tiers', shown?.tiers ?? [])}
        {filter('iteration', 'all iterations', shown?.iterations ?? [], 'iteration ')}
        {filter('verdict', 'all verdicts', ['pass', 'fail', 'none'])}
        {problem !== undefined && (
          <button type="button" onClick={() => set({ problem: undefined })}>
            problem {shortId(problem)} ✕
          </button>
        )}
        <span class="muted" role="status">
          {shown === null ? '' : plural(shown.total, 'rollout')}
        </span>
      </search>
      <Fault error={error} />
      {shown === null && error === null && <Waiting what="Reading the log" />}
      {shown !== null && shown.total === 0 && <Empty title="No rollout matches." />}
      {shown !== null && shown.total > 0 && (
        <>
          <List
            caption="rollouts"
            class="list rollouts"
            rows={shown.data}
            by="id"
            columns={[
              ['Verdict', (each) => <VerdictBadge verdict={each.verdict} />],
              ['Tier', (each) => each.tier],
              ['Iteration', (each) => each.iteration],
              [
                'Question and reply',
                (line) => (
                  <RolloutLink
                    {...line}
                    to={href(['runs', run, 'rollouts', `${line.id}`], {
                      tier,
                      iteration,
                      verdict,
                      text,
                    })}
                  />
                ),
                'main-cell',
              ],
              ['Tokens', (each) => whole(each.tokens)],
            ]}
          />
          {shown.total > LIMIT && (
            <Pager
              offset={offset}
              total={shown.total}
              onMove={(to) => set({ offset: String(to) })}
            />
          )}
        </>
      )}
      <DevProblems run={run} />
    </>
  );
};

/** Dev problems, which every iteration answers, with what changed in the replies. */
const DevProblems: FunctionComponent<{ run: string }> = ({ run }) => {
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
      note="Every iteration answers the same problems. Choose one to see what changed in its reply."
    >
      <Table
        caption="verdict of each dev problem in each iteration"
        class="list"
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
                  <VerdictBadge verdict={verdict} mark />
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
};
