import { benchLoop, type Resident } from '../../../bench/loop.js';
import { benchModel } from '../../../bench/models.js';
import { benchTaskLoop } from '../../../bench/task-loop.js';
import { given } from '../../given.js';
import type { OperationTime } from '../../engine/addon.js';
import { resolveModel } from '../../engine/model-files.js';
import { resolveSettings } from '../../training/settings.js';
import { print, printJson, printNote, UsageError } from '../output.js';
import { formatBytes, formatNumber } from '../quantities.js';
import { command, type Stated } from '../command.js';
import { matmulOption, number, text, toggle } from '../option.js';

const shown = (resident: Resident | null): string =>
  resident === null
    ? 'memory unknown'
    : `${formatBytes(resident.total)} resident: ${formatBytes(resident.anonymous)} anonymous, ${formatBytes(resident.mapped)} mapped; ` +
      `proportional set ${formatBytes(resident.proportional)}`;

const options = {
  model: text(
    'GGUF file, alias or hf: URI; default: random weights in the shape of Qwen2.5-3B (1.9 GB)',
  ),
  task: text('a task from `tasks list`, or a file; needs --model and reports each stage'),
  iterations: number('iterations', 2),
  rollouts: number('samples per iteration', 16),
  samples: number('samples per prompt', 4),
  tokens: number('tokens per sample; with --task, max tokens', 64),
  'prompt-tokens': number('tokens per prompt', 256),
  'top-layers': number('trained layers', 8),
  'batch-size': number('sequences per step', 8),
  steps: number('with --task: steps per iteration', 4),
  'dev-size': number('with --task: evaluation problems per tier', 3),
  'max-sequences': number('with --task: samples decoded together', 16),
  'trainer-memory': number(
    'with --task: memory for activations, gradients and moments, in bytes',
    600_000_000,
  ),
  threads: number('threads; 0: the physical cores', 0),
  matmul: matmulOption,
  profile: toggle('with --task: time of each operation in sampling, and whose kernels took it'),
};

export const benchLoopCommand = command({
  command: 'loop',
  describe:
    'Measure time and memory of rollouts and training steps in the shape of Qwen2.5-3B; with --task, by stage for a real model',
  options,
  examples: [
    ['$0 bench loop --json', ''],
    ['$0 bench loop --model smollm2-135m --task extract', 'where a run spends its time'],
  ],
  handler: async (argv) => {
    if (argv.rollouts % argv.samples !== 0)
      throw new UsageError('--rollouts must be a multiple of --samples');
    if (argv.profile && argv.task === undefined) throw new UsageError('--profile needs --task');
    if (argv.task !== undefined) return taskLoop(argv.task, argv);
    const result = await benchLoop({
      modelPath:
        argv.model === undefined ? benchModel('qwen2.5-3b') : (await resolveModel(argv.model)).path,
      ...given(argv, 'iterations', 'rollouts', 'samples', 'tokens', 'promptTokens'),
      ...given(argv, 'topLayers', 'batchSize', 'threads', 'matmul'),
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
            `${trainingSeconds.toFixed(1)} s (${trainedTokensPerSecond.toFixed(1)} tokens/s)  ${formatBytes(boundaryBytes)} of cached ` +
            `boundaries\n`,
        ),
    });
    if (argv.json) return printJson(result);
    print(
      `peak resident memory ${formatBytes(result.peakRssBytes)}, including loading; afterwards ${shown(result.peak)}\nanonymous memory ` +
        `without cached boundaries grew by ` +
        `${result.growth === null ? 'an unknown amount' : formatBytes(Math.max(0, result.growth))} from ` +
        `the first to the last iteration\n`,
    );
  },
});

async function taskLoop(
  task: string,
  argv: Stated<typeof options> & { readonly json: boolean },
): Promise<void> {
  if (argv.model === undefined)
    throw new UsageError('--task needs --model: a model with random weights cannot answer');
  const modelPath = (await resolveModel(argv.model)).path;
  const settings = resolveSettings({
    task,
    iterations: argv.iterations,
    model: { name: modelPath, ...given(argv, 'threads', 'maxSequences', 'matmul') },
    sampling: { rollouts: argv.rollouts, samples: argv.samples, maxTokens: argv.tokens },
    optimiser: { stepsPerIteration: argv.steps, batchSize: argv.batchSize },
    layers: { choice: 'last', topLayers: argv.topLayers, trainerMemory: argv.trainerMemory },
    evaluation: { devSize: argv.devSize },
  });
  const result = await benchTaskLoop({ modelPath, task, settings, profile: argv.profile });
  if (argv.json) return printJson(result);
  const rows = result.stages.map(
    ({ stage, seconds, processorSeconds, share }) =>
      `${stage.padEnd(20)} ${seconds.toFixed(2).padStart(9)} s ${processorSeconds.toFixed(2).padStart(9)} s CPU ` +
      `${(100 * share).toFixed(1).padStart(6)} %\n`,
  );
  const { prompts, sampled, trained } = result.tokens;
  const { loaded, sampled: after, trained: stepped, evaluated } = result.memory;
  print(
    `${rows.join('')}${operationTable(result.operations)}` +
      `kernels: ${result.matmul}; ${result.passed} of ${result.replies} replies passed; ` +
      `${prompts} prompt tokens, ${sampled} sampled, ${trained} trained on\n` +
      `loaded: ${shown(loaded)}\nsampled: ${shown(after)}\ntrained: ${shown(stepped)}\nevaluated: ${shown(evaluated)}\n` +
      `peak resident memory ${formatBytes(result.peakRssBytes)}\n`,
  );
}

/** Operations of sampling and evaluation; an empty text where none was measured. */
function operationTable(operations: readonly OperationTime[]): string {
  if (operations.length === 0) return '';
  const rows = operations.map(
    ({ operation, computer, nodes, seconds, processorSeconds }) =>
      `${operation.padEnd(20)} ${computer.padEnd(8)} ${formatNumber(nodes).padStart(10)} ` +
      `${seconds.toFixed(2).padStart(9)} s ${processorSeconds.toFixed(2).padStart(9)} s CPU\n`,
  );
  return `\noperation            kernels      number      clock       processor\n${rows.join('')}\n`;
}
