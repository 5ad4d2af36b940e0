/** The loop: a run by the model's own verified answers, in the three ways that it is asked for. */
import path from 'node:path';
import { z } from 'zod';
import { distill as distillation } from '../algorithms/distill.js';
import { OF_TRAINING, requireModelName } from '../backends/names.js';
import { Closers } from '../closers.js';
import { checked } from '../engine/argument-check.js';
import type { DownloadProgress } from '../engine/download.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { Registry } from '../registry/registry.js';
import { TRACKER_NAMES } from '../trackers/trackers.js';
import { planRun, type RunPlan } from '../training/dry-run.js';
import type { BegunRun, RunHooks } from '../training/hooks.js';
import { MODES } from '../training/modes/mode.js';
import { decidingBackend } from '../training/policy-setting.js';
import { withProfile } from '../training/profile.js';
import type { RunResult } from '../training/result.js';
import {
  mergeSettings,
  requireMachine,
  resolveSettings,
  type RunSettingsInput,
} from '../training/settings.js';
import { DEFAULT_VOTES, votesCount, type DecidingBackend } from '../training/votes-decider.js';
import { backendMembers, contradictionsOf, IN_FLIGHT, openAsked } from './backend-settings.js';
import { compareModes, type CompareOptions, type Comparison } from './compare-modes.js';
import { output, REGISTRY, verifierThreads } from './members.js';
import { unreadableTask } from './notes.js';
import { operation, type Context, type Operation } from './operation.js';
import { publishRun } from './publish.js';
import {
  memoryOfRun,
  resolvedRunNames,
  RUN_FLAGS,
  runMembers,
  settingsBeforehand,
} from './run-settings.js';
import { run as trackedRun } from './tracked-run.js';

/** Settings of a run that do not affect its result. */
const own = z.strictObject({
  mode: z
    .array(z.enum(MODES))
    .min(1)
    .default(['isopro'])
    .describe(
      'isopro: the loop; other modes answer the test problems without training; several, or all: one table',
    ),
  dryRun: z
    .boolean()
    .default(false)
    .describe('print the settings and their estimated cost, without training')
    .meta({ local: true }),
  publish: z
    .boolean()
    .default(false)
    .describe('publish the adapter to the registry when the run ends')
    .meta({ admin: true }),
  registry: REGISTRY.describe('registry folder for --publish'),
  verifierThreads,
  logTo: z
    .array(z.enum(TRACKER_NAMES))
    .default([])
    .describe(
      'also write metrics for these trackers, as files in the run folder; prints the commands that show them',
    )
    .meta({ defaultText: 'none' }),
  out: output
    .optional()
    .describe(
      'run folder; default: runs/<run id>, or an unfinished run of the same settings there',
    ),
});

/**
 * With whoever answers in modes without training, or decides in place of a model of this process:
 * `run` alone has these.
 */
const answered = own.extend({
  ...backendMembers,
  votes: votesCount
    .optional()
    .describe(
      'with --policy model:SERVICE: replies to a question about R6 or R7; the majority decides',
    )
    .meta({ local: true, defaultText: String(DEFAULT_VOTES) }),
});

type Own = z.output<typeof answered>;
/** Settings of the run as they were stated: defaults depend on the model. */
export interface LoopRequest extends Own {
  readonly stated: RunSettingsInput;
}

/** Result of a run. */
export interface LoopResult extends RunResult {
  /** Iterations that an earlier process had done; null where this one did all. */
  readonly resumedAfter: number | null;
  /** The run had ended before. */
  readonly nothingRun: boolean;
  /** Id in the registry. */
  readonly published?: string;
}
export type LoopOutcome = LoopResult | RunPlan | Comparison;

/** Everything that a run tells; what a queue keeps of it is in jobs/job.ts. */
export function hooksOf(tell: Context['tell']): Required<
  Pick<RunHooks, 'onProgress' | 'onIteration' | 'onRule' | 'onNotice'>
> & {
  readonly onDownload: (progress: DownloadProgress) => void;
} {
  return {
    onDownload: ({ downloadedBytes, totalBytes }) =>
      tell({
        type: 'progress',
        data: { stage: 'download', done: downloadedBytes, total: totalBytes ?? 0, unit: 'bytes' },
      }),
    onProgress: (data) => tell({ type: 'progress', data }),
    onIteration: (report, failures) => tell({ type: 'iteration', data: { ...report, failures } }),
    onRule: ({ decisions, effects }) => tell({ type: 'rule', data: { decisions, effects } }),
    onNotice: (text) => tell({ type: 'notice', data: { text } }),
  };
}

/** Notice where an interrupted run continues; null for a new run. */
export function resumedNotice({
  folder,
  settings,
  resumedAfter,
  resumedFrom,
}: Pick<BegunRun, 'folder' | 'settings' | 'resumedAfter' | 'resumedFrom'>): string | null {
  if (resumedFrom === null) return null;
  const from = {
    prepared: 'the first evaluations are done, and iteration 1 starts',
    iteration: `iteration ${resumedAfter} of ${settings.iterations} is done`,
    submitted: 'training and the last evaluations are done, and the log remains to be signed',
  }[resumedFrom];
  return `continues the run in ${path.relative('.', folder) || '.'}: ${from}`;
}

/** Progress of a mode. */
const methodTo =
  (tell: Context['tell']): NonNullable<CompareOptions['onMethod']> =>
  (stage, { finished, total, sampledTokens }) =>
    tell({
      type: 'progress',
      data: { stage, done: finished, total, unit: 'answers', tokens: sampledTokens },
    });

/** Modes without training, in which somebody else than a model of this process answers. */
async function answeredElsewhere(request: LoopRequest, context: Context): Promise<Comparison> {
  const { stated, mode, maxFailed } = request;
  if (mode.some((each) => each === 'isopro' || each === 'all'))
    requireModelName(request.backend, OF_TRAINING, 'the mode isopro');
  const { model, sampling, task, seed } = resolveSettings(stated);
  const { style, temperature, topP, maxTokens } = sampling;
  const { backend, record } = await openAsked(
    request,
    context,
    'modes',
    { mode, task, seed, style, temperature, topP, maxTokens },
    stated.model?.contextTokens,
  );
  const { onNotice } = hooksOf(context.tell);
  if (record !== null) onNotice(`Replies are recorded in ${record}.`);
  try {
    const maxSequences = stated.model?.maxSequences ?? IN_FLIGHT;
    return await compareModes(
      mode,
      { ...stated, model: { ...stated.model, name: model.name, maxSequences } },
      {
        ...given({ signal: context.signal, verifierThreads: request.verifierThreads }),
        ...{ backend, maxFailed, onMethod: methodTo(context.tell) },
      },
    );
  } finally {
    await backend.dispose();
  }
}

/** Opens the service that the policy names; null where a model of this process decides. */
async function openDecidingService(
  request: LoopRequest,
  context: Context,
): Promise<DecidingBackend | null> {
  const { monitor, seed } = resolveSettings(request.stated);
  const spec = decidingBackend(monitor.policy);
  if (spec === null) return null;
  const { backend, record } = await openAsked({ ...request, backend: spec }, context, 'decisions', {
    policy: monitor.policy,
    seed,
  });
  if (record !== null) hooksOf(context.tell).onNotice(`Replies are recorded in ${record}.`);
  return { backend, ...given(request, 'votes') };
}

async function loop(request: LoopRequest, context: Context): Promise<LoopOutcome> {
  const { stated, mode, dryRun, publish, registry } = request;
  const { signal, tell, ask } = context;
  const options = given(request, 'logTo', 'verifierThreads', 'out');
  const { onDownload, ...hooks } = hooksOf(tell);
  const { model, task } = resolveSettings(stated);
  const unable = unreadableTask(model.name, task);
  if (unable !== null) hooks.onNotice(unable);
  if (request.backend !== 'local') return answeredElsewhere(request, context);
  const settings = await withProfile(stated, signal, onDownload);
  if (dryRun) return planRun(resolveSettings(settings), signal, options.verifierThreads);
  const asked = { ...given(options), signal, ...hooks };
  if (mode.some((each) => each !== 'isopro'))
    return compareModes(mode, settings, {
      ...asked,
      onMethod: methodTo(tell),
    });
  let resumedAfter: number | null = null;
  let nothingRun = true;
  await using closers = new Closers();
  const decider = await openDecidingService(request, context);
  if (decider !== null) closers.add(() => decider.backend.dispose());
  const result = await trackedRun(settings, {
    ...asked,
    ...(decider !== null && { decider }),
    ...(ask !== undefined && {
      ask: (text: string, over: AbortSignal) => ask([{ role: 'user', content: text }], over),
    }),
    onBegin(begun) {
      nothingRun = false;
      resumedAfter = begun.resumedAfter;
      tell({ type: 'begin', data: begun });
      const notice = resumedNotice(begun);
      if (notice !== null) hooks.onNotice(notice);
    },
  });
  const published =
    publish && result.accepted > 0
      ? await publishRun(new Registry(given({ folder: registry })), result.folder)
      : null;
  return {
    ...result,
    resumedAfter,
    nothingRun,
    ...(published !== null && { published: published.id }),
  };
}

interface LoopDefinition {
  readonly id: string;
  readonly title: string;
  /** Settings that the operation's name decides. */
  readonly preset?: RunSettingsInput;
  readonly settings: z.ZodObject;
  readonly job?: Operation['job'];
}

type Loop = Operation<z.ZodObject, LoopOutcome, LoopRequest, RunSettingsInput & Partial<Own>>;

const loopOperation = ({ id, title, preset = {}, settings, job }: LoopDefinition): Loop =>
  operation<z.ZodObject, LoopOutcome, LoopRequest>({
    id,
    title,
    settings,
    flags: RUN_FLAGS,
    read(asked) {
      const all = Object.entries(asked as object);
      const isOwn = ([name]: [string, unknown]): boolean => name in answered.shape;
      const request = checked(answered, Object.fromEntries(all.filter(isOwn)), 'settings');
      const stated = mergeSettings(
        Object.fromEntries(all.filter((entry) => !isOwn(entry))),
        preset,
      );
      requireMachine(resolveSettings(stated));
      const { policy } = resolveSettings(stated).monitor;
      const decider = decidingBackend(policy);
      const wrong = [
        ...contradictionsOf({
          ...request,
          ...(request.backend === 'local' && decider !== null && { backend: decider }),
        }),
        ...(request.votes !== undefined && decider === null
          ? [`votes: it has no effect with the policy ${policy}, which is not a service`]
          : []),
        ...(request.backend !== 'local' && request.dryRun
          ? ['dryRun: it measures a model of this process, and another back end answers']
          : []),
      ];
      if (wrong.length > 0) throw new IsoproError('INVALID_ARGUMENT', wrong.join('; '));
      if (request.publish && request.mode.join() !== 'isopro')
        throw new IsoproError(
          'INVALID_ARGUMENT',
          'publish: only the loop produces an adapter; leave out mode',
        );
      return { ...request, stated };
    },
    run: loop,
    ...given({ job }),
  }) as Loop;

export const run = loopOperation({
  id: 'run',
  title: 'Improve a model on a task with its own verified answers, and prove it',
  settings: z.strictObject({ ...runMembers, ...answered.shape }),
  job: {
    button: 'Run',
    title: 'Improve a model on a task with its own verified answers',
    resolve: (stated, names) => resolvedRunNames(stated, names),
    local: ({ names, id }, { publish }) => ({
      ...(publish === true && { registry: names.registry('settings.publish') }),
      out: path.join(names.allowed.runs, id),
    }),
    measure: { dryRun: true },
    memoryBytes: async (settings) => memoryOfRun(await settingsBeforehand(runPart(settings))),
    shown: async (_, resolved) => settingsBeforehand(runPart(resolved)),
    makesRun: true,
    adapterOf: (result) =>
      z.object({ adapter: z.object({ file: z.string() }) }).safeParse(result).data?.adapter.file ??
      null,
  },
});

/** Of all settings, those that decide a run's result. */
const runPart = (settings: object): RunSettingsInput =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => !(name in answered.shape)));

const { algorithm, monitor, evaluation } = runMembers;

/** ReST-EM: the loop of `run`, in which every round trains from the base model. */
export const selfImprove = loopOperation({
  id: 'self-improve',
  title:
    'Sample in rounds, keep passing replies and retrain from the base model; keeps the best round',
  preset: {
    algorithm: { fromBase: true },
    monitor: { policy: 'observe' },
    evaluation: { gate: true },
  },
  settings: z.strictObject({
    ...runMembers,
    algorithm: algorithm.unwrap().omit({ id: true, fromBase: true }).prefault({}),
    monitor: monitor.unwrap().omit({ policy: true, margin: true }).prefault({}),
    evaluation: evaluation.unwrap().omit({ gate: true }).prefault({}),
    ...own.shape,
  }),
});

/** The loop of `run`, with a teacher. */
export const distill = loopOperation({
  id: distillation.id,
  title: 'Distil a stronger model into this one, on its own samples',
  preset: { algorithm: { id: distillation.id } },
  settings: z.strictObject({
    ...runMembers,
    algorithm: algorithm
      .unwrap()
      .omit({ id: true })
      .extend({ teacher: algorithm.unwrap().shape.teacher.unwrap() })
      .prefault({} as never),
    ...own.shape,
  }),
});
