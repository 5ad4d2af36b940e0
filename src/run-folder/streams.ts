/** The seven streams of a run's log. */
import type { EventLog, NewRecord } from '../log/event-log.js';
import type { LogStreams } from '../log/streams.js';

export type RunStream =
  | 'metrics'
  | 'rule_evals'
  | 'decisions'
  | 'effects'
  | 'rollouts'
  | 'evaluations';

/** The views are the three logs that the system had from which this one came. */
export const RUN_STREAMS: LogStreams<RunStream> = {
  codes: {
    metrics: 1,
    rule_evals: 2,
    decisions: 3,
    effects: 4,
    rollouts: 5,
    evaluations: 6,
    control: 7,
  },
  views: { metrics_log: 'metrics', decision_log: 'decisions', rule_evaluations: 'rule_evals' },
};

export type RunLog = EventLog<RunStream>;
export type NewRunRecord = NewRecord<RunStream>;
