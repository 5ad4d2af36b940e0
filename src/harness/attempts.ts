/**
 * Attempts at one run, each told what came of those before. Intervals decide which is best: a lead
 * that may be chance is none.
 */
import { z } from 'zod';
import type { JudgeReport } from '../judge/judge.js';
import type { Violation } from '../judge/obligations.js';
import { scoreInterval } from '../statistics/intervals.js';
import type { Finding } from '../run-folder/comparison.js';

/** Judgement of an attempt, as its folder keeps it. */
export const attemptForm = z.object({
  format: z.literal('isopro.attempt.v1'),
  index: z.int().min(1),
  /** SHA-256 of the settings of the run. */
  settings: z.string(),
  /** Name of the run folder in the folder of the attempts. */
  run: z.string(),
  verdict: z.enum(['pass', 'not_verified', 'hard_fail', 'not_ended']),
  /** Step that failed hard. */
  failedStep: z.string().nullable(),
  exercised: z.boolean(),
  processScore: z.number().nullable(),
  obligations: z.int().min(0),
  distinctRules: z.int().min(0),
  /** In the order of the iterations, then of the rules: the same at each judging. */
  violations: z.array(
    z.object({
      kind: z.string(),
      rule: z.string(),
      iteration: z.int(),
      detail: z.string(),
    }),
  ),
  /** Share of the test problems that the adapter solves. */
  accuracy: z.number().nullable(),
  /** SHA-256 of the feedback that the attempt was told; null for none. */
  feedback: z.string().nullable(),
});
export type Attempt = z.output<typeof attemptForm>;

const inOrder = (a: Violation, b: Violation): number =>
  a.iteration - b.iteration ||
  (a.rule < b.rule ? -1 : a.rule > b.rule ? 1 : 0) ||
  (a.kind < b.kind ? -1 : a.kind > b.kind ? 1 : 0);

export function attemptOf(
  report: JudgeReport,
  own: Pick<Attempt, 'index' | 'settings' | 'run' | 'accuracy' | 'feedback'>,
): Attempt {
  const { scores, verdict, failure, violations } = report;
  return {
    format: 'isopro.attempt.v1',
    ...own,
    verdict,
    failedStep: failure?.name ?? null,
    exercised: scores.process_axis_exercised,
    processScore: scores.process_axis_exercised ? scores.process_score : null,
    obligations: scores.obligations,
    distinctRules: scores.distinct_rules_fired,
    violations: [...violations]
      .sort(inOrder)
      .map(({ kind, rule, iteration, detail }) => ({ kind, rule, iteration, detail })),
  };
}

/** Why an attempt cannot win; null if it can. */
export function exclusionOf(attempt: Attempt): string | null {
  if (attempt.verdict === 'hard_fail') return `it failed at ${attempt.failedStep ?? 'a step'}`;
  if (attempt.verdict === 'not_ended') return 'its run has not ended';
  if (!attempt.exercised)
    return `its process was not exercised: ${attempt.obligations} obligations of ${attempt.distinctRules} rules`;
  return null;
}

/** Compares the process scores by their 95 % intervals. */
export function processFinding(a: Attempt, b: Attempt): Finding {
  if (a.processScore === null || b.processScore === null) return 'chance';
  const [was, is] = [a, b].map(({ processScore, obligations }) =>
    scoreInterval(processScore!, obligations),
  ) as [ReturnType<typeof scoreInterval>, ReturnType<typeof scoreInterval>];
  return is.low > was.high ? 'better' : is.high < was.low ? 'worse' : 'chance';
}

export interface Standing {
  /** Index of the best attempt; null where none can win. */
  readonly best: number | null;
  /** One line for each attempt. */
  readonly reasons: readonly string[];
}

/**
 * The first attempt that can win stays the best until another one is better in accuracy or process,
 * and worse in neither.
 * @param accuracyFinding of the second against the first
 */
export function standingOf(
  attempts: readonly Attempt[],
  accuracyFinding: (a: Attempt, b: Attempt) => Finding,
): Standing {
  let best: Attempt | null = null;
  const reasons = attempts.map((attempt): string => {
    const excluded = exclusionOf(attempt);
    if (excluded !== null) return `attempt ${attempt.index} cannot win: ${excluded}`;
    if (best === null) {
      best = attempt;
      return `attempt ${attempt.index} is the first that can win`;
    }
    const findings = [accuracyFinding(best, attempt), processFinding(best, attempt)];
    const [accuracy, process] = findings as [Finding, Finding];
    const words = `accuracy ${WORDS[accuracy]}, process ${WORDS[process]}`;
    if (!findings.includes('better') || findings.includes('worse'))
      return `attempt ${attempt.index} does not replace attempt ${best.index}: ${words}`;
    const line = `attempt ${attempt.index} replaces attempt ${best.index}: ${words}`;
    best = attempt;
    return line;
  });
  return { best: (best as Attempt | null)?.index ?? null, reasons };
}

const WORDS: Readonly<Record<Finding, string>> = {
  better: 'better',
  worse: 'worse',
  chance: 'not told apart from chance',
};

/** Violations of an attempt that the next ones are told of, and characters of each. */
const TOLD = 8;
const LONGEST = 140;

/**
 * What a decider is told of earlier attempts; null for none. It tells nothing of the test problems,
 * by which the best attempt is chosen.
 */
export function feedbackOf(attempts: readonly Attempt[]): string | null {
  if (attempts.length === 0) return null;
  return attempts
    .map((attempt) => {
      const { index, verdict, failedStep, processScore, obligations, violations } = attempt;
      const score =
        verdict === 'hard_fail'
          ? `failed at ${failedStep ?? 'a step'} of the judge`
          : processScore === null
            ? `not scored: ${obligations} obligations`
            : `process score ${processScore.toFixed(2)} of ${obligations} obligations`;
      const told = violations
        .slice(0, TOLD)
        .map(
          ({ kind, rule, iteration, detail }) =>
            `- iteration ${iteration}, ${rule}, ${kind}: ${[...detail].slice(0, LONGEST).join('')}`,
        );
      const more = violations.length - told.length;
      return [
        `Attempt ${index}: ${score}, ${violations.length} violations.`,
        ...told,
        ...(more > 0 ? [`- and ${more} more`] : []),
      ].join('\n');
    })
    .concat('Avoid repeating these violations.')
    .join('\n');
}
