// `npm run calibrate:monitor`: tiny training runs, healthy and sick, without remedies. Fits the three numbers of our own judgement on one set of seeds, reports false and
// missed alarms on another, and writes docs/monitor-calibration.json. A short form by default; ISOPRO_FULL=1 is the form whose figures docs/monitor.md gives.
// `--runs FILE` keeps what was measured, and takes it from there where the file exists.
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const models = path.join(root, 'dist', 'test', 'models');
const { calibrate, configOf, DEFAULT_JUDGEMENT, measureHealthy, measureSick, ratesOf } = await import(path.join(models, 'calibration.js'));
const { writeMonitoredModel } = await import(path.join(models, 'sick-runs.js'));

const full = process.env.ISOPRO_FULL === '1';
const SETS = full ? { fit: { healthy: 200, sick: 8, first: 10_001 }, report: { healthy: 200, sick: 8, first: 20_001 } } : { fit: { healthy: 4, sick: 1, first: 1 }, report: { healthy: 4, sick: 1, first: 20_001 } };
const at = process.argv.indexOf('--runs');
const kept = at < 0 ? null : process.argv[at + 1];

// JSON has no NaN, Infinity or bigint, and a run that breaks has all of them
const write = (_, value) => (typeof value === 'bigint' ? { bigint: `${value}` } : typeof value === 'number' && !Number.isFinite(value) ? { number: `${value}` } : value);
const read = (_, value) => (value?.bigint !== undefined ? BigInt(value.bigint) : value?.number !== undefined ? Number(value.number) : value);

async function measure() {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-calibration-'));
  try {
    const { model, deadAdapter } = writeMonitoredModel(folder);
    const runs = {};
    for (const [name, { healthy, sick, first }] of Object.entries(SETS)) {
      const jobs = [
        ...Array.from({ length: healthy }, (_, i) => () => measureHealthy(model, BigInt(first + i))),
        ...Array.from({ length: sick }, (_, i) => () => measureSick(model, deadAdapter, BigInt(first + i))),
      ];
      // a trainer computes on a thread of its own, so that as many runs as there are cores go on at once; each is the same in any company
      const measured = [];
      let next = 0;
      const lane = async () => {
        for (let i = next++; i < jobs.length; i = next++) measured[i] = await jobs[i]();
      };
      await Promise.all(Array.from({ length: availableParallelism() }, lane));
      runs[name] = measured.flat();
      process.stderr.write(`${name}: ${runs[name].length} runs\n`);
    }
    return runs;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const runs = kept !== null && existsSync(kept) ? JSON.parse(readFileSync(kept, 'utf8'), read) : await measure();
if (kept !== null && !existsSync(kept)) writeFileSync(kept, JSON.stringify(runs, write));
const { judgement, curves } = calibrate(runs.fit);
const result = {
  form: full ? 'full' : 'short',
  seeds: SETS,
  fitted: { judgement, curves, rates: ratesOf(runs.fit, configOf(judgement)) },
  inForce: DEFAULT_JUDGEMENT,
  reported: { fitted: ratesOf(runs.report, configOf(judgement)), inForce: ratesOf(runs.report, configOf(DEFAULT_JUDGEMENT)) },
};
if (full) writeFileSync(path.join(root, 'docs', 'monitor-calibration.json'), `${JSON.stringify(result, null, 2)}\n`);
process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
