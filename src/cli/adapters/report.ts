import { requireTarget } from '../../files.js';
import { defineCommand } from '../command.js';
import { print, printJson } from '../output.js';
import { registryOf, registryOption } from '../registry-flags.js';

export const adaptersReportCommand = defineCommand({
  command: 'report',
  describe: 'One HTML page: what is in use and why, every gate with its evidence, every move',
  builder: (yargs) =>
    yargs
      .option('out', {
        type: 'string',
        requiresArg: true,
        default: 'adapters.html',
        describe: 'the file to write',
      })
      .option('title', {
        type: 'string',
        requiresArg: true,
        default: 'Adapters in use',
        describe: 'heading of the page',
      })
      .option('registry', registryOption)
      .epilogue(
        'The page opens offline and asks for nothing. It checks everything first, as `adapters validate` does.',
      )
      .example('$0 adapters report', 'adapters.html'),
  handler: async ({ out, title, json, ...flags }) => {
    requireTarget(out);
    const { writeRegistryPage } = await import('../../report/registry-page.js');
    await writeRegistryPage(registryOf(flags), out, { title });
    if (json) printJson({ out });
    else print(`${out}\n`);
  },
});
