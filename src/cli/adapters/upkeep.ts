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
  describe: 'Check everything: the signed log, the bytes, and every gate again from its trials',
  options: {
    key: witnessKeyOption,
    registry: registryOption,
  },
  epilogue:
    'Exit code 1: something is wrong. (repair) stands behind what `adapters repair` puts right.',
  examples: [['$0 adapters validate', 'all of it']],
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
  describe: 'Put right what a crash left: records unsigned, seeds undrawn, aliases.json behind',
  options: { registry: registryOption, 'accept-clock': clockOption },
  epilogue:
    'What was changed or deleted by hand stays as it is: publish the adapter again, or restore a copy of the folder.',
  examples: [['$0 adapters repair', 'after the power went']],
  handler: async ({ json, ...flags }) => {
    const repaired = await repairRegistry(registryOf(flags));
    if (json) return printJson({ repaired });
    print(
      repaired.length === 0
        ? 'nothing to put right\n'
        : lines(repaired).replaceAll(' (repair)', ': put right'),
    );
  },
});

export const adaptersGcCommand = command({
  command: 'gc',
  describe:
    'Delete files that no record knows, and on request the bytes of adapters that nothing names',
  options: {
    unused: toggle(
      'also the bytes of adapters that no alias names and no rollback would put back; their records stay',
    ),
    'dry-run': toggle('say what would be deleted'),
    registry: registryOption,
    'accept-clock': clockOption,
  },
  examples: [['$0 adapters gc --unused --dry-run', 'what could go']],
  handler: async ({ unused, dryRun, json, ...flags }) => {
    const collected = await collectGarbage(registryOf(flags), { unused, dryRun });
    if (json) return printJson({ ...collected, dryRun });
    const { files, ids, bytes } = collected;
    const what = `${files.length} files that no record knows, the bytes of ${ids.length} adapters: ${formatBytes(bytes)}`;
    print(
      `${dryRun ? 'would delete' : 'deleted'} ${what}\n${[...files, ...ids].map((each) => `${label(each, 120)}\n`).join('')}`,
    );
  },
});
