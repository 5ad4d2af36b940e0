import { loadModel } from '../../engine/model.js';
import { calibrate, type Calibration } from '../../evaluation/calibrate.js';
import { given } from '../../given.js';
import { openTask } from '../../tasks/open-task.js';
import { PROMPT_STYLES, type PromptStyle } from '../../tasks/task.js';
import { withProfile } from '../../training/profile.js';
import { resolveSettings, type RunSettings } from '../../training/settings.js';
import { unshownExamples } from '../../training/example-hint.js';
import { calibrationTable, recommendedFlags } from './calibration-table.js';
import { failureTable } from '../../text/failures.js';
import { nameAdapter, requireServable } from '../../lookup/adapter-reference.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { interruption, print, printJson } from '../output.js';
import { Progress } from '../progress.js';
import { formatDuration } from '../quantities.js';
import { flagText, taskFlags } from './task-flags.js';
import { askingFlags, openedWith, taskOption, verifierThreadsOption } from './opening.js';
import { adapterOption, modelOption, number, readCount, readSeed, text } from '../option.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';

export const tasksCalibrateCommand = command({
  command: 'calibrate',
  describe:
    'Measure a model on a task before training: pass rates, learnable problems, recommended settings',
  options: {
    model: modelOption,
    adapter: adapterOption,
    registry: registryOption,
    task: taskOption,
    tier: {
      type: 'string',
      array: true,
      requiresArg: true,
      describe: 'tiers to measure; default: those that are trained on',
    },
    problems: number('problems per tier, drawn as in a run', 64),
    samples: number('replies per problem', 8),
    seed: text('64-bit seed for problems and replies', '42'),
    style: { choices: PROMPT_STYLES, describe: 'prompt style; default: as in a run' },
    temperature: number('sampling temperature; default: as in a run'),
    'max-tokens': number('max tokens per reply; default: as in a run'),
    ...askingFlags,
    'verifier-threads': verifierThreadsOption,
    threads: number('threads; default: the physical cores; embedded: 1'),
    context: number('KV cache in tokens, shared by all running replies; default: as in a run'),
    batch: number('concurrent replies; default: as in a run'),
  },
  examples: [
    [
      '$0 tasks calibrate --model qwen2.5-0.5b --task extract',
      'before a run: 64 problems per tier, 8 replies each',
    ],
    [
      '$0 tasks calibrate --task python:reasoning_gym:chain_sum --problems 16',
      'faster, with wider intervals',
    ],
  ],
  handler: async (argv) => {
    const problems = readCount('problems', argv.problems, 1);
    const samples = readCount('samples', argv.samples, 2);
    const seed = readSeed(argv.seed);
    const signal = interruption();
    const { sampling, model: loaded } = await settingsOf(argv, signal);
    const { style, temperature, topP, maxTokens } = sampling;
    const { threads, contextTokens, maxSequences } = loaded;
    await using task = await openTask(argv.task, openedWith(argv));
    using download = Progress.ofDownload(argv.model);
    using progress = new Progress({ label: 'calibrating', unit: 'replies' });
    progress.begin('loading the model');
    await using model = await loadModel(argv.model, {
      ...{ signal, fixedThreads: true, onDownload: download.onDownload },
      ...given({ threads: threads || undefined, contextTokens }),
    });
    const found =
      argv.adapter === undefined ? null : await nameAdapter(argv.adapter, registryOf(argv));
    if (found !== null) await requireServable(found, model);
    using adapter = found === null ? null : await model.loadAdapter(found.file);
    const asked = { problems, samples, style, temperature, topP, maxTokens };
    const calibrated = await calibrate(model, task, {
      ...{ ...asked, seed, maxSequences, adapter, signal },
      unshown: unshownExamples({
        model: { name: argv.model },
        task: argv.task,
        sampling: { examples: argv.examples },
      }),
      ...given({ tiers: argv.tier }),
      onProgress: (done, total) => progress.update(done, { total }),
    });
    progress.clear();
    const { id, version } = task;
    if (argv.json)
      return printJson({
        model: { path: argv.model, sha256: await model.hash() },
        adapter: adapter === null ? null : { path: adapter.path, sha256: adapter.id },
        task: { id, version },
        seed: argv.seed,
        ...{ ...asked, ...calibrated },
      });
    print(
      `${id} ${version}, ${problems} problems per tier, ${samples} replies per problem at temperature ${temperature}; ` +
        `per cent, 95 % interval below\n\n${calibratedText(calibrated, samples)}${nextText(calibrated, argv)}`,
    );
  },
});

/** Resolves the settings as for a run of the model. */
const settingsOf = async (
  argv: Readonly<
    Record<'threads' | 'context' | 'batch' | 'temperature' | 'maxTokens', number | undefined>
  > & {
    readonly model: string;
    readonly style: PromptStyle | undefined;
  },
  signal: AbortSignal,
): Promise<RunSettings> =>
  resolveSettings(
    await withProfile(
      {
        model: {
          name: argv.model,
          threads: argv.threads,
          contextTokens: argv.context,
          maxSequences: argv.batch,
        },
        sampling: given(argv, 'style', 'temperature', 'maxTokens'),
      },
      signal,
    ),
  );

const calibratedText = (
  { tiers, recommended, failures, replies, seconds }: Calibration,
  samples: number,
): string =>
  `${calibrationTable(tiers, samples)}\n\n` +
  'mixed: some replies to a problem pass and some do not; a run learns from these\n' +
  `format: the answer could be parsed, right or wrong. ${replies} replies in ${formatDuration(seconds)}\n\n` +
  (failures.rows.length > 0
    ? `${failureTable(failures, 'replies', terminalStyle(process.stdout))}\n\n`
    : '') +
  recommended.reasons.map((reason) => `- ${reason}\n`).join('');

/** The run that is recommended; empty where none is. */
function nextText(
  { recommended: { settings, tiers } }: Calibration,
  argv: Omit<Parameters<typeof taskFlags>[0], 'sampling'> &
    Parameters<typeof taskFlags>[0]['sampling'] & {
      readonly model: string;
      readonly style: PromptStyle | undefined;
      readonly temperature: number | undefined;
    },
): string {
  if (settings === null) return '';
  const { model, style, temperature } = argv;
  return (
    `\nto learn from: ${tiers.join(', ')}\n` +
    `npx isopro-native run${flagText([['model', model]])}${taskFlags({ ...argv, sampling: argv })}` +
    `${flagText(Object.entries({ style, temperature }))} ${recommendedFlags(settings)}\n`
  );
}
