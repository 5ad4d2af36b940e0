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
  gatePolicy,
  type GatePolicy,
  type GatePolicyInput,
  type GuardInput,
} from './policy.js';
export {
  decideRollback,
  rollbackPolicy,
  type RollbackDecision,
  type RollbackPolicy,
  type RollbackPolicyInput,
} from './rollback.js';
export { minimumBlocks, twoSidedThreshold } from './spending.js';
export type { TrialInput } from './trials.js';
