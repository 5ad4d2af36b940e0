/** One table of methods on the test problems, each with its tokens and seconds. */
import path from 'node:path';
import { hasRoom, requireCapabilities, type Backend, type Spending } from '../backends/backend.js';
import { localBackend } from '../backends/local.js';
import { OF_TRAINING } from '../backends/names.js';
import { writeFileAtomically } from '../engine/atomic-file.js';
import { contextOf } from '../engine/context-overflow.js';
import { evaluationSet } from '../evaluation/evaluation-set.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import { runPaths } from '../run-folder/paths.js';
import { openTask } from '../tasks/open-task.js';
import { openModel } from '../training/open-run.js';
import type { RunResult } from '../training/result.js';
import { run, type TrackedRunOptions } from './tracked-run.js';
import {
  askingOptions,
  resolveSettings,
  type RunSettings,
  type RunSettingsInput,
} from '../training/settings.js';
import { withProfile } from '../training/profile.js';
import { fewShot, isozero, multiTurn, zeroShot } from '../training/modes/greedy.js';
import type { Method, MethodResult, Mode, ModeContext } from '../training/modes/mode.js';
import { sampledMethods } from '../training/modes/sampled.js';

export interface Comparison {
  readonly task: string;
  readonly model: string;
  readonly seed: string;
  /** Test problems. */
  readonly problems: number;
  readonly methods: readonly MethodResult[];
  /** Methods that the task has no material for, and why. */
  readonly skipped: readonly { readonly method: Method; readonly reason: string }[];
  /** What requests to a service cost; absent for others. */
  readonly spending?: Spending;
  /** The run behind the row `isopro`. */
  readonly run: RunResult | null;
}

const GREEDY = [
  ['zero-shot', zeroShot],
  ['few-shot', fewShot],
  ['multi-turn', multiTurn],
  ['isozero', isozero],
] as const;
const SAMPLED: readonly Method[] = ['best-of-k', 'majority', 'pass@k'];

export interface CompareOptions extends TrackedRunOptions {
  /** Whoever answers in place of the model of the settings; the loop itself needs that model. */
  readonly backend?: Backend;
  /** Share of the samples of a method that may have no reply. Default: any but all. */
  readonly maxFailed?: number;
  readonly onMethod?: ModeContext['onProgress'];
}

/**
 * Measures the methods named, or all of them. `k` of the sampled ones is what the loop used in
 * tokens over one greedy pass over the test problems: measured where the loop ran, else by the
 * settings, each sequence counting alike.
 * @throws as `run`; INVALID_ARGUMENT where a method that was asked for by its name cannot be
 *   measured on the task
 */
export async function compareModes(
  modes: Mode | readonly Mode[],
  input: RunSettingsInput = {},
  options: CompareOptions = {},
): Promise<Comparison> {
  const { onMethod, backend: other, maxFailed, ...runOptions } = options;
  const named = [modes].flat();
  if (other !== undefined && named.some((mode) => mode === 'isopro' || mode === 'all'))
    requireCapabilities(other, OF_TRAINING, 'the loop');
  // the size of a model decides the profile, and there is none to fetch
  const settings = resolveSettings(
    other === undefined ? await withProfile(input, options.signal) : input,
  );
  const all = named.includes('all');
  const wanted = (method: Method): boolean => all || named.includes(method);
  const loop = wanted('isopro')
    ? await run({ ...input, profile: settings.profile }, runOptions)
    : null;
  await using task = await openTask(settings.task, {
    ...askingOptions(settings),
    verifierThreads: options.verifierThreads ?? 1,
  });
  await using model = other === undefined ? await openModel(settings, options.signal) : null;
  const { problems } = await evaluationSet(task, 'test', settings.evaluation.testSize);
  const context: ModeContext = {
    settings,
    backend: other ?? localBackend(model!),
    task,
    problems,
    hasRoom: (dialogue) =>
      model === null ||
      hasRoom(
        model.renderChat(dialogue).tokenIds.length,
        settings.sampling.maxTokens,
        contextOf(model.limits),
      ),
    ...given({ signal: options.signal, onProgress: onMethod, maxFailed }),
  };
  const methods: MethodResult[] = [];
  const skipped: { method: Method; reason: string }[] = [];
  for (const [method, measure] of GREEDY) {
    if (!wanted(method)) continue;
    try {
      const begin = performance.now();
      const measured = await measure(context);
      methods.push({ method, ...measured, seconds: (performance.now() - begin) / 1000 });
    } catch (error) {
      if (
        !all ||
        !(error instanceof IsoproError) ||
        !['INVALID_ARGUMENT', 'CONTEXT_OVERFLOW'].includes(error.code)
      )
        throw error;
      skipped.push({ method, reason: error.message });
    }
  }
  const sampled = SAMPLED.filter(wanted);
  if (sampled.length > 0) {
    const k = equalTokens(settings, problems.length, loop, methods);
    methods.push(...(await sampledMethods(context, sampled, k)));
  }
  if (loop !== null) {
    const { test, failures, seconds } = loop;
    methods.push({
      method: 'isopro',
      test: test.after,
      k: 1,
      tokens: loopTokens(loop),
      seconds,
      failures: failures.after,
      note: "after training, greedy; tokens and seconds are the loop's",
    });
  }
  const comparison = {
    task: task.id,
    model:
      other === undefined
        ? path.basename(settings.model.name)
        : `${other.identity.kind}:${other.identity.name}`,
    seed: settings.seed,
    problems: problems.length,
    methods,
    skipped,
    ...given({ spending: other?.spending }),
  };
  if (loop !== null) {
    // beside the log: methods that need no training are no part of the run
    await writeFileAtomically(runPaths(loop.folder).comparison, [
      Buffer.from(`${JSON.stringify(comparison, null, 2)}\n`),
    ]);
    const { writeReport } = await import('../report/write-report.js');
    await writeReport(loop.folder);
  }
  return { ...comparison, run: loop };
}

/** Sampled in rollouts and trained on. */
const loopTokens = ({ iterations }: RunResult): number =>
  iterations.reduce((sum, { tokens: { sampled, trained } }) => sum + sampled + trained, 0);

function equalTokens(
  settings: RunSettings,
  problems: number,
  loop: RunResult | null,
  methods: readonly MethodResult[],
): number {
  const greedy = methods.find(({ method }) => method === 'zero-shot');
  const { iterations, sampling, optimiser } = settings;
  const sequences =
    iterations * (sampling.rollouts + optimiser.stepsPerIteration * optimiser.batchSize);
  const ratio =
    loop !== null && greedy !== undefined ? loopTokens(loop) / greedy.tokens : sequences / problems;
  return Math.max(1, Math.round(ratio));
}
