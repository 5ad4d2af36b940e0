import path from 'node:path';
import { requireTarget } from '../files.js';
import { given } from '../given.js';
import { integrityLine } from '../report/integrity.js';
import { findRun } from '../lookup/runs.js';
import { interruption, print, printJson } from './output.js';
import { formatBytes } from './quantities.js';
import { command } from './command.js';
import { runArgument, text } from './option.js';

export const reportCommand = command({
  command: 'report <run>',
  describe: 'Write report.html of a run, one file that works offline',
  positionals: { run: runArgument },
  options: { out: text('file to write; default: report.html in the run folder') },
  examples: [['$0 report runs/3f2a', 'also for an unfinished run']],
  handler: async ({ run: target, out, json }) => {
    if (out !== undefined) requireTarget(out);
    // the chart library takes a third of a second
    const { writeReport } = await import('../report/write-report.js');
    const written = await writeReport(findRun(target), {
      ...given({ file: out }),
      signal: interruption(),
    });
    if (json) return printJson(written);
    print(
      `${path.relative('.', written.file)}  ${formatBytes(written.bytes)}, ${written.rollouts} rollouts; ` +
        `${integrityLine(written.integrity).text}\n`,
    );
  },
});
