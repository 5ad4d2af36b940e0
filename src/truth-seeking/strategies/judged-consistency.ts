/**
 * Mutual predictability by a judge: whether an answer fits other answers of the same reasoner, from
 * 0 to 1.
 */
import { mean } from '../../statistics/index.js';
import type { InferOptions, Reasoner } from '../reasoner.js';
import { meanScore, SkipCount, type Score } from '../score.js';
import { askVerdict, BOUND_VERDICT, VERDICT_FORM } from './verdict.js';

export interface ConsistencyTrial {
  readonly question: string;
  readonly answer: string;
  readonly context: readonly { readonly question: string; readonly answer: string }[];
}

/**
 * Mean over the trials of each trajectory that came to a verdict; higher is better.
 * @throws IsoproError of the judge
 */
export async function judgedConsistency(
  judge: Reasoner,
  trials: ReadonlyMap<string, readonly ConsistencyTrial[]>,
  {
    isBound = false,
    ...options
  }: Pick<InferOptions, 'seed' | 'maxTokens' | 'signal'> & { readonly isBound?: boolean } = {},
): Promise<Score> {
  const [perTrajectory, skipped] = [new Map<string, number>(), new SkipCount()];
  for (const [trajectoryId, made] of trials) {
    const scores: number[] = [];
    for (const { question, answer, context } of made) {
      if (context.some((each) => each.answer === answer)) {
        skipped.add('the context holds the answer');
        continue;
      }
      const before = context
        .map((each) => `Question: ${each.question}\nAnswer: ${each.answer}`)
        .join('\n\n');
      const content =
        `Somebody answered:\n\n${before}\n\nThe same person then answered:\n\nQuestion: ${question}\nAnswer: ${answer}\n\nCan whoever ` +
        `holds the first answers hold the last one? 1: they support it; 0: they contradict it. ${VERDICT_FORM}`;
      const verdict = await askVerdict(judge, [{ role: 'user', content }], {
        ...options,
        temperature: 0,
        ...(isBound ? BOUND_VERDICT : {}),
      });
      if (verdict.ok) scores.push(verdict.score);
      else skipped.add(verdict.error);
    }
    if (scores.length > 0) perTrajectory.set(trajectoryId, mean(scores));
    else skipped.add('no trial counts');
  }
  return meanScore('higher', perTrajectory, skipped, { range: [0, 1] });
}
