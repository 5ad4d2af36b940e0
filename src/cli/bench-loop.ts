import { benchLoop, type Resident } from '../../bench/loop.js';
import { benchModel } from '../../bench/models.js';
import { benchTaskLoop } from '../../bench/task-loop.js';
import { resolveModel } from '../engine/model-files.js';
import { resolveSettings } from '../training/settings.js';
import { defineCommand } from './command.js';
import { print, printJson, printNote, UsageError } from './output.js';
import { formatBytes } from './quantities.js';

const shown = (resident: Resident | null): string =>
  resident === null
    ? 'memory unknown'
    : `${formatBytes(resident.total)} resident: ${formatBytes(resident.anonymous)} anonymous, ${formatBytes(resident.mapped)} mapped; ` +
      `proportional set ${formatBytes(resident.proportional)}`;

export const benchLoopCommand = defineCommand({
  command: 'loop',
  describe:
    'Rollouts and steps in turns: time and memory of two iterations in the shape of Qwen2.5-3B; with --task, of a real model on a ' +
    'task, by stage',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        describe:
          'GGUF file, alias or hf: URI; default: the shape of Qwen2.5-3B, made on demand (1.9 GB)',
      })
      .option('task', {
        type: 'string',
        describe:
          'a task of `tasks list` or a file; then --model is a real one, stages are told apart',
      })
      .option('iterations', { type: 'number', default: 2, describe: 'rounds' })
      .option('rollouts', { type: 'number', default: 16, describe: 'samples an iteration' })
      .option('samples', { type: 'number', default: 4, describe: 'samples a prompt' })
      .option('tokens', {
        type: 'number',
        default: 64,
        describe: 'tokens a sample; with --task at most',
      })
      .option('prompt-tokens', { type: 'number', default: 256, describe: 'tokens a prompt' })
      .option('top-layers', { type: 'number', default: 8, describe: 'trained layers' })
      .option('batch-size', { type: 'number', default: 8, describe: 'sequences a step' })
      .option('steps', { type: 'number', default: 4, describe: 'with --task: steps an iteration' })
      .option('dev-size', {
        type: 'number',
        default: 3,
        describe: 'with --task: problems of each tier in its evaluation',
      })
      .option('max-sequences', {
        type: 'number',
        default: 16,
        describe: 'with --task: samples that are decoded together',
      })
      .option('trainer-memory', {
        type: 'number',
        default: 600_000_000,
        describe: 'with --task: bytes for activations, gradients and moments',
      })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .example('$0 bench loop --json', '')
      .example('$0 bench loop --model smollm2-135m --task extract', 'where the time of a run goes'),
  handler: async (argv) => {
    if (argv.rollouts % argv.samples !== 0)
      throw new UsageError('--rollouts must be a multiple of --samples');
    if (argv.task !== undefined) return taskLoop(argv.task, argv);
    const result = await benchLoop({
      modelPath:
        argv.model === undefined ? benchModel('qwen2.5-3b') : (await resolveModel(argv.model)).path,
      iterations: argv.iterations,
      rollouts: argv.rollouts,
      samples: argv.samples,
      tokens: argv.tokens,
      promptTokens: argv.promptTokens,
      topLayers: argv.topLayers,
      batchSize: argv.batchSize,
      seed: 0n,
      threads: argv.threads,
      onStage: ({ iteration, stage, seconds, resident }) =>
        printNote(
          `  ${iteration} ${stage.padEnd(15)} ${seconds.toFixed(1).padStart(6)} s  ${shown(resident)}\n`,
        ),
      onIteration: ({
        iteration,
        samplingSeconds,
        trainingSeconds,
        sampledTokensPerSecond,
        trainedTokensPerSecond,
        boundaryBytes,
      }) =>
        printNote(
          `iteration ${iteration}  sampling ${samplingSeconds.toFixed(1)} s (${sampledTokensPerSecond.toFixed(1)} tokens/s)  training ` +
            `${trainingSeconds.toFixed(1)} s (${trainedTokensPerSecond.toFixed(1)} tokens/s)  ${formatBytes(boundaryBytes)} of kept ` +
            `boundaries\n`,
        ),
    });
    if (argv.json) return printJson(result);
    print(
      `at most ${formatBytes(result.peakRssBytes)} resident, loading included; afterwards ${shown(result.peak)}\nanonymous memory ` +
        `without kept boundaries grew by ${result.growth === null ? 'an unknown amount' : formatBytes(Math.max(0, result.growth))} from ` +
        `first to last iteration\n`,
    );
  },
});

interface TaskLoopArguments {
  readonly model: string | undefined;
  readonly iterations: number;
  readonly rollouts: number;
  readonly samples: number;
  readonly tokens: number;
  readonly topLayers: number;
  readonly batchSize: number;
  readonly steps: number;
  readonly devSize: number;
  readonly maxSequences: number;
  readonly trainerMemory: number;
  readonly threads: number;
  readonly json: boolean;
}

async function taskLoop(task: string, argv: TaskLoopArguments): Promise<void> {
  if (argv.model === undefined)
    throw new UsageError('--task needs --model: a model of random weights answers nothing');
  const modelPath = (await resolveModel(argv.model)).path;
  const settings = resolveSettings({
    task,
    iterations: argv.iterations,
    model: { name: modelPath, threads: argv.threads, maxSequences: argv.maxSequences },
    sampling: { rollouts: argv.rollouts, samples: argv.samples, maxTokens: argv.tokens },
    optimiser: { stepsPerIteration: argv.steps, batchSize: argv.batchSize },
    layers: { choice: 'last', topLayers: argv.topLayers, trainerMemory: argv.trainerMemory },
    evaluation: { devSize: argv.devSize },
  });
  const result = await benchTaskLoop({ modelPath, task, settings });
  if (argv.json) return printJson(result);
  const rows = result.stages.map(
    ({ stage, seconds, processorSeconds, share }) =>
      `${stage.padEnd(20)} ${seconds.toFixed(2).padStart(9)} s ${processorSeconds.toFixed(2).padStart(9)} s of processor ` +
      `${(100 * share).toFixed(1).padStart(6)} %\n`,
  );
  const { prompts, sampled, trained } = result.tokens;
  const { loaded, sampled: after, trained: stepped, evaluated } = result.memory;
  print(
    `${rows.join('')}${result.passed} of ${result.replies} replies passed; ` +
      `${prompts} tokens of prompts, ${sampled} sampled, ${trained} trained on\n` +
      `loaded: ${shown(loaded)}\nsampled: ${shown(after)}\ntrained: ${shown(stepped)}\nevaluated: ${shown(evaluated)}\n` +
      `at most ${formatBytes(result.peakRssBytes)} resident\n`,
  );
}
