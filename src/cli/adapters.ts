import { adaptersCanaryCommand } from './adapters-canary.js';
import { adaptersDiffCommand } from './adapters-diff.js';
import { adaptersExportCommand } from './adapters-export.js';
import { adaptersHistoryCommand } from './adapters-history.js';
import { adaptersInspectCommand } from './adapters-inspect.js';
import { adaptersListCommand } from './adapters-list.js';
import { adaptersMergeCommand } from './adapters-merge.js';
import { adaptersPromoteCommand } from './adapters-promote.js';
import { adaptersPublishCommand } from './adapters-publish.js';
import { adaptersReportCommand } from './adapters-report.js';
import { adaptersRollbackCommand } from './adapters-rollback.js';
import {
  adaptersGcCommand,
  adaptersRepairCommand,
  adaptersValidateCommand,
} from './adapters-upkeep.js';
import { adaptersUseCommand } from './adapters-use.js';
import { defineCommand } from './command.js';

export const adaptersCommand = defineCommand({
  command: 'adapters',
  describe:
    'Examine, convert and merge adapters; publish them, put them in use by evidence, roll back',
  builder: (yargs) =>
    yargs
      .command([
        adaptersInspectCommand,
        adaptersExportCommand,
        adaptersMergeCommand,
        adaptersUseCommand,
        adaptersPublishCommand,
        adaptersListCommand,
        adaptersPromoteCommand,
        adaptersCanaryCommand,
        adaptersRollbackCommand,
        adaptersHistoryCommand,
        adaptersReportCommand,
        adaptersDiffCommand,
        adaptersValidateCommand,
        adaptersRepairCommand,
        adaptersGcCommand,
      ])
      .demandCommand(1, 'Name an action; `isopro-native adapters --help` lists them.')
      .example('$0 adapters inspect adapter.gguf', 'what an adapter changes, and by how much'),
  handler: () => {},
});
