import { courseVerification } from './course.js';
import {
  adapterLoads,
  deliverablesAsSubmitted,
  deliverablesExist,
  runConfigConsistency,
} from './deliverables.js';
import { liveDiagnosticSanity } from './live-diagnostic.js';
import {
  chainIntegrity,
  figureRecomputation,
  ruleRecomputation,
  ticketAndKey,
} from './log-steps.js';
import { architectureReplay } from './replay.js';
import { rolloutResampling } from './resample.js';
import { rolloutVerification } from './rollout-verification.js';
import { decisionDefensibility, emitTwoScores, ruleCoverageAudit } from './score-steps.js';
import { headOf, StepSequence } from './step.js';
import { testSetEvaluation } from './test-set.js';

/**
 * The judge: integrity first, then whether the log contradicts itself, then the submission. The
 * order is that of env_rl.md §8.3, except that the ticket is read from a verified log.
 */
export const JUDGE = new StepSequence<'options' | 'closers'>()
  .and(chainIntegrity)
  .and(ticketAndKey)
  .and(ruleRecomputation)
  .and(figureRecomputation)
  .and(deliverablesExist)
  .and(deliverablesAsSubmitted)
  .and(adapterLoads)
  .and(runConfigConsistency)
  .and(rolloutVerification)
  .and(architectureReplay)
  .and(liveDiagnosticSanity)
  .and(courseVerification)
  .and(rolloutResampling)
  .and(ruleCoverageAudit)
  .and(decisionDefensibility)
  .and(testSetEvaluation)
  .and(emitTwoScores);

/** Number, name and kind of each, in that order. */
export const STEPS = JUDGE.steps.map(headOf);
