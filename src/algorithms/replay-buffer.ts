/**
 * The replay buffer: a view of the log's rollouts stream, built by the same calls during a run and
 * when it resumes.
 */
import { IsoproError } from '../errors.js';
import { seededRandom, type Random } from '../random.js';
import { DECAY, type TierRecord } from '../rollouts/allocation.js';
import { RolloutTally } from '../run-folder/derived-figures.js';
import type { RolloutRecord, RolloutsRecord } from '../run-folder/rollout-records.js';
import { episodeOf, exchange, type Episode } from '../rollouts/episode.js';
import type { Sampled } from './sequences.js';

/** An accepted rollout or a reference, ready to be trained on. */
export interface Trace extends Sampled {
  readonly iteration: number;
  readonly tier: string;
  readonly weight: number;
}

interface DrawOptions {
  readonly runSeed: bigint;
  readonly iteration: number;
  /** Sequences. */
  readonly wanted: number;
}

/** Parts of what a balanced draw takes. */
interface Balance {
  /** Share of traces of the same iteration, 0 to 1. */
  readonly newShare: number;
  /** Whether traces of earlier iterations are drawn too. */
  readonly accumulate: boolean;
}

export interface BufferSettings extends Balance {
  readonly kind: 'balanced' | 'classic';
}

/**
 * Most uses of a trace in an iteration's batches, so that a tier with two traces is not memorised.
 */
export const MAX_USES = 4;

export class ReplayBuffer {
  readonly #traces: Trace[] = [];
  readonly #tally = new RolloutTally();
  #prompt: { readonly problemId: string; readonly ids: Int32Array } | undefined;

  /** @param tierCap newest traces of each tier that are kept; Infinity for all */
  constructor(readonly tierCap: number) {}

  /**
   * Takes the next record of the stream.
   * @throws IsoproError LOG_UNREADABLE if a rollout to train on does not follow its problem
   */
  take(record: RolloutsRecord): void {
    const { iteration, tier, problemId } = record;
    if (record.kind === 'problem') {
      this.#prompt = { problemId, ids: Int32Array.from(record.promptIds) };
      return;
    }
    if (record.kind === 'reference') this.#tally.takeReference(record);
    else this.#tally.take(record);
    if (record.kind === 'rollout' && record.admission !== 'admitted') return;
    const isRollout = record.kind === 'rollout';
    const key = `${iteration}/${problemId}/${isRollout ? record.sample : 'reference'}`;
    if (this.#prompt?.problemId !== problemId)
      throw new IsoproError(
        'LOG_UNREADABLE',
        `the record of rollout ${key} does not follow that of its problem`,
      );
    const { ids } = this.#prompt;
    const episode = isRollout
      ? episodeOfRecord(ids, record)
      : exchange(ids, Int32Array.from(record.tokenIds));
    this.#traces.push({ key, iteration, tier, episode, weight: isRollout ? record.weight : 1 });
    const admitted = this.#tally.buffer(Infinity, Infinity)[tier]!;
    const oldest = this.#traces.findIndex((trace) => trace.tier === tier);
    if (admitted > this.tierCap) this.#traces.splice(oldest, 1);
  }

  get size(): number {
    return this.#traces.length;
  }

  get traces(): readonly Trace[] {
    return this.#traces;
  }

  /** Counts of the whole stream, including traces that are not kept. */
  get tally(): Omit<RolloutTally, 'take' | 'takeReference'> {
    return this.#tally;
  }

  /** Returns the number of traces by tier. */
  composition(): Record<string, number> {
    return this.#tally.buffer(Infinity, this.tierCap);
  }

  /** Returns the verdicts by tier before an iteration; older ones count less. */
  records(before: number): Map<string, TierRecord> {
    const records = new Map<string, TierRecord>();
    for (const [iteration, tiers] of this.#tally.counts) {
      if (iteration >= before) continue;
      const part = DECAY ** (before - 1 - iteration);
      for (const [tier, { passed, failed }] of tiers) {
        const sum = records.get(tier) ?? { passed: 0, failed: 0 };
        records.set(tier, {
          passed: sum.passed + part * passed,
          failed: sum.failed + part * failed,
        });
      }
    }
    return records;
  }

  /**
   * Draws the sequences of an iteration, in order: `newShare` of them from its own traces, the rest
   * from earlier ones; if one part is too small, the other fills up. Tiers alternate within each
   * part, and traces within a tier come by weighted sampling without replacement. Fewer than
   * `wanted` only if every trace has been used four times.
   */
  drawBalanced({
    runSeed,
    iteration,
    wanted,
    newShare,
    accumulate,
  }: DrawOptions & Balance): Trace[] {
    const random = seededRandom(runSeed, 'replay', iteration);
    const fresh = this.#traces.filter((trace) => trace.iteration === iteration);
    const earlier = accumulate ? this.#traces.filter((trace) => trace.iteration < iteration) : [];
    const fromFresh = Math.min(
      MAX_USES * fresh.length,
      Math.max(Math.round(newShare * wanted), wanted - MAX_USES * earlier.length),
    );
    return random.shuffle([
      ...byTurns(fresh, fromFresh, random),
      ...byTurns(earlier, wanted - fromFresh, random),
    ]);
  }

  /** Draws as the original does: everything accepted so far, once, shuffled. */
  drawClassic(runSeed: bigint, iteration: number): Trace[] {
    return seededRandom(runSeed, 'replay', iteration).shuffle(this.#traces);
  }

  /** Draws the sequences of an iteration as the settings say. */
  draw({ kind, ...balance }: BufferSettings, by: DrawOptions): Trace[] {
    return kind === 'classic'
      ? this.drawClassic(by.runSeed, by.iteration)
      : this.drawBalanced({ ...balance, ...by });
  }
}

function episodeOfRecord(
  promptIds: Int32Array,
  { tokenIds, turns = [] }: Pick<RolloutRecord, 'tokenIds' | 'turns'>,
): Episode {
  let at = 0;
  const reply = (tokens: number): Int32Array => Int32Array.from(tokenIds.slice(at, (at += tokens)));
  const earlier = turns.map(({ tokens, saidIds }) => ({
    replyIds: reply(tokens),
    saidIds: Int32Array.from(saidIds),
  }));
  return episodeOf(promptIds, earlier, reply(tokenIds.length));
}

function byTurns(pool: readonly Trace[], wanted: number, random: Random): Trace[] {
  const tiers = random.shuffle([...new Set(pool.map(({ tier }) => tier))]);
  const queues = tiers.map((tier) => {
    const traces = pool.filter((trace) => trace.tier === tier);
    return Array.from({ length: MAX_USES }, () => weightedOrder(traces, random)).flat();
  });
  const drawn: Trace[] = [];
  for (let round = 0; queues.some((queue) => queue.length > round); round++)
    for (const queue of queues)
      if (drawn.length < wanted && round < queue.length) drawn.push(queue[round]!);
  return drawn;
}

/** Weighted sampling without replacement: descending u^(1/w) (Efraimidis and Spirakis 2006). */
function weightedOrder(traces: readonly Trace[], random: Random): Trace[] {
  return traces
    .map((trace) => ({ trace, rank: Math.log(1 - random.nextDouble()) / trace.weight }))
    .sort((a, b) => b.rank - a.rank)
    .map(({ trace }) => trace);
}
