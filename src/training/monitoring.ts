/** The monitor's part of an iteration: measurements, rules, decisions, remedies, all of them logged. */
import type { StepStatistics, TrainSequence } from '../engine/trainer.js';
import { evaluateHistory } from '../monitor/evaluate-rules.js';
import type { Iteration } from '../monitor/measurements.js';
import { decide, observe, scripted, type TrainerSettings } from '../monitor/policy.js';
import { decisionRecord, effectRecord, evaluationRecord, iterationRecords } from '../monitor/records.js';
import { executedRules, executeDecision, type Effect } from '../monitor/remedies.js';
import { ruleConfig, type RuleConfig } from '../monitor/rules.js';
import { TrainerExecutor, trainerSettings } from '../monitor/trainer-executor.js';
import type { Summary } from '../statistics/index.js';
import type { Learner } from './learner.js';
import type { RunContext, RunState } from './run-state.js';
import type { RunSettings } from './settings.js';

/** Thresholds of a run; its digest is part of the genesis. */
export const ruleConfigOf = ({ patience }: Pick<RunSettings, 'patience'>): RuleConfig => ruleConfig.parse({ r3: { patience } });

/** A remedy never asks for more sequences a step than this times the setting. */
const MAX_BATCH_GROWTH = 4;

export interface Measured {
  readonly iteration: number;
  readonly steps: readonly StepStatistics[];
  /** Part of the groups in which some but not all samples passed. */
  readonly informative: number;
  /** Verdicts of the iteration's rollouts. */
  readonly passed: number;
  readonly decided: number;
  /** Mean KL(new‖old) per token. */
  readonly shift: number | null;
  readonly dev: Summary;
  readonly learner: Learner;
  /** Sequences on which it is measured how far a remedy moves the function. */
  readonly probe: readonly TrainSequence[];
}

/** Measures, evaluates the rules over the whole history, decides, executes. Remedies take effect in `state` and on the trainer. */
export class RunMonitor {
  readonly #context: RunContext;
  readonly #state: RunState;
  readonly #history: Iteration[];

  /** @param history of the iterations before, read back from the log */
  constructor(context: RunContext, state: RunState, history: readonly Iteration[]) {
    this.#context = context;
    this.#state = state;
    this.#history = [...history];
  }

  /** @throws IsoproError DECISION_INVALID */
  async iterate(measured: Measured): Promise<string[]> {
    const { log, settings, hooks } = this.#context;
    const { iteration, steps, informative, passed, decided, shift, dev, learner, probe } = measured;
    const rate = decided === 0 ? null : passed / decided;
    const record: Iteration = {
      iteration,
      steps,
      informativeGroupFraction: informative,
      objective: rate === null ? null : { value: rate, standardError: Math.sqrt((rate * (1 - rate)) / decided) },
      heldOut: dev.mean === null ? null : { passRate: dev.mean, n: dev.n },
      kl: shift,
      parameters: learner.parameters(),
      executed: [],
    };
    const evaluations = evaluateHistory([...this.#history, record], ruleConfigOf(settings));
    const evaluation = evaluations.at(-1)!;
    const decisions = await decide(settings.policy === 'scripted' ? scripted : observe, evaluations, this.#trainerSettings(learner));
    log.append([...iterationRecords(record), evaluationRecord(evaluation), ...decisions.map((decision) => decisionRecord(decision, iteration))]);
    const effects: Effect[] = [];
    if (decisions.length > 0) {
      const executor = await this.#executor(learner, probe);
      for (const decision of decisions) effects.push(...(await executeDecision(decision, iteration, executor)));
      ({ learningRate: this.#state.learningRate, maxNorm: this.#state.maxNorm } = executor);
    }
    if (effects.length > 0) log.append(effects.map(effectRecord));
    this.#history.push({ ...record, executed: executedRules(decisions, effects) });
    if (evaluation.fired.length > 0) hooks.onRule?.({ evaluation, decisions, effects });
    return [...evaluation.fired];
  }

  /** Remedies act on the trainer as it stands; the state before them is what a rollback restores, since steps that are not finite are never applied. */
  async #executor(learner: Learner, probe: readonly TrainSequence[]): Promise<TrainerExecutor> {
    const state = this.#state;
    const executor = new TrainerExecutor(learner.trainer, {
      learningRate: state.learningRate,
      maxNorm: state.maxNorm,
      probe,
      loop: {
        setBatch: (sequences) => (state.batchSize = sequences),
        stop: () => {
          state.stop = 'no gain on the dev problems (rule R3)';
          state.restoreBest = true;
        },
      },
    });
    if (state.adapterId !== null) await executor.remember(state.adapterId);
    return executor;
  }

  #trainerSettings(learner: Learner): TrainerSettings {
    const { learningRate, maxNorm, batchSize, best, adapterId } = this.#state;
    const none = '0'.repeat(64);
    return trainerSettings(learner.trainer, {
      learningRate,
      batchSize,
      maxGradNorm: maxNorm,
      bestAdapter: best.adapterId ?? none,
      lastSoundAdapter: adapterId ?? none,
      maxBatchSize: this.#context.settings.batchSize * MAX_BATCH_GROWTH,
    });
  }
}
