// `npm run docs:architectures`: runs the suites that try every architecture, and writes the table
// of docs/own-model.md from what they showed. What no suite showed is `untested`.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { betweenMarks } from './between-marks.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
/** Where `covered` is called; a suite of another column or architecture is one more line. */
const SUITES = [
  'test/engine/decoders.test.ts',
  'test/engine/parity.test.ts',
  'test/training/adapter-files.test.ts',
  'test/training/trainer.test.ts',
];
const COLUMNS = ['generate', 'score', 'train', 'merge', 'export'];
/** Columns of the architectures alone that have a trainer; the others are refused by name. */
const OF_TRAINER = ['train', 'merge', 'export'];

/** Names in a table of C++: rows that begin with {"name". */
const namesIn = (file, after) => {
  const text = readFileSync(path.join(root, file), 'utf8');
  const table = text.slice(text.indexOf(after));
  return [...table.slice(0, table.indexOf('};')).matchAll(/\{(?:[\w:]+, )?"([^"]+)"/g)].map(
    ([, name]) => name,
  );
};
export const decoders = () => namesIn('native/model/text_decoders.cpp', 'kDecoders[]');
export const trainable = () => namesIn('native/model/hyper_parameters.cpp', 'kArchitectures');

/** @param shown {architecture, column}[] of the tests that passed */
export function architectureTable(shown) {
  const trained = trainable();
  const rows = decoders().map((architecture) => {
    const cells = COLUMNS.map((column) => {
      if (shown.some((one) => one.architecture === architecture && one.column === column))
        return 'yes';
      return OF_TRAINER.includes(column) && !trained.includes(architecture) ? 'no' : 'untested';
    });
    return `| \`${architecture}\` | ${cells.join(' | ')} |`;
  });
  return [
    `| architecture | ${COLUMNS.join(' | ')} |`,
    `|---|${COLUMNS.map(() => '---|').join('')}`,
    ...rows,
  ].join('\n');
}

function run() {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-covered-'));
  const record = path.join(folder, 'covered.jsonl');
  try {
    writeFileSync(record, '');
    const jest = path.join(root, 'node_modules', 'jest', 'bin', 'jest.js');
    const { status } = spawnSync(
      process.execPath,
      ['--experimental-vm-modules', jest, '--', ...SUITES],
      { stdio: 'inherit', cwd: root, env: { ...process.env, ISOPRO_COVERED: record } },
    );
    if (status !== 0) throw new Error('a suite failed: the table was not written');
    const lines = readFileSync(record, 'utf8').split('\n');
    const shown = lines.filter((line) => line !== '').map((line) => JSON.parse(line));
    const page = path.join(root, 'docs', 'own-model.md');
    const table = architectureTable(shown);
    writeFileSync(page, betweenMarks(readFileSync(page, 'utf8'), 'architectures', table));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) run();
