/** The problems of one iteration, each with the seeds of its samples. */
import { deriveSeed, Random } from '../random.js';
import { SET_SIZE } from '../tasks/frozen-sets.js';
import type { OpenTask, Problem } from '../tasks/task.js';

export interface PlannedProblem {
  readonly problem: Problem;
  readonly seeds: readonly bigint[];
}

export interface PlanOptions {
  readonly task: Pick<OpenTask, 'generate' | 'rows'>;
  readonly runSeed: bigint;
  readonly iteration: number;
  /** Problems by tier. */
  readonly counts: ReadonlyMap<string, number>;
  readonly samples: number;
  /**
   * What is not drawn, such as every evaluation set. `find` says null of a problem that is none of
   * it.
   */
  readonly excluded?: { find(problem: Problem): Promise<string | null> };
}

const MAX_DRAWS = 100;
/** A problem without room in the context has another draw, up to so many times the draws. */
const MOST_TIMES = 10;

/**
 * Draws the problems tier by tier and skips those that are excluded or were drawn already in this
 * iteration. Rows are drawn without replacement until none is left, in an order that the seed of
 * the first draw gives. Otherwise the seed of each draw comes from (run seed, 'problem', iteration,
 * tier, number of the draw), and the number of draws is limited, so that a task with few problems
 * ends.
 */
export async function planRollouts({
  task,
  runSeed,
  iteration,
  counts,
  samples,
  excluded,
}: PlanOptions): Promise<PlannedProblem[]> {
  const planned: PlannedProblem[] = [];
  for (const [tier, wanted] of counts) {
    const seedOf = (draw: number): bigint =>
      deriveSeed({ runSeed, purpose: 'problem', iteration, problemId: tier, sample: draw });
    const rows =
      task.rows === undefined ? null : new Random(seedOf(0)).shuffle(task.rows.trained(tier));
    let draws = rows?.length ?? wanted + MAX_DRAWS;
    const most = rows?.length ?? MOST_TIMES * draws;
    const seen = new Set<string>();
    for (let draw = 0; seen.size < wanted && draw < draws; draw++) {
      const problem = rows?.[draw] ?? (await task.generate(tier, seedOf(draw)));
      if (seen.has(problem.id)) continue;
      const why = (await excluded?.find(problem)) ?? null;
      if (why === 'context' && draws < most) draws++;
      if (why !== null) continue;
      seen.add(problem.id);
      const seeds = Array.from({ length: samples }, (_, sample) =>
        deriveSeed({ runSeed, purpose: 'rollout', iteration, problemId: problem.id, sample }),
      );
      planned.push({ problem, seeds });
    }
  }
  return planned;
}

/**
 * Returns a sentence for each requested tier without problems to train on.
 * @param tooLong tiers with problems that do not fit in the context
 */
export function leftOut(
  counts: PlanOptions['counts'],
  plan: readonly PlannedProblem[],
  tooLong: ReadonlyMap<string, unknown> = new Map(),
): string[] {
  const drawn = new Set(plan.map(({ problem }) => problem.tier));
  const kept = SET_SIZE.dev + SET_SIZE.test;
  return [...counts].flatMap(([tier, wanted]) =>
    wanted === 0 || drawn.has(tier)
      ? []
      : [
          `tier ${tier} is not trained on: the evaluation sets take ${kept} different problems of each tier, and it has no others` +
            (tooLong.has(tier) ? ' that fit in the context' : ''),
        ],
  );
}
