/**
 * The public API of isopro-native. Anything that is not exported here may change without notice.
 */
import './bundler-check.js';

export { ERRORS, IsoproError, type ErrorCode } from './errors.js';
export { deriveSeed, Random, splitmix64, type DrawKey } from './random.js';
export {
  loadModel,
  type HiddenNorms,
  type HiddenRequest,
  type HiddenRows,
  type KvType,
  type LoadModelOptions,
  type Model,
} from './engine/model.js';
export type { EmbedOptions, Embeddings } from './engine/embedding.js';
export {
  resolveModel,
  type DownloadProgress,
  type ResolvedModel,
  type ResolveModelOptions,
} from './engine/model-files.js';
export {
  generateEach,
  type GenerateEachRequest,
  type NamedRollout,
} from './engine/generate-each.js';
export { inspectModel, type ModelInspection } from './engine/inspect.js';
export { estimateMemory, type MemoryEstimate } from './engine/memory-estimate.js';
export { diagnose, type Finding } from './engine/diagnosis.js';
export type { Adapter } from './engine/adapter.js';
export type { GenerationProgress, StageTime, TensorSummary } from './engine/addon.js';
export type {
  GenerateRequest,
  Prompt,
  SamplingSettings,
  TokenIds,
} from './engine/generate-request.js';
export type { Seed } from './engine/seed.js';
export type { CapturedBoundary, Rollout } from './engine/generation.js';
export type { MessageInput } from './engine/messages.js';
export type { ChatMessage, RenderedPrompt } from './engine/prompt-renderer.js';
export type {
  Backend,
  BackendIdentity,
  Capabilities,
  Reply,
  SamplePrompt,
  SampleProgress,
  SampleRequest,
  TokenReply,
} from './backends/backend.js';
export {
  ModelHost,
  type HostLoadOptions,
  type HostUsage,
  type ModelHostOptions,
} from './host/model-host.js';
export type {
  HostAdapterOptions,
  HostedModel,
  HostEmbedOptions,
  WhenFull,
} from './host/hosted-model.js';
export { Conversation, type ConversationSettings } from './host/conversation.js';
export type { HostedAdapter } from './host/hosted-adapter.js';
export type { HostReply, HostRequest, TokenEvent } from './host/host-request.js';
export type { ObjectReply, ObjectRequest } from './host/structured-reply.js';
export { localBackend, type LocalReply } from './backends/local.js';
export { recordedBackend } from './backends/recorded.js';
export { commandBackend, type CommandOptions } from './backends/command.js';
export { humanBackend, type AskPerson } from './backends/human.js';
export { passEnvironment } from './keys.js';
export { openBackend, type OpenBackendOptions } from './backends/open-backend.js';
export type { SampleFailure, Spending } from './backends/backend.js';
export type { LanguageModel } from './backends/remote/language-model.js';
export {
  languageModelBackend,
  type LanguageModelOptions,
} from './backends/remote/language-model-backend.js';
export type { EvaluationOptions, JudgedAnswer } from './evaluation/answers.js';
export { evaluationSet, type EvaluationSet } from './evaluation/evaluation-set.js';
export { evaluateGreedy, type GreedyEvaluation, type GreedyOutcome } from './evaluation/greedy.js';
export {
  evaluatePassAtK,
  type PassAtKEvaluation,
  type PassAtKOptions,
} from './evaluation/pass-at-k.js';
export { defineTask, type GivenVerdict, type TaskDefinition } from './tasks/define-task.js';
export {
  frozenSet,
  type FrozenProblem,
  type FrozenSet,
  type SetName,
} from './tasks/frozen-sets.js';
export {
  scenarioTask,
  type ScenarioProblem,
  type ScenarioTask,
} from './tasks/games/scenario-task.js';
export { openTask, type OpenTaskOptions } from './tasks/open-task.js';
export { scheduling } from './tasks/scheduling/scheduling.js';
export type { GroundTruth } from './tasks/scheduling/grade.js';
export type { Schedule, SchedulingProblem } from './tasks/scheduling/problem.js';
export { schedulingClassic } from './tasks/scheduling-classic/scheduling-classic.js';
export type {
  ExploitCase,
  FinishReason,
  Grades,
  JudgeOptions,
  Judgement,
  OpenTask,
  Parsed,
  Problem,
  PromptStyle,
  SynchronousTask,
  Task,
  TaskLimits,
  Tier,
  TraceFinding,
  Verdict,
  VerifyContext,
  Violation,
} from './tasks/task.js';
export * as gate from './gate/index.js';
export * as registry from './registry/index.js';
export * as statistics from './statistics/index.js';
export * as truth from './truth-seeking/index.js';
export type { Forecast } from './statistics/index.js';
export {
  ADAPTER_FORMATS,
  convertAdapter,
  inspectAdapter,
  type AdapterConversion,
  type AdapterFormat,
  type AdapterInspection,
} from './engine/adapter-files.js';
export {
  ADAPTER_USERS,
  prepareAdapter,
  type AdapterUse,
  type AdapterUser,
  type PreparedAdapter,
} from './engine/adapter-use.js';
export {
  mergeAdapter,
  MODEL_TYPES,
  type ExportModelOptions,
  type MergeRequest,
  type ModelType,
  type WrittenModel,
} from './engine/model-export.js';
export {
  createTrainer,
  type Boundary,
  type Evaluation,
  type LoraSettings,
  type LoraModule,
  type LoraTarget,
  type ModuleStatistics,
  type Objective,
  type OptimiserSettings,
  type SequenceEvaluation,
  type StepRequest,
  type StepStatistics,
  type Trainer,
  type TrainerOptions,
  type TrainSequence,
} from './engine/trainer.js';
export {
  DEFAULT_RULES,
  ruleConfig,
  type BreachSide,
  type RuleConfig,
  type RuleConfigInput,
  type RuleId,
} from './monitor/rules.js';
export type { Evaluation as RuleEvaluations, RuleEvaluation } from './monitor/evaluate-rules.js';
export type { DecideOptions, Refusal } from './monitor/policy.js';
export type { LoraOperation as RemedyOperation } from './trainees/lora/operations.js';
export type {
  LoraDecision as Decision,
  LoraDecisionContext as DecisionContext,
  LoraEffect as Effect,
  LoraIteration as Iteration,
  LoraPolicy as Policy,
  TrainerSettings,
} from './trainees/lora/trainee.js';
export type { LoraReport as MonitorReport } from './training/monitor-session.js';
export { run, type TrackedRunOptions } from './operations/tracked-run.js';
export {
  trainAdapter,
  type TrainAdapterOptions,
  type TrainedAdapter,
  type TrainStep,
} from './operations/train-adapter.js';
export type { TrackerName } from './trackers/trackers.js';
export { resolveSettings, type RunSettings, type RunSettingsInput } from './training/settings.js';
export { readResult, type RunResult } from './training/result.js';
export type {
  IterationReport,
  RunHooks,
  RunOptions,
  RunProgress,
  Stage,
} from './training/hooks.js';
export { planRun, type RunPlan } from './training/dry-run.js';
export {
  ablate,
  type Ablation,
  type AblationOptions,
  type Condition,
} from './operations/ablation.js';
export { evaluateWith as evaluate } from './operations/evaluate.js';
export type { EvaluateSettings } from './operations/evaluate-settings.js';
export type { ForgettingEvaluation } from './operations/evaluate-forgetting.js';
export type { TaskEvaluation } from './operations/evaluate-task.js';
export type { Context, Told } from './operations/operation.js';
export { compareModes, type CompareOptions, type Comparison } from './operations/compare-modes.js';
export type { MethodResult, Mode } from './training/modes/mode.js';
export { compareRuns, listRuns, type RunComparison, type RunSummary } from './lookup/run-list.js';
export { readRun, type ReadRunOptions, type RunRecord } from './run-folder/read-run.js';
