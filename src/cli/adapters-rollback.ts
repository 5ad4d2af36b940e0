import { defineCommand } from './command.js';
import { printJson } from './output.js';
import { aliasOf, aliasOption, clockOption, registryOf, registryOption } from './registry-flags.js';

export const adaptersRollbackCommand = defineCommand({
  command: 'rollback <alias>',
  describe: 'Put back what an alias named before, in one call',
  builder: (yargs) =>
    yargs
      .positional('alias', { type: 'string', demandOption: true, describe: aliasOption.describe })
      .option('reason', { type: 'string', requiresArg: true, default: '', describe: 'for the record' })
      .option('registry', registryOption)
      .option('accept-clock', clockOption)
      .epilogue('Repeated, it goes further back. What was rolled back is not come back to; promote it again.')
      .example('$0 adapters rollback sql --reason "wrong joins since noon"', "yesterday's champion"),
  handler: async ({ alias: named, reason, json, ...flags }) => {
    const { slot, alias } = aliasOf(named);
    const moved = await registryOf(flags).rollback({ slot, alias, reason });
    if (json) return printJson(moved);
    process.stdout.write(`${moved.alias}: ${moved.from} -> ${moved.to ?? 'the base without an adapter'}\n`);
  },
});
