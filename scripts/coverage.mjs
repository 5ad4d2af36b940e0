// `npm run coverage -- [jest's arguments]`: which lines of src/ the tests run, in every process and
// thread that they start, by V8's own counters (c8). Prints the total and each file below the limit
// with the lines that nothing ran; fails below it. The figures are of what dist/ was built from.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Report } from 'c8';

const LIMIT = 90;
const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const counters = mkdtempSync(path.join(tmpdir(), 'isopro-coverage-'));
try {
  const jest = [
    '--experimental-vm-modules',
    'node_modules/jest/bin/jest.js',
    '--maxWorkers=2',
    ...process.argv.slice(2),
  ];
  const env = { ...process.env, NODE_V8_COVERAGE: counters, ISOPRO_UNBUNDLED: '1' };
  const { status } = spawnSync(process.execPath, jest, { cwd: root, stdio: 'inherit', env });
  const report = new Report({
    tempDirectory: counters,
    src: [root],
    include: ['src/**'],
    all: true,
    excludeAfterRemap: true,
    mergeAsync: true, // thousands of processes
    reporter: ['text'],
    reporterOptions: { text: { maxCols: 140, skipFull: true } },
  });
  await report.run();
  const lines = (await report.getCoverageMapFromAllCoverageFiles()).getCoverageSummary().lines;
  console.log(`${lines.pct} % of ${lines.total} lines of src/ (at least ${LIMIT} are asked for)`);
  process.exitCode = status === 0 && lines.pct >= LIMIT ? 0 : 1;
} finally {
  rmSync(counters, { recursive: true, force: true });
}
