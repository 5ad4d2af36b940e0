/** What becomes of an iteration's judged rollouts, as the log has it. */
import { algorithmOf } from '../algorithms/index.js';
import type { JudgedRollout, RolloutGroup } from '../rollouts/sample.js';
import type { ProblemRecord, RolloutRecord, TurnRecord } from '../run-folder/rollout-records.js';
import { figuresOf } from '../statistics/index.js';
import type { OpenTask } from '../tasks/task.js';
import type { RunSettings } from './settings.js';

/** Of what a verifier says about one reply, so many sentences of so many characters are kept for readers of the report. */
const DETAILS = 8;
const DETAIL_LENGTH = 300;

export interface AdmissionOptions {
  readonly task: OpenTask;
  readonly iteration: number;
  readonly runSeed: bigint;
  readonly settings: RunSettings;
}

/** The turns of an episode before its last reply, where there are any. */
export function turnRecords({ earlier, episode }: Pick<JudgedRollout, 'earlier' | 'episode'>): { turns?: TurnRecord[] } {
  if (earlier.length === 0) return {};
  const turns = earlier.map(({ text, said }, i) => ({
    tokens: episode[2 * i + 1]!.ids.length,
    text,
    said,
    saidIds: [...episode[2 * i + 2]!.ids],
  }));
  return { turns };
}

/** The groups of an iteration as records: each problem, then its samples with what becomes of them. */
export async function rolloutRecords(
  groups: readonly RolloutGroup[],
  options: AdmissionOptions,
): Promise<(ProblemRecord | RolloutRecord)[]> {
  const { task, iteration, runSeed, settings } = options;
  const algorithm = algorithmOf(settings);
  const contradictory = new Set<JudgedRollout>();
  for (const { problem, rollouts } of groups) {
    for (const rollout of rollouts)
      if (algorithm.readsReasoning(settings, rollout) && (await task.checkTrace(problem, rollout.text)).length > 0)
        contradictory.add(rollout);
  }
  const fateOf = algorithm.admit(
    groups.map(({ problem: { tier }, rollouts }) => ({ tier, rollouts })),
    { settings, iteration, runSeed, contradicts: (rollout) => contradictory.has(rollout) },
  );
  const records: (ProblemRecord | RolloutRecord)[] = [];
  for (const { problem, rollouts } of groups) {
    const { id: problemId, tier } = problem;
    const prompt = (await task.prompt(problem, settings.sampling.style))
      .map(({ content }) => content)
      .join('\n\n')
      .toWellFormed();
    records.push({
      kind: 'problem',
      iteration,
      problemId,
      tier,
      problem: problem as unknown as Record<string, unknown>,
      prompt,
      promptIds: [...rollouts[0]!.episode[0]!.ids],
    });
    for (const rollout of rollouts) {
      const { sampleIndex: sample, seed, tokenIds, text, finish, adapterId, logprobs, verdict, form } = rollout;
      const { kind, violations, reason } = verdict;
      records.push({
        kind: 'rollout',
        iteration,
        problemId,
        tier,
        sample,
        seed: seed.toString(),
        tokenIds: [...tokenIds],
        ...turnRecords(rollout),
        text,
        finish,
        adapterId,
        meanLogprob: logprobs.length === 0 ? null : logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length,
        form,
        verdict: {
          kind,
          violations: violations.map(({ category }) => category),
          details: violations.slice(0, DETAILS).map(({ detail }) => detail.slice(0, DETAIL_LENGTH).toWellFormed()),
          ...(reason === undefined ? {} : { reason: reason.toWellFormed() }),
          ...figuresOf(verdict),
        },
        ...fateOf.get(rollout)!,
      });
    }
  }
  return records;
}
