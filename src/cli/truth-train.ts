import { writeFileAtomically } from '../engine/atomic-file.js';
import { LEARNING_RATES } from '../engine/fine-tuning.js';
import { loadModel } from '../engine/model.js';
import { createTrainer } from '../engine/trainer.js';
import { requireTarget } from '../files.js';
import { trainAdapter } from '../jobs/train-adapter.js';
import { truthRunFolders } from '../truth-seeking/analysis/discover.js';
import { scoredRuns } from '../truth-seeking/analysis/from-run.js';
import { trajectoryScores } from '../truth-seeking/analysis/index.js';
import { generate, type GeneratedDomain } from '../truth-seeking/domains/domain.js';
import { DOMAINS } from '../truth-seeking/domains/index.js';
import { REASONING_MODES } from '../truth-seeking/modes/mode.js';
import { readTruthRun } from '../truth-seeking/run/folder.js';
import { selectableOf } from '../truth-seeking/training/from-run.js';
import { trainOnReadout, type ReadoutStep } from '../truth-seeking/training/readout-training.js';
import { selectFewShot, selectForTraining, trainingRow, VALIDATIONS } from '../truth-seeking/training/select.js';
import { defineCommand, modelOption } from './command.js';
import { interrupted, interruption, printJson, UsageError } from './output.js';
import { Progress } from './progress.js';
import { readCount, readSeed } from './tasks-generate.js';

const GENERATED = DOMAINS.filter((domain): domain is GeneratedDomain => domain.source === 'generated');

interface Flags {
  readonly runs: readonly string[];
  readonly by: string | undefined;
  readonly domain: readonly string[];
  readonly part: number;
  readonly validation: (typeof VALIDATIONS)[number];
  readonly model: string;
  readonly out: string;
  readonly rows: string | undefined;
  readonly fewShot: string | undefined;
  readonly count: number;
  readonly epochs: number;
  readonly lr: number | undefined;
  readonly rank: number;
  readonly steps: number;
  readonly questions: number;
  readonly group: number;
  readonly maxTokens: number;
  readonly trainCutOff: boolean;
  readonly seed: string;
  readonly threads: number;
}

const jsonl = (rows: readonly object[]): Buffer => Buffer.from(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));

/** The best trajectories of runs by a strategy, learned by their likelihood, or written to a file. */
async function bySelection(flags: Flags, signal: AbortSignal): Promise<object> {
  const runs = truthRunFolders(flags.runs).map(readTruthRun);
  const files = runs
    .flatMap(scoredRuns)
    .filter(({ setup, scores }) => (setup.strategy === flags.by || setup.config === flags.by) && scores.length > 0)
    .map(trajectoryScores);
  if (files.length === 0) throw new UsageError(`--by: none of the runs has scores of ${flags.by}`);
  const of = selectableOf(runs);
  const seed = BigInt(flags.seed);
  if (flags.fewShot !== undefined) {
    const turns = selectFewShot(files, of, { count: flags.count, part: flags.part, seed });
    await writeFileAtomically(flags.fewShot, [Buffer.from(`${JSON.stringify(turns, null, 2)}\n`)]);
    return { turns: turns.length, fewShot: flags.fewShot };
  }
  const { training, validation, selected, notRight } = selectForTraining(files, of, {
    part: flags.part,
    validation: flags.validation,
    seed,
  });
  const about = { files: files.length, trajectories: selected.length, notRight, examples: training.length, validation: validation.length };
  if (flags.rows !== undefined) {
    await writeFileAtomically(flags.rows, [jsonl(training.map(trainingRow))]);
    return { ...about, rows: flags.rows };
  }
  await using model = await loadModel(flags.model, { signal });
  using progress = new Progress({ label: 'training', unit: 'steps' });
  const { losses, ...trained } = await trainAdapter(model, {
    examples: training.map(trainingRow),
    out: flags.out,
    rank: flags.rank,
    epochs: flags.epochs,
    learningRate: flags.lr ?? LEARNING_RATES.sft,
    seed,
    threads: flags.threads,
    signal,
    onStep: ({ step, steps, loss }) => progress.update(step, { total: steps, note: `loss ${loss.toFixed(3)}` }),
  });
  return { ...about, ...trained, firstLoss: losses[0], lastLoss: losses.at(-1) };
}

/** 1 less the Brier score of what is read of the model after its own reasoning. */
async function byReadout(flags: Flags, signal: AbortSignal): Promise<object> {
  const domains = flags.domain.map((id) => GENERATED.find((domain) => domain.id === id)!);
  const seed = BigInt(flags.seed);
  const wanted = Math.ceil((flags.steps * flags.questions) / domains.length);
  const problems = domains.flatMap((domain) => generate(domain, 'train', wanted, seed));
  await using model = await loadModel(flags.model, {
    signal,
    ...(flags.threads === 0 ? {} : { threads: flags.threads, fixedThreads: true }),
  });
  await using trainer = await createTrainer(model, {
    seed,
    threads: flags.threads,
    lora: { rank: flags.rank },
    optimiser: { learningRate: flags.lr ?? LEARNING_RATES.dpo },
  });
  const steps: ReadoutStep[] = [];
  using progress = new Progress({ label: 'training', total: flags.steps, unit: 'steps' });
  const { questions, group, maxTokens, trainCutOff } = flags;
  const how = { steps: flags.steps, questions, group, maxTokens, trainCutOff, seed };
  for await (const step of trainOnReadout(model, trainer, problems, REASONING_MODES.parse('chain-of-thought'), how, signal)) {
    steps.push(step);
    progress.update(step.step, { note: `reward ${step.reward.toFixed(3)}` });
  }
  return { path: flags.out, sha256: await trainer.exportAdapter(flags.out), steps };
}

export const truthTrainCommand = defineCommand({
  command: 'train [runs..]',
  describe: 'Train an adapter on the best trajectories of runs, or by what is read of the model while it reasons',
  builder: (yargs) =>
    yargs
      .positional('runs', {
        type: 'string',
        array: true,
        default: [] as string[],
        describe: 'folders of runs, of whose trajectories the best are taken (--by)',
      })
      .option('by', { type: 'string', requiresArg: true, describe: 'strategy whose scores decide: accuracy, martingale or another one' })
      .option('domain', {
        choices: GENERATED.map(({ id }) => id),
        array: true,
        default: [] as string[],
        describe: 'without runs: the model reasons about these, and its own beliefs are the reward',
      })
      .option('part', { type: 'number', default: 0.1, describe: 'of the trajectories of each file of scores, the best' })
      .option('validation', {
        choices: VALIDATIONS,
        default: 'none' as const,
        describe: 'kept apart by lot; gt: of those that end on the right side alone',
      })
      .option('model', modelOption)
      .option('out', { type: 'string', requiresArg: true, default: 'truth-adapter.gguf', describe: 'the adapter' })
      .option('rows', { type: 'string', requiresArg: true, describe: 'write the examples for `train --data`, and train nothing' })
      .option('few-shot', {
        type: 'string',
        requiresArg: true,
        describe: 'write turns that stand before a conversation, and train nothing',
      })
      .option('count', { type: 'number', default: 100, describe: 'turns of --few-shot, at most' })
      .option('epochs', { type: 'number', default: 2, describe: 'passes over the examples' })
      .option('lr', { type: 'number', defaultDescription: '2e-4, by the readout 2e-5', describe: 'learning rate' })
      .option('rank', { type: 'number', default: 8, describe: 'directions of each factor pair' })
      .option('steps', { type: 'number', default: 20, describe: 'by the readout: optimiser steps' })
      .option('questions', { type: 'number', default: 4, describe: 'by the readout: questions a step' })
      .option('group', { type: 'number', default: 8, describe: 'by the readout: replies to each' })
      .option('max-tokens', { type: 'number', default: 128, describe: 'by the readout: tokens of a reply' })
      .option('train-cut-off', { type: 'boolean', default: false, describe: 'by the readout: train on replies that were cut off, too' })
      .option('seed', { type: 'string', default: '42', describe: '64-bit seed' })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .example('$0 truth train runs/urns --by accuracy:mode=eventual --validation gt', 'the tenth with the lowest loss')
      .example('$0 truth train --domain urns --steps 20', 'reward 1 - Brier of what is read'),
  handler: async ({ json, ...flags }) => {
    readSeed(flags.seed);
    for (const flag of ['count', 'epochs', 'rank', 'steps', 'questions'] as const) readCount(flag, flags[flag], 1);
    readCount('max-tokens', flags.maxTokens, 1);
    readCount('group', flags.group, 2); // replies are compared with each other
    readCount('threads', flags.threads, 0);
    if (!(flags.part > 0 && flags.part <= 1)) throw new UsageError('--part: expected a share above 0, at most 1');
    if (flags.runs.length > 0 === flags.domain.length > 0) throw new UsageError('Name runs, or domains with --domain, and not both.');
    if (flags.runs.length > 0 && flags.by === undefined) throw new UsageError('--by: say which scores decide');
    for (const file of [flags.rows ?? flags.fewShot ?? flags.out]) requireTarget(file);
    const signal = interruption();
    const done = await (flags.runs.length > 0 ? bySelection : byReadout)(flags, signal).catch((error: unknown) => {
      throw interrupted(error, 'the training', 'Nothing was written; the same command begins again.');
    });
    if (json) printJson(done);
    else
      process.stdout.write(
        `${Object.entries(done)
          .filter(([, value]) => typeof value !== 'object')
          .map(([key, value]) => `${key}: ${String(value)}`)
          .join('\n')}\n`,
      );
  },
});
