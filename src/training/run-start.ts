/** Values that determine a run, for its manifest and the genesis of its log. */
import path from 'node:path';
import { asJson } from '../canonical-json.js';
import type { Model } from '../engine/model.js';
import type { RuleConfig } from '../monitor/rules.js';
import type { EvaluationSet } from '../evaluation/evaluation-set.js';
import { codeVersion, machineClass, otherModels } from '../run-folder/machine.js';
import type { EvaluationSetIdentity, RunStart } from '../run-folder/manifest.js';
import type { OpenTask } from '../tasks/task.js';
import type { DeciderCommitment } from '../monitor/policies/commitment.js';
import type { LoraPolicy } from '../trainees/lora/trainee.js';
import { namedPolicy } from './policy-setting.js';
import type { RunSettings } from './settings.js';
import type { TeacherModel } from './teacher.js';

const identity = ({
  origin,
  file,
  perTier,
  problems,
  sha256,
}: EvaluationSet): EvaluationSetIdentity => ({
  origin,
  file,
  perTier,
  problems: problems.length,
  sha256,
});

export interface StartOptions {
  /** `model.threads` is the number in use. */
  readonly settings: RunSettings;
  readonly model: Model;
  /** Teacher of a distillation. */
  readonly teacher?: Pick<TeacherModel, 'hash'> | null;
  readonly task: OpenTask;
  readonly dev: EvaluationSet;
  readonly test: EvaluationSet;
  readonly rules: RuleConfig;
  readonly policy: Pick<LoraPolicy, 'name'> & { readonly commitment?: DeciderCommitment };
}

export async function runStart({
  settings,
  model,
  teacher = null,
  task,
  dev,
  test,
  rules,
  policy,
}: StartOptions): Promise<RunStart> {
  const { style, maxTokens } = settings.sampling;
  const { maxSequences, threads } = settings.model;
  const name = path.basename(settings.model.name); // no folder of this machine
  const written = asJson({
    ...settings,
    model: { ...settings.model, name },
    ...(teacher === null ? {} : { algorithm: await taughtBy(settings.algorithm, teacher) }),
    monitor: { ...settings.monitor, policy: namedPolicy(settings.monitor.policy) },
    task: task.id,
    ...(task.rows === undefined ? {} : { check: task.rows.check.name }),
    ...(task.rows?.check.grader === undefined ? {} : { grader: task.rows.check.grader }),
  });
  return {
    code: await codeVersion(),
    machine: machineClass([model.info, ...otherModels(written)]),
    model: {
      sha256: await model.hash(),
      name,
      architecture: model.info.architecture,
      quantisation: model.info.quantisation,
    },
    task: {
      id: task.id,
      version: task.version,
      file: task.source.kind === 'file' ? task.source.sha256 : null,
    },
    sets: { dev: identity(dev), test: identity(test) },
    evaluation: {
      style,
      maxTokens,
      maxSequences,
      contextTokens: model.contextTokens,
      threads,
      matmul: model.info.matmul,
      rendererId: model.rendererId,
    },
    schedule: {
      schedule: 'constant',
      warmupSteps: settings.optimiser.warmupSteps,
      totalSteps: 0,
      finalFactor: 0,
    },
    rules,
    policy: policy.name,
    ...(policy.commitment !== undefined && { decider: policy.commitment }),
    settings: written,
  };
}

/** The teacher is named as the model is, without a folder of this machine, and by its content. */
const taughtBy = async (
  algorithm: RunSettings['algorithm'],
  teacher: Pick<TeacherModel, 'hash'>,
): Promise<object> => ({
  ...algorithm,
  teacher: path.basename(algorithm.teacher!),
  teacherSha256: await teacher.hash(),
});
