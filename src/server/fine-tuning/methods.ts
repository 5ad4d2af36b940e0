/**
 * Translation of a fine-tuning job into the kind and settings of a job, with the hyperparameters
 * that `auto` stands for.
 */
import { LEARNING_RATES } from '../../fine-tuning/fine-tuning.js';
import type { Asker, JobQueue } from '../../jobs/queue.js';
import type { RunSettings, RunSettingsInput } from '../../training/settings.js';
import { forbidden, invalid, unsupported } from '../failures.js';
import type { DerivedFiles } from './derived-files.js';
import type {
  ExampleHyperparameters,
  Grader,
  Method,
  NewFineTuning,
  ReinforcementHyperparameters,
} from './requests.js';
import type { RowForm } from './row-forms.js';

export interface Asked {
  readonly kind: 'train' | 'run';
  readonly settings: object;
  /** The method with a number for each `auto`. */
  readonly method: Method;
  readonly hyperparameters: Readonly<Record<string, unknown>>;
  /** A file's id, or a task. */
  readonly trainingFile: string;
}

interface Context {
  readonly queue: JobQueue;
  readonly asker: Asker;
  readonly derived: DerivedFiles;
  /** The model's name. */
  readonly base: string;
}

const numberOf = <T extends number>(value: T | 'auto' | null | undefined, auto: number): number =>
  value === undefined || value === null || value === 'auto' ? auto : value;

/**
 * @throws RequestFailure 400 for what this server has not, each by its name; 403 for trackers;
 *   NotAllowed; IsoproError
 */
export async function askedOf(
  request: NewFineTuning,
  seed: number,
  context: Context,
): Promise<Asked> {
  if ((request.integrations ?? []).length > 0)
    throw forbidden(
      'integrations: requests may not name trackers',
      'tracker_not_allowed',
      'integrations',
    );
  if (request.model !== context.base)
    throw invalid(
      'model',
      `model: this server serves and trains ${context.base} only`,
      'model_not_found',
    );
  const {
    method = {
      type: 'supervised',
      supervised: { hyperparameters: request.hyperparameters },
    } as const,
  } = request;
  if (request.hyperparameters !== undefined && request.method !== undefined)
    throw invalid('hyperparameters', 'hyperparameters: give them inside method', 'invalid_value');
  return method.type === 'reinforcement'
    ? reinforced(request, method, seed, context)
    : trained(request, method, seed, context);
}

/** @throws RequestFailure 400 */
function requireFile(
  { queue, asker }: Context,
  id: string | null | undefined,
  param: string,
): string {
  if (typeof id === 'string' && queue.uploads.get(asker.name, id) !== undefined) return id;
  throw invalid(
    param,
    `${param}: ${id === null || id === undefined ? 'is missing' : `there is no file ${JSON.stringify(id)}`}`,
    'file_not_found',
  );
}

async function trained(
  { training_file, validation_file }: NewFineTuning,
  method: Exclude<Method, { type: 'reinforcement' }>,
  seed: number,
  context: Context,
): Promise<Asked> {
  const given: ExampleHyperparameters =
    (method.type === 'dpo' ? method.dpo : method.supervised)?.hyperparameters ?? {};
  const trainingFile = requireFile(context, training_file, 'training_file');
  const validationFile =
    validation_file == null ? null : requireFile(context, validation_file, 'validation_file');
  const hyperparameters = {
    n_epochs: numberOf(given.n_epochs, 1),
    batch_size: numberOf(given.batch_size, 8),
    learning_rate_multiplier: numberOf(given.learning_rate_multiplier, 1),
    ...(method.type === 'dpo' && { beta: numberOf(given.beta, 0.1) }),
  };
  const data = async (id: string): Promise<string> =>
    method.type === 'dpo' ? context.derived.check(id, { kind: 'pair' }) : id;
  const settings = {
    data: await data(trainingFile),
    ...(validationFile !== null && { validationData: await data(validationFile) }),
    ...(method.type === 'dpo' && { objective: 'dpo', beta: hyperparameters.beta }),
    epochs: hyperparameters.n_epochs,
    batchSize: hyperparameters.batch_size,
    learningRate:
      LEARNING_RATES[method.type === 'dpo' ? 'dpo' : 'sft'] *
      hyperparameters.learning_rate_multiplier,
    seed: String(seed),
  };
  const shown = { type: method.type, [method.type]: { hyperparameters } } as Method;
  return { kind: 'train', settings, method: shown, hyperparameters, trainingFile };
}

async function reinforced(
  { training_file, validation_file }: NewFineTuning,
  method: Extract<Method, { type: 'reinforcement' }>,
  seed: number,
  context: Context,
): Promise<Asked> {
  const { grader } = method.reinforcement;
  const given: ReinforcementHyperparameters = method.reinforcement.hyperparameters ?? {};
  if (validation_file != null)
    throw unsupported(
      'validation_file',
      'validation_file: not supported; problems are held out of the training file, or by the task',
    );
  if (given.reasoning_effort !== undefined && given.reasoning_effort !== 'default')
    throw unsupported(
      'method.reinforcement.hyperparameters.reasoning_effort',
      'reasoning_effort: only default is supported',
    );
  if (numberOf(given.eval_interval, 1) !== 1)
    throw unsupported(
      'method.reinforcement.hyperparameters.eval_interval',
      'eval_interval: only 1 is supported, which evaluates after each iteration',
    );
  const graded = await gradedBy(grader, training_file, context);
  const { queue, asker, base } = context;
  const { settings: of } = await queue.estimate(asker, 'run', {
    ...graded.settings,
    model: { name: base },
  });
  const { iterations, sampling, optimiser, evaluation } = of as RunSettings;
  const hyperparameters = {
    n_epochs: numberOf(given.n_epochs, iterations),
    batch_size: numberOf(given.batch_size, optimiser.batchSize),
    learning_rate_multiplier: numberOf(given.learning_rate_multiplier, 1),
    compute_multiplier: numberOf(given.compute_multiplier, 1),
    eval_interval: 1,
    eval_samples: numberOf(given.eval_samples, evaluation.testSize),
    reasoning_effort: 'default' as const,
  };
  const settings: RunSettingsInput = {
    ...graded.settings,
    seed: String(seed),
    iterations: hyperparameters.n_epochs,
    sampling: {
      ...graded.settings.sampling,
      rollouts: Math.max(
        sampling.samples,
        Math.round(sampling.rollouts * hyperparameters.compute_multiplier),
      ),
    },
    optimiser: {
      batchSize: hyperparameters.batch_size,
      learningRate: Math.min(1, optimiser.learningRate * hyperparameters.learning_rate_multiplier),
    },
    evaluation: {
      devSize: Math.min(evaluation.devSize, hyperparameters.eval_samples),
      testSize: hyperparameters.eval_samples,
    },
  };
  const shown: Method = { type: 'reinforcement', reinforcement: { grader, hyperparameters } };
  return {
    kind: 'run',
    settings,
    method: shown,
    hyperparameters,
    trainingFile: graded.trainingFile,
  };
}

interface Graded {
  readonly settings: RunSettingsInput;
  readonly trainingFile: string;
}

/** The sampled reply as a whole: of templates, the one that a check reads. */
const REPLY = /^\{\{\s*sample\.output_text\s*\}\}$/;
const GRADER = 'method.reinforcement.grader';

/** @throws RequestFailure 400 for graders, and uses of them, that no check of this server is */
async function gradedBy(
  grader: Grader,
  file: string | null | undefined,
  context: Context,
): Promise<Graded> {
  const { queue, asker } = context;
  if (grader.type === 'task') {
    queue.names(asker).task(grader.task, `${GRADER}.task`);
    if (file != null && file !== grader.task)
      throw unsupported(
        'training_file',
        `training_file: the task ${grader.task} makes its own problems; leave it out or give the task's name`,
      );
    return { settings: { task: grader.task }, trainingFile: grader.task };
  }
  const trainingFile = requireFile(context, file, 'training_file');
  const { derived } = context;
  const graded = (check: string, task: string): Graded => ({
    settings: { task, check, sampling: { style: 'plain' } },
    trainingFile,
  });
  const rows = async (check: string, form: RowForm): Promise<Graded> =>
    graded(check, await derived.rows(trainingFile, form));
  if (grader.type === 'json_schema')
    return rows(`json:${await derived.json('schema.json', grader.schema)}`, { kind: 'messages' });
  if (grader.type === 'score_model') {
    queue.names(asker).model(grader.model, `${GRADER}.model`);
    // before the grader is saved, so that an unusable row is reported first
    const task = await derived.check(trainingFile, { kind: 'scored', grader });
    return graded(`model:${await derived.json('grader.json', grader)}`, task);
  }
  if (grader.type !== 'string_check')
    throw unsupported(
      `${GRADER}.type`,
      `${grader.type}: not supported; use a task, json_schema, string_check or score_model grader`,
    );
  const { operation, input, reference } = grader;
  const check = ({ eq: 'exact', like: 'contains' } as Record<string, string>)[operation];
  if (check === undefined)
    throw unsupported(`${GRADER}.operation`, `${operation}: string_check supports eq and like`);
  if (!REPLY.test(input))
    throw unsupported(`${GRADER}.input`, 'input: must be exactly {{sample.output_text}}');
  if (/\{\{\s*sample\b/.test(reference))
    throw unsupported(
      `${GRADER}.reference`,
      'reference: use only {{item.…}} here; {{sample.…}} is not allowed',
    );
  return rows(check, { kind: 'answered', reference });
}
