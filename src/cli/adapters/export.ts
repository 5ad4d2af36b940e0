import { ADAPTER_FORMATS, convertAdapter } from '../../engine/adapter-files.js';
import { resolveModel } from '../../engine/model-files.js';
import { given } from '../../given.js';
import { nameAdapter, requireBase } from '../../lookup/adapter-reference.js';
import { print, printJson, UsageError } from '../output.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { adapterArgument, baseModelOption, required, text } from '../option.js';

export const adaptersExportCommand = command({
  command: 'export <adapter>',
  describe: 'Convert an adapter: GGUF for llama.cpp, PEFT for Python',
  positionals: {
    adapter: adapterArgument,
  },
  options: {
    model: baseModelOption,
    format: {
      choices: ADAPTER_FORMATS,
      default: 'peft' as const,
      describe:
        'gguf: a file; peft: a folder with adapter_model.safetensors and adapter_config.json',
    },
    peft: { type: 'boolean', describe: 'same as --format peft' },
    out: required(
      'file or folder to write; an existing one is replaced once the new one is complete',
    ),
    'base-model': text('base_model_name_or_path for PEFT, e.g. Qwen/Qwen2.5-3B-Instruct'),
    registry: registryOption,
  },
  epilogue:
    'The base model is needed to check shapes, and because PEFT orders the rows of q and k of llama models differently.',
  examples: [
    [
      '$0 adapters export adapter.gguf --model qwen2.5-3b --out mine --base-model Qwen/Qwen2.5-3B-Instruct',
      'for PeftModel.from_pretrained',
    ],
    [
      '$0 adapters export mine --model qwen2.5-3b --format gguf --out mine.gguf',
      'a PEFT adapter for llama.cpp',
    ],
  ],
  handler: async ({ adapter, model, format, peft, out, baseModel, json, ...flags }) => {
    if (peft === true && format !== 'peft')
      throw new UsageError(`--peft means --format peft: leave out --peft or --format ${format}.`);
    const found = await nameAdapter(adapter, registryOf(flags));
    const { path } = await resolveModel(model, { download: false });
    await requireBase(found, path);
    const sha256 = await convertAdapter({
      adapter: found.file,
      model: path,
      format,
      out,
      ...given({ baseModel }),
    });
    if (json) printJson({ out, format, sha256 });
    else
      print(
        `${out}  sha256 ${sha256}${format === 'peft' ? ' of adapter_model.safetensors' : ''}\n`,
      );
  },
});
