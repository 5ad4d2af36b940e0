import { existsSync } from 'node:fs';
import { fineTune, readExamples } from '../engine/fine-tuning.js';
import { readLines, requireTarget } from '../files.js';
import { loadModel } from '../engine/model.js';
import { createTrainer } from '../engine/trainer.js';
import { defineCommand } from './command.js';
import { interrupted, interruption, printJsonLine, UsageError } from './output.js';
import { Progress } from './progress.js';
import { formatBytes } from './quantities.js';

export const trainCommand = defineCommand({
  command: 'train',
  describe: 'Train a LoRA adapter on a file of examples, on the CPU',
  builder: (yargs) =>
    yargs
      .option('model', { type: 'string', demandOption: true, describe: 'path of a GGUF file, an alias, or an hf: URI' })
      .option('data', { type: 'string', demandOption: true, describe: 'JSONL of {"messages"} or {"prompt", "completion"}' })
      .option('out', {
        type: 'string',
        default: 'adapter.gguf',
        describe: 'the adapter; its training state is written beside it as OUT.state',
      })
      .option('rank', { type: 'number', default: 8, describe: 'directions of each factor pair' })
      .option('alpha', { type: 'number', default: 16, describe: 'the adapter is scaled by alpha / rank' })
      .option('top', { type: 'number', describe: 'train the top layers only; default: all' })
      .option('lr', { type: 'number', default: 2e-4, describe: 'learning rate' })
      .option('schedule', {
        choices: ['constant', 'linear', 'cosine'] as const,
        default: 'cosine' as const,
        describe: 'of the learning rate, after 3 % warm-up',
      })
      .option('epochs', { type: 'number', default: 1, describe: 'passes over the file' })
      .option('batch', { type: 'number', default: 8, describe: 'examples a step' })
      .option('max-tokens', { type: 'number', default: 2048, describe: 'longer examples are left out' })
      .option('seed', { type: 'string', default: '0', describe: '64-bit seed of the adapter and of the order' })
      .option('save-every', { type: 'number', default: 25, describe: 'steps between savings of the state' })
      .option('threads', { type: 'number', default: 0, describe: '0: the physical cores' })
      .option('resume', { type: 'boolean', default: false, describe: 'continue from OUT.state with the same flags' })
      .option('dry-run', { type: 'boolean', default: false, describe: 'print the plan and the time of one step, train nothing' })
      .example('$0 train --model qwen2.5-0.5b --data train.jsonl --out mine.gguf', 'one pass over a file')
      .example('$0 train --model qwen2.5-0.5b --data train.jsonl --out mine.gguf --resume', 'go on after an interruption'),
  handler: async (argv) => {
    if (!/^\d{1,20}$/.test(argv.seed)) throw new UsageError(`--seed: expected a whole number, got ${argv.seed}`);
    for (const [flag, value] of [
      ['epochs', argv.epochs],
      ['batch', argv.batch],
      ['save-every', argv.saveEvery],
    ] as const) {
      if (!Number.isInteger(value) || value < 1) throw new UsageError(`--${flag}: expected a whole number of at least 1`);
    }
    const state = `${argv.out}.state`;
    if (argv.resume && !existsSync(state)) throw new UsageError(`--resume: there is no ${state}`);
    for (const target of [argv.out, state]) requireTarget(target); // not only after hours
    const lines = readLines(argv.data);
    const signal = interruption();
    const seed = BigInt(argv.seed);
    await using model = await loadModel(argv.model, { signal });
    const { sequences, tooLong } = await readExamples(lines, model, Math.min(argv.maxTokens, model.info.trainedContext));
    const steps = Math.ceil(sequences.length / argv.batch) * argv.epochs;
    await using trainer = await createTrainer(model, {
      seed,
      threads: argv.threads,
      lora: { rank: argv.rank, alpha: argv.alpha, layers: argv.top === undefined ? 'all' : { top: argv.top } },
      optimiser: {
        learningRate: argv.lr,
        schedule: argv.schedule,
        totalSteps: steps,
        warmupSteps: Math.min(steps - 1, Math.ceil(steps * 0.03)),
      },
    });
    if (argv.resume) await trainer.load(state);
    const tokens = sequences.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0);
    const plan = {
      examples: sequences.length,
      leftOut: tooLong,
      tokens,
      steps,
      parameters: trainer.info.parameters,
      layers: trainer.info.layers - trainer.info.lowestTrained,
      threads: trainer.info.threads,
    };

    if (argv.dryRun) {
      const started = performance.now();
      const sample = sequences.slice(0, argv.batch);
      await trainer.differentiate(sample, { signal });
      const rate = sample.reduce((sum, { tokenIds }) => sum + tokenIds.length, 0) / ((performance.now() - started) / 1000);
      const report = { ...plan, tokensPerSecond: rate, seconds: (tokens * argv.epochs) / rate, residentBytes: process.memoryUsage().rss };
      if (argv.json) printJsonLine(report);
      else {
        process.stdout.write(
          `${plan.examples} examples (${plan.leftOut} too long), ${tokens} tokens, ${steps} steps\n` +
            `${plan.parameters} parameters in ${plan.layers} layers, ${plan.threads} threads\n` +
            `${rate.toFixed(1)} tokens/s, about ${(report.seconds / 60).toFixed(0)} min; ${formatBytes(report.residentBytes)} resident\n`,
        );
      }
      return;
    }

    try {
      using progress = new Progress({ label: 'training', total: tokens * argv.epochs, unit: 'tokens' });
      const average = tokens / Math.ceil(sequences.length / argv.batch);
      for await (const stats of fineTune(trainer, { sequences, batchSize: argv.batch, steps, seed }, signal)) {
        if (argv.json)
          printJsonLine({
            step: stats.step,
            loss: stats.loss,
            learningRate: stats.learningRate,
            gradNorm: stats.gradNorm,
            tokens: stats.tokens,
          });
        progress.update(Math.round(stats.step * average), {
          note: `step ${stats.step}/${steps}, loss ${stats.loss.toFixed(3)}, ${formatBytes(process.memoryUsage().rss)}`,
        });
        if (stats.step % argv.saveEvery === 0) await trainer.save(state);
      }
    } catch (error) {
      throw interrupted(
        error,
        'the training',
        existsSync(state) ? `The same flags with --resume go on from ${state}.` : 'Nothing had been saved yet: start again.',
      );
    }
    await trainer.save(state);
    const id = await trainer.exportAdapter(argv.out);
    if (argv.json) printJsonLine({ ...plan, adapter: argv.out, sha256: id, state });
    else process.stdout.write(`${argv.out}  sha256 ${id}\n`);
  },
});
