/** Evaluation of a model on a task, or of what it forgot. */
import path from 'node:path';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { given } from '../given.js';
import { isService } from './backend-settings.js';
import { evaluateForgetting, type ForgettingEvaluation } from './evaluate-forgetting.js';
import { contradictions, evaluateSettings, type EvaluateSettings } from './evaluate-settings.js';
import { evaluateTask, type TaskEvaluation } from './evaluate-task.js';
import { contextOf, memoryOf, memoryOfGrader, PROCESS_BYTES } from './memory.js';
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
    resolve: (stated, names): EvaluateSettings => {
      const settings = resolvedNames(evaluateSettings, withTask(stated), names);
      if (answersHere(stated)) return settings;
      const { keyEnv } = names.allowedBackend(stated.backend!, 'settings.backend');
      // no model of this server answers, unless the request says so and contradicts itself
      const { model, ...others } = settings;
      return { ...(stated.model === undefined ? others : settings), ...given({ keyEnv }) };
    },
    // a job that restarts asks for no reply again, and no other caller's job reads the replies
    local: ({ folder }, { backend }) =>
      backend !== undefined && isService(backend)
        ? { record: path.join(folder, 'replies.jsonl') }
        : {},
    memoryBytes: async ({ backend, model = EMBEDDED_MODEL, contextTokens, check }) =>
      (answersHere({ backend })
        ? await memoryOf(model, contextTokens ?? contextOf(model))
        : PROCESS_BYTES) + (await memoryOfGrader(check)),
    shown: (stated, _, { allowed }) => ({
      ...withTask(stated),
      ...(answersHere(stated) && { model: stated.model ?? allowed.model }),
    }),
  },
});

/** Whether a model of this machine answers. */
const answersHere = ({ backend = 'local' }: Pick<EvaluateSettings, 'backend'>): boolean =>
  backend === 'local';

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
