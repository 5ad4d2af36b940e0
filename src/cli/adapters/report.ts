import { requireTarget } from '../../files.js';
import { print, printJson } from '../output.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { text } from '../option.js';

export const adaptersReportCommand = command({
  command: 'report',
  describe:
    'Write an HTML page of the registry: what is in use and why, every gate with its evidence, every move',
  options: {
    out: text('file to write', 'adapters.html'),
    title: text('heading of the page', 'Adapters in use'),
    registry: registryOption,
  },
  epilogue: 'The page works offline. The registry is checked first, as with `adapters validate`.',
  examples: [['$0 adapters report', 'adapters.html']],
  handler: async ({ out, title, json, ...flags }) => {
    requireTarget(out);
    const { writeRegistryPage } = await import('../../report/registry-page.js');
    await writeRegistryPage(registryOf(flags), out, { title });
    if (json) printJson({ out });
    else print(`${out}\n`);
  },
});
