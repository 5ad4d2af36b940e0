import { given } from '../given.js';
import { Conversation } from '../host/conversation.js';
import { ModelHost } from '../host/model-host.js';
import { nameAdapter, requireServable } from '../lookup/adapter-reference.js';
import { chat } from './chat-session.js';
import { askedBehind, note, noteOtherBase } from './adapter-notes.js';
import { asTrained, asTrainedOption } from './training-prompt.js';
import { defineCommand } from './command.js';
import { GIVE_A_MODEL, recordedBase } from '../operations/model-to-load.js';
import { UsageError } from './output.js';
import { Progress } from './progress.js';
import { registryOf, registryOption } from './registry-flags.js';

export const chatCommand = defineCommand({
  command: 'chat',
  describe: 'Talk to a model in the terminal, with or without an adapter',
  builder: (yargs) =>
    yargs
      .option('model', {
        type: 'string',
        describe: "path of a GGUF file, an alias, or an hf: URI; default: the run's",
      })
      .option('adapter', {
        type: 'string',
        describe:
          'LoRA adapter in GGUF, a run folder, the beginning of a run id in ./runs, or a name in the registry',
      })
      .option('task', asTrainedOption)
      .option('registry', registryOption)
      .option('adapter-scale', { type: 'number', default: 1, describe: 'factor on the adapter' })
      .option('system', { type: 'string', describe: 'system message before everything' })
      .option('max-tokens', {
        type: 'number',
        default: 1024,
        describe: 'tokens a reply; it ends where the context is full',
      })
      .option('temperature', {
        type: 'number',
        default: 0.8,
        describe: '0 takes the most likely token',
      })
      .option('top-p', {
        type: 'number',
        default: 1,
        describe: '1: off; 0: only the most likely token',
      })
      .option('min-p', { type: 'number', default: 0, describe: '0: off' })
      .option('repeat-penalty', { type: 'number', default: 1, describe: '1: off' })
      .option('seed', {
        type: 'string',
        default: '0',
        describe: '64-bit seed; the same lines get the same replies',
      })
      .option('threads', { type: 'number', describe: 'default: the physical cores' })
      .option('context', {
        type: 'number',
        describe: 'tokens of KV cache; default: what fits into 1 GiB, 4,096 to 16,384',
      })
      .example('$0 chat --model qwen2.5-0.5b', 'a conversation')
      .example(
        '$0 chat --adapter 3f2a',
        'with the adapter of a run, on the model that it was trained on',
      )
      .example('$0 chat --adapter sql@champion', 'with what is in use for sql')
      .example('$0 chat --model smollm2-135m --json < questions.txt', 'a line for each line'),
  handler: async (argv) => {
    const found =
      argv.adapter === undefined ? null : await nameAdapter(argv.adapter, registryOf(argv));
    const name = argv.model ?? (found === null ? undefined : await recordedBase(found));
    if (name === undefined) throw new UsageError(GIVE_A_MODEL);
    if (argv.task !== undefined && argv.system !== undefined)
      throw new UsageError(
        "--task sets what stood before the run's questions: leave out --system.",
      );
    const before = argv.task === undefined ? undefined : await asTrained(found, argv.task);
    if (found !== null && before === undefined && argv.system === undefined)
      note(askedBehind(found));
    const loading = new AbortController();
    const interrupt = (): void => loading.abort();
    process.once('SIGINT', interrupt);
    await using host = new ModelHost();
    const model = await (async () => {
      using download = new Progress({ label: `download ${name}`, unit: 'bytes' });
      using opening = new Progress({ label: 'chat', unit: 'bytes' });
      opening.begin(`loading ${name}`);
      return await host.load(name, {
        signal: loading.signal,
        maxSequences: 1,
        prefixTokens: argv.context ?? 4096,
        onDownload: ({ downloadedBytes, totalBytes }) =>
          download.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes }),
        ...given({ threads: argv.threads, contextTokens: argv.context }),
      });
    })();
    if (found !== null) await requireServable(found, model);
    const conversation = new Conversation(model, {
      maxTokens: argv.maxTokens,
      whenContextFull: 'stop',
      sampling: {
        temperature: argv.temperature,
        topP: argv.topP,
        minP: argv.minP,
        repeatPenalty: argv.repeatPenalty,
        seed: argv.seed,
      },
      adapter: found === null ? null : await model.loadAdapter(found.file),
      adapterScale: argv.adapterScale,
      ...given({ before, system: argv.system }),
    });
    if (found !== null) await noteOtherBase(found, model);
    process.off('SIGINT', interrupt);
    const { stdin: input, stdout: output } = process;
    const terminal = input.isTTY && output.isTTY && !argv.json;
    if (!(await chat(conversation, { input, output, terminal, json: argv.json })))
      process.exitCode = 130;
  },
});
