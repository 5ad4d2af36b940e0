import { MODEL_TYPES, mergeAdapter } from '../../engine/model-export.js';
import { requireTarget } from '../../files.js';
import { resolveModel } from '../../engine/model-files.js';
import { nameAdapter, requireBase } from '../../lookup/adapter-reference.js';
import { interruption, print, printJson } from '../output.js';
import { Progress } from '../progress.js';
import { formatBytes } from '../quantities.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { adapterArgument, baseModelOption, required } from '../option.js';

export const adaptersMergeCommand = command({
  command: 'merge',
  describe: 'Merge an adapter into the weights of a model',
  options: {
    model: baseModelOption,
    adapter: adapterArgument,
    out: required('GGUF to write; an existing file is replaced once the new one is complete'),
    type: {
      choices: MODEL_TYPES,
      default: 'f16' as const,
      describe: 'type of the matrices; rows that do not fill whole blocks become f16',
    },
    registry: registryOption,
  },
  epilogue:
    'W + s B A is computed in f32 and stored as --type. Memory use is the adapter and a few megabytes, whatever the size of the model.',
  examples: [
    [
      '$0 adapters merge --model qwen2.5-3b --adapter adapter.gguf --out merged.gguf --type q8_0',
      'one file that needs no adapter',
    ],
  ],
  handler: async ({ model, adapter, out, type, json, ...flags }) => {
    requireTarget(out);
    using progress = new Progress({ label: 'merging', unit: 'bytes' });
    progress.begin('reading the adapter');
    const found = await nameAdapter(adapter, registryOf(flags));
    const { path } = await resolveModel(model, { download: false });
    await requireBase(found, path);
    const written = await mergeAdapter({
      model: path,
      adapter: found.file,
      out,
      type,
      signal: interruption(),
      onProgress: (done, total) => progress.update(done, { total }),
    });
    progress.clear();
    if (json) return printJson({ out, ...written });
    const types = Object.entries(written.types)
      .map(([name, count]) => `${count} ${name}`)
      .join(', ');
    print(`${out}  ${formatBytes(written.bytes)}, tensors: ${types}\nsha256 ${written.sha256}\n`);
  },
});
