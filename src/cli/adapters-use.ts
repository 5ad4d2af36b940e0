import { ADAPTER_USERS, prepareAdapter } from '../engine/adapter-use.js';
import { resolveModel } from '../engine/model-files.js';
import { baseNameOf, baseSha256Of, nameAdapter } from '../report/named-adapter.js';
import { askedBehind, note as tell, sentByClients } from './adapter-notes.js';
import { defineCommand } from './command.js';
import { print, printJson, UsageError } from './output.js';
import { registryOf, registryOption } from './registry-flags.js';

export const adaptersUseCommand = defineCommand({
  command: 'use <adapter>',
  describe: 'Write what another program needs to use an adapter, and print the commands to type',
  builder: (yargs) =>
    yargs
      .positional('adapter', {
        type: 'string',
        demandOption: true,
        describe: "a run folder, the beginning of a run id in ./runs, a GGUF, a folder in PEFT's format, or a name in the registry",
      })
      .option('for', { choices: ADAPTER_USERS, demandOption: true, describe: 'the program' })
      .option('model', {
        type: 'string',
        describe: 'the base model: path of a GGUF file, or an alias or URI that is in the cache; default: the one that it was trained on',
      })
      .option('out', { type: 'string', describe: 'the folder to write', defaultDescription: 'adapter-for-PROGRAM' })
      .option('force', { type: 'boolean', default: false, describe: 'replace files of another adapter that are in the folder' })
      .option('registry', registryOption)
      .example('$0 adapters use 3f2a --for ollama', 'the adapter of a run, as a model of Ollama')
      .example('$0 adapters use adapter.gguf --model qwen2.5-3b --for transformers --out mine', 'a folder for PEFT'),
  handler: async ({ adapter, for: program, model, out = `adapter-for-${program}`, force, json, ...flags }) => {
    const found = await nameAdapter(adapter, registryOf(flags));
    tell(askedBehind(found, sentByClients(found)));
    const name = model ?? baseNameOf(found);
    if (name === undefined) throw new UsageError('Give the base model with --model, or a run or a name in the registry.');
    const { path } = await resolveModel(name, { download: false });
    const modelSha256 = baseSha256Of(found);
    const request = { for: program, adapter: found.file, model: path, out, force };
    const prepared = await prepareAdapter({ ...request, ...(modelSha256 === undefined ? {} : { modelSha256 }) });
    if (json) return printJson({ for: program, model: path, ...prepared });
    const { files, commands, note } = prepared;
    print(`wrote ${files.join('\n      ')}\n\n${commands.join('\n')}\n\n${note}\n`);
  },
});
