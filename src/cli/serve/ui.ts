import { existsSync } from 'node:fs';
import path from 'node:path';
import { tracesOf } from '../../registry/folder.js';
import { RUNS } from '../../lookup/runs.js';
import { hashKey, newKey } from '../../server/keys.js';
import { startServer } from '../../server/server.js';
import { openBrowser } from './browser.js';
import { end, interruption, printJsonLine, reportFailure, UsageError, write } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { modelOption, number, text, toggle } from '../option.js';

/**
 * The page in a server of its own: on this machine alone, with a key that is in the address and
 * nowhere else.
 */
export const uiCommand = command({
  command: 'ui',
  describe: 'Open a web page of runs, rollouts, adapters and jobs, with a playground',
  options: {
    runs: text('runs folder', RUNS),
    model: {
      ...modelOption,
      describe:
        'model for the playground and for token scores: a GGUF file, an alias, or an hf: URI',
    },
    registry: registryOption,
    port: number('port; 0: any free port', 0),
    open: { type: 'boolean', default: true, describe: 'open a browser, if there is one' },
    latest: toggle('show the current run first'),
  },
  epilogue:
    'The address contains a key: anyone who has it can do everything that the page can. `serve --runs` serves the page too.',
  examples: [
    ['$0 ui', 'runs in ./runs'],
    [
      '$0 ui --runs ~/experiments --model qwen2.5-0.5b',
      'another folder, and another model for the playground',
    ],
  ],
  handler: async ({ runs, model, registry: folder, port, open, latest, json }) => {
    if (!Number.isInteger(port) || port < 0 || port > 65_535)
      throw new UsageError(`--port: expected 0 to 65535, got ${port}`);
    const signal = interruption();
    const key = newKey();
    const registry = registryOf({ registry: folder });
    using download = Progress.ofDownload(model);
    const server = await startServer({
      model,
      name: path.basename(model, '.gguf'),
      adapters: [],
      registry:
        existsSync(registry.paths.log) || tracesOf(registry.paths) !== null ? registry : undefined,
      runs,
      jobs: { runs: path.resolve(runs), models: [], tasks: [], atOnce: 1 },
      host: '127.0.0.1',
      port,
      hosts: [],
      origins: [],
      keys: [hashKey('ui', key, ['admin'])],
      load: { signal, onDownload: download.onDownload },
      limits: {},
      report: (error) => void reportFailure(error, json),
    });
    const address = `${server.url}/ui/#token=${key}${latest ? '&/latest' : ''}`;
    if (json) printJsonLine({ url: server.url, address, key });
    else await write(`${address}\n`);
    if (open) openBrowser(address);
    await end(signal);
    await server.close(0);
  },
});
