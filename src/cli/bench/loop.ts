import { benchLoop, type Resident } from '../../../bench/loop.js';
import { benchModel } from '../../../bench/models.js';
import { benchTaskLoop } from '../../../bench/task-loop.js';
import { given } from '../../given.js';
import { resolveModel } from '../../engine/model-files.js';
import { resolveSettings } from '../../training/settings.js';
import { print, printJson, printNote, UsageError } from '../output.js';
import { formatBytes } from '../quantities.js';
import { command, type Stated } from '../command.js';
import { number, text } from '../option.js';

const shown = (resident: Resident | null): string =>
  resident === null
    ? 'memory unknown'
    : `${formatBytes(resident.total)} resident: ${formatBytes(resident.anonymous)} anonymous, ${formatBytes(resident.mapped)} mapped; ` +
      `proportional set ${formatBytes(resident.proportional)}`;

const options = {
  model: text(
    'GGUF file, alias or hf: URI; default: the shape of Qwen2.5-3B, made on demand (1.9 GB)',
  ),
  task: text('a task of `tasks list` or a file; then --model is a real one, stages are told apart'),
  iterations: number('rounds', 2),
  rollouts: number('samples an iteration', 16),
  samples: number('samples a prompt', 4),
  tokens: number('tokens a sample; with --task at most', 64),
  'prompt-tokens': number('tokens a prompt', 256),
  'top-layers': number('trained layers', 8),
  'batch-size': number('sequences a step', 8),
  steps: number('with --task: steps an iteration', 4),
  'dev-size': number('with --task: problems of each tier in its evaluation', 3),
  'max-sequences': number('with --task: samples that are decoded together', 16),
  'trainer-memory': number(
    'with --task: bytes for activations, gradients and moments',
    600_000_000,
  ),
  threads: number('0: the physical cores', 0),
};

export const benchLoopCommand = command({
  command: 'loop',
  describe:
    'Rollouts and steps in turns: time and memory of two iterations in the shape of Qwen2.5-3B; with --task, of a real model on a ' +
    'task, by stage',
  options,
  examples: [
    ['$0 bench loop --json', ''],
    ['$0 bench loop --model smollm2-135m --task extract', 'where the time of a run goes'],
  ],
  handler: async (argv) => {
    if (argv.rollouts % argv.samples !== 0)
      throw new UsageError('--rollouts must be a multiple of --samples');
    if (argv.task !== undefined) return taskLoop(argv.task, argv);
    const result = await benchLoop({
      modelPath:
        argv.model === undefined ? benchModel('qwen2.5-3b') : (await resolveModel(argv.model)).path,
      ...given(argv, 'iterations', 'rollouts', 'samples', 'tokens', 'promptTokens'),
      ...given(argv, 'topLayers', 'batchSize', 'threads'),
      seed: 0n,
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

async function taskLoop(
  task: string,
  argv: Stated<typeof options> & { readonly json: boolean },
): Promise<void> {
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
