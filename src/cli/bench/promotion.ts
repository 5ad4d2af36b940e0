import { given } from '../../given.js';
import { findRun } from '../../lookup/runs.js';
import { interruption, print, printJson, printNote } from '../output.js';
import { number, readCount, readSeed, text, threadsOption } from '../option.js';
import { command } from '../command.js';

export const benchPromotionCommand = command({
  command: 'promotion',
  describe:
    'Time every stage from training to rollback: train, publish, gate, promote, serve, a deliberate regression, rollback',
  options: {
    model: text('path of a GGUF file, an alias, or an hf: URI', 'tiny'),
    task: text('a task from `tasks list`, or a file', 'scheduling'),
    run: text('finished run to use instead of training one'),
    iterations: number('iterations of the run', 3),
    rollouts: number('rollouts per iteration', 400),
    problems: number('max problems for the gate', 200),
    'canary-problems': number('max problems for the canary', 100),
    requests: number('requests to the server', 80),
    threads: threadsOption,
    seed: text('64-bit seed of the run', '42'),
    out: text('folder for the run, the registry and promotion.html', 'promotion'),
  },
  epilogue:
    'Exit code 1: the regression was not rolled back. If the gate does not accept, the promotion is forced and recorded as such.',
  examples: [
    ['$0 bench promotion', 'with the embedded model; takes a few minutes'],
    ['$0 bench promotion --model smollm2-135m --task ladder', 'with a downloaded model'],
  ],
  handler: async ({
    model,
    task,
    run,
    iterations,
    rollouts,
    problems,
    canaryProblems,
    requests,
    threads,
    seed,
    out,
    json,
  }) => {
    const { benchPromotion } = await import('../../../bench/promotion.js'); // it draws a page
    const result = await benchPromotion({
      folder: out,
      settings: {
        model: { name: model, ...given({ threads }) },
        task,
        seed: String(readSeed(seed)),
        iterations: readCount('iterations', iterations, 1),
        sampling: { rollouts: readCount('rollouts', rollouts, 1) },
        evaluation: { devSize: 10, testSize: 10 },
      },
      model,
      task,
      problems: readCount('problems', problems, 1),
      canaryProblems: readCount('canary-problems', canaryProblems, 1),
      requests: readCount('requests', requests, 2),
      signal: interruption(),
      onStage: ({ stage, seconds, said }) =>
        printNote(`${stage.padEnd(34)}${seconds.toFixed(2).padStart(8)} s  ${said}\n`),
      ...(run === undefined ? {} : { trained: findRun(run) }),
      ...given({ threads }),
    });
    if (result.inUse !== result.promoted) process.exitCode = 1;
    if (json) return printJson(result);
    print(`${result.report}\n`);
  },
});
