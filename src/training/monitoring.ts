/** Connection of an iteration to the monitor and its remedies. */
import { z } from 'zod';
import { ownValue } from '../dictionary.js';
import { checked } from '../engine/argument-check.js';
import type { StepStatistics, TrainSequence } from '../engine/trainer.js';
import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import type { Measurement } from '../monitor/measurements.js';
import { observe } from '../monitor/policy.js';
import { ruleConfig, type RuleConfig, type RuleConfigInput } from '../monitor/rules.js';
import { heldOutReading } from '../run-folder/derived-figures.js';
import type { TierVerdicts } from '../statistics/index.js';
import { moduleParameters, TrainerExecutor, trainerSettings } from '../trainees/lora/executor.js';
import { scripted } from '../trainees/lora/scripted.js';
import type { LoraPolicy } from '../trainees/lora/trainee.js';
import type { SetEvaluation } from './evaluations.js';
import type { Learner } from './learner.js';
import type { LoraReport, LoraSession } from './monitor-session.js';
import type {
  Best,
  Ending,
  GoingBack,
  InForce,
  KeptState,
  Present,
  Reporting,
  Training,
} from './run-state.js';
import { namedPolicy } from './policy-setting.js';
import type { RunSettings } from './settings.js';

/**
 * Thresholds of a run; their digest is part of the genesis.
 * @throws IsoproError INVALID_ARGUMENT where those given are none
 */
export const ruleConfigOf = (
  { monitor: { patience } }: Pick<RunSettings, 'monitor'>,
  given: RuleConfigInput = {},
): RuleConfig => checked(ruleConfig, { ...given, r3: { patience, ...given.r3 } }, 'rules');

const OWN_POLICIES: Readonly<Record<string, LoraPolicy>> = { scripted, observe };
/** Names of the policies that choose from a menu, which openDecider opens. */
const DECIDERS = /^(random|table|human|model:.*)$/s;
const givenPolicy = z.custom<LoraPolicy>((value) => {
  const { name, decide } = (value ?? {}) as Partial<LoraPolicy>;
  return (
    typeof name === 'string' && /^[\w.:/@-]{1,100}$/.test(name) && typeof decide === 'function'
  );
}, 'expected an object with `decide` and a `name` of 1 to 100 letters, digits and . : / @ _ -');

/**
 * Who decides in a run, and within how many milliseconds. The policy is null where the setting
 * names a decider, which has to be opened.
 * @param given in place of the setting's
 * @throws IsoproError INVALID_ARGUMENT, also for a policy that goes by the name of another
 */
export function policyOf(
  settings: { readonly monitor: Pick<RunSettings['monitor'], 'policy'> },
  given?: LoraPolicy,
  timeout?: number,
): { readonly policy: LoraPolicy | null; readonly timeout: number | undefined } {
  checked(
    z
      .int()
      .min(1)
      .max(2 ** 31 - 1)
      .optional(),
    timeout,
    'policyTimeout',
  );
  if (given === undefined)
    return { policy: ownValue(OWN_POLICIES, settings.monitor.policy) ?? null, timeout };
  const policy = checked(givenPolicy, given, 'policy');
  const namesake = ownValue(OWN_POLICIES, policy.name);
  if ((namesake !== undefined && namesake !== policy) || DECIDERS.test(policy.name))
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `policy.name: ${policy.name} is reserved for a built-in policy`,
    );
  return { policy, timeout };
}

/** A remedy never asks for more sequences a step than this times the setting. */
const MAX_BATCH_GROWTH = 4;

export interface Measured {
  readonly iteration: number;
  readonly steps: readonly StepStatistics[];
  /** Part of the groups in which some but not all samples passed. */
  readonly informative: number;
  readonly objective: Measurement['objective'];
  /** Mean KL(new‖old) per token. */
  readonly shift: number | null;
  readonly dev: SetEvaluation;
  /** The dev problems under the best adapter before this iteration. */
  readonly before: readonly TierVerdicts[];
  readonly learner: Learner;
  /** Sequences on which it is measured how far a remedy moves the function. */
  readonly probe: readonly TrainSequence[];
}

/**
 * Records the iteration, evaluates the rules, executes remedies. They take effect on the trainer
 * and in `state`.
 */
export async function monitorIteration(
  { settings, hooks, signal }: Reporting,
  state: InForce & GoingBack & Pick<Training, 'executor'>,
  session: LoraSession,
  measured: Measured,
): Promise<LoraReport> {
  const {
    iteration,
    steps,
    informative,
    objective,
    shift,
    dev: { summary, verdicts },
    before,
    learner,
  } = measured;
  const executor = state.executor!;
  executor.begin({ probe: measured.probe, steps });
  const report = await session.iteration(
    {
      iteration,
      steps,
      informativeGroupFraction: informative,
      objective,
      heldOut: heldOutReading(summary, verdicts, before),
      kl: shift,
      parameters: moduleParameters(learner.trainer),
    },
    {
      settings: trainerSettings(learner.trainer, {
        learningRate: state.learningRate,
        batchSize: state.batchSize,
        maxGradNorm: state.maxNorm,
        epsilon: state.epsilon,
        bestAdapter: state.best.adapterId!,
        lastSoundAdapter: state.sound!.adapterId,
        maxBatchSize: settings.optimiser.batchSize * MAX_BATCH_GROWTH,
      }),
      executor,
      ...stated({ signal }),
    },
  );
  if (report.refused !== null)
    hooks.onNotice?.(
      `the policy gave no valid answer to ${report.refused.rule} in iteration ${iteration}: ${report.refused.reason}`,
    );
  for (const { rule, failure } of report.questions ?? [])
    if (failure !== null)
      hooks.onNotice?.(
        `the script answered ${rule} in iteration ${iteration} in place of ${namedPolicy(settings.monitor.policy)}: ${failure.reason}`,
      );
  if (report.evaluation.fired.length > 0) hooks.onRule?.(report);
  return report;
}

const nonFinite = (steps: readonly StepStatistics[]): string =>
  [...new Set(steps.flatMap((step) => step.nonFinite))].slice(0, 3).join(', ');

/**
 * @throws IsoproError NUMERIC_FAILURE where an iteration changed nothing because nothing was
 *   finite, and no remedy was executed
 */
export function refuseUnapplied(
  { iteration, steps }: Pick<Measured, 'iteration' | 'steps'>,
  { effects }: LoraReport,
): void {
  if (
    steps.length === 0 ||
    steps.some(({ applied }) => applied) ||
    effects.some(({ rule, executed }) => rule === 'R7' && executed)
  )
    return;
  throw new IsoproError(
    'NUMERIC_FAILURE',
    `none of the ${steps.length} steps of iteration ${iteration} was finite (${nonFinite(steps)}), and no remedy was executed`,
  );
}

/**
 * @throws IsoproError NUMERIC_FAILURE where a whole run changed nothing for that reason, whatever
 *   was tried
 */
export function refuseUntrained(history: LoraSession['history']): void {
  const steps = history.flatMap((iteration) => iteration.steps);
  if (steps.length === 0 || steps.some(({ applied }) => applied)) return;
  throw new IsoproError(
    'NUMERIC_FAILURE',
    `none of the ${steps.length} training steps had a finite loss and gradient (${nonFinite(steps)}), so there is no trained adapter`,
  );
}

/** One for the whole run; what it changes stands in `state`, and so in the checkpoint. */
export function createExecutor(
  learner: Learner,
  state: InForce & Present & GoingBack & Ending,
): TrainerExecutor {
  const kept = (digest: string): KeptState | Best | undefined =>
    [state.sound, state.best].find((each) => each?.adapterId === digest) ?? undefined;
  return new TrainerExecutor(learner.trainer, {
    inForce: state,
    dropout: learner.dropout,
    loop: {
      setBatch: (sequences) => (state.batchSize = sequences),
      kept: (digest) => kept(digest)?.snapshot ?? undefined,
      digest: async () => {
        state.adapterId = await learner.apply();
        state.adapterIteration = kept(state.adapterId)?.iteration ?? state.adapterIteration;
        return state.adapterId;
      },
      stop: () => {
        state.stop = 'no gain on the dev problems (rule R3)';
        state.settled = true;
      },
    },
  });
}
