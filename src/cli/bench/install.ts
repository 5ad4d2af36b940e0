import { benchInstall } from '../../../bench/install.js';
import { interruption, print, printJson } from '../output.js';
import { Progress } from '../progress.js';
import { formatBytes } from '../quantities.js';
import { command } from '../command.js';

export const benchInstallCommand = command({
  command: 'install',
  describe:
    'Measure the time and size of an installation: published, without optional packages, and from source (from a clone only)',
  examples: [['$0 bench install --json', 'figures as JSON']],
  handler: async ({ json }) => {
    using progress = new Progress({ label: 'install', unit: 'steps' });
    const result = await benchInstall({
      signal: interruption(),
      onStep: (name, index, count) => progress.update(index, { total: count, note: name }),
    });
    progress.clear();
    if (json) return printJson(result);
    for (const form of ['full', 'light', 'source'] as const) {
      const { seconds, bytes } = result[form];
      print(`${form.padEnd(7)} ${seconds.toFixed(0).padStart(4)} s  ${formatBytes(bytes)}\n`);
    }
  },
});
