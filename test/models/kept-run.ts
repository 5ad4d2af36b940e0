/**
 * A short run of the letter model that notes every finished reply, as a program of its own: it
 * kills itself in the middle of a stage.
 */
import { subscribe } from 'node:diagnostics_channel';
import { join } from 'node:path';
import { DURABLE_CHANNEL } from '../../src/durable.js';
import { run } from '../../src/index.js';
import type { RunOptions, Stage } from '../../src/training/hooks.js';
import type { RunResult } from '../../src/training/result.js';
import { mergeSettings } from '../../src/training/settings.js';
import { shortestRun } from './letters.js';

/** Six problems of four samples in each of two iterations; six test problems. */
export const keptRun = (
  folder: string,
  out: string,
  options: RunOptions = {},
  task = 'letters',
): Promise<RunResult> =>
  run(
    mergeSettings(shortestRun(join(folder, `${task}.mjs`), join(folder, 'letters.gguf')), {
      iterations: 2,
      sampling: { rollouts: 24, samples: 4 },
    }),
    { out: join(folder, out), keepSeconds: 0, ...options },
  );

/** A stage, and how many of its replies are on the disk. */
export interface Place {
  readonly stage: Stage;
  readonly iteration: number;
  readonly replies: number;
}

/**
 * Calls `then` as soon as the run has come to the place.
 * @returns the hook by which the run says where it is
 */
export function atPlace(
  { stage, iteration, replies }: Place,
  then: () => void,
): Pick<RunOptions, 'onProgress'> {
  let here = false;
  let kept = 0;
  subscribe(DURABLE_CHANNEL, (state) => {
    if (here && state === 'run.replies' && ++kept === replies) then();
  });
  return {
    onProgress: (progress) => {
      here = progress.stage === stage && progress.iteration === iteration;
      if (here && replies === 0) then();
    },
  };
}

if (process.argv[1] === import.meta.filename) {
  const [folder, out, place] = process.argv.slice(2) as [string, string, string];
  await keptRun(
    folder,
    out,
    atPlace(JSON.parse(place) as Place, () => process.kill(process.pid, 'SIGKILL')),
  );
}
