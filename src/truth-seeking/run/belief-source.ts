/** Beliefs of a trajectory from where a run takes them, in the form of its records. */
import { IsoproError } from '../../errors.js';
import { given } from '../../given.js';
import { askBeliefs, statedBeliefs, type AskedReadout } from '../beliefs/verbal-belief.js';
import { readBeliefs, type BeliefSystem } from '../beliefs/readout.js';
import { requireCapability, type Reasoner } from '../reasoner.js';
import type { BinaryProblem } from '../problem.js';
import type { Strategy } from '../strategies/strategy.js';
import type { Trajectory } from '../trajectory.js';
import type { TruthConfig } from './config.js';
import type { BeliefsRecord } from './records.js';
import type { NamedReasoner, TruthReasoners } from './reasoners.js';

export type RecordedReadout = BeliefsRecord['readout'];
export type Believer = (
  problem: BinaryProblem,
  trajectory: Trajectory,
  signal?: AbortSignal,
) => Promise<RecordedReadout>;

/**
 * Model to read beliefs from: the reasoner if it has log-probabilities, else the predictor.
 * @throws IsoproError BACKEND_INCAPABLE if neither has log-probabilities
 */
export function readerOf({ evaluated, predictor }: TruthReasoners): NamedReasoner {
  if (!evaluated.capabilities.logprobs && predictor !== null) return predictor;
  requireCapability(evaluated, 'logprobs');
  return evaluated;
}

/** Judge of a run: the named judge, else another model, else the reasoner. */
export const judgeOf = ({ evaluated, predictor, judge }: TruthReasoners): NamedReasoner =>
  judge ?? predictor ?? evaluated;

/** Model that a rating strategy asks: the reasoner for its own belief, else the judge. */
export const raterFor = (strategy: Strategy, policies: TruthReasoners): NamedReasoner =>
  strategy.name === 'grader' && strategy.kind === 'asked-belief'
    ? policies.evaluated
    : judgeOf(policies);

function said(
  { trajectoryId, problemId, policyId, readings, sampledTokens }: AskedReadout,
  beliefSystem: BeliefSystem,
): RecordedReadout {
  return {
    ...{ trajectoryId, problemId, policyId, beliefSystem },
    readings: readings.map((reading) =>
      reading.belief === null
        ? { belief: null, reason: reading.reason }
        : { belief: { ...reading.belief }, byWording: [...reading.measured] },
    ),
    tokens: { prefix: 0, reread: 0, probes: 0, sampled: sampledTokens },
  };
}

const overflowed = (
  judge: Reasoner,
  { id, problemId, steps }: Trajectory,
  beliefSystem: BeliefSystem,
): RecordedReadout => ({
  ...{ trajectoryId: id, problemId, policyId: judge.id, beliefSystem },
  readings: Array.from({ length: steps.length + 1 }, () => ({
    belief: null,
    reason: 'context overflow' as const,
  })),
  tokens: { prefix: 0, reread: 0, probes: 0, sampled: 0 },
});

/**
 * Model that is asked or read for beliefs.
 * @throws IsoproError BACKEND_INCAPABLE if beliefs must be read
 *   and no model has log-probabilities
 */
export function believingReasoner(
  policies: TruthReasoners,
  belief: BelieverConfig['belief'],
): NamedReasoner {
  if (belief === 'exact') return readerOf(policies);
  return belief === 'judge' ? judgeOf(policies) : policies.evaluated;
}

type BelieverConfig = Pick<
  TruthConfig,
  'belief' | 'measurements' | 'standpoint' | 'beliefSystem' | 'seed'
>;

/**
 * @throws IsoproError BACKEND_INCAPABLE if beliefs must be read and
 *   no model has log-probabilities; INVALID_ARGUMENT without a judge
 */
export function believerOf(policies: TruthReasoners, config: BelieverConfig): Believer {
  const { belief, measurements, standpoint, beliefSystem } = config;
  if (belief === 'exact') {
    const reader = readerOf(policies);
    return async (problem, of, signal) =>
      (await readBeliefs(reader, problem, of, { beliefSystem, ...given({ signal }) })) as never;
  }
  if (belief === 'stated')
    return async (problem, of) => said(statedBeliefs(problem, of), beliefSystem);
  const judge = belief === 'self' ? policies.evaluated : judgeOf(policies);
  if (belief === 'judge' && judge === policies.evaluated)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      'belief: the judge must be a different model from the one that reasons',
      {
        remedy: 'Name one with --judge, or let the model state its own beliefs (--belief self).',
      },
    );
  const how = { seed: BigInt(config.seed), measurements, standpoint, beliefSystem };
  return async (problem, of, signal) => {
    try {
      const asked = await askBeliefs(judge, problem, of, { ...how, ...given({ signal }) });
      return said(asked, beliefSystem);
    } catch (error) {
      if (!(error instanceof IsoproError) || error.code !== 'CONTEXT_OVERFLOW') throw error;
      return overflowed(judge, of, beliefSystem);
    }
  };
}
