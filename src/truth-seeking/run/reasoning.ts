/** Lets a reasoner reason about a problem of a run, as its setup says. */
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { REASONING_MODES } from '../modes/mode.js';
import { reason } from '../modes/reason.js';
import type { Reasoner } from '../reasoner.js';
import { systemText, trajectorySeed, type interviewQuestions } from './plan.js';
import type { FailureRecord, ProblemRecord, Setup, TrajectoryRecord } from './records.js';
import type { Work } from './run-context.js';

export interface Place {
  readonly setup: Setup;
  readonly asked: ProblemRecord;
}

export async function reasonAt(
  { config, options: { signal } }: Work,
  reasoner: Reasoner,
  { setup, asked }: Place,
  questions: ReturnType<typeof interviewQuestions>,
): Promise<TrajectoryRecord | FailureRecord> {
  const { problem } = asked;
  try {
    const options = {
      system: systemText(setup),
      seed: trajectorySeed(config, setup, asked),
      stated: config.belief === 'stated',
      ...given(config, 'maxTokens', 'temperature'),
      ...given({ questions, signal }),
    };
    const mode = REASONING_MODES.parse(setup.mode);
    const { trajectory: made, ...counts } = await reason(reasoner, problem, mode, options);
    const trajectory = made as TrajectoryRecord['trajectory'];
    return { kind: 'trajectory', setup, trajectory, ...counts };
  } catch (error) {
    if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') throw error;
    return { kind: 'failure', setup, problemId: problem.id, reason: 'context overflow' };
  }
}
