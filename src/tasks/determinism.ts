/**
 * Whether a task of one's own gives the same for the same arguments. A judge generates its problems
 * and verifies its replies anew: where they come out otherwise, an honest run cannot be told from a
 * forged one. So it is found before anything is trained.
 */
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { AHEAD_SECONDS } from './clock-shift.js';
import { openTask } from './open-task.js';
import type { FinishReason, Judgement, OpenTask, Problem, PromptStyle, Verdict } from './task.js';
import { seedOf } from './seed.js';

/** Problems of each tier that are tried. */
const TRIALS = 3;

const refuse = (task: OpenTask, member: string, found: string): never => {
  const where = task.source.kind === 'file' ? task.source.path : task.id;
  throw new IsoproError(
    'TASK_INVALID',
    `${where}: member "${member}" is not deterministic: ${found}. Its result may depend only on its arguments`,
  );
};

/**
 * One after another, the last first where the order is `backwards`: what depends on the calls
 * before shows.
 */
async function each<T, R>(
  items: readonly T[],
  call: (item: T) => Promise<R>,
  backwards = false,
): Promise<R[]> {
  const results: R[] = [];
  for (const item of backwards ? [...items].reverse() : items) results.push(await call(item));
  return backwards ? results.reverse() : results;
}

/** Names of the members in which two problems differ. */
function differences(one: Problem, other: Problem): string {
  const [a, b] = [one, other].map(
    (problem) =>
      new Map(Object.entries(problem).map(([name, value]) => [name, JSON.stringify(value)])),
  );
  return [...new Set([...a!.keys(), ...b!.keys()])]
    .filter((name) => name !== 'id' && a!.get(name) !== b!.get(name))
    .join(', ');
}

/** Compares two verdicts; `none` agrees with any, since the verifier may only have been slow. */
const differ = (one: Verdict, other: Verdict): boolean =>
  one.kind !== 'none' && other.kind !== 'none' && shown(one) !== shown(other);

/** Kind and figures, such as `pass` or `fail with {"score":0.5}`. */
function shown({ kind, score, forecast }: Verdict): string {
  const figures = JSON.stringify({ score, forecast });
  return figures === '{}' ? kind : `${kind} with ${figures}`;
}

/**
 * Tries the generator, prompts, policies and verifier of a task file twice: here, and in a thread
 * that loads the file again with a clock that is ahead.
 * @throws IsoproError TASK_INVALID naming the member that gave two results, TASK_TIMEOUT, ABORTED
 */
export async function refuseNondeterminism(
  task: OpenTask,
  style: PromptStyle,
  signal?: AbortSignal,
): Promise<void> {
  if (task.source.kind !== 'file') return;
  const cancelling = given({ signal });
  await using anew = await openTask(task.source.path, {
    ...task.source.options,
    clockAhead: AHEAD_SECONDS,
  });
  const places = task.tiers.flatMap(({ id: tier }) =>
    Array.from({ length: TRIALS }, (_, sample) => ({
      tier,
      seed: seedOf(0n, 'determinism', tier, sample),
    })),
  );
  const problems = await each(places, ({ tier, seed }) => task.generate(tier, seed));
  const again = await each(places, ({ tier, seed }) => anew.generate(tier, seed), true);
  for (const [i, { tier, seed }] of places.entries()) {
    const differing = differences(problems[i]!, again[i]!);
    if (differing !== '')
      refuse(
        task,
        'generate',
        `tier ${JSON.stringify(tier)} and seed ${seed} gave two problems, which differ in ${differing}; the second came from ` +
          'another thread with a clock 400 days ahead: look for Math.random, the time, or state that is ' +
          'kept between calls',
      );
  }
  const prompts = await each(problems, (problem) => task.prompt(problem, style));
  const promptsAgain = await each(problems, (problem) => anew.prompt(problem, style), true);
  for (const [i, prompt] of prompts.entries()) {
    if (JSON.stringify(prompt) !== JSON.stringify(promptsAgain[i]))
      refuse(task, 'prompt', `problem ${problems[i]!.id} got two different prompts`);
  }
  const answers = problems.flatMap((problem) =>
    task.policies.map((policy) => ({ problem, policy })),
  );
  const verdicts = await each(answers, ({ policy, problem }) =>
    task.applyPolicy(policy, problem, cancelling),
  );
  const replies = task.exploits.map(({ problem, text, finish }) => ({ problem, text, finish }));
  for (const problem of task.hasReferences ? problems : []) {
    const text = await task.referenceReply(problem, style);
    if (text !== null) replies.push({ problem, text, finish: 'stop' });
  }
  const judged = await each(replies, async (reply) => ({
    ...reply,
    judgement: await task.judge(reply.problem, reply.text, reply.finish, cancelling),
  }));
  // in the same thread too, where what a verifier keeps from call to call shows whatever was judged
  // before
  for (const place of [task, anew]) {
    const again = await each(
      answers,
      ({ policy, problem }) => place.applyPolicy(policy, problem, cancelling),
      true,
    );
    for (const [i, { problem, policy }] of answers.entries()) {
      if (!differ(verdicts[i]!, again[i]!)) continue;
      refuse(
        task,
        'verify',
        `the answer of the policy ${policy} to problem ${problem.id} got the verdicts ${shown(verdicts[i]!)} and ${shown(again[i]!)}`,
      );
    }
    await refuseUnsteadyVerdicts(place, judged, signal);
  }
}

export interface JudgedText {
  readonly problem: Problem;
  readonly text: string;
  readonly finish: FinishReason;
  readonly judgement: Judgement;
}

/**
 * What a judge holds a logged verdict against, beside its kind: how the answer stood, and the
 * violations.
 */
const detailOf = ({ form, verdict: { violations } }: Judgement): string =>
  JSON.stringify([form, violations.map(({ category }) => category)]);

/**
 * Judges replies of a task file once more, the last first, and checks the reasoning of those that
 * pass.
 * @throws IsoproError TASK_INVALID if a verdict differs, TASK_TIMEOUT, ABORTED
 */
export async function refuseUnsteadyVerdicts(
  task: OpenTask,
  replies: readonly JudgedText[],
  signal?: AbortSignal,
): Promise<void> {
  if (task.source.kind !== 'file') return;
  const cancelling = given({ signal });
  const again = await each(
    replies,
    ({ problem, text, finish }) => task.judge(problem, text, finish, cancelling),
    true,
  );
  for (const [i, { problem, judgement }] of replies.entries()) {
    const [{ verdict: one }, { verdict: other }] = [judgement, again[i]!];
    if (one.kind === 'none' || other.kind === 'none') continue;
    if (differ(one, other))
      refuse(
        task,
        'verify',
        `one reply to problem ${problem.id} got the verdicts ${shown(one)} and ${shown(other)}`,
      );
    const [detail, otherDetail] = [detailOf(judgement), detailOf(again[i]!)];
    if (detail !== otherDetail)
      refuse(
        task,
        'verify',
        `one reply to problem ${problem.id} was judged twice with different forms or violations, ${detail} and ${otherDetail}`,
      );
  }
  const passing = replies.filter(({ judgement }) => judgement.verdict.kind === 'pass');
  const contradicts = async ({ problem, text }: JudgedText): Promise<boolean> =>
    (await task.checkTrace(problem, text)).length > 0;
  const contradicting = await each(passing, contradicts);
  const contradictingAgain = await each(passing, contradicts, true);
  for (const [i, { problem }] of passing.entries()) {
    if (contradicting[i] !== contradictingAgain[i])
      refuse(
        task,
        'checkTrace',
        `for one reply to problem ${problem.id}, one call found that the reasoning contradicts the answer and another call did not`,
      );
  }
}
