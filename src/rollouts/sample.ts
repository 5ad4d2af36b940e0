/** Problems to judged rollouts: one batched generation, verdicts while it goes on. */
import type { Adapter } from '../engine/adapter.js';
import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import type { GenerationProgress } from '../engine/addon.js';
import { IsoproError } from '../errors.js';
import type { ChatMessage, OpenTask, Problem, PromptStyle, Verdict } from '../tasks/task.js';
import type { PlannedProblem } from './plan.js';
import type { VerdictPool } from './verdict-pool.js';

export interface JudgedRollout extends Rollout {
  readonly verdict: Verdict;
  /** Surface form of the answer; null where none was read. */
  readonly form: string | null;
}

/** All samples of one problem, by sample index. */
export interface RolloutGroup {
  readonly problem: Problem;
  readonly promptIds: Int32Array;
  readonly rollouts: readonly JudgedRollout[];
}

export interface SampleOptions {
  readonly model: Model;
  readonly task: OpenTask;
  readonly verdicts: VerdictPool;
  readonly plan: readonly PlannedProblem[];
  readonly style: PromptStyle;
  readonly temperature: number;
  readonly topP: number;
  readonly maxTokens: number;
  readonly maxSequences: number;
  /** The model's own where absent. */
  readonly adapter?: Adapter | null;
  /** Other messages than the task's own prompt (few-shot, dialogues). */
  readonly prompt?: (problem: Problem) => Promise<readonly ChatMessage[]>;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: GenerationProgress) => void;
  /** As each finishes, in the order of finishing. */
  readonly onRollout?: (rollout: Rollout) => void;
  /** After each verdict. */
  readonly onVerdict?: (problem: Problem, verdict: Verdict) => void;
}

export interface SampledGroups {
  readonly groups: readonly RolloutGroup[];
  readonly promptTokens: number;
  readonly sampledTokens: number;
}

/**
 * Groups in the order of the plan. Problems whose prompt and reply cannot fit the context are refused by the engine.
 * @throws IsoproError as Model.generate; ABORTED
 */
export async function sampleRollouts(options: SampleOptions): Promise<SampledGroups> {
  const {
    model,
    task,
    verdicts,
    plan,
    style,
    temperature,
    topP,
    maxTokens,
    maxSequences,
    adapter,
    signal,
    onProgress,
    onRollout,
    onVerdict,
  } = options;
  const promptOf = options.prompt ?? ((problem: Problem) => task.prompt(problem, style));
  const prompts: { tokenIds: Int32Array; seeds: readonly bigint[] }[] = [];
  for (const { problem, seeds } of plan) prompts.push({ tokenIds: model.renderChat(await promptOf(problem)).tokenIds, seeds });

  const judged: JudgedRollout[][] = plan.map(() => []);
  const pending: Promise<void>[] = [];
  const generation = model.generate({
    prompts,
    sampling: { temperature, topP },
    maxTokens,
    maxSequences,
    ...(adapter === undefined ? {} : { adapter }),
    ...(signal === undefined ? {} : { signal }),
    ...(onProgress === undefined ? {} : { onProgress }),
  });
  let step = await generation.next();
  for (; step.done !== true; step = await generation.next()) {
    const rollout = step.value;
    if (rollout.finish === 'aborted') continue;
    onRollout?.(rollout);
    const { problem } = plan[rollout.promptIndex]!;
    pending.push(
      verdicts.judge(problem, rollout.text, rollout.finish).then(({ verdict, form }) => {
        judged[rollout.promptIndex]![rollout.sampleIndex] = { ...rollout, verdict, form };
        onVerdict?.(problem, verdict);
      }),
    );
  }
  await Promise.all(pending);
  if (signal?.aborted === true) throw new IsoproError('ABORTED', 'sampling was cancelled');
  const { promptTokens, sampledTokens } = step.value;
  return {
    groups: plan.map(({ problem }, index) => ({ problem, promptIds: prompts[index]!.tokenIds, rollouts: judged[index]! })),
    promptTokens,
    sampledTokens,
  };
}
