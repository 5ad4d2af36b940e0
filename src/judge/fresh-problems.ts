import { localBackend } from '../backends/local.js';
import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import { wholeSets } from '../evaluation/evaluation-set.js';
import { evaluateGreedy } from '../evaluation/greedy.js';
import { HeldOutProblems } from '../evaluation/held-out-problems.js';
import { given } from '../given.js';
import { inTurns, type LogReader } from '../log/read.js';
import type { RunStart } from '../run-folder/manifest.js';
import { deriveSeed } from '../random.js';
import { exactGreater, weightsOf, type Summary } from '../statistics/index.js';
import type { OpenTask, Problem } from '../tasks/task.js';
import { invalidDoubts, type HeldOutRequest } from './held-out.js';
import { CLAIM_P } from './refutation.js';
import { nonceSeed } from './nonce-seed.js';
import { lines } from './trace.js';

/**
 * Step 10 on problems that no one could know in advance: the nonce draws them, and the witness
 * revealed it only after the adapter was under a signed head. Test problems are in the package or
 * follow from the task, so training on them can reach any accuracy there.
 */

/**
 * Draws per wanted problem. A task with few problems may repeat itself; its tier then stays
 * smaller.
 */
const DRAWS = 8;

export interface Fresh {
  /** Accuracy of the submitted adapter. */
  readonly measured: Summary;
  /**
   * Test accuracy minus fresh accuracy, both after training and measured here; null if a tier of
   * one has no verdict.
   */
  readonly gap: number | null;
  /** One-sided: a gap as large by chance, were both of one kind. */
  readonly p: number;
}

export interface FreshRequest extends Pick<HeldOutRequest, 'signal' | 'onProgress'> {
  readonly reader: LogReader;
  readonly start: RunStart;
  readonly model: Model;
  readonly nonce: string;
  readonly task: OpenTask;
  readonly perTier: number;
  readonly adapter: Adapter | null;
  /** Measurement on the test problems after training. */
  readonly tested: Summary;
}

/**
 * Draws problems of the test tiers that are in no evaluation set and were not sampled in training;
 * fewer if the task has few.
 */
async function drawFresh(request: FreshRequest): Promise<Problem[]> {
  const { reader, start, task, model, nonce, perTier, tested, signal } = request;
  const taken = new Set<string>();
  for await (const { payload } of inTurns(reader.records({ stream: 'rollouts' }), signal))
    if (payload.kind === 'problem' && typeof payload.problemId === 'string')
      taken.add(payload.problemId);
  const { style } = start.evaluation;
  const heldOut = new HeldOutProblems(await wholeSets(task), { model, task, style });
  const runSeed = nonceSeed('isopro.fresh.v1', nonce);
  const problems: Problem[] = [];
  for (const { id: tier } of task.tiers) {
    if (!Object.hasOwn(tested.byTier, tier)) continue;
    for (let sample = 0, found = 0; sample < DRAWS * perTier && found < perTier; sample++) {
      signal?.throwIfAborted();
      const problem = await task.generate(
        tier,
        deriveSeed({ runSeed, purpose: 'fresh problem', iteration: 0, problemId: tier, sample }),
      );
      if (taken.has(problem.id) || (await heldOut.find(problem)) !== null) continue;
      taken.add(problem.id);
      problems.push(problem);
      found++;
    }
  }
  return problems;
}

/** Returns the one-sided p of a test accuracy that is this far above the fresh one. */
export function gapP(
  tested: Pick<Summary, 'byTier'>,
  fresh: Pick<Summary, 'byTier'>,
  tiers: OpenTask['tiers'],
): number {
  const present = tiers.filter(
    ({ id }) => Object.hasOwn(tested.byTier, id) && Object.hasOwn(fresh.byTier, id),
  );
  const weights = weightsOf(present);
  return exactGreater(
    present.map(({ id }, i) => ({
      weight: weights[i]!,
      first: tested.byTier[id]!,
      second: fresh.byTier[id]!,
    })),
  );
}

/**
 * Returns the reasons why the fresh problems rule out a pass: chance does not explain the gap, or
 * too few have a verdict.
 */
export function freshDoubts({ measured, gap, p }: Fresh): string[] {
  return [
    ...invalidDoubts('the accuracy on fresh problems', measured),
    ...lines(
      p < CLAIM_P &&
        gap !== null &&
        `the submitted adapter solves ${(100 * gap).toFixed(1)} percentage points more of the test problems than of fresh ones (p ` +
          `${p.toPrecision(2)}): the test problems overstate its accuracy`,
    ),
  ];
}

/**
 * Measures the submitted adapter on fresh problems.
 * @returns null if the task does not have a fresh problem of each tier
 * @throws as evaluateGreedy and the task
 */
export async function measureFresh(request: FreshRequest): Promise<Fresh | null> {
  const { start, task, model, adapter, tested } = request;
  if (task.rows !== undefined) return null; // a data set has no further rows
  const problems = await drawFresh(request);
  const tiers = task.tiers.filter(({ id }) => Object.hasOwn(tested.byTier, id));
  if (tiers.some(({ id }) => !problems.some(({ tier }) => tier === id))) return null;
  const { style, maxTokens, maxSequences } = start.evaluation;
  const { summary } = await evaluateGreedy(localBackend(model), task, problems, {
    ...{ style, maxTokens, maxSequences, adapter },
    ...given(request, 'signal', 'onProgress'),
  });
  return {
    measured: summary,
    gap: tested.mean === null || summary.mean === null ? null : tested.mean - summary.mean,
    p: gapP(tested, summary, task.tiers),
  };
}
