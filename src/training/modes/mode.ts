/** The ways of answering the test problems that a table compares. */
import type { Backend, SampleProgress } from '../../backends/backend.js';
import type { Summary } from '../../statistics/index.js';
import { FailureTally, reasonOf, type Failures } from '../../tasks/failures.js';
import type { ChatMessage, EpisodeEnd, OpenTask, Problem, Verdict } from '../../tasks/task.js';
import type { RunSettings } from '../settings.js';

export const MODES = [
  'zero-shot',
  'few-shot',
  'multi-turn',
  'isozero',
  'best-of-k',
  'majority',
  'pass@k',
  'isopro',
  'all',
] as const;
export type Mode = (typeof MODES)[number];
/** A row of the table. */
export type Method = Exclude<Mode, 'all'>;

export interface MethodResult {
  readonly method: Method;
  /**
   * Pass@k has an estimate in place of verdicts: `passed` is then rounded, and intervals are
   * bootstrapped.
   */
  readonly test: Pick<Summary, 'mean' | 'low' | 'high' | 'n'> & {
    readonly byTier: Readonly<
      Record<
        string,
        {
          readonly mean: number | null;
          readonly low: number;
          readonly high: number;
          readonly n: number;
        }
      >
    >;
  };
  /** Samples of each problem, attempts or calls. */
  readonly k: number;
  /** Sampled for this method; the loop's own where it trains. */
  readonly tokens: number;
  readonly seconds: number;
  /**
   * Why replies did not pass: of each problem the one that is judged, with pass@k all of them; null
   * where a run's log does not tell.
   */
  readonly failures: Failures | null;
  /** Note that belongs to the figures. */
  readonly note: string;
}

export interface ModeReply {
  /** Of the last turn. */
  readonly text: string;
  readonly finish: EpisodeEnd;
  readonly verdict: Verdict;
  /** Surface form of the answer; null where none was read. */
  readonly form: string | null;
  /** Of the sampled tokens of all turns; absent where the back end gives none. */
  readonly logprobs?: Float32Array;
}

export interface ModeContext {
  readonly settings: RunSettings;
  readonly backend: Backend;
  readonly task: OpenTask;
  readonly problems: readonly Problem[];
  /** Checks whether a dialogue leaves room in the context for a whole reply. */
  readonly hasRoom: (dialogue: readonly ChatMessage[]) => boolean;
  /** Share of the samples of a method that may have no reply. Default: any but all. */
  readonly maxFailed?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (
    method: Method,
    progress: Pick<SampleProgress, 'finished' | 'total' | 'sampledTokens'>,
  ) => void;
}

/** Counts the failures of judged replies, each with its problem. */
export function failuresOf(
  judged: Iterable<readonly [problem: Problem, reply: ModeReply]>,
): Failures {
  const tally = new FailureTally();
  for (const [{ id: problemId, tier }, reply] of judged)
    tally.take({
      ...reasonOf(reply, reply.finish),
      problemId,
      tier,
      text: reply.verdict.kind === 'pass' ? null : reply.text,
    });
  return tally.failures;
}
