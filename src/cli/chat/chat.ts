import { given } from '../../given.js';
import { Conversation } from '../../host/conversation.js';
import { ModelHost } from '../../host/model-host.js';
import { nameAdapter } from '../../lookup/adapter-reference.js';
import { chat } from './session.js';
import { adapterOn, askedBehind, note } from '../adapter-notes.js';
import { asTrained, asTrainedOption } from '../training-prompt.js';
import { GIVE_A_MODEL, recordedBase } from '../../operations/model-to-load.js';
import { UsageError } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import {
  adapterOption,
  contextOption,
  number,
  samplingOf,
  samplingOptions,
  text,
  threadsOption,
} from '../option.js';

export const chatCommand = command({
  command: 'chat',
  describe: 'Chat with a model in the terminal, with or without an adapter',
  options: {
    model: text('GGUF file, alias, or hf: URI; default: the base of the adapter'),
    adapter: adapterOption,
    task: asTrainedOption,
    registry: registryOption,
    'adapter-scale': number('scale of the adapter', 1),
    system: text('system message'),
    'max-tokens': number('max tokens per reply; a full context ends it too', 1024),
    ...samplingOptions,
    seed: text('64-bit seed; the same lines get the same replies', '0'),
    threads: threadsOption,
    context: contextOption,
  },
  examples: [
    ['$0 chat --model qwen2.5-0.5b', 'a conversation'],
    ['$0 chat --adapter 3f2a', 'with the adapter and the base model of a run'],
    ['$0 chat --adapter sql@champion', 'with the adapter in use for sql'],
    ['$0 chat --model smollm2-135m --json < questions.txt', 'one JSON line per input line'],
  ],
  handler: async (argv) => {
    const found =
      argv.adapter === undefined ? null : await nameAdapter(argv.adapter, registryOf(argv));
    const name = argv.model ?? (found === null ? undefined : await recordedBase(found));
    if (name === undefined) throw new UsageError(GIVE_A_MODEL);
    if (argv.task !== undefined && argv.system !== undefined)
      throw new UsageError('--task sets the system message and examples: leave out --system.');
    const before = argv.task === undefined ? undefined : await asTrained(found, argv.task);
    if (found !== null && before === undefined && argv.system === undefined)
      note(askedBehind(found));
    const loading = new AbortController();
    const interrupt = (): void => loading.abort();
    process.once('SIGINT', interrupt);
    await using host = new ModelHost();
    const model = await (async () => {
      using download = Progress.ofDownload(name);
      using opening = new Progress({ label: 'chat', unit: 'bytes' });
      opening.begin(`loading ${name}`);
      return await host.load(name, {
        signal: loading.signal,
        maxSequences: 1,
        prefixTokens: argv.context ?? 4096,
        onDownload: download.onDownload,
        ...given({ threads: argv.threads, contextTokens: argv.context }),
      });
    })();
    const adapter = await adapterOn(model, found);
    const conversation = new Conversation(model, {
      maxTokens: argv.maxTokens,
      whenContextFull: 'stop',
      sampling: samplingOf(argv),
      adapter,
      adapterScale: argv.adapterScale,
      ...given({ before, system: argv.system }),
    });
    process.off('SIGINT', interrupt);
    const { stdin: input, stdout: output } = process;
    const terminal = input.isTTY && output.isTTY && !argv.json;
    if (!(await chat(conversation, { input, output, terminal, json: argv.json })))
      process.exitCode = 130;
  },
});
