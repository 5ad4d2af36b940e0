import { benchLog } from '../../../bench/log.js';
import { print, printJson, UsageError } from '../output.js';
import { formatBytes } from '../quantities.js';
import { command } from '../command.js';
import { number } from '../option.js';

export const benchLogCommand = command({
  command: 'log',
  describe: 'Measure log records appended (durably, in batches of 100) and verified per second',
  options: { records: number('records in the log', 200_000) },
  examples: [['$0 bench log --json', 'figures as JSON']],
  handler: async ({ records, json }) => {
    if (!Number.isSafeInteger(records) || records < 100)
      throw new UsageError('--records takes a whole number from 100');
    const result = await benchLog(records);
    if (json) return printJson(result);
    print(
      `appended  ${result.appendedPerSecond} records/s (single process, with MAC: ${result.singleProcess.appendedPerSecond})\n` +
        `verified  ${result.verifiedPerSecond} records/s (single process, with MAC: ${result.singleProcess.verifiedPerSecond})\n` +
        `          ${result.records} records of ${result.bytesPerRecord} bytes in the file; memory grew by ` +
        `${formatBytes(Math.max(0, result.appendGrowthBytes))} over the second half\n` +
        `          of the appends and by ${formatBytes(Math.max(0, result.verifyGrowthBytes))} over three verifications\n`,
    );
  },
});
