import { label } from '../../text/hostile-text.js';
import {
  collectGarbage,
  repairRegistry,
  validateRegistry,
  type Defect,
} from '../../registry/upkeep.js';
import { print, printJson } from '../output.js';
import { formatBytes } from '../quantities.js';
import { clockOption, registryOf, registryOption, witnessKeyOption } from '../registry-flags.js';
import { command } from '../command.js';
import { toggle } from '../option.js';

const lines = (defects: readonly Defect[]): string =>
  defects
    .map(
      ({ kind, message, repairable }) =>
        `${kind}: ${label(message, 400)}${repairable ? ' (repair)' : ''}\n`,
    )
    .join('');

export const adaptersValidateCommand = command({
  command: 'validate',
  describe: 'Check the registry: the signed log, the bytes, and every gate from its trials',
  options: {
    key: witnessKeyOption,
    registry: registryOption,
  },
  epilogue: 'Exit code 1: a defect was found. `adapters repair` fixes those marked (repair).',
  examples: [['$0 adapters validate', 'check everything']],
  handler: async ({ json, ...flags }) => {
    const { defects, ...counts } = await validateRegistry(registryOf(flags));
    if (defects.length > 0) process.exitCode = 1;
    if (json) return printJson({ ...counts, defects });
    const { records, adapters, aliases, gates } = counts;
    const read = `${records} records, ${adapters} adapters, ${aliases} aliases, ${gates} gates`;
    print(defects.length === 0 ? `sound: ${read}\n` : lines(defects));
  },
});

export const adaptersRepairCommand = command({
  command: 'repair',
  describe:
    'Repair what a crash left behind: unsigned records, undrawn seeds, an outdated aliases.json',
  options: { registry: registryOption, 'accept-clock': clockOption },
  epilogue:
    'Changes made by hand are not repaired: publish the adapter again, or restore a copy of the folder.',
  examples: [['$0 adapters repair', 'after a power failure']],
  handler: async ({ json, ...flags }) => {
    const repaired = await repairRegistry(registryOf(flags));
    if (json) return printJson({ repaired });
    print(
      repaired.length === 0
        ? 'nothing to repair\n'
        : lines(repaired).replaceAll(' (repair)', ': repaired'),
    );
  },
});

export const adaptersGcCommand = command({
  command: 'gc',
  describe: 'Delete unrecorded files and, with --unused, the bytes of adapters that no alias names',
  options: {
    unused: toggle(
      'also delete the bytes of adapters that no alias names and no rollback would restore; records stay',
    ),
    'dry-run': toggle('print what would be deleted'),
    registry: registryOption,
    'accept-clock': clockOption,
  },
  examples: [['$0 adapters gc --unused --dry-run', 'preview what would be deleted']],
  handler: async ({ unused, dryRun, json, ...flags }) => {
    const collected = await collectGarbage(registryOf(flags), { unused, dryRun });
    if (json) return printJson({ ...collected, dryRun });
    const { files, ids, bytes } = collected;
    const what = `${files.length} unrecorded files and the bytes of ${ids.length} adapters: ${formatBytes(bytes)}`;
    print(
      `${dryRun ? 'would delete' : 'deleted'} ${what}\n${[...files, ...ids].map((each) => `${label(each, 120)}\n`).join('')}`,
    );
  },
});
