import { existsSync, statSync } from 'node:fs';
import path from 'node:path';
import { hashFile } from '../engine/adapter.js';
import { LEARNING_RATES, optimiserOf, stepsOf, type Figures } from '../engine/fine-tuning.js';
import { loadModel } from '../engine/model.js';
import { createTrainer } from '../engine/trainer.js';
import { lossCurve } from '../report/loss-curve.js';
import { visible } from '../visible.js';
import { noteWarnings } from './adapter-notes.js';
import { defineCommand } from './command.js';
import {
  interrupted,
  interruption,
  print,
  printJsonLine,
  printNote,
  UsageError,
} from './output.js';
import { Progress } from './progress.js';
import { formatBytes, formatDuration } from './quantities.js';
import { curationOf, curationOptions, curationText, isCurated } from './train-curation.js';
import { ANSWERS, exampleLines, OBJECTIVES, readTrainData } from './train-data.js';
import { DATA_HASH, TrainFiles, type TrainSettings } from './train-files.js';
import { logToOption, trackersOf } from './log-to.js';
import { BEST_QUALITY, qualityLine } from '../tasks/curation/quality.js';
import { splitPath } from '../tasks/data/split.js';
import { Trackers } from '../trackers/trackers.js';

export const trainCommand = defineCommand({
  command: 'train',
  describe: 'Train a LoRA adapter on a file of examples, on the CPU',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        demandOption: true,
        describe: 'path of a GGUF file, an alias, or an hf: URI',
      })
      .option('data', {
        type: 'string',
        nargs: 1,
        demandOption: true,
        describe:
          'JSONL or CSV, - for JSONL on standard input, in the forms of TRL, mlx-lm, Alpaca, ShareGPT and `run`: messages, ' +
          'prompt and completion, prompt and answer, text, instruction, conversations (not as CSV)',
      })
      .option('objective', {
        choices: OBJECTIVES,
        default: 'sft' as const,
        describe:
          'sft: the likelihood of the examples; dpo: preference pairs, JSONL of prompt, chosen and rejected as TRL has them',
      })
      .option('answers', {
        choices: ANSWERS,
        defaultDescription: 'last',
        describe:
          'sft: which answers of a conversation are learned; all: each behind what was said before it',
      })
      .option('beta', {
        type: 'number',
        default: 0.1,
        describe: 'dpo: how strongly the model is held to the base',
      })
      .option('out', {
        type: 'string',
        default: 'adapter.gguf',
        describe: 'the adapter; its training state is written beside it as OUT.state',
      })
      .option('rank', { type: 'number', default: 8, describe: 'directions of each factor pair' })
      .option('alpha', {
        type: 'number',
        default: 16,
        describe: 'the adapter is scaled by alpha / rank',
      })
      .option('top', { type: 'number', describe: 'train the top layers only; default: all' })
      .option('lr', {
        alias: 'learning-rate',
        type: 'number',
        defaultDescription: '2e-4, dpo: 2e-5',
        describe: 'learning rate',
      })
      .option('schedule', {
        choices: ['constant', 'linear', 'cosine'] as const,
        default: 'cosine' as const,
        describe: 'of the learning rate, after 3 % warm-up',
      })
      .option('epochs', { type: 'number', default: 1, describe: 'passes over the file' })
      .option('batch', {
        alias: 'batch-size',
        type: 'number',
        default: 8,
        describe: 'examples or pairs a step',
      })
      .option('validation', {
        type: 'number',
        defaultDescription: '0.1 of 100 examples or more',
        describe: 'share of the examples that is kept apart to measure the loss on; 0: none',
      })
      .option('validation-data', {
        type: 'string',
        describe: 'JSONL of examples to measure the loss on, in place of a share',
      })
      .option('validate-every', {
        type: 'number',
        defaultDescription: 'a tenth of them',
        describe: 'steps between two measurements',
      })
      .option('patience', {
        type: 'number',
        default: 3,
        describe:
          'stop after so many measurements without a lower loss; 0: never. The adapter with the lowest is kept',
      })
      .options(curationOptions)
      .option('max-tokens', {
        type: 'number',
        default: 2048,
        describe: 'longer examples are left out',
      })
      .option('seed', {
        type: 'string',
        default: '0',
        describe: '64-bit seed of the adapter and of the order',
      })
      .option('save-every', {
        type: 'number',
        default: 25,
        describe: 'steps between savings of the state',
      })
      .option('log-to', logToOption)
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .option('resume', {
        type: 'boolean',
        default: false,
        describe: 'continue from OUT.state with the same flags',
      })
      .option('force', { type: 'boolean', default: false, describe: 'replace OUT and its state' })
      .option('dry-run', {
        type: 'boolean',
        default: false,
        describe: 'print the plan and the time of one step, train nothing',
      })
      .example(
        '$0 train --model qwen2.5-0.5b --data train.jsonl --out mine.gguf',
        'one pass over a file',
      )
      .example(
        '$0 train --model qwen2.5-0.5b --data train.jsonl --out mine.gguf --resume',
        'go on after an interruption',
      ),
  handler: async (argv) => {
    if (!/^\d{1,20}$/.test(argv.seed))
      throw new UsageError(`--seed: expected a whole number of 0 or more, got ${argv.seed}`);
    for (const [flag, value] of [
      ['epochs', argv.epochs],
      ['batch', argv.batch],
      ['save-every', argv.saveEvery],
      ['validate-every', argv.validateEvery ?? 1],
      ['patience', argv.patience + 1],
    ] as const) {
      if (!Number.isInteger(value) || value < 1)
        throw new UsageError(`--${flag}: expected a whole number of at least 1`);
    }
    if (!(argv.beta > 0 && argv.beta <= 1000))
      throw new UsageError('--beta: expected a number above 0, at most 1000');
    if (argv.validation !== undefined && !(argv.validation >= 0 && argv.validation < 1))
      throw new UsageError('--validation: expected a share from 0 to below 1');
    if (argv.validation !== undefined && argv.validationData !== undefined)
      throw new UsageError('Give either --validation or --validation-data.');
    const logTo = trackersOf(argv.logTo);
    const curation = curationOf(argv);
    if (argv.objective === 'dpo' && isCurated(curation))
      throw new UsageError(
        '--dedupe, --elite, --weight-by-score and --score-conditioned are of examples, and --objective dpo has pairs',
      );
    const files = new TrainFiles(argv.out);
    if (!argv.dryRun) files.check(argv);
    const learningRate = argv.lr ?? LEARNING_RATES[argv.objective];
    const settings = await courseOf({ ...argv, lr: learningRate });
    if (argv.resume) files.checkSame(settings);
    const lines = exampleLines(argv.data);
    const signal = interruption();
    const seed = BigInt(argv.seed);
    await using model = await loadModel(argv.model, { signal });
    noteWarnings(model);
    if (argv.resume) files.checkTokens(model);
    const maxTokens = Math.min(argv.maxTokens, model.info.trainedContext);
    const { objective, beta, validation, validationData, answers = 'last' } = argv;
    const data = await readTrainData(model, {
      objective,
      answers,
      file: argv.data,
      beta,
      curation,
      validation,
      validationData,
      maxTokens,
      lines,
      references: files.references,
    });
    const steps = stepsOf(data.examples, argv.batch, argv.epochs);
    await using trainer = await createTrainer(model, {
      seed,
      threads: argv.threads,
      lora: {
        rank: argv.rank,
        alpha: argv.alpha,
        layers: argv.top === undefined ? 'all' : { top: argv.top },
      },
      optimiser: optimiserOf(learningRate, argv.schedule, steps),
    });
    if (argv.resume) await trainer.load(files.state);
    const { tokens } = data;
    const plan = {
      examples: data.examples,
      validationExamples: data.validationExamples,
      leftOut: data.leftOut,
      ...(data.curation === null ? {} : { curation: data.curation }),
      tokens,
      steps,
      parameters: trainer.info.parameters,
      layers: trainer.info.layers - trainer.info.lowestTrained,
      threads: trainer.info.threads,
    };

    for (const text of data.notes) printNote(`${visible(text)}\n`);
    if (argv.dryRun) {
      const started = performance.now();
      const sample = data.sequences(argv.batch);
      await trainer.differentiate(sample, { signal });
      const rate =
        sample.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0) /
        ((performance.now() - started) / 1000);
      const before = await data.secondsBefore(trainer, argv.batch, signal);
      const seconds = before + (tokens * argv.epochs) / rate;
      const report = {
        ...plan,
        tokensPerSecond: rate,
        seconds,
        residentBytes: process.memoryUsage().rss,
      };
      if (argv.json) printJsonLine(report);
      else {
        print(
          `${plan.examples} examples (${data.tooLong} too long)` +
            `, ${plan.validationExamples} kept apart, ${tokens} tokens, ${steps} steps\n` +
            (data.curation === null ? '' : `${curationText(data.curation)}\n`) +
            `${plan.parameters} parameters in ${plan.layers} layers, ${plan.threads} threads\n` +
            `${rate.toFixed(1)} tokens/s, about ${(report.seconds / 60).toFixed(0)} min; ${formatBytes(report.residentBytes)} resident\n`,
        );
      }
      return;
    }

    await files.open(trainer.info.steps, settings, model);
    const trackers = new Trackers(logTo, {
      folder: files.trackers,
      project: 'isopro-native',
      name: path.basename(argv.out),
      config: { ...plan, ...chosen(argv), lr: learningRate },
      resumed: argv.resume,
      onNotice: (text) => printNote(`${text}\n`),
    });
    for (const command of trackers.commands) printNote(`figures: ${command}\n`);
    let preferred: Preferred | null = null;
    const started = performance.now();
    const every = argv.validateEvery ?? Math.max(1, Math.ceil(steps / 10));
    const fineTuning = {
      batchSize: argv.batch,
      steps,
      seed,
      validation: { every, patience: argv.patience, before: files.validation },
    };
    try {
      using progress = new Progress({
        label: 'training',
        total: tokens * argv.epochs,
        unit: 'tokens',
      });
      progress.begin('the first step');
      const average = tokens / Math.ceil(data.examples / argv.batch);
      let measured = '';
      const onReference = (done: number, total: number): void =>
        progress.begin(`what the base says of ${done} of ${total} pairs`);
      for await (const event of data.train(trainer, fineTuning, signal, onReference)) {
        if (event.kind === 'validation') {
          const { step, loss, best, figures } = event;
          files.add({ step, validationLoss: loss });
          trackers.log(step, { 'eval/loss': loss, ...named('eval', figures) });
          if (argv.json) printJsonLine({ step, validationLoss: loss, ...figures });
          preferred = { on: 'the validation pairs', figures };
          measured = `, validation ${loss.toFixed(3)}`;
          if (best) await trainer.exportAdapter(files.best);
          continue;
        }
        const { figures, stats } = event;
        if (data.validationExamples === 0)
          preferred = { on: 'the pairs of the last step', figures };
        const { step, loss, learningRate: rate, gradNorm, tokens: trained } = stats;
        files.add({ step, loss });
        trackers.log(step, {
          'train/loss': loss,
          'train/grad_norm': gradNorm,
          'train/learning_rate': rate,
          'train/epoch': (step * argv.epochs) / steps,
          ...named('train', figures),
        });
        if (argv.json)
          printJsonLine({ step, loss, learningRate: rate, gradNorm, tokens: trained, ...figures });
        progress.update(Math.round(step * average), {
          note: `step ${step}/${steps}, loss ${loss.toFixed(3)}${measured}, ${formatBytes(process.memoryUsage().rss)}`,
        });
        if (step % argv.saveEvery === 0) await trainer.save(files.state);
      }
    } catch (error) {
      trackers.end('failed');
      throw interrupted(
        error,
        'the training',
        existsSync(files.state)
          ? `The same flags with --resume go on from ${files.state}.`
          : 'Nothing had been saved yet: start again.',
      );
    }
    trackers.end('finished');
    await trainer.save(files.state);
    const losses = { training: files.training, validation: files.validation };
    const best = losses.validation
      .filter(({ step }) => step > 0)
      .reduce<Figure | null>((a, b) => (a !== null && a.loss <= b.loss ? a : b), null);
    const taken = trainer.info.steps;
    if (best !== null && best.step < taken) files.promoteBest();
    else await trainer.exportAdapter(argv.out);
    files.forgetBest();
    const id = await hashFile(argv.out);
    const result = {
      ...plan,
      stepsTaken: taken,
      loss: { first: losses.training[0]?.loss ?? null, last: losses.training.at(-1)?.loss ?? null },
      validation:
        best === null
          ? null
          : {
              before: losses.validation.find(({ step }) => step === 0)?.loss ?? null,
              best,
              last: losses.validation.at(-1)!,
            },
      adapter: argv.out,
      sha256: id,
      state: files.state,
      losses: files.losses,
    };
    if (argv.json) return printJsonLine(result);
    const curve = lossCurve(
      [
        { mark: '.', name: 'training loss', points: losses.training },
        ...(plan.validationExamples === 0
          ? []
          : [{ mark: 'o', name: 'validation loss', points: losses.validation }]),
      ],
      Math.min(100, process.stdout.columns || 80),
    );
    const figures = [
      ...(data.curation === null ? [] : [curationText(data.curation)]),
      ...summary(result, steps, (performance.now() - started) / 1000),
      ...preference(preferred),
    ];
    print([...curve, '', ...figures, ''].join('\n'));
    const asked = argv.scoreConditioned ? ` --system "${qualityLine(BEST_QUALITY)}"` : '';
    print(`${argv.out}  sha256 ${id}\n`);
    print(`\nnext: npx isopro-native chat --model ${argv.model} --adapter ${argv.out}${asked}\n`);
  },
});

/** What trackers show of how a training was begun. */
const chosen = ({
  model,
  data,
  objective,
  beta,
  rank,
  alpha,
  schedule,
  epochs,
  batch,
  seed,
}: Readonly<Record<string, unknown>>) =>
  ({
    model,
    data,
    objective,
    ...(objective === 'dpo' && { beta }),
    rank,
    alpha,
    schedule,
    epochs,
    batch,
    seed,
  }) as const;

/** Flags that decide the course of a training, beside its model, whose hash the state has. */
const COURSE = {
  objective: 'objective',
  answers: 'answers',
  beta: 'beta',
  rank: 'rank',
  alpha: 'alpha',
  top: 'top',
  lr: 'lr',
  schedule: 'schedule',
  epochs: 'epochs',
  batch: 'batch',
  validation: 'validation',
  dedupe: 'dedupe',
  elite: 'elite',
  'weight-by-score': 'weightByScore',
  'score-conditioned': 'scoreConditioned',
  'max-tokens': 'maxTokens',
  seed: 'seed',
} as const;

async function courseOf(
  argv: Readonly<
    Partial<Record<(typeof COURSE)[keyof typeof COURSE], TrainSettings[string] | undefined>>
  > & { readonly data: string },
): Promise<TrainSettings> {
  const isFile = statSync(argv.data, { throwIfNoEntry: false })?.isFile() === true;
  return {
    ...Object.fromEntries(
      Object.entries(COURSE).map(([flag, member]) => [flag, argv[member] ?? null]),
    ),
    [DATA_HASH]: isFile
      ? `${await hashFile(argv.data)}${existsSync(splitPath(argv.data)) ? ` ${await hashFile(splitPath(argv.data))}` : ''}`
      : null,
  };
}

const named = (part: 'train' | 'eval', figures: Figures): Figures =>
  Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${part}/${name}`, value]));

type Figure = { readonly step: number; readonly loss: number };

interface Trained {
  readonly examples: number;
  readonly validationExamples: number;
  readonly stepsTaken: number;
  readonly loss: { readonly first: number | null; readonly last: number | null };
  readonly validation: {
    readonly before: number | null;
    readonly best: Figure;
    readonly last: Figure;
  } | null;
}

/** What was measured last. */
interface Preferred {
  readonly on: string;
  readonly figures: Figures;
}

/** A line where pairs were learned. */
function preference(preferred: Preferred | null): string[] {
  const { 'rewards/accuracies': part, 'rewards/margins': margin } = preferred?.figures ?? {};
  if (preferred === null || part === undefined || margin === undefined) return [];
  return [
    `the chosen reply gained more in ${(100 * part).toFixed(0)} % of ${preferred.on}, by a reward of ${margin.toFixed(3)} on average`,
  ];
}

/** The final figures, a line each. */
function summary(
  { examples, validationExamples, stepsTaken, loss, validation }: Trained,
  steps: number,
  seconds: number,
): string[] {
  const shown = (value: number | null): string => value?.toFixed(3) ?? '-';
  const lines = [
    `${examples} examples, ${stepsTaken} of ${steps} steps in ${formatDuration(seconds)}; ` +
      `training loss ${shown(loss.first)} -> ${shown(loss.last)}`,
  ];
  if (validation === null) return lines;
  const { before, best } = validation;
  lines.push(
    `validation loss on ${validationExamples} examples: ${shown(before)} before, ` +
      `${shown(best.loss)} after step ${best.step}, whose adapter is kept`,
  );
  if (stepsTaken < steps)
    lines.push('stopped early: the validation loss fell no further (--patience)');
  if (before !== null && best.loss >= before)
    lines.push(
      'it never fell below that of the model without the adapter: train longer, or on more examples',
    );
  return lines;
}
