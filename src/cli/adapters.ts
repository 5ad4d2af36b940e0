import { adaptersExportCommand } from './adapters-export.js';
import { adaptersInspectCommand } from './adapters-inspect.js';
import { adaptersMergeCommand } from './adapters-merge.js';
import { adaptersUseCommand } from './adapters-use.js';
import { defineCommand } from './command.js';

export const adaptersCommand = defineCommand({
  command: 'adapters',
  describe: 'Examine adapters, use them in other programs, convert them to GGUF or PEFT, merge them into a model',
  builder: (yargs) =>
    yargs
      .command([adaptersInspectCommand, adaptersExportCommand, adaptersMergeCommand, adaptersUseCommand])
      .demandCommand(1, 'Name an action; `isopro-native adapters --help` lists them.')
      .example('$0 adapters inspect adapter.gguf', 'what an adapter changes, and by how much'),
  handler: () => {},
});
