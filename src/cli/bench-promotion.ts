import { given } from '../given.js';
import { findRun } from '../lookup/runs.js';
import { defineCommand } from './command.js';
import { interruption, print, printJson, printNote } from './output.js';
import { readCount, readSeed } from './tasks-generate.js';

export const benchPromotionCommand = defineCommand({
  command: 'promotion',
  describe:
    'From training to rollback, stage by stage: train, publish, gate, promote, serve, a regression on purpose, rollback',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        requiresArg: true,
        default: 'tiny',
        describe: 'path of a GGUF file, an alias, or an hf: URI',
      })
      .option('task', {
        type: 'string',
        requiresArg: true,
        default: 'scheduling',
        describe: 'a task of `tasks list` or a file',
      })
      .option('run', {
        type: 'string',
        requiresArg: true,
        describe: 'a run that has ended, in place of training one',
      })
      .option('iterations', { type: 'number', default: 3, describe: 'of the run' })
      .option('rollouts', { type: 'number', default: 400, describe: 'an iteration' })
      .option('problems', { type: 'number', default: 200, describe: 'of the gate, at most' })
      .option('canary-problems', {
        type: 'number',
        default: 100,
        describe: 'of the canary, at most',
      })
      .option('requests', { type: 'number', default: 80, describe: 'to the service' })
      .option('threads', {
        type: 'number',
        requiresArg: true,
        describe: 'default: the physical cores',
      })
      .option('seed', { type: 'string', default: '42', describe: '64-bit seed of the run' })
      .option('out', {
        type: 'string',
        requiresArg: true,
        default: 'promotion',
        describe: 'folder: run, registry and promotion.html',
      })
      .epilogue(
        'Exit code 1: the regression was not taken back. A gate that does not accept is followed by a promotion by force, on record.',
      )
      .example('$0 bench promotion', 'on the embedded model: some minutes')
      .example('$0 bench promotion --model smollm2-135m --task ladder', 'on a real one'),
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
    const { benchPromotion } = await import('../../bench/promotion.js'); // it draws a page
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
