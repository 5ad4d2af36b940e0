/**
 * What a person thinks of the decisions of a run. A decision that is called gold becomes a
 * scenario: its question with the true history, and the answer that is expected.
 */
import path from 'node:path';
import { z } from 'zod';
import type { Json } from '../canonical-json.js';
import { LogReader, type LogRecord } from '../log/read.js';
import { acts } from '../monitor/decision.js';
import { evaluateHistory } from '../monitor/evaluate-rules.js';
import { RULES, ruleConfig, type RuleId } from '../monitor/rules.js';
import { readDecisions, readHistory } from '../run-folder/monitor-records.js';
import { runPaths } from '../run-folder/paths.js';
import { RUN_STREAMS } from '../run-folder/streams.js';
import { menu } from '../trainees/lora/menu.js';
import {
  LORA,
  type LoraDecision,
  type LoraDecisionContext,
  type TrainerSettings,
} from '../trainees/lora/trainee.js';
import { readLinesOf } from './durable-lines.js';

export const VERDICTS = ['gold', 'bad', 'skip'] as const;
export type ReviewVerdict = (typeof VERDICTS)[number];

export const review = z.strictObject({
  iteration: z.int().min(0),
  rule: z.enum(RULES),
  verdict: z.enum(VERDICTS),
  note: z.string().max(2000).nullable(),
});
export type Review = z.output<typeof review>;

/** The file of a run's reviews, in its folder. */
export const reviewsFile = (folder: string): string => path.join(folder, 'reviews.jsonl');
export const readReviews = (folder: string): Review[] => readLinesOf(reviewsFile(folder), review);

/** A decision with all that its decider was told. */
export interface ReviewedDecision {
  readonly iteration: number;
  readonly rule: RuleId;
  readonly decision: LoraDecision;
  /**
   * Null for a decider that is not asked by questions, such as `scripted`: the log does not have
   * the trainer's settings then.
   */
  readonly context: LoraDecisionContext | null;
  /** Held-out loss or pass rate at the decision and at the end. */
  readonly heldOut: readonly [number | null, number | null];
}

const settingsOf = ({ payload }: LogRecord): TrainerSettings =>
  (payload.situation as unknown as { settings: TrainerSettings }).settings;

/**
 * The decisions of a run, oldest first; what the monitor itself deferred is left out.
 * @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE
 */
export async function decisionsOf(folder: string): Promise<ReviewedDecision[]> {
  const reader = new LogReader(runPaths(folder).log, RUN_STREAMS);
  const records: LogRecord[] = [];
  try {
    for await (const record of reader.records())
      if (record.stream !== 'rollouts' && record.stream !== 'evaluations') records.push(record);
  } finally {
    reader.close();
  }
  const { rules } = records[0]!.payload.runConfig as { readonly rules?: Json };
  const config = ruleConfig.parse(rules ?? {});
  const history = readHistory(records, LORA.trainee);
  const evaluations = evaluateHistory(history, config, LORA.ruleSet);
  const decisions = readDecisions(records, LORA);
  const questions = records.filter(({ payload }) => payload.kind === 'question');
  const readingAt = (at: number): number | null => {
    const of = history[at]?.heldOut ?? null;
    return of === null ? null : 'loss' in of ? of.loss : of.passRate;
  };
  return decisions
    .filter(({ decision }) => !decision.justification.startsWith('deferred_to_'))
    .map(({ iteration, decision }): ReviewedDecision => {
      const [rule] = decision.cites;
      const at = history.findIndex((each) => each.iteration === iteration);
      const question = questions.find(
        ({ payload }) => payload.iteration === iteration && payload.rule === rule,
      );
      const settings = question === undefined ? null : settingsOf(question);
      const { executed: _, ...measurements } = history[at]!;
      return {
        iteration,
        rule,
        decision,
        context:
          settings === null
            ? null
            : {
                rule,
                evaluations: evaluations.slice(0, at + 1),
                settings,
                snapshots: LORA.trainee.snapshots(settings),
                measurements,
                history: history.slice(0, at),
                decisions: decisions.filter((each) => each.iteration < iteration),
                playbook: LORA.ruleSet.playbook(config),
              },
        heldOut: [readingAt(at), readingAt(history.length - 1)],
      };
    });
}

/** The id of the option that a decision is; null where it is none of its menu. */
export function optionOf({ context, decision }: ReviewedDecision): string | null {
  if (context === null) return null;
  const same = menu(context).find(({ decision: { edit, deferral } }) =>
    acts(decision)
      ? deferral === null && JSON.stringify(edit) === JSON.stringify(decision.edit)
      : deferral !== null && deferral.until === decision.deferral?.until,
  );
  return same?.id ?? null;
}

/** A question with its true history, and the answer that a person called gold. */
export interface GoldScenario {
  readonly run: string;
  readonly iteration: number;
  readonly rule: RuleId;
  readonly expected: string;
  readonly context: LoraDecisionContext;
}

/**
 * Scenarios of what was called gold. A later review of a decision replaces an earlier one.
 * @returns also the number of gold decisions whose question the log does not have
 */
export async function goldScenarios(
  folder: string,
): Promise<{ readonly scenarios: readonly GoldScenario[]; readonly without: number }> {
  const last = new Map(
    readReviews(folder).map((each) => [`${each.iteration} ${each.rule}`, each.verdict]),
  );
  const gold = (await decisionsOf(folder)).filter(
    ({ iteration, rule }) => last.get(`${iteration} ${rule}`) === 'gold',
  );
  const scenarios = gold.flatMap((each): GoldScenario[] => {
    const expected = optionOf(each);
    return expected === null || each.context === null
      ? []
      : [
          {
            run: folder,
            iteration: each.iteration,
            rule: each.rule,
            expected,
            context: each.context,
          },
        ];
  });
  return { scenarios, without: gold.length - scenarios.length };
}
