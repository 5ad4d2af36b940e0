/** Public API of truth-seeking: measures whether reasoning moves beliefs towards the truth. */
export {
  BELIEF_SOURCES,
  type Belief,
  type BeliefPath,
  type BeliefSource,
} from './beliefs/belief.js';
export {
  askBeliefs,
  statedBeliefs,
  type AskedOptions,
  type AskedReadout,
} from './beliefs/verbal-belief.js';
export {
  beliefPath,
  readBeliefs,
  WORDINGS,
  type Readout,
  type ReadoutOptions,
  type Wording,
} from './beliefs/readout.js';
export { DOMAINS } from './domains/index.js';
export type { Domain, GeneratedDomain, WrittenDomain } from './domains/domain.js';
export {
  importDomain,
  IMPORT_KINDS,
  readOwnDomain,
  type ImportKind,
  type OwnImport,
} from './domains/user-domain.js';
export { gradeBelief, statedBelief, type Grade } from './graders/belief-grader.js';
export { coverageGrader, modelBeliefGrader, modelGrader } from './graders/model-graders.js';
export { humanReasoner, humanReasoner as humanPolicy } from './human-reasoner.js';
export {
  localReasoner,
  localReasoner as localPolicy,
  type LocalReasonerOptions,
  type LocalReasonerOptions as LocalPolicyOptions,
} from './local-reasoner.js';
export { REASONING_MODES, type ReasoningMode } from './modes/mode.js';
export { reason, trainingSamples, type ReasonOptions, type Reasoned } from './modes/reason.js';
export type { InferOptions, Message, Reasoner, Reasoner as Policy, Reply } from './reasoner.js';
export {
  binaryProblem,
  openProblem,
  type BinaryProblem,
  type OpenProblem,
  type Problem,
} from './problem.js';
export { readTruthConfig, type TruthConfig, type TruthConfigInput } from './run/config.js';
export { readTruthRun, type TruthRun } from './run/folder.js';
export { judgeTruthRun, type TruthJudgement } from './run/judge.js';
export { openReasoners, openReasoners as openPolicies } from './run/open-reasoners.js';
export type {
  NamedReasoner,
  NamedReasoner as NamedPolicy,
  TruthReasoners,
  TruthReasoners as TruthPolicies,
} from './run/reasoners.js';
export {
  measureAgain,
  runTruth,
  type AgainOptions,
  type RunTruthOptions,
  type TruthResult,
} from './run/evaluation-run.js';
export {
  scriptedReasoner,
  scriptedReasoner as scriptedPolicy,
  type Script,
} from './scripted-reasoner.js';
export {
  conjunctionExcess,
  negationIncoherence,
  orderSensitivity,
} from './strategies/coherence.js';
export { graderScore, type Grader } from './strategies/grader-score.js';
export { labelProblems, type FoundLabels, type LabelOptions } from './strategies/label-problems.js';
export { searchLabels, type LabelSearch } from './strategies/label-search.js';
export { martingaleRewards } from './strategies/martingale-reward.js';
export { crossFitted, martingale, withoutNoise } from './strategies/martingale.js';
export {
  qualitativeConfig,
  qualitativeScore,
  rate,
  type Judging,
  type Rating,
} from './strategies/qualitative-judge.js';
export { STRATEGIES, type Strategy } from './strategies/strategy.js';
export { SYSTEM_PROMPTS } from './system-prompts.js';
export { textOf, trajectory, type Step, type Trajectory } from './trajectory.js';
export { beforeAndAfter, type FigureChange } from './training/before-after.js';
export { BELIEF_TASK } from './training/belief-task-file.js';
export {
  beliefGuards,
  beliefMargins,
  beliefTrials,
  type BeliefEvidence,
  type BeliefMargins,
} from './training/guards.js';
export {
  trainOnReadout,
  type ReadoutStep,
  type ReadoutTraining,
} from './training/readout-training.js';
