import { generateEach, type NamedRollout } from '../engine/generate-each.js';
import { loadModel, type LoadModelOptions } from '../engine/model.js';
import { promptOf, readPrompts } from '../engine/prompt-file.js';
import { readJson, readLines, readText } from '../files.js';
import { given } from '../given.js';
import { ModelHost } from '../host/model-host.js';
import type { HostReply, HostRequest, TokenEvent } from '../host/host-request.js';
import { nameAdapter } from '../lookup/adapter-reference.js';
import { visible } from '../visible-text.js';
import { adapterOn, askedBehind, note } from './adapter-notes.js';
import { asTrained, asTrainedOption } from './training-prompt.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { modelToLoad } from '../operations/model-to-load.js';
import { Progress } from './progress.js';
import { interruption, jsonText, printJsonLine, UsageError, write } from './output.js';
import { registryOf, registryOption } from './registry-flags.js';
import { backendFlags, generateWith, isElsewhere } from './generate-elsewhere.js';
import { command, type Stated } from './command.js';
import {
  adapterOption,
  fixedThreadsOption,
  number,
  samplingOf,
  samplingOptions,
  text,
  texts,
  threadsOption,
  toggle,
} from './option.js';

const options = {
  model: text(
    `GGUF file, alias, or hf: URI; default: the base of the adapter, else ${EMBEDDED_MODEL}`,
  ),
  prompt: {
    type: 'string',
    array: true,
    nargs: 1,
    describe: 'user message, or text with --raw; repeatable',
  } as const,
  prompts: text(
    'JSONL file of prompts, or - for standard input: {"prompt"|"messages"|"text"|"tokenIds", "id"?}',
  ),
  raw: toggle('continue each prompt as it is, without a chat template'),
  system: text('system message before every prompt'),
  samples: number('answers per prompt', 1),
  'max-tokens': number('max tokens per answer', 256),
  ...samplingOptions,
  'top-k': number('top-k sampling; 0: off', 0),
  seed: text('64-bit seed; the same request gives the same answers', '0'),
  stop: texts('text that ends an answer; repeatable'),
  grammar: {
    ...text('file with a GBNF grammar that every answer follows'),
    conflicts: 'json-schema',
  },
  'json-schema': text('file with a JSON Schema that every answer follows'),
  adapter: adapterOption,
  task: asTrainedOption,
  registry: registryOption,
  'adapter-scale': number('scale of the adapter', 1),
  threads: threadsOption,
  'fixed-threads': fixedThreadsOption,
  context: number('KV cache in tokens, shared by all running answers'),
  batch: number('max answers at once; default: 64, of a service 8'),
  stream: toggle('stream one answer to one prompt; with --json, one line per token'),
  // read from its own schema, and not by these types
  ...(backendFlags.options() as Record<never, never>),
};

export const generateCommand = command({
  command: 'generate',
  describe:
    'Sample answers to many prompts at once, in prompt order: text in a terminal, else JSONL',
  options,
  examples: [
    [
      '$0 generate --model qwen2.5-0.5b --prompt "Name three rivers." --samples 8',
      'eight answers at once',
    ],
    [
      '$0 generate --model qwen2.5-0.5b --prompt "Name three rivers." --stream',
      'stream the answer',
    ],
    [
      '$0 generate --model ./model.gguf --prompts prompts.jsonl --json > answers.jsonl',
      'a file of prompts',
    ],
    [
      '$0 generate --model ./base.gguf --raw --prompt "Once upon a time"',
      'continue a text with a base model',
    ],
    [
      '$0 generate --adapter runs/mails --task mails.csv --prompt "A new mail" --stream',
      'with the solved examples of a run',
    ],
    [
      '$0 generate --backend openai:gpt-5-mini --max-requests 100 --prompts prompts.jsonl > replies.jsonl',
      'from a hosted model',
    ],
    [
      '$0 tasks generate --json | $0 generate --model tiny --prompts -',
      'one answer to a problem of each tier',
    ],
  ],
  handler: async (argv) => {
    requireSense(argv);
    if (isElsewhere(argv)) return await generateWith(argv);
    const { system, raw, json, prompt: typed = [], samples, adapterScale } = argv;
    const found =
      argv.adapter === undefined ? null : await nameAdapter(argv.adapter, registryOf(argv));
    const name = await modelToLoad(argv.model, found);
    const before = argv.task === undefined ? undefined : await asTrained(found, argv.task);
    if (found !== null && before === undefined && system === undefined && argv.prompt !== undefined)
      note(askedBehind(found));
    const asking = { system, raw, before };
    const signal = interruption();
    using download = Progress.ofDownload(name);
    using progress = new Progress({ label: 'generating', unit: 'tokens' });
    const loading: LoadModelOptions = {
      signal,
      onDownload: download.onDownload,
      fixedThreads: argv.fixedThreads,
      ...given({ threads: argv.threads, contextTokens: argv.context }),
    };
    const reply = {
      sampling: { ...samplingOf(argv), topK: argv.topK },
      maxTokens: argv.maxTokens,
      stop: argv.stop,
      ...(argv.grammar !== undefined && { grammar: readText(argv.grammar) }),
      ...(argv.jsonSchema !== undefined && { jsonSchema: readJson(argv.jsonSchema) as object }),
      ...{ adapterScale, signal },
    };
    if (argv.stream) {
      await using host = new ModelHost();
      const model = await host.load(name, { ...loading, maxSequences: 1 });
      const adapter = await adapterOn(model, found);
      const prompt = promptOf(typed[0]!, asking) as HostRequest;
      return await streamAnswer(
        model.stream({ ...prompt, ...reply, adapter, deterministic: true }),
        json,
      );
    }
    const prompts =
      argv.prompts === undefined
        ? typed.map((one) => promptOf(one, asking))
        : readPrompts(readLines(argv.prompts), asking);
    progress.begin('loading the model');
    await using model = await loadModel(name, loading);
    const adapter = await adapterOn(model, found);
    const rollouts = generateEach(model, {
      ...{ prompts, samples, adapter, ...reply },
      ...given({ maxSequences: argv.batch }),
      onProgress: ({ sampledTokens, finished, live }) => {
        progress.update(sampledTokens, { note: `${finished} answers, ${live} running` });
      },
    });
    const isReadable = !json && process.stdout.isTTY;
    for await (const rollout of rollouts) {
      progress.clear();
      if (rollout.notActivated === true) note(NOT_ACTIVATED);
      await write(
        isReadable
          ? readableText(rollout, typed.length === 1 && samples === 1)
          : `${jsonText(jsonOf(rollout))}\n`,
      );
    }
    progress.finish();
  },
});

const NOT_ACTIVATED =
  'The adapter acts from the reply on, and this prompt lacks its invocation tokens: the base model answered. Leave out --raw.';

/** @throws UsageError where options exclude each other */
function requireSense({
  prompt,
  prompts,
  seed,
  raw,
  system,
  task,
  stream,
  samples,
}: Stated<typeof options>): void {
  if ((prompt === undefined) === (prompts === undefined))
    throw new UsageError('Give either --prompt or --prompts.');
  if (!/^\d{1,20}$/.test(seed))
    throw new UsageError(`--seed: expected a whole number of 0 or more, got ${seed}`);
  if (raw && system !== undefined)
    throw new UsageError('--raw uses prompts as they are: leave out --system.');
  if (task !== undefined && (raw || system !== undefined))
    throw new UsageError(
      '--task sets the system message and examples: leave out --raw and --system.',
    );
  if (stream && (prompt?.length !== 1 || samples !== 1))
    throw new UsageError('--stream takes one --prompt and one sample.');
}

/** Streams a reply: its text, or one JSON line per token and one for the reply. */
async function streamAnswer(
  stream: AsyncGenerator<TokenEvent, HostReply, undefined>,
  json: boolean,
): Promise<void> {
  for (;;) {
    const next = await stream.next();
    if (next.done === true) {
      if (next.value.notActivated === true) note(NOT_ACTIVATED);
      return await write(json ? `${jsonText(next.value)}\n` : '\n');
    }
    if (json) printJsonLine(next.value);
    else await write(process.stdout.isTTY ? visible(next.value.text) : next.value.text);
  }
}

function jsonOf(rollout: NamedRollout): object {
  const { prompt } = rollout;
  const { tokenIds } = prompt;
  return {
    promptIndex: rollout.promptIndex,
    ...given({ id: rollout.promptId }),
    sampleIndex: rollout.sampleIndex,
    prompt: tokenIds === undefined ? prompt : { tokenIds: [...tokenIds] },
    text: rollout.text,
    finish: rollout.finish,
    promptTokens: rollout.promptIds.length,
    tokenIds: [...rollout.tokenIds],
    logprobs: [...rollout.logprobs],
    sampledLogprobs: [...rollout.sampledLogprobs],
    seed: rollout.seed,
    adapterId: rollout.adapterId,
    ...given({ notActivated: rollout.notActivated }),
  };
}

/** @param only whether there is no other answer, so that it needs no heading */
function readableText(
  { promptIndex, sampleIndex, tokenIds, finish, text }: NamedRollout,
  only: boolean,
): string {
  const answer = `${visible(text.trim())}\n`;
  return only
    ? answer
    : `--- prompt ${promptIndex + 1}, answer ${sampleIndex + 1}: ${tokenIds.length} tokens, ${finish}\n${answer}`;
}
