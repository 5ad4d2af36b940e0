// `npm run measure:speed`: `bench kernels` and `bench train` with their results in
// results/speed.json, and the tables of docs/training.md from it. On a quiet machine; some 40
// minutes, most of them for groups in the 3B shape. `-- --only kernels|steps|groups …`: these
// alone, the others as they are in the file; `--write`: nothing is run, only the page is written.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { betweenMarks } from './between-marks.mjs';
import { command, measuredBy, root, writeResult } from './experiment.mjs';
import { table } from './table.mjs';

export const PAGE = 'docs/training.md';
const RESULTS = path.join(root, 'results', 'speed.json');

const TYPES = [
  'q8_0',
  'q4_0',
  'q4_1',
  'q5_0',
  'q5_1',
  'f16',
  'bf16',
  'q3_K',
  'q4_K',
  'q6_K',
  'iq4_nl',
  'iq4_xs',
  'mxfp4',
];
const TOKENS = [64, 512];
const SIDE = 1536;
/** Flags of `bench`. */
const PARTS = {
  kernels: [
    'kernels',
    '--threads 1',
    `--rows ${SIDE} --columns ${SIDE}`,
    `--tokens ${TOKENS.join(' ')}`,
    `--types ${TYPES.join(' ')}`,
  ],
  steps: ['train', '--rounds 3'],
  groups: ['train', '--group 8 --prompt-tokens 300 --reply-tokens 100', '--rounds 3'],
};
const flagsOf = (part) => PARTS[part].join(' ').split(' ');

const rate = (value) => (value == null ? '–' : value >= 100 ? value.toFixed(0) : value.toFixed(1));
const gigabytes = (bytes) => (bytes == null ? '–' : (bytes / 1e9).toFixed(2));
const on = ({ machine }) => `${machine.processor} (${machine.cores} cores)`;
const layersOf = ({ layers, boundaryCached }) =>
  boundaryCached ? `top ${layers}, cached boundary` : `all ${layers}`;

function kernelsText(part) {
  const { rows } = part;
  const of = (type) =>
    TOKENS.map((tokens) =>
      rows.find((row) => row.type === type && row.tokens === tokens && row.op === 'dX'),
    );
  const cells = ({ gflops, toFloat, openblas, ggmlOutProd }) =>
    [gflops, toFloat, openblas, ggmlOutProd].map(rate).join(', ');
  return [
    `dX in GFLOP/s over a matrix of ${SIDE} x ${SIDE} on one thread of ${on(part)}, by processor time, of 64 and 512 tokens: ours, ours ` +
      "with tiles dequantised by ggml's `to_float`, OpenBLAS sgemm on f32 copies, ggml's `out_prod`.",
    table(
      ['type', ...TOKENS.map((tokens) => `${tokens} tokens`)],
      TYPES.map((type) => [type, ...of(type).map(cells)]),
    ),
  ].join('\n\n');
}

const stepsText = (part) =>
  [
    `A LoRA step, rank 16, 512 tokens, on ${on(part)}; of the product's rate: useful GFLOP/s next to those of the product alone.`,
    table(
      [
        'shape',
        'layers',
        'tokens/s',
        "of the product's rate",
        'peak resident, GB',
        'anonymous, GB',
      ],
      part.rows.map((row) => [
        row.shape,
        layersOf(row),
        rate(row.tokensPerSecond),
        (row.usefulGflops / row.gemmGflops).toFixed(2),
        gigabytes(row.peakRssBytes),
        gigabytes(row.anonymousBytes),
      ]),
    ),
  ].join('\n\n');

const groupsText = (part) =>
  [
    `Eight replies of 100 tokens to a prompt of 300, tokens/s as if each reply had the prompt to itself, on ${on(part)}.`,
    table(
      ['shape', 'layers', 'prompt shared', 'not shared', 'times', 'peak resident, GB'],
      part.rows.map((row) => [
        row.shape,
        `all ${row.layers}`,
        rate(row.shared),
        rate(row.unshared),
        (row.shared / row.unshared).toFixed(2),
        gigabytes(row.peakRssBytes),
      ]),
    ),
  ].join('\n\n');

const TEXTS = { kernels: kernelsText, steps: stepsText, groups: groupsText };
/** What was not measured has no table. */
export const speedText = (speed) =>
  Object.entries(TEXTS)
    .flatMap(([part, text]) => (speed[part] === undefined ? [] : [text(speed[part])]))
    .join('\n\n');
export const withSpeed = (page, content) => betweenMarks(page, 'speed', content);
export const readSpeed = () =>
  existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')) : {};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { values } = parseArgs({
    options: {
      only: { type: 'string', multiple: true },
      write: { type: 'boolean', default: false },
    },
  });
  const parts = values.write ? [] : (values.only ?? Object.keys(PARTS));
  if (parts.some((part) => PARTS[part] === undefined))
    throw new Error(`--only takes ${Object.keys(PARTS).join(', ')}`);
  for (const part of parts) {
    const { code, printed } = await command(['bench', ...flagsOf(part)]);
    if (printed === undefined) process.exit(code);
    await writeResult(RESULTS, {
      ...readSpeed(),
      [part]: { ...(await measuredBy()), command: `bench ${PARTS[part].join(' ')}`, ...printed },
    });
  }
  const page = path.join(root, PAGE);
  writeFileSync(page, withSpeed(readFileSync(page, 'utf8'), speedText(readSpeed())));
}
