import { adaptersCanaryCommand } from './canary.js';
import { adaptersDiffCommand } from './diff.js';
import { adaptersExportCommand } from './export.js';
import { adaptersHistoryCommand } from './history.js';
import { adaptersInspectCommand } from './inspect.js';
import { adaptersListCommand } from './list.js';
import { adaptersMergeCommand } from './merge.js';
import { adaptersPromoteCommand } from './promote.js';
import { adaptersPublishCommand } from './publish.js';
import { adaptersReportCommand } from './report.js';
import { adaptersRollbackCommand } from './rollback.js';
import { adaptersGcCommand, adaptersRepairCommand, adaptersValidateCommand } from './upkeep.js';
import { adaptersUseCommand } from './use.js';
import { commandGroup } from '../command.js';

export const adaptersCommand = commandGroup({
  command: 'adapters',
  describe: 'Inspect, convert and merge adapters; publish, promote and roll them back',
  commands: [
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
  ],
  examples: [['$0 adapters inspect adapter.gguf', 'what an adapter changes, and by how much']],
});
