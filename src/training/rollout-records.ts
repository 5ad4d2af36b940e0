/** Log records of an iteration's judged rollouts. */
import { algorithmOf } from '../algorithms/index.js';
import { replyTokens } from '../fine-tuning/training-examples.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import type { JudgedRollout, RolloutGroup } from '../rollouts/sample.js';
import type { ReferenceRecord, RolloutsRecord, TurnRecord } from '../run-folder/rollout-records.js';
import { figuresOf } from '../statistics/index.js';
import type { OpenTask, Problem } from '../tasks/task.js';
import type { RunSettings } from './settings.js';

/** Limits of the verifier's details that are kept for readers of the report. */
const DETAILS = 8;
const DETAIL_LENGTH = 300;
const RESULT_LENGTH = 1500;

const shortened = (text: string, length: number): string => text.slice(0, length).toWellFormed();

export interface AdmissionOptions {
  readonly task: OpenTask;
  readonly model: Pick<Model, 'endOfAnswer' | 'tokenize'>;
  readonly iteration: number;
  readonly runSeed: bigint;
  readonly settings: RunSettings;
}

/** The turns of an episode before its last reply, where there are any. */
export function turnRecords({ earlier, episode }: Pick<JudgedRollout, 'earlier' | 'episode'>): {
  turns?: TurnRecord[];
} {
  if (earlier.length === 0) return {};
  const turns = earlier.map(({ text, said }, i) => ({
    tokens: episode[2 * i + 1]!.ids.length,
    text,
    said,
    saidIds: [...episode[2 * i + 2]!.ids],
  }));
  return { turns };
}

/**
 * The task's own reply; null where it knows none in time, or none that the model is allowed to say.
 * @throws IsoproError TASK_INVALID where its own verifier refuses it
 */
async function referenceRecord(
  problem: Problem,
  { task, model, iteration, settings: { sampling } }: AdmissionOptions,
): Promise<ReferenceRecord | null> {
  const text = (await task.referenceReply(problem, sampling.style))?.toWellFormed();
  if (text === undefined) return null;
  const tokenIds = [...replyTokens(model, text)];
  if (tokenIds.length > sampling.maxTokens) return null;
  const { verdict } = await task.judge(problem, text, 'stop');
  if (verdict.kind === 'fail')
    throw new IsoproError(
      'TASK_INVALID',
      `${task.id}: the reference reply to problem ${problem.id} fails: ${JSON.stringify(text)}`,
    );
  return verdict.kind === 'none'
    ? null
    : { kind: 'reference', iteration, problemId: problem.id, tier: problem.tier, tokenIds, text };
}

/**
 * The groups of an iteration as records: each problem, then its samples with what becomes of them.
 */
export async function rolloutRecords(
  groups: readonly RolloutGroup[],
  options: AdmissionOptions,
): Promise<RolloutsRecord[]> {
  const { task, iteration, runSeed, settings } = options;
  const algorithm = algorithmOf(settings);
  const contradictory = new Set<JudgedRollout>();
  for (const { problem, rollouts } of groups) {
    for (const rollout of rollouts)
      if (
        algorithm.readsReasoning(settings, rollout) &&
        (await task.checkTrace(problem, rollout.text)).length > 0
      )
        contradictory.add(rollout);
  }
  const fateOf = algorithm.admit(
    groups.map(({ problem: { tier }, rollouts }) => ({ tier, rollouts })),
    { settings, iteration, runSeed, contradicts: (rollout) => contradictory.has(rollout) },
  );
  const records: RolloutsRecord[] = [];
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
      const { sampleIndex: sample, seed, tokenIds, logprobs, verdict, form } = rollout;
      const { kind, violations, reason, results } = verdict;
      records.push({
        kind: 'rollout',
        iteration,
        problemId,
        tier,
        sample,
        seed: seed.toString(),
        tokenIds: [...tokenIds],
        ...turnRecords(rollout),
        ...given(rollout, 'text', 'finish', 'adapterId'),
        meanLogprob:
          logprobs.length === 0
            ? null
            : logprobs.reduce((sum, value) => sum + value, 0) / logprobs.length,
        form,
        verdict: {
          kind,
          violations: violations.map(({ category }) => category),
          details: violations
            .slice(0, DETAILS)
            .map(({ detail }) => shortened(detail, DETAIL_LENGTH)),
          ...given({ reason: reason?.toWellFormed() }),
          ...(results !== undefined && {
            results: {
              found: shortened(results.found, RESULT_LENGTH),
              expected: shortened(results.expected, RESULT_LENGTH),
            },
          }),
          ...figuresOf(verdict),
        },
        ...fateOf.get(rollout)!,
      });
    }
    const reference =
      settings.buffer.accept === 'references' ? await referenceRecord(problem, options) : null;
    if (reference !== null) records.push(reference);
  }
  return records;
}
