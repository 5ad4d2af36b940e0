/** The replay buffer: a view of the log's rollouts stream, built by the same calls while a run goes on and when it resumes. */
import { dictionary } from '../dictionary.js';
import { deriveSeed, Random } from '../random.js';
import { DECAY, type TierRecord } from '../rollouts/allocation.js';
import { isTrainedOn, type TierCounts } from '../run-folder/derived.js';
import type { ProblemRecord, RolloutRecord } from './rollout-records.js';

/** An accepted rollout, ready to be trained on. */
export interface Trace {
  /** Names it within the run. */
  readonly key: string;
  readonly iteration: number;
  readonly tier: string;
  readonly promptIds: Int32Array;
  readonly tokenIds: Int32Array;
  readonly weight: number;
}

/** A trace enters an iteration's batches at most so often: a tier with two traces is not learned by heart. */
const MAX_USES = 4;

export class ReplayBuffer {
  readonly #tierCap: number;
  readonly #traces: Trace[] = [];
  readonly #kept = new Map<string, number>();
  readonly #counts = new Map<number, Map<string, TierCounts>>();
  #prompt: { readonly problemId: string; readonly ids: Int32Array } | undefined;

  /** @param tierCap newest traces of each tier that are kept; Infinity for all */
  constructor(tierCap: number) {
    this.#tierCap = tierCap;
  }

  /** Takes the next record of the stream. A rollout follows its problem. */
  take(record: ProblemRecord | RolloutRecord): void {
    if (record.kind === 'problem') {
      this.#prompt = { problemId: record.problemId, ids: Int32Array.from(record.promptIds) };
      return;
    }
    const { iteration, tier, problemId, sample, tokenIds, weight, verdict, admission } = record;
    const ofIteration = this.#counts.get(iteration) ?? new Map<string, TierCounts>();
    this.#counts.set(iteration, ofIteration);
    const counts = ofIteration.get(tier) ?? { sampled: 0, passed: 0, failed: 0, undecided: 0, admitted: 0 };
    ofIteration.set(tier, counts);
    counts.sampled++;
    counts[verdict.kind === 'pass' ? 'passed' : verdict.kind === 'fail' ? 'failed' : 'undecided']++;
    if (isTrainedOn(admission)) counts.admitted++;
    if (admission !== 'admitted' || this.#prompt?.problemId !== problemId) return;
    this.#traces.push({ key: `${iteration}/${problemId}/${sample}`, iteration, tier, promptIds: this.#prompt.ids, tokenIds: Int32Array.from(tokenIds), weight });
    const kept = (this.#kept.get(tier) ?? 0) + 1;
    if (kept > this.#tierCap) this.#traces.splice(this.#traces.findIndex((trace) => trace.tier === tier), 1);
    else this.#kept.set(tier, kept);
  }

  get size(): number {
    return this.#traces.length;
  }

  get traces(): readonly Trace[] {
    return this.#traces;
  }

  /** Traces by tier. */
  composition(): Record<string, number> {
    return dictionary(this.#kept);
  }

  /** By tier, of one iteration. */
  counts(iteration: number): ReadonlyMap<string, Readonly<TierCounts>> {
    return this.#counts.get(iteration) ?? new Map();
  }

  /** First iteration in which each tier had an accepted rollout. */
  transitions(): Record<string, number> {
    const first = dictionary<number>();
    for (const [iteration, tiers] of [...this.#counts].sort(([a], [b]) => a - b)) for (const [tier, { admitted }] of tiers) if (admitted > 0) first[tier] ??= iteration;
    return first;
  }

  /** Verdicts by tier before an iteration, older ones counting less. */
  records(before: number): Map<string, TierRecord> {
    const records = new Map<string, TierRecord>();
    for (const [iteration, tiers] of this.#counts) {
      if (iteration >= before) continue;
      const part = DECAY ** (before - 1 - iteration);
      for (const [tier, { passed, failed }] of tiers) {
        const sum = records.get(tier) ?? { passed: 0, failed: 0 };
        records.set(tier, { passed: sum.passed + part * passed, failed: sum.failed + part * failed });
      }
    }
    return records;
  }

  /**
   * The sequences of an iteration, in order: `newShare` of them from its own traces, the rest from earlier ones; where one part is too small
   * for that, the other one fills up. Within each part tiers take turns, and within a tier traces come by weighted sampling without
   * replacement. Fewer than `wanted` only where every trace has been used four times.
   */
  drawBalanced(options: { readonly runSeed: bigint; readonly iteration: number; readonly wanted: number; readonly newShare: number; readonly accumulate: boolean }): Trace[] {
    const { runSeed, iteration, wanted, newShare, accumulate } = options;
    const random = new Random(deriveSeed({ runSeed, purpose: 'replay', iteration, problemId: '', sample: 0 }));
    const fresh = this.#traces.filter((trace) => trace.iteration === iteration);
    const earlier = accumulate ? this.#traces.filter((trace) => trace.iteration < iteration) : [];
    const fromFresh = Math.min(MAX_USES * fresh.length, Math.max(Math.round(newShare * wanted), wanted - MAX_USES * earlier.length));
    return random.shuffle([...byTurns(fresh, fromFresh, random), ...byTurns(earlier, wanted - fromFresh, random)]);
  }

  /** The original's policy: everything accepted so far, once, shuffled. */
  drawClassic(runSeed: bigint, iteration: number): Trace[] {
    return new Random(deriveSeed({ runSeed, purpose: 'replay', iteration, problemId: '', sample: 0 })).shuffle(this.#traces);
  }
}

function byTurns(pool: readonly Trace[], wanted: number, random: Random): Trace[] {
  const tiers = random.shuffle([...new Set(pool.map(({ tier }) => tier))]);
  const queues = tiers.map((tier) => {
    const traces = pool.filter((trace) => trace.tier === tier);
    return Array.from({ length: MAX_USES }, () => weightedOrder(traces, random)).flat();
  });
  const drawn: Trace[] = [];
  for (let round = 0; drawn.length < wanted && queues.some((queue) => queue.length > round); round++) {
    for (const queue of queues) if (drawn.length < wanted && round < queue.length) drawn.push(queue[round]!);
  }
  return drawn;
}

/** Weighted sampling without replacement: descending u^(1/w) (Efraimidis and Spirakis 2006). */
function weightedOrder(traces: readonly Trace[], random: Random): Trace[] {
  return traces
    .map((trace) => ({ trace, rank: Math.log(1 - random.nextDouble()) / trace.weight }))
    .sort((a, b) => b.rank - a.rank)
    .map(({ trace }) => trace);
}
