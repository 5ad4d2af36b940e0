import { generateEach, type NamedRollout } from '../engine/generate-each.js';
import { loadModel, type LoadModelOptions } from '../engine/model.js';
import { promptOf, readPrompts } from '../engine/prompt-file.js';
import { readJson, readLines, readText } from '../files.js';
import { given } from '../given.js';
import { ModelHost } from '../host/model-host.js';
import type { HostReply, HostRequest, TokenEvent } from '../host/host-request.js';
import { nameAdapter, requireServable } from '../lookup/adapter-reference.js';
import { visible } from '../visible-text.js';
import { askedBehind, note, noteOtherBase, noteWarnings } from './adapter-notes.js';
import { asTrained, asTrainedOption } from './training-prompt.js';
import { EMBEDDED_MODEL } from '../engine/model-aliases.js';
import { modelToLoad } from '../operations/model-to-load.js';
import { Progress } from './progress.js';
import { interruption, jsonText, printJsonLine, UsageError, write } from './output.js';
import { registryOf, registryOption } from './registry-flags.js';
import { command } from './command.js';
import { number, text, texts, toggle } from './option.js';

export const generateCommand = command({
  command: 'generate',
  describe:
    'Sample answers to many prompts at once; text in a terminal, else JSONL, in the order of the prompts',
  options: {
    model: text(
      `path of a GGUF file, an alias, or an hf: URI; default: what the adapter was trained on, else ${EMBEDDED_MODEL}`,
    ),
    prompt: {
      type: 'string',
      array: true,
      nargs: 1,
      describe: 'a user message, or with --raw a text; may be repeated',
    },
    prompts: {
      ...text(
        'JSONL file of prompts of any length, - for standard input: {"prompt"|"messages"|"text"|"tokenIds", "id"?}',
      ),
      nargs: 1,
    },
    raw: toggle('continue each prompt as it stands, without chat template'),
    system: text('system message before every prompt'),
    samples: number('answers a prompt', 1),
    'max-tokens': number('tokens an answer', 256),
    temperature: number('0 takes the most likely token', 0.8),
    'top-k': number('0: off', 0),
    'top-p': number('1: off; 0: only the most likely token', 1),
    'min-p': number('0: off', 0),
    'repeat-penalty': number('1: off', 1),
    seed: text('64-bit seed; the same request gives the same answers', '0'),
    stop: texts('text that ends an answer; may be repeated'),
    grammar: text('file with a GBNF grammar that every answer follows'),
    'json-schema': text('file with a JSON Schema that every answer follows'),
    adapter: text(
      'LoRA adapter in GGUF, a run folder, the beginning of a run id in ./runs, or a name in the registry',
    ),
    task: asTrainedOption,
    registry: registryOption,
    'adapter-scale': number('factor on the adapter', 1),
    threads: number('default: the physical cores'),
    'fixed-threads': toggle('the results of this many threads, under load too'),
    context: number('tokens of KV cache over all running answers'),
    stream: toggle('one answer to one prompt, as it is sampled; with --json a line a token'),
  },
  examples: [
    [
      '$0 generate --model qwen2.5-0.5b --prompt "Name three rivers." --samples 8',
      'eight answers at once',
    ],
    [
      '$0 generate --model qwen2.5-0.5b --prompt "Name three rivers." --stream',
      'the answer as it is sampled',
    ],
    [
      '$0 generate --model ./model.gguf --prompts prompts.jsonl --json > answers.jsonl',
      'a file of prompts',
    ],
    ['$0 generate --model ./base.gguf --raw --prompt "Once upon a time"', 'a base model goes on'],
    [
      '$0 generate --adapter runs/mails --task mails.csv --prompt "A new mail" --stream',
      'behind the examples of a run',
    ],
    [
      '$0 tasks generate --json | $0 generate --model tiny --prompts -',
      'one answer to a problem of each tier',
    ],
  ],
  handler: async (argv) => {
    if ((argv.prompt === undefined) === (argv.prompts === undefined)) {
      throw new UsageError('Give either --prompt or --prompts.');
    }
    if (!/^\d{1,20}$/.test(argv.seed))
      throw new UsageError(`--seed: expected a whole number of 0 or more, got ${argv.seed}`);
    const { system, raw } = argv;
    if (raw && system !== undefined)
      throw new UsageError('--raw continues a prompt as it stands: leave out --system.');
    if (argv.task !== undefined && (raw || system !== undefined))
      throw new UsageError(
        "--task sets what stood before the run's questions: leave out --raw and --system.",
      );
    if (argv.stream && (argv.prompt?.length !== 1 || argv.samples !== 1))
      throw new UsageError('--stream takes one --prompt and one sample.');
    const found =
      argv.adapter === undefined ? null : await nameAdapter(argv.adapter, registryOf(argv));
    const named = await modelToLoad(argv.model, found);
    const before = argv.task === undefined ? undefined : await asTrained(found, argv.task);
    if (
      found !== null &&
      before === undefined &&
      argv.system === undefined &&
      argv.prompt !== undefined
    )
      note(askedBehind(found));
    const prompts =
      argv.prompts === undefined
        ? (argv.prompt ?? []).map((text) => promptOf(text, { system, raw, before }))
        : readPrompts(readLines(argv.prompts), { system, raw, before });
    const form = {
      ...(argv.grammar === undefined ? {} : { grammar: readText(argv.grammar) }),
      ...(argv.jsonSchema === undefined ? {} : { jsonSchema: readJson(argv.jsonSchema) as object }),
    };
    const signal = interruption();
    using download = new Progress({ label: `download ${named}`, unit: 'bytes' });
    using progress = new Progress({ label: 'generating', unit: 'tokens' });
    const loading: LoadModelOptions = {
      signal,
      onDownload: ({ downloadedBytes, totalBytes }) =>
        download.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes }),
      fixedThreads: argv.fixedThreads,
      ...given({ threads: argv.threads, contextTokens: argv.context }),
    };
    const reply = {
      sampling: {
        temperature: argv.temperature,
        topK: argv.topK,
        topP: argv.topP,
        minP: argv.minP,
        repeatPenalty: argv.repeatPenalty,
        seed: argv.seed,
      },
      maxTokens: argv.maxTokens,
      stop: argv.stop,
      ...form,
      adapterScale: argv.adapterScale,
      signal,
    };
    if (argv.stream) {
      const [prompt] = argv.prompt!.map((text) => promptOf(text, { system, raw, before }));
      await using host = new ModelHost();
      const model = await host.load(named, { ...loading, maxSequences: 1 });
      noteWarnings(model);
      if (found !== null) await requireServable(found, model);
      const adapter = found === null ? null : await model.loadAdapter(found.file);
      if (found !== null) await noteOtherBase(found, model);
      return await streamAnswer(
        model.stream({ ...(prompt as HostRequest), ...reply, adapter, deterministic: true }),
        argv.json,
      );
    }
    progress.begin('loading the model');
    const model = await loadModel(named, loading);
    try {
      noteWarnings(model);
      if (found !== null) await requireServable(found, model);
      const adapter = found === null ? null : await model.loadAdapter(found.file);
      if (found !== null) await noteOtherBase(found, model);
      const readable = !argv.json && process.stdout.isTTY;
      const rollouts = generateEach(model, {
        prompts,
        samples: argv.samples,
        ...reply,
        adapter,
        onProgress: ({ sampledTokens, finished, live }) => {
          progress.update(sampledTokens, { note: `${finished} answers, ${live} running` });
        },
      });
      for await (const rollout of rollouts) {
        progress.clear();
        await write(
          readable
            ? readableText(rollout, argv.prompt?.length === 1 && argv.samples === 1)
            : `${jsonText(jsonOf(rollout))}\n`,
        );
      }
      progress.finish();
    } finally {
      await model.dispose();
    }
  },
});

/** What is sampled as it comes: its text, or a line of JSON a token and one of the reply. */
async function streamAnswer(
  stream: AsyncGenerator<TokenEvent, HostReply, undefined>,
  json: boolean,
): Promise<void> {
  for (;;) {
    const next = await stream.next();
    if (next.done === true) return await write(json ? `${jsonText(next.value)}\n` : '\n');
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
