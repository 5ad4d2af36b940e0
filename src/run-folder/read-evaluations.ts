/**
 * Everything of a log that concerns accuracy; one that cannot be read is an error here, where
 * `readRun` tells its defects.
 */
import { IsoproError } from '../errors.js';
import { LogReader } from '../log/read.js';
import type { RolloutTally } from './derived-figures.js';
import type { RunRecord } from './read-run.js';
import { LoggedRecords, type Logged } from './logged-records.js';
import { runPaths } from './paths.js';
import { RUN_STREAMS } from './streams.js';

export interface LoggedEvaluations
  extends Pick<
    RunRecord,
    | 'evaluations'
    | 'constrained'
    | 'tiers'
    | 'policies'
    | 'forgetting'
    | 'failures'
    | 'steps'
    | 'submission'
  > {
  readonly runId: string;
  readonly iterations: readonly Logged<'iteration_report'>[];
  readonly rollouts: RolloutTally;
  readonly rules: readonly Logged<'rule_eval'>[];
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
  {
    using reader = new LogReader(file, RUN_STREAMS);
    runId = reader.runId ?? '';
    for (const record of reader.records()) {
      try {
        logged.take(record);
      } catch (cause) {
        unreadable((cause as Error).message, cause);
      }
    }
  }
  const { stray, policies, ...figures } = logged.evaluations();
  if (stray !== null) unreadable(stray);
  return {
    runId,
    ...figures,
    iterations: logged.of('iteration_report'),
    policies: policies ?? unreadable('the trivial policies were not judged on the test problems'),
    rollouts: logged.rollouts,
    failures: logged.failures,
    steps: logged.of('step'),
    rules: logged.of('rule_eval'),
    submission: logged.last('submission'),
    end: logged.last('session_end'),
  };
}
