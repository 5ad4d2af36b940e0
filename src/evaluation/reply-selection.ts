/** Chooses one of several replies to the same question without the verifier. */
import type { EpisodeEnd, OpenTask, Problem } from '../tasks/task.js';

/** Returns the mean log-probability per token of a reply, in nats. */
export const meanLogprob = ({ logprobs }: { readonly logprobs: Float32Array }): number =>
  logprobs.length === 0
    ? -Infinity
    : logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length;

/** Returns the complete reply with the highest likelihood; the first of equals. */
export function mostLikely<R extends { readonly finish: EpisodeEnd }>(
  replies: readonly R[],
  likelihoodOf: (reply: R) => number,
): R {
  const complete = replies.filter(({ finish }) => finish === 'stop');
  return (complete.length > 0 ? complete : replies).reduce((best, each) =>
    likelihoodOf(each) > likelihoodOf(best) ? each : best,
  );
}

/** Returns the first reply with the most common answer; the first reply if none can be read. */
export async function commonest<R extends { readonly finish: EpisodeEnd; readonly text: string }>(
  problem: Problem,
  replies: readonly R[],
  readAnswer: OpenTask['readAnswer'],
): Promise<R> {
  const answers = new Map<string, R[]>();
  for (const reply of replies) {
    const key = reply.finish === 'stop' ? await readAnswer(problem, reply.text) : null;
    if (key !== null) answers.set(key, [...(answers.get(key) ?? []), reply]);
  }
  const alike = [...answers.values()];
  return alike.length === 0
    ? replies[0]!
    : alike.reduce((best, each) => (each.length > best.length ? each : best))[0]!;
}
