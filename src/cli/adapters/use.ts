import { hashFile } from '../../engine/adapter.js';
import { ADAPTER_USERS, prepareAdapter, type AdapterUser } from '../../engine/adapter-use.js';
import { resolveModel } from '../../engine/model-files.js';
import { given } from '../../given.js';
import { recordedBase } from '../../operations/model-to-load.js';
import type { ChatMessage } from '../../engine/prompt-renderer.js';
import { baseSha256Of, nameAdapter } from '../../lookup/adapter-reference.js';
import { solvedExamples } from '../../run-folder/training-prompt.js';
import { askedBehind, note as tell, noteOtherBase, sentByClients } from '../adapter-notes.js';
import { asTrained, asTrainedHere, asTrainedOption } from '../training-prompt.js';
import { print, printJson, UsageError } from '../output.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { required, text, toggle } from '../option.js';

/** Sentence about the messages before every question of the run, and where they are now. */
function standsBefore(before: readonly ChatMessage[], program: AdapterUser): string {
  const examples = before.filter(({ role }) => role === 'assistant').length;
  const parts = [
    ...(before[0]!.role === 'system' ? ['system message'] : []),
    ...(examples === 0 ? [] : [solvedExamples(examples)]),
  ];
  return `The ${parts.join(' and ')} of the run ${parts.length === 1 && examples <= 1 ? 'is' : 'are'} in ${WHERE[program]}.`;
}

const WHERE: Readonly<Record<AdapterUser, string>> = {
  ollama: 'the Modelfile, before every question',
  transformers: 'reply.py, before every question',
  'llama-server': 'the request: replace QUESTION, and send the rest unchanged',
  'lm-studio': 'the request: replace QUESTION, and send the rest unchanged',
};

export const adaptersUseCommand = command({
  command: 'use <adapter>',
  describe: 'Prepare an adapter for another program, and print the commands to run',
  positionals: {
    adapter: required(
      'adapter: a GGUF file, a run (folder or start of its id), a PEFT folder, or a name in the registry',
    ),
  },
  options: {
    for: { choices: ADAPTER_USERS, demandOption: true, describe: 'target program' },
    model: text(
      'base model: a GGUF file, or a cached alias or URI; default: the one the adapter was trained on',
    ),
    task: {
      ...asTrainedOption,
      describe: `${asTrainedOption.describe}; default: the task of the run, if it is built in or its rows are in this folder`,
    },
    out: { ...text('folder to write'), defaultDescription: 'adapter-for-PROGRAM' },
    force: toggle('replace files of another adapter in the folder'),
    registry: registryOption,
  },
  examples: [
    ['$0 adapters use 3f2a --for ollama', 'use the adapter of a run in Ollama'],
    [
      '$0 adapters use 3f2a --for ollama --task mails.csv',
      'with the solved examples of its training prompts',
    ],
    [
      '$0 adapters use adapter.gguf --model qwen2.5-3b --for transformers --out mine',
      'a folder for PEFT',
    ],
  ],
  handler: async ({
    adapter,
    for: program,
    model,
    task,
    out = `adapter-for-${program}`,
    force,
    json,
    ...flags
  }) => {
    const found = await nameAdapter(adapter, registryOf(flags));
    const behind = askedBehind(found, sentByClients(found));
    const before =
      task !== undefined
        ? await asTrained(found, task)
        : behind === null
          ? []
          : await asTrainedHere(found);
    if (before === null)
      tell(`${behind} Or give --task with the file of the run's task to include them.`);
    const name = model ?? (await recordedBase(found));
    if (name === undefined)
      throw new UsageError('Give the base model with --model, or a run or a name in the registry.');
    const { path } = await resolveModel(name, { download: false });
    const modelSha256 = baseSha256Of(found);
    const request = {
      for: program,
      adapter: found.file,
      model: path,
      out,
      force,
      ...(before === null ? {} : { before }),
    };
    const prepared = await prepareAdapter({ ...request, ...given({ modelSha256 }) });
    if (modelSha256 === undefined) await noteOtherBase(found, { path, hash: () => hashFile(path) });
    if (json) return printJson({ for: program, model: path, ...prepared, before });
    const { files, commands, note } = prepared;
    const behindText =
      before === null || before.length === 0 ? '' : `${standsBefore(before, program)} `;
    print(`wrote ${files.join('\n      ')}\n\n${commands.join('\n')}\n\n${behindText}${note}\n`);
  },
});
