/** One of several replies to the same question, chosen without the verifier. */
import type { FinishReason, OpenTask, Problem } from '../tasks/task.js';

/** Per token of a reply, nats. */
export const meanLogprob = ({ logprobs }: { readonly logprobs: Float32Array }): number =>
  logprobs.length === 0
    ? -Infinity
    : logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length;

/** The complete reply that is likeliest by the token; the first of equals. */
export function mostLikely<R extends { readonly finish: FinishReason }>(
  replies: readonly R[],
  likelihoodOf: (reply: R) => number,
): R {
  const complete = replies.filter(({ finish }) => finish === 'stop');
  return (complete.length > 0 ? complete : replies).reduce((best, each) =>
    likelihoodOf(each) > likelihoodOf(best) ? each : best,
  );
}

/** The first reply with the commonest answer; the first reply where none can be read. */
export async function commonest<R extends { readonly finish: FinishReason; readonly text: string }>(
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
