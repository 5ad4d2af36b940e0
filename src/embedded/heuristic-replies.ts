/**
 * What the embedded model's replies say about the heuristic that they follow: what was learned can
 * then be told plainly.
 */
import { localBackend } from '../backends/local.js';
import type { Model } from '../engine/model.js';
import { given } from '../given.js';
import { answer } from '../rollouts/answer.js';
import { beginning, HEURISTIC_NAMES, namedHeuristic, type HeuristicName } from './heuristics.js';
import { summarise, type Summary } from '../statistics/index.js';
import type { OpenTask, Problem, VerdictKind } from '../tasks/task.js';
import type { RunSettings } from '../training/settings.js';

export interface HeuristicReport {
  /**
   * Part of the greedy test replies that name each heuristic, `none` those that name no known one.
   */
  readonly shares: Readonly<Record<string, number>>;
  readonly test: Summary;
}

export interface ForcedPrefix {
  /** Chosen on the dev problems. */
  readonly heuristic: HeuristicName;
  readonly dev: Readonly<Record<HeuristicName, number | null>>;
  readonly test: Summary;
}

interface Asking {
  readonly model: Model;
  readonly task: OpenTask;
  readonly settings: Pick<RunSettings, 'model' | 'sampling'>;
  /** File of an adapter; null: the bare base. */
  readonly adapter: string | null;
  readonly signal?: AbortSignal;
}

/**
 * Greedy replies to every problem, each beginning with `prefix`: its tokens must be those with
 * which the model's own replies begin.
 */
export async function replies(
  { model, task, settings, adapter: file, signal }: Asking,
  problems: readonly Problem[],
  prefix: string,
): Promise<{ text: string; kind: VerdictKind }[]> {
  const adapter = file === null ? null : await model.loadAdapter(file);
  try {
    const answers: { text: string; kind: VerdictKind }[] = [];
    await answer(
      {
        backend: localBackend(model),
        task,
        plan: problems.map((problem) => ({ problem, seeds: [0n] })),
        prompt: (problem) => task.prompt(problem, settings.sampling.style),
        opening: prefix,
        temperature: 0,
        maxTokens: settings.sampling.maxTokens,
        maxSequences: settings.model.maxSequences,
        adapter,
        ...given({ signal }),
      },
      ({ rollout: { promptIndex, text }, judgement }) => {
        answers[promptIndex] = { text, kind: judgement.verdict.kind };
      },
    );
    return answers;
  } finally {
    adapter?.dispose();
  }
}

const summaryOf = (
  task: OpenTask,
  problems: readonly Problem[],
  answers: readonly { readonly kind: VerdictKind }[],
): Summary =>
  summarise(
    problems.map(({ tier }, i) => ({ tier, kind: answers[i]!.kind })),
    task.tiers,
    { seed: 1n },
  );

/** Which heuristics the greedy replies name. */
export async function heuristicShares(
  asking: Asking,
  problems: readonly Problem[],
): Promise<HeuristicReport> {
  const answers = await replies(asking, problems, '');
  const counts: Record<string, number> = Object.fromEntries(
    [...HEURISTIC_NAMES, 'none'].map((name) => [name, 0]),
  );
  for (const { text } of answers) counts[namedHeuristic(text) ?? 'none']!++;
  return {
    shares: Object.fromEntries(
      Object.entries(counts).map(([name, count]) => [name, count / answers.length]),
    ),
    test: summaryOf(asking.task, problems, answers),
  };
}

/**
 * The base model with the one heuristic forced on it that does best on the dev problems: what
 * choosing one name for all problems is worth.
 */
export async function forcedPrefix(
  asking: Asking,
  dev: readonly Problem[],
  test: readonly Problem[],
): Promise<ForcedPrefix> {
  const means = {} as Record<HeuristicName, number | null>;
  for (const name of HEURISTIC_NAMES)
    means[name] = summaryOf(asking.task, dev, await replies(asking, dev, beginning(name))).mean;
  const heuristic = HEURISTIC_NAMES.reduce((best, name) =>
    (means[name] ?? -1) > (means[best] ?? -1) ? name : best,
  );
  return {
    heuristic,
    dev: means,
    test: summaryOf(asking.task, test, await replies(asking, test, beginning(heuristic))),
  };
}
