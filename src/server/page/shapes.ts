/** Bodies of the read routes under /api. Fractions are in [0, 1], times are ISO 8601. */

export type { Job as JobRecord, JobEvent as JobRecordEvent } from '../../jobs/job.js';

export type Tone = 'good' | 'fair' | 'bad';

export interface Interval {
  readonly low: number;
  readonly high: number;
}

/** A mean with its 95 % interval. */
export interface Rate extends Interval {
  readonly mean: number | null;
  readonly n: number;
}

/** Finding of a paired test about the mean. */
export type Finding = 'better' | 'worse' | 'chance';

export interface RunLine {
  /** Name of the folder, below the runs folder. */
  readonly name: string;
  readonly runId: string;
  /** State of the run; the last three are those of a job that does not continue by itself. */
  readonly state: RunDetail['state'] | 'unreadable' | 'cancelled' | 'failed' | 'paused';
  readonly reason: string | null;
  readonly model: string | null;
  readonly task: string | null;
  readonly seed: string | null;
  readonly startedAt: string | null;
  readonly iterations: number;
  readonly before: number | null;
  readonly after: number | null;
  readonly pairedP: number | null;
  readonly finding: Finding | null;
  readonly n: number;
}

/** An entry of the time line: a rule that fired, a decision, a remedy, the gate. */
export interface RunEvent {
  readonly iteration: number;
  readonly what: string;
  readonly text: string;
}

export interface PairedTest {
  readonly n: number;
  readonly gained: number;
  readonly lost: number;
  /** Two-sided: of a tier McNemar's, of the mean that of its change. */
  readonly p: number;
  readonly finding: Finding;
  readonly difference: (Interval & { readonly mean: number }) | null;
  readonly byTier: readonly ({ readonly tier: string } & Pick<
    PairedTest,
    'n' | 'gained' | 'lost' | 'p'
  >)[];
}

export interface TierRate extends Rate {
  readonly tier: string;
}

export interface RateByIteration {
  readonly iteration: number;
  readonly all: Rate;
  readonly byTier: readonly TierRate[];
}

export interface RunDetail {
  readonly name: string;
  readonly runId: string;
  /** Another one where the folder has changed since. */
  readonly stamp: string;
  readonly state: 'ended' | 'unfinished' | 'damaged';
  readonly model: string;
  readonly modelSha256: string;
  readonly task: string;
  readonly seed: string;
  readonly startedAt: string | null;
  readonly lastAt: string | null;
  readonly conclusion: string;
  readonly stopped: string | null;
  readonly defects: readonly string[];
  readonly tiers: readonly {
    readonly id: string;
    readonly title: string;
    readonly trains: boolean;
  }[];
  readonly before: Rate | null;
  readonly after: Rate | null;
  readonly testByTier: readonly {
    readonly tier: string;
    readonly before: Rate | null;
    readonly after: Rate | null;
  }[];
  readonly change: PairedTest | null;
  readonly policies: readonly ({ readonly name: string } & Rate)[];
  /** Dev problems solved; iteration 0 is before any training. */
  readonly dev: readonly RateByIteration[];
  /** Rollouts that passed. */
  readonly hits: readonly RateByIteration[];
  /** Accepted rollouts that are kept, by tier. */
  readonly buffer: readonly {
    readonly iteration: number;
    readonly byTier: Readonly<Record<string, number>>;
  }[];
  readonly steps: readonly {
    readonly step: number;
    readonly iteration: number;
    readonly loss: number;
  }[];
  readonly iterations: readonly {
    readonly iteration: number;
    readonly loss: number | null;
    readonly learningRate: number;
    readonly seconds: {
      readonly rollouts: number;
      readonly training: number;
      readonly evaluation: number;
    };
    readonly tokens: { readonly sampled: number; readonly trained: number };
  }[];
  readonly events: readonly RunEvent[];
  readonly layers: readonly number[];
  readonly adapter: string | null;
  readonly end: {
    readonly seconds: number;
    readonly peakRssBytes: number;
    readonly sampled: number;
    readonly trained: number;
  } | null;
  readonly rollouts: number;
  readonly settings: Readonly<Record<string, unknown>>;
}

export interface IntegrityAnswer {
  readonly badge: { readonly text: string; readonly tone: Tone };
  readonly judged: { readonly text: string; readonly tone: Tone };
  readonly sentences: readonly string[];
}

export type Verdict = 'pass' | 'fail' | 'none';

export interface RolloutLine {
  /** Number of its record in the log. */
  readonly id: number;
  readonly iteration: number;
  readonly tier: string;
  readonly problem: string;
  /** The beginning of what is asked: of its prompt what not all of its tier share. */
  readonly question: string;
  readonly sample: number;
  readonly verdict: Verdict;
  readonly violations: readonly string[];
  readonly tokens: number;
  readonly meanLogprob: number | null;
  /** The beginning of the reply. */
  readonly text: string;
}

export interface RolloutPage {
  readonly data: readonly RolloutLine[];
  /** Number of rollouts that match the filters. */
  readonly total: number;
  readonly tiers: readonly string[];
  readonly iterations: readonly number[];
}

export interface RolloutDetail extends RolloutLine {
  readonly prompt: string;
  readonly finish: string;
  readonly admission: string;
  readonly advantage: number | null;
  readonly seed: string;
  readonly details: readonly string[];
  readonly reason: string | null;
  readonly score: number | null;
  readonly results: { readonly found: string; readonly expected: string } | null;
  /** Replies that did not end the episode, and the answer of the environment to each. */
  readonly turns: readonly { readonly text: string; readonly said: string }[];
  /** All rollouts of the same problem, including this one. */
  readonly siblings: readonly Pick<RolloutLine, 'id' | 'iteration' | 'sample' | 'verdict'>[];
  readonly promptIds: readonly number[];
  readonly tokenIds: readonly number[];
}

/** A dev problem, which every iteration answers. */
export interface DevProblem {
  readonly problem: string;
  readonly tier: string;
  readonly verdicts: readonly { readonly iteration: number; readonly verdict: Verdict }[];
}

export interface DevReply {
  readonly iteration: number;
  readonly verdict: Verdict | null;
  readonly finish: string;
  readonly tokenIds: readonly number[];
}

export interface DevReplies {
  readonly problem: string;
  readonly tier: string;
  readonly replies: readonly DevReply[];
}

/** The tokens of a rollout under a model that is served. */
export interface TokenScores {
  readonly model: string;
  readonly tokens: readonly { readonly text: string; readonly logprob: number }[];
}

export interface RunsCompared {
  readonly a: RunLine;
  readonly b: RunLine;
  readonly test: PairedTest;
  readonly aAfter: Rate;
  readonly bAfter: Rate;
  readonly byTier: readonly {
    readonly tier: string;
    readonly a: Rate | null;
    readonly b: Rate | null;
  }[];
  /** Settings and other members in which they differ, with both values as JSON. */
  readonly differences: readonly {
    readonly member: string;
    readonly a: string;
    readonly b: string;
  }[];
}

export interface AliasLine {
  readonly name: string;
  readonly current: string | null;
  readonly movedAt: string;
  /** Cause of the move. */
  readonly by: string;
  readonly reason: string;
  /** Version that a rollback would restore; undefined if there is none. */
  readonly before?: string | null;
  readonly probation: {
    readonly share: number;
    readonly problems: number;
    readonly seen: number;
  } | null;
}

export interface AdapterLine {
  readonly id: string;
  readonly name: string;
  readonly publishedAt: string;
  readonly withdrawn: string | null;
  readonly collected: boolean;
  readonly base: string;
  readonly baseSha256: string;
  readonly sha256: string;
  readonly bytes: number;
  readonly rank: number;
  readonly layers: readonly number[];
  readonly dataset: string | null;
  readonly evidence: readonly { readonly description: string; readonly sha256: string }[];
  readonly parent: string | null;
  readonly producedBy: readonly string[];
}

export interface GateLine {
  readonly gate: number;
  readonly name: string;
  readonly challenger: string;
  readonly incumbent: string | null;
  readonly attempt: number;
  readonly alpha: number;
  readonly decision: string | null;
  readonly used: boolean;
}

export interface MoveLine {
  readonly at: string;
  readonly name: string;
  readonly from: string | null;
  readonly to: string | null;
  readonly by: string;
  readonly reason: string;
}

export interface AdaptersAnswer {
  readonly aliases: readonly AliasLine[];
  readonly adapters: readonly AdapterLine[];
  readonly gates: readonly GateLine[];
  /** Newest first. */
  readonly moves: readonly MoveLine[];
  /** Tasks whose fresh problems a gate may ask here. */
  readonly tasks: readonly string[];
}

export interface Status {
  readonly version: string;
  readonly model: string;
  readonly modelSha256: string;
  readonly registry: boolean;
  readonly rssBytes: number;
  readonly modelBytes: number;
  readonly running: number;
  readonly waiting: number;
}

/** Events of a promotion; the last one is `moved`, `kept` or `failed`. */
export type PromotionEvent =
  /** Id of the job that measures it, which continues if no one listens. */
  | { readonly type: 'job'; readonly id: string }
  | ({ readonly type: 'gate' } & Pick<GateLine, 'gate' | 'attempt' | 'alpha' | 'incumbent'>)
  | { readonly type: 'progress'; readonly done: number; readonly total: number }
  | {
      readonly type: 'decision';
      readonly gate: number;
      readonly decision: string;
      readonly problems: number;
      readonly reasons: readonly string[];
    }
  | ({ readonly type: 'moved' } & Pick<MoveLine, 'name' | 'from' | 'to'>)
  | { readonly type: 'kept'; readonly name: string }
  | { readonly type: 'failed'; readonly message: string };

export interface TruthLine {
  readonly name: string;
  readonly policy: string;
  readonly domains: readonly string[];
  readonly seed: string;
  readonly state: 'ended' | 'unfinished' | 'unreadable';
  readonly reason: string | null;
  readonly trajectories: number;
  readonly results: number;
}

export interface TruthShown {
  readonly line: TruthLine;
  readonly results: readonly {
    readonly setup: string;
    readonly strategy: string;
    readonly direction: string;
    readonly value: number | null;
    readonly interval: Interval | null;
    readonly n: number;
    /**
     * Slope without measurement noise; null for other scores, and if every belief was measured
     * once.
     */
    readonly withoutNoise: {
      readonly value: number | null;
      readonly interval: { readonly low: number | null; readonly high: number | null } | null;
      readonly n: number;
    } | null;
    /** Reader of the beliefs, unless they are the policy's own. */
    readonly reader: string | null;
  }[];
  /** Reader of the beliefs of the trajectories; null if no beliefs were read. */
  readonly whose: string | null;
  readonly trajectories: readonly {
    readonly id: string;
    readonly setup: string;
    readonly question: string;
    /** Belief in the first option before the first step and after each; null if one is missing. */
    readonly beliefs: readonly number[] | null;
    readonly correctOption: 0 | 1 | null;
  }[];
}

export interface TruthTrajectory {
  readonly id: string;
  readonly setup: string;
  readonly question: string;
  readonly options: readonly [string, string] | null;
  readonly correctOption: 0 | 1 | null;
  readonly prompt: readonly { readonly role: string; readonly content: string }[];
  readonly steps: readonly { readonly content: string; readonly trainable: boolean }[];
  /** Beliefs before the first step and after each, of everybody who read some. */
  readonly readers: readonly {
    readonly whose: string;
    readonly beliefs: readonly (
      | { readonly p0: number; readonly error: number | null }
      | { readonly reason: string }
    )[];
  }[];
}
