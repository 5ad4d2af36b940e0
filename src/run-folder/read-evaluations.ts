/**
 * Everything of a log that concerns accuracy; one that cannot be read is an error here, where
 * `readRun` tells its defects.
 */
import { dictionary, type Dictionary } from '../dictionary.js';
import { IsoproError } from '../errors.js';
import { LogReader } from '../log/read.js';
import type { Forgetting, Summary } from '../statistics/index.js';
import type { Failures } from '../tasks/failures.js';
import {
  figuresLogged,
  loggedEvaluation,
  loggedForgetting,
  policySummaries,
  strayEvaluation,
  tiersOf,
  type LoggedEvaluation,
  type RolloutTally,
} from './derived-figures.js';
import type { Policies } from './evaluation-records.js';
import { LoggedRecords, type Logged } from './logged-records.js';
import { runPaths } from './paths.js';
import { RUN_STREAMS } from './streams.js';

export interface LoggedEvaluations {
  readonly runId: string;
  readonly evaluations: readonly LoggedEvaluation[];
  /**
   * Of the test problems under the grammar of answers, before and after; empty where that was not
   * asked for.
   */
  readonly constrained: readonly LoggedEvaluation[];
  readonly iterations: readonly Logged<'iteration_report'>[];
  readonly tiers: Policies['tiers'];
  readonly policies: Dictionary<Summary>;
  /** Null where it was not measured. */
  readonly forgetting: Forgetting | null;
  readonly rollouts: RolloutTally;
  /** Why rollouts do not pass. */
  readonly failures: Failures;
  readonly steps: readonly Logged<'step'>[];
  readonly rules: readonly Logged<'rule_eval'>[];
  readonly submission: Logged<'submission'> | null;
  readonly end: Logged<'session_end'> | null;
}

/** @throws IsoproError LOG_NOT_FOUND, LOG_UNREADABLE */
export function readEvaluations(folder: string): LoggedEvaluations {
  const file = runPaths(folder).log;
  const unreadable = (what: string, cause?: unknown): never => {
    throw new IsoproError(
      'LOG_UNREADABLE',
      `${file}: ${what}`,
      cause === undefined ? {} : { cause },
    );
  };
  const logged = new LoggedRecords();
  let runId: string;
  const reader = new LogReader(file, RUN_STREAMS);
  try {
    runId = reader.runId ?? '';
    for (const record of reader.records()) {
      try {
        logged.take(record);
      } catch (cause) {
        unreadable((cause as Error).message, cause);
      }
    }
  } finally {
    reader.close();
  }
  const heldOuts = logged.of('held_out');
  const named = logged.last('policies');
  const stray = strayEvaluation(heldOuts);
  if (stray !== null) unreadable(stray);
  const tiers = tiersOf(
    named?.tiers,
    heldOuts.flatMap(({ outcomes }) => outcomes.map(([, tier]) => tier)),
  );
  const figures = figuresLogged(heldOuts, named);
  const forgot = logged.last('forgetting');
  const test = heldOuts.find(({ set }) => set === 'test')?.outcomes ?? [];
  return {
    runId,
    evaluations: heldOuts.map((each) => loggedEvaluation(each, tiers, figures)),
    constrained: logged.of('constrained').map((each) => loggedEvaluation(each, tiers, figures)),
    iterations: logged.of('iteration_report'),
    tiers,
    policies:
      named === null
        ? dictionary<Summary>()
        : (policySummaries(named, test, figures) ??
          unreadable('the trivial policies were not judged on the test problems')),
    forgetting: forgot === null ? null : loggedForgetting(forgot),
    rollouts: logged.rollouts,
    failures: logged.failures,
    steps: logged.of('step'),
    rules: logged.of('rule_eval'),
    submission: logged.last('submission'),
    end: logged.last('session_end'),
  };
}
