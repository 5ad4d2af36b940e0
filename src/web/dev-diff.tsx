/** Replies to one dev problem in two iterations, and what changed. */
import { diffWordsWithSpace } from 'diff';
import type { FunctionComponent } from 'preact';
import { useState } from 'preact/hooks';
import { get, part, type Verdict } from './api.ts';
import { shortId } from './format.ts';
import { useLoaded } from './loading.ts';
import { Excerpt, Select, Show, VerdictBadge } from './ui.tsx';

interface Replies {
  readonly tier: string;
  readonly replies: readonly {
    readonly iteration: number;
    readonly verdict: Verdict | null;
    readonly finish: string;
    readonly text: string;
  }[];
}

/** Words that may differ; texts that differ more are shown as replaced, to bound the work. */
const MOST_EDITS = 3000;

export const Diff: FunctionComponent<{ before: string; after: string }> = ({ before, after }) => {
  const changes = diffWordsWithSpace(before, after, { maxEditLength: MOST_EDITS }) ?? [
    { removed: true, added: false, value: before },
    { removed: false, added: true, value: after },
  ];
  return (
    <Excerpt class="diff" label="what changed">
      {changes.map(({ removed, added, value }, i) => {
        const Mark = removed ? 'del' : added ? 'ins' : 'span';
        return <Mark key={i}>{value}</Mark>;
      })}
    </Excerpt>
  );
};

const Compared: FunctionComponent<Replies & { problem: string }> = ({ problem, tier, replies }) => {
  const [chosen, setChosen] = useState<readonly [string | null, string | null]>([null, null]);
  const at = (wanted: string | null, otherwise: number): Replies['replies'][number] =>
    replies.find(({ iteration }) => String(iteration) === wanted) ?? replies.at(otherwise)!;
  const [one, other] = [at(chosen[0], 0), at(chosen[1], -1)];
  const options = replies.map(
    ({ iteration }) => [String(iteration), `iteration ${iteration}`] as const,
  );
  const side = (label: string, reply: typeof one, pick: (iteration: string) => void) => (
    <>
      <Select label={label} value={String(reply.iteration)} options={options} onPick={pick} />
      <VerdictBadge verdict={reply.verdict} />
    </>
  );
  return (
    <div class="dev-diff">
      <h3>
        Problem {shortId(problem)}, {tier}
      </h3>
      <div class="tools">
        {side('the earlier iteration', one, (iteration) => setChosen([iteration, chosen[1]]))}
        <span aria-hidden="true">→</span>
        {side('the later iteration', other, (iteration) => setChosen([chosen[0], iteration]))}
      </div>
      {one.text === other.text && <p class="muted">Both replies are the same.</p>}
      <Diff before={one.text} after={other.text} />
    </div>
  );
};

export const DevDiff: FunctionComponent<{ run: string; problem: string }> = ({ run, problem }) => {
  const loaded = useLoaded(
    (signal) => get<Replies>(`/api/runs/${part(run)}/problems/${part(problem)}`, signal),
    `${run} ${problem}`,
  );
  return (
    <Show of={loaded} waiting="Reading the replies">
      {(found) =>
        found.replies.length === 0 ? (
          <p class="muted">The log holds no replies to this problem.</p>
        ) : (
          <Compared {...found} problem={problem} />
        )
      }
    </Show>
  );
};
