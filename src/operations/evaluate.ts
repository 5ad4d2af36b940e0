/** Evaluation of a model on a task, or of what it forgot. */
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { evaluateForgetting, type ForgettingEvaluation } from './evaluate-forgetting.js';
import { contradictions, evaluateSettings, type EvaluateSettings } from './evaluate-settings.js';
import { evaluateTask, type TaskEvaluation } from './evaluate-task.js';
import { contextOf, memoryOf, memoryOfGrader } from './memory.js';
import { operation, type Context } from './operation.js';
import { resolvedNames } from './requests.js';

export type Evaluation = TaskEvaluation | ForgettingEvaluation;

export const evaluate = operation({
  id: 'eval',
  title: "Evaluate a model, with or without an adapter, on a task's held-out problems",
  settings: evaluateSettings,
  contradictions,
  run: (asked, context): Promise<Evaluation> =>
    asked.forgetting ? evaluateForgetting(asked, context) : evaluateTask(asked, context),
  job: {
    title: "Evaluate a model on a task's held-out problems",
    resolve: (stated, names) => resolvedNames(evaluateSettings, withTask(stated), names),
    memoryBytes: async ({ model = EMBEDDED_MODEL, contextTokens, check }) =>
      (await memoryOf(model, contextTokens ?? contextOf(model))) + (await memoryOfGrader(check)),
    shown: (stated, _, { allowed }) => ({
      ...withTask(stated),
      model: stated.model ?? allowed.model,
    }),
  },
});

/** A command that names its task can be read alone. */
const withTask = (stated: EvaluateSettings): EvaluateSettings =>
  stated.forgetting === true ? stated : { ...stated, task: stated.task ?? 'scheduling' };

/** Overloads for programs: the result type follows from `forgetting`. */
interface Evaluate {
  (
    settings: EvaluateSettings & { readonly forgetting: true },
    context?: Partial<Context>,
  ): Promise<ForgettingEvaluation>;
  (
    settings?: EvaluateSettings & { readonly forgetting?: false },
    context?: Partial<Context>,
  ): Promise<TaskEvaluation>;
}

/**
 * Evaluates a model, with or without an adapter, as the command `eval` does.
 * @param context `signal` ends it; `tell` is told of its progress, and of what a person should know
 * @throws IsoproError INVALID_ARGUMENT naming each setting that is wrong; of models, adapters and
 *   tasks as they are loaded; RECORDING_INVALID, RECORDING_INCOMPLETE, VERIFIER_UNDECIDED,
 *   WRITE_FAILED, ABORTED
 */
export const evaluateWith = ((asked: EvaluateSettings = {}, context?: Partial<Context>) =>
  evaluate.run(asked, context)) as Evaluate;
