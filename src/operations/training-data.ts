/**
 * Training rows from the log of a run: one row per rollout in the form of `train --data`, each with
 * its record.
 */
import type { LogRecord } from '../log/read.js';
import { iterationReport } from '../run-folder/evaluation-records.js';
import { isTrainedOn } from '../run-folder/derived-figures.js';
import { gate } from '../run-folder/course-records.js';
import { readRecord } from '../run-folder/record.js';
import {
  readRolloutsRecord,
  type ProblemRecord,
  type RolloutRecord,
} from '../run-folder/rollout-records.js';
import type { ChatMessage, OpenTask, PromptStyle } from '../tasks/task.js';

export const VERDICTS_EXPORTED = ['pass', 'fail', 'all'] as const;

export interface RowFilter {
  readonly verdict: (typeof VERDICTS_EXPORTED)[number];
  /** Lowest score; a pass without a score counts as 1, a failure as 0. */
  readonly minScore: number;
  /** Only these; undefined: all. */
  readonly tiers?: readonly string[] | undefined;
  /** Only what the run itself trained on. */
  readonly trained: boolean;
  /**
   * Only what the base model said, and no adapter: no run then learns from what it became itself.
   */
  readonly base: boolean;
  /** Whether to include rollouts of iterations that the gate rolled back. */
  readonly rolledBack: boolean;
}

/** A row of `train --data`. */
export interface TrainingRow {
  readonly prompt: readonly ChatMessage[];
  readonly completion: string;
  readonly score: number;
  readonly tier: string;
  readonly verdict: string;
  /** `log prove RUN --record N` proves it. */
  readonly source: {
    readonly run: string;
    readonly record: number;
    readonly iteration: number;
    readonly problem: string;
    readonly sample: number;
    /** SHA-256 of what said it; null: the base model. */
    readonly adapter: string | null;
  };
}

/** Why a rollout is no row, the first that holds. */
export const LEFT_OUT = [
  'undecided',
  'cutOff',
  'rolledBack',
  'verdict',
  'score',
  'tier',
  'untrained',
  'adapter',
] as const;
export type LeftOut = (typeof LEFT_OUT)[number];

/**
 * Iterations whose adapter the gate took back; what is put back at the end, to be submitted, takes
 * back none.
 */
export function rolledBackIterations(records: Iterable<LogRecord>): Set<number> {
  const found = new Set<number>();
  const over = new Set<number>();
  for (const record of records) {
    if (record.payload.kind === 'iteration_report')
      over.add(readRecord(iterationReport, record).iteration);
    if (record.payload.kind !== 'gate') continue;
    const { iteration } = readRecord(gate, record);
    if (!over.has(iteration)) found.add(iteration);
  }
  return found;
}

const scoreOf = ({ verdict: { kind, score } }: RolloutRecord): number =>
  score ?? (kind === 'pass' ? 1 : 0);

function leftOut(
  rollout: RolloutRecord,
  filter: RowFilter,
  rolledBack: ReadonlySet<number>,
): LeftOut | null {
  const { verdict, finish, iteration, tier, admission, adapterId } = rollout;
  if (verdict.kind === 'none') return 'undecided';
  if (finish !== 'stop') return 'cutOff'; // it would teach to stop anywhere
  if (!filter.rolledBack && rolledBack.has(iteration)) return 'rolledBack';
  if (filter.verdict !== 'all' && verdict.kind !== filter.verdict) return 'verdict';
  if (scoreOf(rollout) < filter.minScore) return 'score';
  if (filter.tiers !== undefined && !filter.tiers.includes(tier)) return 'tier';
  if (filter.trained && !isTrainedOn(admission)) return 'untrained';
  return filter.base && adapterId !== null ? 'adapter' : null;
}

/** Messages before the last reply: the prompt and the earlier turns. */
async function asked(
  task: Pick<OpenTask, 'readProblem' | 'prompt'>,
  style: PromptStyle,
  { problem }: ProblemRecord,
  { turns = [] }: RolloutRecord,
): Promise<ChatMessage[]> {
  const prompt = await task.prompt(task.readProblem(problem), style);
  return [
    ...prompt,
    ...turns.flatMap(({ text, said }): ChatMessage[] => [
      { role: 'assistant', content: text },
      { role: 'user', content: said },
    ]),
  ];
}

export interface TrainingDataOptions {
  readonly runId: string;
  /** Task, opened as in the run. */
  readonly task: Pick<OpenTask, 'readProblem' | 'prompt'>;
  readonly style: PromptStyle;
  readonly filter: RowFilter;
  /** Result of `rolledBackIterations`. */
  readonly rolledBack: ReadonlySet<number>;
  readonly onLeftOut?: (why: LeftOut) => void;
}

/**
 * @param records the rollouts stream, in its order
 * @throws IsoproError LOG_UNREADABLE, PROBLEM_INVALID where a problem is none of the task
 */
export async function* trainingRows(
  records: Iterable<LogRecord>,
  { runId, task, style, filter, rolledBack, onLeftOut }: TrainingDataOptions,
): AsyncGenerator<TrainingRow> {
  let problem: ProblemRecord | undefined;
  for (const record of records) {
    const read = readRolloutsRecord(record);
    if (read.kind === 'problem') problem = read;
    if (read.kind !== 'rollout' || problem?.problemId !== read.problemId) continue;
    const why = leftOut(read, filter, rolledBack);
    if (why !== null) {
      onLeftOut?.(why);
      continue;
    }
    const { text, tier, verdict, iteration, problemId, sample, adapterId } = read;
    yield {
      prompt: await asked(task, style, problem, read),
      completion: text,
      score: scoreOf(read),
      tier,
      verdict: verdict.kind,
      source: {
        run: runId,
        record: record.gseq,
        iteration,
        problem: problemId,
        sample,
        adapter: adapterId,
      },
    };
  }
}
