/** A run with its report. */
import { existsSync } from 'node:fs';
import { durable } from '../durable.js';
import { runPaths } from '../run-folder/paths.js';
import type { RunHooks, RunOptions } from '../training/hooks.js';
import type { RunResult } from '../training/result.js';
import { run as train } from '../training/loop.js';
import type { RunSettingsInput } from '../training/settings.js';
import { Trackers, type TrackerName } from '../trackers/trackers.js';

export interface TrackedRunOptions extends RunOptions {
  /**
   * Trackers that get a row of figures an iteration, in `trackers/` of the run folder. The log and
   * the adapter are the same with and without; what a tracker cannot write is a notice.
   */
  readonly logTo?: readonly TrackerName[];
}

/** Hooks that log as well; `end` is to be called last. */
function tracked(
  names: readonly TrackerName[],
  hooks: RunHooks,
): { readonly hooks: RunHooks; end(status: 'finished' | 'failed'): void } {
  let trackers: Trackers | undefined;
  const notice = (text: string): void => hooks.onNotice?.(text);
  return {
    hooks: {
      onBegin: (begun) => {
        const { folder, runId, settings, resumedAfter } = begun;
        const flat = Object.entries(settings).flatMap(([part, value]): [string, unknown][] =>
          typeof value === 'object' && value !== null && !Array.isArray(value)
            ? Object.entries(value).map(([name, member]) => [`${part}.${name}`, member])
            : [[part, value]],
        );
        trackers = new Trackers(names, {
          folder: runPaths(folder).trackers,
          project: 'isopro-native',
          name: runId,
          config: Object.fromEntries(flat),
          resumed: resumedAfter !== null,
          onNotice: notice,
        });
        for (const command of trackers.commands) notice(`figures: ${command}`);
        hooks.onBegin?.(begun);
      },
      onIteration: (report, failures) => {
        const { iteration, loss, learningRate, hitRate, samplerGap, dev, tokens, seconds } = report;
        trackers?.log(iteration, {
          'train/loss': loss,
          'train/learning_rate': learningRate,
          'train/reward': hitRate,
          'train/num_tokens': tokens.trained,
          'train/tokens_per_second': tokens.trained / seconds.training,
          'train/sampler_gap': samplerGap,
          'eval/reward': dev.mean,
        });
        hooks.onIteration?.(report, failures);
      },
    },
    end: (status) => trackers?.end(status),
  };
}

/**
 * Trains an adapter by the model's own verified answers and measures it on problems that it never
 * saw. The same settings on the same folder go on where an interrupted run stopped, and end with
 * the same adapter; a folder whose run has ended gives its result again.
 * @throws IsoproError as `run` of src/training/loop.ts, WRITE_FAILED; after any of them the same
 *   call goes on
 */
export async function run(
  input: RunSettingsInput = {},
  { logTo = [], ...options }: TrackedRunOptions = {},
): Promise<RunResult> {
  const { hooks, end } = tracked(logTo, options);
  let status: 'finished' | 'failed' = 'failed';
  const hooked = logTo.length === 0 ? options : { ...options, ...hooks };
  let hasBegun = false;
  let result: RunResult;
  try {
    result = await train(input, {
      ...hooked,
      onBegin(begun) {
        hasBegun = true;
        hooked.onBegin?.(begun);
      },
    });
    status = 'finished';
  } finally {
    end(status);
  }
  await writeReportOf(result.folder, hasBegun);
  return result;
}

/**
 * Writes the report, unless the run had ended before and has one, which a later version may have
 * written.
 */
async function writeReportOf(folder: string, hasBegun: boolean): Promise<void> {
  if (!hasBegun && existsSync(runPaths(folder).report)) return;
  // the chart library is not needed before
  const { writeReport } = await import('../report/write-report.js');
  await writeReport(folder);
  durable('run.report');
}
