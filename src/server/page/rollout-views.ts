/**
 * Rollouts of a run, found by what they say and by what was said of them. Each call reads the log's
 * stream once.
 */
import { IsoproError } from '../../errors.js';
import { LogReader } from '../../log/read.js';
import { label } from '../../text/hostile-text.js';
import { visible } from '../../visible-text.js';
import { devReply } from '../../run-folder/evaluation-records.js';
import { runPaths } from '../../run-folder/paths.js';
import { devEvaluations, type RunRecord } from '../../run-folder/read-run.js';
import { Questions } from '../../run-folder/question.js';
import { readRecord } from '../../run-folder/record.js';
import {
  readRolloutsRecord,
  type ProblemRecord,
  type RolloutRecord,
} from '../../run-folder/rollout-records.js';
import { RUN_STREAMS } from '../../run-folder/streams.js';
import type {
  DevProblem,
  DevReplies,
  RolloutDetail,
  RolloutLine,
  RolloutPage,
  Verdict,
} from './shapes.js';

export interface RolloutFilter {
  readonly tier?: string | undefined;
  readonly iteration?: number | undefined;
  readonly verdict?: Verdict | undefined;
  /** Whole id of a problem. */
  readonly problem?: string | undefined;
  /** Words that all occur in prompt, reply or violations, however written. */
  readonly text?: string | undefined;
  readonly offset: number;
  readonly limit: number;
}

const BEGINNING = 160;

interface Found {
  readonly gseq: number;
  readonly rollout: RolloutRecord;
  /** Null if the log does not hold it. */
  readonly problem: ProblemRecord | null;
}

/**
 * Yields rollouts in the order of the log. Records of another form are skipped; the page of the run
 * reports them.
 */
function* rolloutsOf(folder: string): Generator<Found> {
  const reader = new LogReader(runPaths(folder).log, RUN_STREAMS);
  try {
    let problem: ProblemRecord | null = null;
    for (const record of reader.records({ stream: 'rollouts' })) {
      let read: ReturnType<typeof readRolloutsRecord>;
      try {
        read = readRolloutsRecord(record);
      } catch (error) {
        if (error instanceof IsoproError) continue;
        throw error;
      }
      if (read.kind === 'problem') problem = read;
      else if (read.kind === 'rollout')
        yield {
          gseq: record.gseq,
          rollout: read,
          problem: problem?.problemId === read.problemId ? problem : null,
        };
    }
  } finally {
    reader.close();
  }
}

const promptOf = (problem: ProblemRecord | null): string =>
  problem === null ? '' : (problem.prompt ?? JSON.stringify(problem.problem, null, 1));

const lineOf = ({ gseq, rollout, problem }: Found, questions: Questions): RolloutLine => ({
  id: gseq,
  iteration: rollout.iteration,
  tier: label(rollout.tier, 80),
  problem: rollout.problemId,
  question: label(questions.of(rollout.tier, promptOf(problem)), BEGINNING),
  sample: rollout.sample,
  verdict: rollout.verdict.kind,
  violations: rollout.verdict.violations.slice(0, 20).map((each) => label(each, 80)),
  tokens: rollout.tokenIds.length,
  meanLogprob: rollout.meanLogprob,
  text: label(rollout.text, BEGINNING),
});

function matches(
  { rollout, problem }: Found,
  filter: RolloutFilter,
  words: readonly string[],
): boolean {
  if (filter.tier !== undefined && label(rollout.tier, 80) !== filter.tier) return false;
  if (filter.iteration !== undefined && rollout.iteration !== filter.iteration) return false;
  if (filter.verdict !== undefined && rollout.verdict.kind !== filter.verdict) return false;
  if (filter.problem !== undefined && rollout.problemId !== filter.problem) return false;
  if (words.length === 0) return true;
  const text = [promptOf(problem), rollout.text, ...rollout.verdict.violations]
    .join('\n')
    .toLowerCase();
  return words.every((word) => text.includes(word));
}

export function findRollouts(folder: string, filter: RolloutFilter): RolloutPage {
  const words = (filter.text ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const data: Found[] = [];
  const questions = new Questions();
  const tiers = new Set<string>();
  const iterations = new Set<number>();
  let total = 0;
  for (const found of rolloutsOf(folder)) {
    tiers.add(label(found.rollout.tier, 80));
    iterations.add(found.rollout.iteration);
    questions.add(found.rollout.tier, promptOf(found.problem));
    if (!matches(found, filter, words)) continue;
    if (total >= filter.offset && data.length < filter.limit) data.push(found);
    total++;
  }
  return {
    data: data.map((found) => lineOf(found, questions)),
    total,
    tiers: [...tiers],
    iterations: [...iterations].sort((a, b) => a - b),
  };
}

/** Reads a rollout; null if the log has none of that number. */
export function readRollout(folder: string, gseq: number): RolloutDetail | null {
  let found: Found | null = null;
  const questions = new Questions();
  const byProblem = new Map<string, RolloutDetail['siblings'][number][]>();
  for (const each of rolloutsOf(folder)) {
    const { problemId, iteration, sample, verdict } = each.rollout;
    questions.add(each.rollout.tier, promptOf(each.problem));
    if (each.gseq === gseq) found = each;
    const siblings = byProblem.get(problemId) ?? [];
    byProblem.set(problemId, siblings);
    siblings.push({ id: each.gseq, iteration, sample, verdict: verdict.kind });
  }
  if (found === null) return null;
  const { rollout, problem } = found;
  const { verdict } = rollout;
  return {
    ...lineOf(found, questions),
    text: visible(rollout.text),
    prompt: visible(promptOf(problem)),
    finish: rollout.finish,
    admission: rollout.admission,
    advantage: rollout.advantage ?? null,
    seed: label(rollout.seed, 80),
    details: (verdict.details ?? []).slice(0, 20).map((each) => label(each, 320)),
    reason: verdict.reason === undefined ? null : label(verdict.reason, 300),
    score: verdict.score ?? null,
    results:
      verdict.results === undefined
        ? null
        : { found: visible(verdict.results.found), expected: visible(verdict.results.expected) },
    turns: (rollout.turns ?? []).map(({ text, said }) => ({
      text: visible(text),
      said: visible(said),
    })),
    siblings: byProblem.get(rollout.problemId)!,
    promptIds: problem?.promptIds ?? [],
    tokenIds: rollout.tokenIds,
  };
}

/** The dev problems, each with its verdict in every iteration. */
export function devProblems(run: RunRecord): DevProblem[] {
  const problems = new Map<string, { tier: string; verdicts: DevProblem['verdicts'][number][] }>();
  for (const { iteration, outcomes } of devEvaluations(run))
    for (const [problem, tier, verdict] of outcomes) {
      const known = problems.get(problem) ?? { tier: label(tier, 80), verdicts: [] };
      problems.set(problem, known);
      known.verdicts.push({ iteration, verdict });
    }
  return [...problems].map(([problem, rest]) => ({ problem, ...rest }));
}

/** Replies to a dev problem; null if the run does not have it. */
export function devReplies(run: RunRecord, problem: string): DevReplies | null {
  const known = devProblems(run).find((each) => each.problem === problem);
  if (known === undefined) return null;
  const reader = new LogReader(runPaths(run.folder).log, RUN_STREAMS);
  try {
    const replies = new Map<number, DevReplies['replies'][number]>();
    for (const record of reader.records({ stream: 'evaluations' })) {
      if (record.payload.kind !== 'dev_reply' || record.payload.problemId !== problem) continue;
      const { iteration, finish, tokenIds } = readRecord(devReply, record);
      const verdict =
        known.verdicts.findLast((each) => each.iteration === iteration)?.verdict ?? null;
      replies.set(iteration, { iteration, verdict, finish, tokenIds });
    }
    return {
      problem,
      tier: known.tier,
      replies: [...replies.values()].sort((a, b) => a.iteration - b.iteration),
    };
  } finally {
    reader.close();
  }
}
