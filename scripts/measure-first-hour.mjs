// `npm run measure:first-hour`: three times, from an empty folder and empty caches, `npm install`
// of the packed form, a table of 200 rows, and `run --check exact` of SmolLM2-135M-Instruct's file
// to an adapter with its report. Writes results/first-hour.json, and the lines of docs/own-data.md
// from it. On a quiet machine that reaches a registry of packages; under an hour.
// `-- --archive FILE`: the packed form is there (`npm run package`). `-- --model FILE`: another
// model. `-- --write`: nothing is run, only the page is written. `-- --try`: one round of the
// embedded model that learns nothing, to stdout; the package is packed and unpacked, and what it
// depends on is linked from this clone.
import { spawn, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { environment } from '../dist/bench/install.js';
import { Random } from '../dist/src/random.js';
import { percent, pValue } from '../dist/src/text/figures.js';
import { betweenMarks } from './between-marks.mjs';
import { measuredBy, realModel, root, writeResult } from './experiment.mjs';

export const PAGE = 'docs/own-data.md';
const RESULTS = path.join(root, 'results', 'first-hour.json');
const ROUNDS = 3;
const SEED = 13n;
const ROWS = 200;
const TABLE = 'mails.csv';
/** What docs/own-data.md advises where a small model is held to exact words. */
const FLAGS = ['--check', 'exact', '--examples', '4', '--max-tokens', '16'];
const TRIED = [
  '--iterations',
  '1',
  '--rollouts',
  '16',
  '--steps-per-iteration',
  '1',
  '--batch-size',
  '4',
  '--test-size',
  '4',
  '--dev-size',
  '2',
];

/** What tenants write to whoever looks after a house, and what it is about. */
const MAILS = {
  heat: [
    'The radiator in the ROOM has been cold DAY.',
    'It has been only fourteen degrees in the ROOM DAY.',
    'The boiler has been out DAY and the ROOM is freezing.',
    'Can someone bleed the radiator in the ROOM? It has been half warm DAY.',
    'The thermostat in the ROOM has done nothing DAY.',
  ],
  water: [
    'The tap in the ROOM has dripped DAY.',
    'Water has come through the ceiling of the ROOM DAY.',
    'The drain in the ROOM has been blocked DAY.',
    'There has been no hot water in the ROOM DAY.',
    'A pipe behind the wall of the ROOM has leaked DAY.',
  ],
  noise: [
    'The people above the ROOM have had loud music DAY.',
    'A dog has barked below the ROOM DAY and nobody stops it.',
    'Someone has drilled next to the ROOM DAY, even at night.',
    'There has been shouting outside the ROOM DAY.',
    'Parties over the ROOM have kept us awake DAY.',
  ],
  keys: [
    'I lost the key to the ROOM and have been locked out DAY.',
    'The lock of the ROOM has stuck DAY.',
    'Could I have a second key for the ROOM? We have shared one DAY.',
    'My key to the ROOM has not turned DAY.',
    'The new tenant has had no key to the ROOM DAY.',
  ],
};
const ROOMS = [
  'kitchen',
  'bathroom',
  'bedroom',
  'cellar',
  'hall',
  'laundry room',
  'attic',
  'studio',
];
const DAYS = [
  'since Monday',
  'since last week',
  'since the storm',
  'all weekend',
  'for three days',
  'since I moved in',
];

/** The same from the same seed: as many rows of each answer, no two alike. */
export function table(seed = SEED) {
  const random = new Random(seed);
  const topics = Object.keys(MAILS);
  const lines = topics.flatMap((topic) => {
    const all = MAILS[topic].flatMap((mail) =>
      ROOMS.flatMap((room) => DAYS.map((day) => mail.replace('ROOM', room).replace('DAY', day))),
    );
    return random
      .shuffle(all)
      .slice(0, ROWS / topics.length)
      .map((mail) => ({ mail, topic }));
  });
  const choice = `${topics.slice(0, -1).join(', ')} or ${topics.at(-1)}`;
  const asked = ({ mail, topic }) =>
    `"A tenant writes: ""${mail}"" Is this about ${choice}? Answer with that one word.",${topic}`;
  return `prompt,answer\n${random.shuffle(lines).map(asked).join('\n')}\n`;
}

async function execute(program, args, options) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'], ...options });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  const code = await new Promise((resolve, reject) =>
    child.on('error', reject).on('close', resolve),
  );
  return { code, stdout };
}

async function npm(args, cwd, env = environment({})) {
  const { code, stdout } = await execute('npm', args, {
    cwd,
    env,
    shell: process.platform === 'win32',
  });
  if (code !== 0) throw new Error(`npm ${args.slice(0, 3).join(' ')} ended with ${code}`);
  return stdout.trim().split('\n').at(-1);
}

/** Into an empty folder, with nothing in npm's cache. */
async function install(app, archive) {
  const cache = path.join(app, '..', 'npm-cache');
  await npm(['install', '--no-audit', '--no-fund', '--cache', cache, archive], app);
}

/** Without a registry: what the package has of its own is unpacked, the rest linked. */
async function link(app) {
  const modules = path.join(app, 'node_modules');
  const place = path.join(modules, 'isopro-native');
  mkdirSync(place, { recursive: true });
  const archive = await npm(
    ['pack', '--silent', '--ignore-scripts', '--pack-destination', path.dirname(app)],
    root,
  );
  const { status, stderr } = spawnSync(
    'tar',
    ['-xzf', path.join('..', archive), '--strip-components=1', '-C', place],
    {
      cwd: app,
      encoding: 'utf8',
    },
  );
  if (status !== 0) throw new Error(`tar: ${stderr}`);
  for (const name of readdirSync(path.join(root, 'node_modules')).filter(
    (each) => !each.startsWith('.'),
  ))
    symlinkSync(path.join(root, 'node_modules', name), path.join(modules, name), 'dir');
  if (!existsSync(path.join(place, 'prebuilds')))
    symlinkSync(path.join(root, 'build'), path.join(place, 'build'), 'dir');
}

const seconds = (from, to) => Number(((to - from) / 1000).toFixed(1));

async function round(model, archive) {
  const place = mkdtempSync(path.join(tmpdir(), 'isopro-first-hour-'));
  const app = path.join(place, 'app');
  mkdirSync(app);
  try {
    const begun = performance.now();
    await (archive === null ? link(app) : install(app, archive));
    const installed = performance.now();
    writeFileSync(path.join(app, TABLE), table());
    const program = path.join(
      app,
      'node_modules',
      'isopro-native',
      'dist',
      'src',
      'cli',
      'main.js',
    );
    const tried = archive === null ? TRIED : [];
    const args = [
      'run',
      '--task',
      TABLE,
      ...FLAGS,
      ...tried,
      '--model',
      model,
      '--out',
      'mails',
      '--json',
    ];
    const { code, stdout } = await execute(process.execPath, [program, ...args], {
      cwd: app,
      env: environment({ ISOPRO_HOME: path.join(place, 'home') }),
    });
    const ended = performance.now();
    if (code !== 0 && !(archive === null && code === 3)) throw new Error(`run ended with ${code}`);
    const { adapter, test, forgetting, peakRssBytes } = JSON.parse(stdout);
    for (const file of [path.resolve(app, adapter.file), path.join(app, 'mails', 'report.html')])
      if (!existsSync(file)) throw new Error(`run left no ${path.basename(file)}`);
    return {
      seconds: {
        install: seconds(begun, installed),
        run: seconds(installed, ended),
        total: seconds(begun, ended),
      },
      test: { n: test.after.n, before: test.before.mean, after: test.after.mean, p: test.pairedP },
      lostNats: forgetting?.lost.mean ?? null,
      peakRssBytes,
    };
  } finally {
    rmSync(place, { recursive: true, force: true });
  }
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const told = ({ seconds: { install: first, run, total }, test: { n, before, after, p } }) =>
  `install ${first} s, run ${run} s, together ${total} s; ${percent(before)} to ${percent(after)} % of ${n}, p ${pValue(p)}`;

async function measure({ archive, model, tried }) {
  const packed = tried ? null : path.resolve(archive ?? (await pack()));
  const file =
    model === undefined
      ? tried
        ? 'tiny'
        : realModel()
      : existsSync(model)
        ? path.resolve(model)
        : model;
  const rounds = [];
  for (let i = 0; i < (tried ? 1 : ROUNDS); i++) {
    rounds.push(await round(file, packed));
    console.error(`round ${i + 1}: ${told(rounds[i])}`);
  }
  const of = (part) => median(rounds.map(({ seconds: each }) => each[part]));
  const medians = { install: of('install'), run: of('run'), total: of('total') };
  return {
    ...(await measuredBy()),
    model: path.basename(file),
    rows: ROWS,
    flags: FLAGS.join(' '),
    seconds: medians,
    rounds,
  };
}

async function pack() {
  await npm(['run', '--silent', 'prebuild'], root);
  return npm(['run', '--silent', 'package'], root);
}

const minutes = (of) => (of / 60).toFixed(1);

/** @param measured null: nothing yet */
export function firstHourText(measured) {
  const by =
    '`npm run measure:first-hour` takes the time from an empty folder to an adapter and its report';
  if (measured === null) return `${by}.`;
  const { machine, model, rows, flags, seconds: medians, rounds } = measured;
  const totals = rounds.map(({ seconds: { total } }) => minutes(total));
  const tests = rounds.map(
    ({ test: { before, after } }) => `${percent(before)} to ${percent(after)}`,
  );
  return (
    `${by}: ${minutes(medians.total)} minutes (median of ${totals.join(', ')}; ${medians.install.toFixed(0)} seconds of it ` +
    `are \`npm install\`), with ${rows} rows of four answers,\n\`run ${flags}\` and ${model} on ${machine.processor}, ` +
    `${machine.cores} cores. Of the ${rounds[0].test.n} test rows it solves ${[...new Set(tests)].join(', ')} %.`
  );
}
export const withFirstHour = (page, content) => betweenMarks(page, 'first hour', content);
export const readFirstHour = () =>
  existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : null;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [flag, text] = [{ type: 'boolean', default: false }, { type: 'string' }];
  const { values } = parseArgs({ options: { write: flag, try: flag, archive: text, model: text } });
  if (!values.write) {
    const result = await measure({
      archive: values.archive,
      model: values.model,
      tried: values.try,
    });
    if (values.try) console.log(JSON.stringify(result, null, 1));
    else {
      await writeResult(RESULTS, result);
      console.log(
        `${told({ ...result.rounds[0], seconds: result.seconds })} (seconds: medians of ${result.rounds.length})`,
      );
    }
  }
  if (!values.try) {
    const page = path.join(root, PAGE);
    writeFileSync(page, withFirstHour(readFileSync(page, 'utf8'), firstHourText(readFirstHour())));
  }
}
