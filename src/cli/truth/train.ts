import path from 'node:path';
import { hashFile } from '../../engine/adapter.js';
import { MATMUL_HELP, MATMULS, type Matmul } from '../../engine/addon.js';
import { writeFileAtomically } from '../../engine/atomic-file.js';
import { LEARNING_RATES } from '../../engine/fine-tuning.js';
import { loadModel, type LoadModelOptions, type Model } from '../../engine/model.js';
import { requireTarget } from '../../files.js';
import { trainAdapter } from '../../operations/train-adapter.js';
import { listTable } from '../../report/terminal.js';
import { terminalStyle } from '../../report/terminal-style.js';
import { truthRunFolders } from '../../truth-seeking/analysis/discover.js';
import { scoredRuns } from '../../truth-seeking/analysis/from-run.js';
import { trajectoryScores } from '../../truth-seeking/analysis/index.js';
import type { GeneratedDomain } from '../../truth-seeking/domains/domain.js';
import { DOMAINS } from '../../truth-seeking/domains/index.js';
import { readTruthConfig } from '../../truth-seeking/run/config.js';
import { readTruthRun, type TruthRun } from '../../truth-seeking/run/folder.js';
import type { TruthProgress } from '../../truth-seeking/run/run.js';
import type { FigureChange } from '../../truth-seeking/training/before-after.js';
import { askedTwice, selectableOf } from '../../truth-seeking/training/from-run.js';
import {
  READOUT_REWARDS,
  type ReadoutReward,
} from '../../truth-seeking/training/readout-training.js';
import {
  selectFewShot,
  selectForTraining,
  trainingRow,
  VALIDATIONS,
} from '../../truth-seeking/training/select.js';
import {
  changesBetween,
  measureHeldOut,
  TrainingFolder,
  trainInFolder,
  trainingProblems,
  trainingStart,
} from '../../truth-seeking/training/train-and-measure.js';
import { defineCommand, modelOption } from '../command.js';
import { interrupted, interruption, print, printJson, UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { readCount, readSeed } from '../tasks-generate.js';
import { TruthScreen } from './run.js';

const GENERATED = DOMAINS.filter(
  (domain): domain is GeneratedDomain => domain.source === 'generated',
);

interface Flags {
  readonly runs: readonly string[];
  readonly by: string | undefined;
  readonly domain: readonly string[];
  readonly part: number;
  readonly validation: (typeof VALIDATIONS)[number];
  readonly model: string;
  readonly out: string | undefined;
  readonly rows: string | undefined;
  readonly fewShot: string | undefined;
  readonly count: number;
  readonly epochs: number;
  readonly lr: number | undefined;
  readonly rank: number;
  readonly mode: string;
  readonly reward: ReadoutReward;
  readonly steps: number;
  readonly questions: number;
  readonly group: number;
  readonly maxTokens: number;
  readonly temperature: number;
  readonly trainCutOff: boolean;
  readonly measure: number;
  readonly measureDomain: readonly string[];
  readonly measureSeed: string;
  readonly before: string | undefined;
  readonly seed: string;
  readonly threads: number;
  readonly matmul: Matmul | undefined;
}

const DEFAULT_FOLDER = 'runs/truth-training';
/** Of the steps by the readout: what rollouts are trained with in `run`. */
const READOUT_RATE = 2e-4;
/** What is measured before and after. */
const MEASURED = [
  ...['accuracy:mode=initial', 'accuracy:mode=eventual', 'accuracy:mode=difference', 'martingale'],
  ...[
    'sycophancy:measure=shift',
    'sycophancy:measure=quality-change',
    'sycophancy:measure=asymmetry',
  ],
];

const jsonl = (rows: readonly object[]): Buffer =>
  Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

const loading = ({ threads, matmul }: Flags, signal: AbortSignal): LoadModelOptions => ({
  signal,
  fixedThreads: true,
  ...(threads === 0 ? {} : { threads }),
  ...(matmul === undefined ? {} : { matmul }),
});
/** Of what the model does, which a training depends on. */
const engineOf = ({ info: { threads, matmul } }: Model) => ({
  threads,
  ...(matmul === 'own' ? { matmul } : {}),
});

/**
 * The best trajectories of runs by a strategy, learned by their likelihood, or written to a file.
 */
async function bySelection(flags: Flags, signal: AbortSignal): Promise<object> {
  const runs = truthRunFolders(flags.runs).map(readTruthRun);
  const files = runs
    .flatMap((run) => scoredRuns(run))
    .filter(
      ({ setup, scores }) =>
        (setup.strategy === flags.by || setup.config === flags.by) && scores.length > 0,
    )
    .map(trajectoryScores);
  if (files.length === 0) throw new UsageError(`--by: none of the runs has scores of ${flags.by}`);
  const domains = [...new Set(runs.flatMap(({ start }) => start.config.domain))];
  requireHeldOut(runs, flags, domains);
  const of = selectableOf(runs);
  const seed = BigInt(flags.seed);
  if (flags.fewShot !== undefined) {
    const turns = selectFewShot(files, of, { count: flags.count, part: flags.part, seed });
    await writeFileAtomically(
      flags.fewShot,
      [Buffer.from(`${JSON.stringify(turns, null, 2)}\n`)],
      'follow',
    );
    return { turns: turns.length, fewShot: flags.fewShot };
  }
  const { training, validation, selected, notRight } = selectForTraining(files, of, {
    part: flags.part,
    validation: flags.validation,
    seed,
  });
  const about = {
    files: files.length,
    trajectories: selected.length,
    notRight,
    examples: training.length,
    validation: validation.length,
  };
  if (flags.rows !== undefined) {
    await writeFileAtomically(flags.rows, [jsonl(training.map(trainingRow))], 'follow');
    return { ...about, rows: flags.rows };
  }
  const { rank, epochs, threads, lr: learningRate = LEARNING_RATES.sft } = flags;
  await using model = await loadModel(flags.model, loading(flags, signal));
  const settings = {
    by: flags.by!,
    selected: [...selected],
    epochs,
    rank,
    learningRate,
    seed: flags.seed,
    ...engineOf(model),
  };
  using folder = new TrainingFolder(
    path.resolve(flags.out ?? DEFAULT_FOLDER),
    await trainingStart(model, settings),
  );
  const train = async (): Promise<void> => {
    if (await folder.isDone()) return;
    using progress = new Progress({ label: 'training', unit: 'steps' });
    const { losses } = await trainAdapter(model, {
      examples: training.map(trainingRow),
      out: folder.adapter,
      overwrite: true, // of a training that was cut off before its end was written
      ...{ rank, epochs, learningRate, seed, threads, signal },
      onStep: ({ step, steps, loss }) =>
        progress.update(step, { total: steps, note: `loss ${loss.toFixed(3)}` }),
    });
    await folder.finish(losses.map((loss, i) => ({ step: i + 1, loss })));
  };
  const found = await measured(model, folder, flags, domains, train, signal);
  return resultOf(folder, { ...about, steps: folder.steps, ...found });
}

/** @param domains that are trained on: these, too, where no others are named */
const measuredConfig = (flags: Flags, domains: readonly string[]) => ({
  domain: [...(flags.measureDomain.length === 0 ? domains : flags.measureDomain)],
  mode: [flags.mode],
  eval: [...MEASURED],
  problems: flags.measure,
  seed: flags.measureSeed,
  maxTokens: flags.maxTokens,
  threads: flags.threads,
});

/** Nothing is measured on what is trained on. @throws UsageError */
function requireHeldOut(runs: readonly TruthRun[], flags: Flags, domains: readonly string[]): void {
  if (flags.measure === 0) return;
  const seen = askedTwice(
    runs,
    readTruthConfig({ ...measuredConfig(flags, domains), model: flags.model }),
  );
  if (seen > 0)
    throw new UsageError(
      `--measure: ${seen} of these questions are asked in the runs, so that they are not held out. ` +
        'Train on runs of the other part (`truth run --split train`).',
    );
}

function changesTable(changes: readonly FigureChange[]): string {
  const number = (value: number | null): string => (value === null ? '-' : value.toFixed(4));
  const rows = changes.map(({ domain, figure, n, before, after, difference, interval, p }) => [
    ...[domain, figure, String(n), number(before), number(after), number(difference)],
    interval === null ? '-' : `${number(interval.low)} to ${number(interval.high)}`,
    p === null ? '-' : p.toPrecision(2),
  ]);
  const heads = ['domain', 'figure', 'n', 'before', 'after', 'change', '95 % interval', 'p'];
  return listTable(heads, rows, terminalStyle(process.stdout));
}

/** Held-out questions before and after a training, if any are asked for. */
async function measured(
  model: Model,
  folder: TrainingFolder,
  flags: Flags,
  domains: readonly string[],
  train: () => Promise<void>,
  signal: AbortSignal,
) {
  using screen = new TruthScreen();
  const config = measuredConfig(flags, domains);
  const measuring = { config, ...(flags.before === undefined ? {} : { before: flags.before }) };
  const control = {
    signal,
    onProgress: (_: unknown, progress: TruthProgress) => screen.onProgress(progress),
  };
  if (flags.measure === 0) {
    await train();
    return null;
  }
  const before = await measureHeldOut(model, flags.model, folder, 'before', measuring, control);
  await train();
  const after = await measureHeldOut(model, flags.model, folder, 'after', measuring, control);
  return { before, after, changes: changesBetween(before, after, BigInt(flags.measureSeed)) };
}

/** By what is read of the model after its own reasoning. */
async function byReadout(flags: Flags, signal: AbortSignal): Promise<object> {
  const domains = flags.domain.map((id) => GENERATED.find((domain) => domain.id === id)!);
  const seed = BigInt(flags.seed);
  const {
    reward,
    steps,
    questions,
    group,
    maxTokens,
    temperature,
    trainCutOff,
    rank,
    threads,
    mode,
  } = flags;
  const problems = trainingProblems(domains, steps * questions, seed);
  const learningRate = flags.lr ?? READOUT_RATE;
  const how = { reward, steps, questions, group, maxTokens, temperature, trainCutOff, seed };
  await using model = await loadModel(flags.model, loading(flags, signal));
  const settings = {
    ...how,
    seed: flags.seed,
    domains: flags.domain.join(' '),
    mode,
    rank,
    learningRate,
    ...engineOf(model),
  };
  const out = flags.out ?? DEFAULT_FOLDER;
  using folder = new TrainingFolder(path.resolve(out), await trainingStart(model, settings));
  const train = async (): Promise<void> => {
    using progress = new Progress({ label: 'training', total: steps, unit: 'steps' });
    await trainInFolder(
      model,
      folder,
      { problems, mode, how, rank, learningRate, threads },
      {
        signal,
        onStep: ({ step, reward }) =>
          progress.update(step, { note: `reward ${reward === null ? '-' : reward.toFixed(3)}` }),
      },
    );
  };
  const found = await measured(model, folder, flags, flags.domain, train, signal);
  return resultOf(folder, { problems: problems.length, steps: folder.steps, ...found });
}

/** Written beside the adapter, too. */
async function resultOf(folder: TrainingFolder, found: object): Promise<object> {
  const result = {
    folder: folder.folder,
    adapter: folder.adapter,
    sha256: await hashFile(folder.adapter),
    ...found,
  };
  await writeFileAtomically(path.join(folder.folder, 'result.json'), [
    Buffer.from(`${JSON.stringify(result, null, 2)}\n`),
  ]);
  return result;
}

export const truthTrainCommand = defineCommand({
  command: 'train [runs..]',
  describe:
    'Train an adapter on the best trajectories of runs, or by what is read of the model while it reasons',
  builder: (yargs) =>
    yargs
      .positional('runs', {
        type: 'string',
        array: true,
        default: [] as string[],
        describe: 'folders of runs, of whose trajectories the best are taken (--by)',
      })
      .option('by', {
        type: 'string',
        requiresArg: true,
        describe: 'strategy whose scores decide: accuracy, martingale or another one',
      })
      .option('domain', {
        choices: GENERATED.map(({ id }) => id),
        array: true,
        default: [] as string[],
        describe: 'without runs: the model reasons about these, and its own beliefs are the reward',
      })
      .option('part', {
        type: 'number',
        default: 0.1,
        describe: 'of the trajectories of each file of scores, the best',
      })
      .option('validation', {
        choices: VALIDATIONS,
        default: 'none' as const,
        describe: 'kept apart by lot; gt: of those that end on the right side alone',
      })
      .option('model', modelOption)
      .option('out', {
        type: 'string',
        requiresArg: true,
        defaultDescription: DEFAULT_FOLDER,
        describe: 'folder of the adapter, of what was measured and of result.json',
      })
      .option('rows', {
        type: 'string',
        requiresArg: true,
        describe: 'write the examples for `train --data`, and train nothing',
      })
      .option('few-shot', {
        type: 'string',
        requiresArg: true,
        describe: 'write turns that stand before a conversation, and train nothing',
      })
      .option('count', { type: 'number', default: 100, describe: 'turns of --few-shot, at most' })
      .option('epochs', { type: 'number', default: 2, describe: 'passes over the examples' })
      .option('lr', {
        type: 'number',
        defaultDescription: `${LEARNING_RATES.sft}, by the readout ${READOUT_RATE}`,
        describe: 'learning rate',
      })
      .option('rank', { type: 'number', default: 8, describe: 'directions of each factor pair' })
      .option('mode', {
        choices: ['direct', 'chain-of-thought'] as const,
        default: 'chain-of-thought',
        describe: 'how it is reasoned: by the readout, and where it is measured',
      })
      .option('reward', {
        choices: READOUT_REWARDS,
        default: 'accuracy' as const,
        describe:
          'by the readout: 1 - Brier, or how little the belief before tells of the change (martingale)',
      })
      .option('steps', { type: 'number', default: 20, describe: 'by the readout: optimiser steps' })
      .option('questions', {
        type: 'number',
        default: 4,
        describe: 'by the readout: questions a step',
      })
      .option('group', { type: 'number', default: 8, describe: 'by the readout: replies to each' })
      .option('max-tokens', {
        type: 'number',
        default: 128,
        describe: 'tokens of a reply, by the readout and where it is measured',
      })
      .option('temperature', {
        type: 'number',
        default: 1,
        describe: 'by the readout: of the replies',
      })
      .option('train-cut-off', {
        type: 'boolean',
        default: false,
        describe: 'by the readout: train on replies that were cut off, too',
      })
      .option('measure', {
        type: 'number',
        default: 0,
        describe:
          'held-out questions of each domain, asked before and after, by users with opinions too; none that the runs ask',
      })
      .option('measure-domain', {
        choices: DOMAINS.filter(({ kind }) => kind === 'binary').map(({ id }) => id),
        array: true,
        default: [] as string[],
        defaultDescription: 'what is trained on',
        describe: 'domains of these questions',
      })
      .option('measure-seed', {
        type: 'string',
        default: '42',
        describe: '64-bit seed of these questions and of the reasoning about them',
      })
      .option('before', {
        type: 'string',
        requiresArg: true,
        describe:
          'folder of what is measured before; trainings that differ in their seed may share one',
      })
      .option('seed', { type: 'string', default: '42', describe: '64-bit seed' })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .option('matmul', { choices: MATMULS, describe: `${MATMUL_HELP}; default: ggml` })
      .example(
        '$0 truth train runs/urns --by accuracy:mode=eventual --validation gt',
        'the tenth with the lowest loss',
      )
      .example(
        '$0 truth train --domain urns --steps 20 --measure 40',
        'reward 1 - Brier of what is read; held-out questions before and after',
      )
      .epilogue('The same command goes on after an interruption.'),
  handler: async ({ json, ...flags }) => {
    readSeed(flags.seed);
    readSeed(flags.measureSeed);
    readCount('measure', flags.measure, 0);
    for (const flag of ['count', 'epochs', 'rank', 'steps', 'questions'] as const)
      readCount(flag, flags[flag], 1);
    readCount('max-tokens', flags.maxTokens, 1);
    readCount('group', flags.group, 2); // replies are compared with each other
    readCount('threads', flags.threads, 0);
    if (!(flags.part > 0 && flags.part <= 1))
      throw new UsageError('--part: expected a share above 0, at most 1');
    if (flags.runs.length > 0 === flags.domain.length > 0)
      throw new UsageError('Name runs, or domains with --domain, and not both.');
    if (flags.runs.length > 0 && flags.by === undefined)
      throw new UsageError('--by: say which scores decide');
    for (const file of [flags.rows, flags.fewShot]) if (file !== undefined) requireTarget(file);
    const signal = interruption();
    const done = await (flags.runs.length > 0 ? bySelection : byReadout)(flags, signal).catch(
      (error: unknown) => {
        throw interrupted(
          error,
          'the training',
          'Nothing was lost: the same command goes on where it was.',
        );
      },
    );
    if (json) printJson(done);
    else {
      const lines = Object.entries(done).filter(([, value]) => typeof value !== 'object');
      const { changes } = done as { readonly changes?: readonly FigureChange[] };
      const table = changes === undefined ? '' : `\n${changesTable(changes)}\n`;
      print(`${lines.map(([key, value]) => `${key}: ${String(value)}`).join('\n')}\n${table}`);
    }
  },
});
