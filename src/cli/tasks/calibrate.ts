import { loadModel } from '../../engine/model.js';
import { calibrate } from '../../evaluation/calibrate.js';
import { given } from '../../given.js';
import { openTask } from '../../tasks/open-task.js';
import { PROMPT_STYLES } from '../../tasks/task.js';
import { withProfile } from '../../training/profile.js';
import { resolveSettings } from '../../training/settings.js';
import { unshownExamples } from '../../training/example-hint.js';
import { calibrationTable, recommendedFlags } from './calibration-table.js';
import { failureTable } from '../../text/failures.js';
import { nameAdapter, requireServable } from '../../lookup/adapter-reference.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { interruption, print, printJson } from '../output.js';
import { Progress } from '../progress.js';
import { formatDuration } from '../quantities.js';
import { flagText, taskFlags } from './task-flags.js';
import {
  askingFlags,
  openedWith,
  readCount,
  readSeed,
  taskOption,
  verifierThreadsOption,
} from './generate.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { number, text, modelOption } from '../option.js';

export const tasksCalibrateCommand = command({
  command: 'calibrate',
  describe:
    'What a model makes of a task before training: pass rates, what there is to learn from, settings for a run',
  options: {
    model: modelOption,
    adapter: text(
      'LoRA adapter in GGUF, a run (folder or beginning of its id), or a name in the registry',
    ),
    registry: registryOption,
    task: taskOption,
    tier: {
      type: 'string',
      array: true,
      requiresArg: true,
      describe: 'these tiers; default: those that are trained on',
    },
    problems: number('problems of each tier, drawn as a run draws them for training', 64),
    samples: number('replies to each problem', 8),
    seed: text('64-bit seed of problems and replies', '42'),
    style: {
      choices: PROMPT_STYLES,
      describe: "how answers are asked for; default: the run's",
    },
    temperature: number("of the replies; default: the run's"),
    'max-tokens': number("tokens of a reply; default: the run's"),
    ...askingFlags,
    'verifier-threads': verifierThreadsOption,
    threads: number('default: the physical cores; embedded: 1'),
    context: number("tokens of KV cache over all running replies; default: the run's"),
    batch: number("replies at once; default: the run's"),
  },
  examples: [
    [
      '$0 tasks calibrate --model qwen2.5-0.5b --task extract',
      'before a run: 64 problems a tier, 8 replies each',
    ],
    [
      '$0 tasks calibrate --task python:reasoning_gym:chain_sum --problems 16',
      'sooner, with wider intervals',
    ],
  ],
  handler: async (argv) => {
    const problems = readCount('problems', argv.problems, 1);
    const samples = readCount('samples', argv.samples, 2);
    const seed = readSeed(argv.seed);
    const signal = interruption();
    const { sampling, model: loaded } = resolveSettings(
      await withProfile(
        {
          model: {
            name: argv.model,
            threads: argv.threads,
            contextTokens: argv.context,
            maxSequences: argv.batch,
          },
          sampling: { style: argv.style, temperature: argv.temperature, maxTokens: argv.maxTokens },
        },
        signal,
      ),
    );
    await using task = await openTask(argv.task, openedWith(argv));
    using download = new Progress({ label: `download ${argv.model}`, unit: 'bytes' });
    using progress = new Progress({ label: 'calibrating', unit: 'replies' });
    progress.begin('loading the model');
    await using model = await loadModel(argv.model, {
      signal,
      fixedThreads: true,
      ...(loaded.threads === 0 ? {} : { threads: loaded.threads }),
      ...given({ contextTokens: loaded.contextTokens }),
      onDownload: ({ downloadedBytes, totalBytes }) =>
        download.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes }),
    });
    const found =
      argv.adapter === undefined ? null : await nameAdapter(argv.adapter, registryOf(argv));
    if (found !== null) await requireServable(found, model);
    using adapter = found === null ? null : await model.loadAdapter(found.file);
    const { style, temperature, topP, maxTokens } = sampling;
    const { tiers, recommended, failures, replies, seconds } = await calibrate(model, task, {
      problems,
      samples,
      seed,
      style,
      temperature,
      topP,
      maxTokens,
      maxSequences: loaded.maxSequences,
      adapter,
      signal,
      unshown: unshownExamples({
        model: { name: argv.model },
        task: argv.task,
        sampling: { examples: argv.examples },
      }),
      ...given({ tiers: argv.tier }),
      onProgress: (done, total) => progress.update(done, { total }),
    });
    progress.clear();
    if (argv.json)
      return printJson({
        model: { path: argv.model, sha256: await model.hash() },
        adapter: adapter === null ? null : { path: adapter.path, sha256: adapter.id },
        task: { id: task.id, version: task.version },
        seed: argv.seed,
        problems,
        samples,
        style,
        temperature,
        topP,
        maxTokens,
        tiers,
        recommended,
        failures,
        replies,
        seconds,
      });
    const { settings } = recommended;
    print(
      `${task.id} ${task.version}, ${problems} problems of each tier, ${samples} replies to each at temperature ${temperature}; ` +
        `per cent, 95 % interval below\n\n${calibrationTable(tiers, samples)}\n\n` +
        'mixed: of the replies to a problem some pass and some do not, which is what a loop learns from;\n' +
        `format: the answer could be read, right or wrong. ${replies} replies in ${formatDuration(seconds)}\n\n` +
        (failures.rows.length > 0
          ? `${failureTable(failures, 'replies', terminalStyle(process.stdout))}\n\n`
          : '') +
        recommended.reasons.map((reason) => `- ${reason}\n`).join('') +
        (settings === null
          ? ''
          : `\nto learn from: ${recommended.tiers.join(', ')}\n` +
            `npx isopro-native run${flagText([['model', argv.model]])}${taskFlags({ ...argv, sampling: argv })}` +
            `${flagText([
              ['style', argv.style],
              ['temperature', argv.temperature],
            ])} ${recommendedFlags(settings)}\n`),
    );
  },
});
