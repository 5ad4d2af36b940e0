/** What an iteration tells the monitor, and what the monitor's remedies change in the run. */
import type { StepStatistics, TrainSequence } from '../engine/trainer.js';
import { observe, scripted, type Policy } from '../monitor/policy.js';
import { ruleConfig, type RuleConfig } from '../monitor/rules.js';
import type { MonitorReport, MonitorSession } from '../monitor/session.js';
import { moduleParameters, TrainerExecutor, trainerSettings } from '../monitor/trainer-executor.js';
import type { TierVerdicts } from '../statistics/index.js';
import type { SetEvaluation } from './evaluations.js';
import type { Learner } from './learner.js';
import type { TierCounts } from './replay-buffer.js';
import type { RunContext, RunState } from './run-state.js';
import type { RunSettings } from './settings.js';

/** Thresholds of a run; its digest is part of the genesis. */
export const ruleConfigOf = ({ patience }: Pick<RunSettings, 'patience'>): RuleConfig => ruleConfig.parse({ r3: { patience } });

export const policyOf = ({ policy }: Pick<RunSettings, 'policy'>): Policy => (policy === 'scripted' ? scripted : observe);

/** A remedy never asks for more sequences a step than this times the setting. */
const MAX_BATCH_GROWTH = 4;

export interface Measured {
  readonly iteration: number;
  readonly steps: readonly StepStatistics[];
  /** Part of the groups in which some but not all samples passed. */
  readonly informative: number;
  /** Verdicts of the iteration's rollouts, by tier. */
  readonly counts: ReadonlyMap<string, Pick<TierCounts, 'passed' | 'failed'>>;
  /** Mean KL(new‖old) per token. */
  readonly shift: number | null;
  readonly dev: SetEvaluation;
  /** The dev problems under the best adapter before this iteration. */
  readonly before: readonly TierVerdicts[];
  readonly learner: Learner;
  /** Sequences on which it is measured how far a remedy moves the function. */
  readonly probe: readonly TrainSequence[];
}

/** Records the iteration, evaluates the rules, executes remedies. They take effect on the trainer and in `state`. */
export async function monitorIteration({ settings, hooks }: RunContext, state: RunState, session: MonitorSession, measured: Measured): Promise<MonitorReport> {
  const { iteration, steps, informative, counts, shift, dev: { summary: { mean, n }, verdicts }, before, learner } = measured;
  // once an iteration, so that a resumed run has the same one: what it may go back to is the state before the remedies
  const executor = executorOf(learner, state, measured.probe);
  await executor.remember(state.adapterId!);
  const report = await session.iteration(
    {
      iteration,
      steps,
      informativeGroupFraction: informative,
      objective: hitRate(counts),
      heldOut: mean === null ? null : { passRate: mean, n, verdicts, best: before },
      kl: shift,
      parameters: moduleParameters(learner.trainer),
    },
    {
      settings: trainerSettings(learner.trainer, {
        learningRate: state.learningRate,
        batchSize: state.batchSize,
        maxGradNorm: state.maxNorm,
        bestAdapter: state.best.adapterId!,
        lastSoundAdapter: state.adapterId!, // a step that is not finite is never applied
        maxBatchSize: settings.batchSize * MAX_BATCH_GROWTH,
      }),
      executor,
    },
  );
  ({ learningRate: state.learningRate, maxNorm: state.maxNorm, epsilon: state.epsilon } = executor);
  if (report.evaluation.fired.length > 0) hooks.onRule?.(report);
  return report;
}

/** Mean over tiers of the part that passed, so that it does not fall when harder tiers get more rollouts; null without any verdict. */
export function hitRate(counts: Measured['counts']): { value: number; standardError: number } | null {
  const rates = [...counts.values()].filter(({ passed, failed }) => passed + failed > 0).map(({ passed, failed }) => ({ p: passed / (passed + failed), n: passed + failed }));
  if (rates.length === 0) return null;
  return {
    value: rates.reduce((sum, { p }) => sum + p, 0) / rates.length,
    standardError: Math.sqrt(rates.reduce((sum, { p, n }) => sum + (p * (1 - p)) / n, 0)) / rates.length,
  };
}

function executorOf(learner: Learner, state: RunState, probe: readonly TrainSequence[]): TrainerExecutor {
  const { learningRate, maxNorm, epsilon } = state;
  return new TrainerExecutor(learner.trainer, {
    learningRate, maxNorm, epsilon, probe,
    loop: {
      setBatch: (sequences) => (state.batchSize = sequences),
      stop: () => {
        state.stop = 'no gain on the dev problems (rule R3)';
        state.restoreBest = true;
      },
    },
  });
}
