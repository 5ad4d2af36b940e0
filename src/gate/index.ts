export {
  decide,
  type Decision,
  type GateDecision,
  type GateEvidence,
  type GuardDecision,
  type Version,
} from './decide.js';
export { logDiscordant } from './e-process.js';
export type { Statistic } from './outcome.js';
export { pairedTInterval } from './paired-t.js';
export {
  alphaOf,
  gateTerms as gatePolicy,
  type GateTerms as GatePolicy,
  type GateTermsInput as GatePolicyInput,
  type GuardInput,
} from './terms.js';
export {
  decideRollback,
  rollbackTerms as rollbackPolicy,
  type RollbackDecision,
  type RollbackTerms as RollbackPolicy,
  type RollbackTermsInput as RollbackPolicyInput,
} from './rollback.js';
export { minimumBlocks, twoSidedThreshold } from './spending.js';
export type { TrialInput } from './trials.js';
