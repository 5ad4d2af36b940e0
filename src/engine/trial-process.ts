/**
 * trial-process.js FILE: tries one model file (model-trial.ts) and writes what came of it to stdout
 * as JSON. It may crash, and ends itself where it is over a limit or nobody waits for it any more.
 */
import { writeSync } from 'node:fs';
import { loadAddon } from './addon.js';
import { LIMITS, type TrialReport } from './model-trial.js';

process.stdin.on('end', () => process.kill(process.pid, 'SIGKILL')).resume();

let report: TrialReport = { ok: true };
try {
  const { addon } = loadAddon();
  await addon.tryModel(process.argv[2]!, { ...LIMITS, bytes: addon.trialBytes });
} catch (error) {
  const { code, message } = error as { code?: unknown; message?: unknown };
  report = { ok: false, code: String(code), message: String(message) };
}
writeSync(1, JSON.stringify(report));
process.exit(0);
