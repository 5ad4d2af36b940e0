// `npm run measure:demos`: runs the demonstrations of examples/ on the real model
// (scripts/real-model.mjs), keeps what each printed in results/demos.json, and writes the section
// of docs/tasks.md between its marks from that file. `-- --only NAME …`: these alone, the others as
// they are in the file; `--threads N`; `--write`: nothing is run, only the page is written.
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { betweenMarks } from './between-marks.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const PAGE = 'docs/tasks.md';
const RESULTS = 'results/demos.json';

/**
 * A base model that writes no valid strategy has nothing to learn from: what it proposes keeps to
 * the form, and is drawn widely.
 */
const PROPOSALS = [
  '--constrained',
  '--temperature',
  '2',
  '--proposals',
  '24',
  '--keep',
  '0.25',
  '--steps',
  '30',
  '--held-out',
  '24',
];
/** Settings were chosen on `--measured-on dev`. */
export const DEMOS = {
  'one-step': ['one-step', '--held-out', '40'],
  restart: ['generations', '--train', 'restart', ...PROPOSALS],
  continue: ['generations', '--train', 'continue', ...PROPOSALS],
};

const commandOf = ([demo, ...flags]) =>
  ['node', `dist/examples/${demo}.js`, '--model', 'smollm2-135m', ...flags].join(' ');

/**
 * @param results reports by name, as `--json` prints them;
 * @param reportText of dist/examples/games-demo.js
 */
export const demosText = (results, reportText) =>
  Object.entries(DEMOS)
    .filter(([name]) => results[name] !== undefined)
    .map(([name, demo]) =>
      ['```text', `$ ${commandOf(demo)}`, reportText(results[name]), '```'].join('\n'),
    )
    .join('\n\n');

export const withDemos = (page, content) => betweenMarks(page, 'demos', content);

export const readDemos = () =>
  existsSync(path.join(root, RESULTS))
    ? JSON.parse(readFileSync(path.join(root, RESULTS), 'utf8'))
    : {};

const node = (args) => {
  const { status, stdout } = spawnSync(process.execPath, args, {
    cwd: root,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  if (status !== 0) process.exit(status ?? 1);
  return stdout;
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      threads: { type: 'string', default: '1' },
      write: { type: 'boolean' },
    },
  });
  const names = values.write ? [] : (values.only ?? Object.keys(DEMOS));
  const results = readDemos();
  for (const name of names) {
    const [demo, ...flags] = DEMOS[name] ?? [];
    if (demo === undefined) throw new Error(`--only takes ${Object.keys(DEMOS).join(', ')}`);
    const model = node(['scripts/real-model.mjs']).trim();
    const file = path.join('dist', 'examples', `${demo}.js`);
    results[name] = JSON.parse(
      node([file, '--model', model, ...flags, '--threads', values.threads, '--json']),
    );
    writeFileSync(path.join(root, RESULTS), `${JSON.stringify(results, null, 1)}\n`);
  }
  const { reportText } = await import('../dist/examples/games-demo.js');
  const page = path.join(root, PAGE);
  writeFileSync(page, withDemos(readFileSync(page, 'utf8'), demosText(results, reportText)));
}
