/** Replies to one dev problem in two iterations, and what changed. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, part, type Verdict } from './api.ts';
import { diffWords } from './diff.ts';
import { shortId } from './format.ts';
import { useLoaded } from './loading.ts';
import { Excerpt, Fault, VerdictBadge, Waiting } from './ui.tsx';

interface Replies {
  readonly tier: string;
  readonly replies: readonly {
    readonly iteration: number;
    readonly verdict: Verdict | null;
    readonly finish: string;
    readonly text: string;
  }[];
}

export const Diff = ({ before, after }: { before: string; after: string }): JSX.Element => (
  <Excerpt class="diff" label="what changed">
    {diffWords(before, after).map(({ kind, text }, i) =>
      kind === 'removed' ? (
        <del key={i}>{text}</del>
      ) : kind === 'added' ? (
        <ins key={i}>{text}</ins>
      ) : (
        <span key={i}>{text}</span>
      ),
    )}
  </Excerpt>
);

export function DevDiff({ run, problem }: { run: string; problem: string }): JSX.Element {
  const { value, error } = useLoaded(
    (signal) => get<Replies>(`/api/runs/${part(run)}/problems/${part(problem)}`, signal),
    `${run} ${problem}`,
  );
  const [chosen, setChosen] = useState<readonly [number | null, number | null]>([null, null]);
  if (error !== null) return <Fault error={error} />;
  if (value === null) return <Waiting what="Reading the replies" />;
  const { replies } = value;
  if (replies.length === 0) return <p class="muted">The log holds no replies to it.</p>;
  const at = (wanted: number | null, otherwise: number): Replies['replies'][number] =>
    replies.find(({ iteration }) => iteration === wanted) ?? replies.at(otherwise)!;
  const [one, other] = [at(chosen[0], 0), at(chosen[1], -1)];
  const select = (label: string, value_: number, set: (iteration: number) => void): JSX.Element => (
    <select
      aria-label={label}
      value={value_}
      onChange={(event) => set(Number(event.currentTarget.value))}
    >
      {replies.map(({ iteration }) => (
        <option key={iteration} value={iteration}>
          iteration {iteration}
        </option>
      ))}
    </select>
  );
  return (
    <div class="dev-diff">
      <h3>
        Problem {shortId(problem)}, {value.tier}
      </h3>
      <div class="tools">
        {select('the earlier iteration', one.iteration, (iteration) =>
          setChosen([iteration, other.iteration]),
        )}
        <VerdictBadge verdict={one.verdict} />
        <span aria-hidden="true">→</span>
        {select('the later iteration', other.iteration, (iteration) =>
          setChosen([one.iteration, iteration]),
        )}
        <VerdictBadge verdict={other.verdict} />
      </div>
      {one.text === other.text ? <p class="muted">Both replies are the same.</p> : null}
      <Diff before={one.text} after={other.text} />
    </div>
  );
}
