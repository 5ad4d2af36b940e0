// `npm run calibrate:monitor`: tiny training runs, healthy and sick, without remedies. Fits the
// three numbers of our own judgement on one set of seeds, reports false and missed alarms on
// another, counts on that one how many remedies settle their rule, simulates false and missed stops
// by R3 in both profiles, and writes docs/monitor-calibration.json. A short form by default;
// ISOPRO_FULL=1 is the form whose figures docs/monitor.md gives. `--runs FILE` keeps what was
// measured, and takes it from there where the file exists.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
const models = path.join(root, 'dist', 'test', 'models');
const {
  calibrate,
  configOf,
  DEFAULT_JUDGEMENT,
  measureHealthy,
  measureSick,
  ratesOf,
  treatmentRates,
  treatSick,
} = await import(path.join(models, 'calibration.js'));

const { COURSES, SHAKES, stopRate } = await import(path.join(models, 'stop-calibration.js'));
const { resolveSettings, scheduling } = await import(path.join(root, 'dist', 'src', 'index.js'));

const full = process.env.ISOPRO_FULL === '1';
const SETS = full
  ? {
      fit: { healthy: 200, sick: 8, first: 10_001 },
      report: { healthy: 200, sick: 8, first: 20_001 },
    }
  : { fit: { healthy: 4, sick: 1, first: 1 }, report: { healthy: 4, sick: 1, first: 20_001 } };
const at = process.argv.indexOf('--runs');
const kept = at < 0 ? null : process.argv[at + 1];

// JSON has no NaN, Infinity or bigint, and a run that breaks has all of them
const write = (_, value) =>
  typeof value === 'bigint'
    ? { bigint: `${value}` }
    : typeof value === 'number' && !Number.isFinite(value)
      ? { number: `${value}` }
      : value;
const read = (_, value) =>
  value?.bigint !== undefined
    ? BigInt(value.bigint)
    : value?.number !== undefined
      ? Number(value.number)
      : value;

/**
 * Jobs in lanes: a trainer computes on a thread of its own, so that as many runs as there are cores
 * go on at once; each is the same in any company.
 */
async function all(jobs) {
  const done = [];
  let next = 0;
  const lane = async () => {
    for (let i = next++; i < jobs.length; i = next++) done[i] = await jobs[i]();
  };
  await Promise.all(Array.from({ length: availableParallelism() }, lane));
  return done.flat();
}

async function measure() {
  const runs = {};
  for (const [name, { healthy, sick, first }] of Object.entries(SETS)) {
    const jobs = [
      ...Array.from({ length: healthy }, (_, i) => () => measureHealthy(BigInt(first + i))),
      ...Array.from({ length: sick }, (_, i) => () => measureSick(BigInt(first + i))),
    ];
    runs[name] = await all(jobs);
    process.stderr.write(`${name}: ${runs[name].length} runs\n`);
  }
  const { sick, first } = SETS.report;
  return {
    ...runs,
    treated: await all(Array.from({ length: sick }, (_, i) => () => treatSick(BigInt(first + i)))),
  };
}

const runs =
  kept !== null && existsSync(kept)
    ? JSON.parse(readFileSync(kept, 'utf8'), read)
    : await measure();
if (kept !== null && !existsSync(kept)) writeFileSync(kept, JSON.stringify(runs, write));

/**
 * Per cent of simulated runs that R3 stops before their end, by profile, by how many problems
 * change sides, and by course.
 */
function stops() {
  const [count, seed] = [full ? 1000 : 100, full ? 20_001n : 1n];
  const percent = (profile, shake, r3) =>
    Object.fromEntries(
      Object.keys(COURSES).map((course) => [
        course,
        Math.round(
          1000 *
            stopRate(
              count,
              seed,
              resolveSettings({ profile }),
              scheduling.tiers,
              course,
              shake,
              r3,
            ),
        ) / 10,
      ]),
    );
  const of = (r3) =>
    Object.fromEntries(
      ['downloaded', 'embedded'].map((profile) => [
        profile,
        Object.fromEntries(
          Object.keys(SHAKES).map((shake) => [shake, percent(profile, shake, r3)]),
        ),
      ]),
    );
  const others = [
    { minGain: 0.03, z: 1.28 },
    { minGain: 0.05, z: 1.45 },
    { minGain: 0.06, z: 1.645 },
  ];
  return { runs: count, inForce: of({}), others: others.map((r3) => ({ ...r3, ...of(r3) })) };
}

const { judgement, curves } = calibrate(runs.fit);
const result = {
  form: full ? 'full' : 'short',
  seeds: SETS,
  fitted: { judgement, curves, rates: ratesOf(runs.fit, configOf(judgement)) },
  inForce: DEFAULT_JUDGEMENT,
  reported: {
    fitted: ratesOf(runs.report, configOf(judgement)),
    inForce: ratesOf(runs.report, configOf(DEFAULT_JUDGEMENT)),
  },
  remedies: treatmentRates(runs.treated),
  stops: stops(),
};
if (full)
  writeFileSync(
    path.join(root, 'docs', 'monitor-calibration.json'),
    `${JSON.stringify(result, null, 2)}\n`,
  );
process.stdout.write(`${JSON.stringify(result, null, 2)}\n`);
