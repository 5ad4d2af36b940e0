// `npm run measure:load`: `serve` of the embedded model with one compute thread, under load
// generators that no one here wrote. Writes results/load.json, and the section of docs/serve.md
// from it. On a quiet machine; under four minutes. `-- --write`: nothing is run, only the page is
// written. `-- --guidellm PROGRAM`: times of tokens by guidellm too (pip install guidellm).
// `-- --try`: a second a row, to stdout.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { betweenMarks } from './between-marks.mjs';
import { measuredBy, root, writeResult } from './experiment.mjs';
import { table } from './table.mjs';

export const PAGE = 'docs/serve.md';
const RESULTS = path.join(root, 'results', 'load.json');

const TOKENS = 16;
const STREAMS = 4;
/**
 * autocannon puts another text in the place of the mark in each request, so that no two prompts are
 * the same.
 */
const chat = (stream) => ({
  model: 'served',
  messages: [{ role: 'user', content: 'River [<id>]?' }],
  max_tokens: TOKENS,
  ignore_eos: true,
  stream,
});
const ROWS = [
  { what: 'no model asked: `GET /health`', path: '/health', clients: 64 },
  ...[1, 8, 64].map((clients) => ({
    what: 'chat',
    path: '/v1/chat/completions',
    body: chat(false),
    clients,
  })),
  ...[8, 64].map((clients) => ({
    what: 'chat, streamed',
    path: '/v1/chat/completions',
    body: chat(true),
    clients,
  })),
];

async function run(program, args) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text) => (stdout += text));
  const [code] = await once(child, 'close');
  if (code !== 0) throw new Error(`${path.basename(program)} ended with ${code}`);
  return stdout;
}

async function autocannon(url, { path: to, body, clients }, seconds) {
  const asked =
    body === undefined
      ? []
      : [
          '-m',
          'POST',
          '-H',
          'content-type=application/json',
          '-b',
          JSON.stringify(body),
          '--idReplacement',
        ];
  const program = path.join(root, 'node_modules', 'autocannon', 'autocannon.js');
  return JSON.parse(
    await run(process.execPath, [
      program,
      '-c',
      String(clients),
      '-d',
      String(seconds),
      '-t',
      '60',
      '--json',
      ...asked,
      url + to,
    ]),
  );
}

/** Since it was last asked. prom-client's lag has the 10 ms of its timer in it. */
async function ownFigures(url) {
  const text = await (await fetch(`${url}/metrics`)).text();
  const value = (name) => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)[1]);
  return {
    lagP99Ms: Number(Math.max(0, value('nodejs_eventloop_lag_p99_seconds') * 1000 - 10).toFixed(1)),
    residentMb: Math.round(value('process_resident_memory_bytes') / 2 ** 20),
  };
}

async function rowOf(url, row, seconds) {
  const told = await autocannon(url, row, seconds);
  const { what, clients } = row;
  return {
    what,
    clients,
    requestsPerSecond: Number((told['2xx'] / told.duration).toFixed(1)),
    ms: { p50: told.latency.p50, p99: told.latency.p99 },
    answered: told['2xx'],
    failed: told.non2xx + told.errors + told.timeouts,
    ...(await ownFigures(url)),
  };
}

/** @returns milliseconds: to the first token, between two, and a token of the whole reply */
async function guidellm(program, url, requests) {
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-load-'));
  try {
    const [prompts, out] = [path.join(folder, 'prompts.jsonl'), path.join(folder, 'out.json')];
    const words = (k) =>
      Array.from({ length: 60 }, (_, i) => `${(i * 7 + k) % 97} hours`).join(', ');
    const line = (_, k) =>
      JSON.stringify({ prompt: `Plan ${k}: ${words(k)}.`, output_tokens_count: TOKENS });
    writeFileSync(prompts, `${Array.from({ length: requests }, line).join('\n')}\n`);
    const flags = {
      backend: `kind=openai_http,target=${url},model=served`,
      profile: `kind=concurrent,streams=${STREAMS}`,
      constraint: `kind=max_requests,count=${requests}`,
      data: `kind=json_file,path=${prompts}`,
      output: `kind=json,path=${out}`,
    };
    await run(program, [
      'run',
      ...Object.entries(flags).flatMap(([name, value]) => [`--${name}`, value]),
    ]);
    const report = JSON.parse(readFileSync(out, 'utf8'));
    const { metrics } = report.benchmarks[0];
    const of = (name) => {
      const { percentiles } = metrics[name].successful;
      return { p50: Number(percentiles.p50.toFixed(1)), p99: Number(percentiles.p99.toFixed(1)) };
    };
    const { successful, total } = metrics.request_totals;
    return {
      version: report.metadata.guidellm_version,
      streams: STREAMS,
      answered: successful,
      failed: total - successful,
      firstTokenMs: of('time_to_first_token_ms'),
      betweenTokensMs: of('inter_token_latency_ms'),
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function measure(program, seconds) {
  const flags = [
    '--model',
    'tiny',
    '--name',
    'served',
    '--threads',
    '1',
    '--fixed-threads',
    '--max-sequences',
    '16',
    '--context',
    '8192',
  ];
  const rest = ['--rate', '100000000', '--port', '0', '--json'];
  const child = spawn(
    process.execPath,
    [path.join(root, 'dist', 'program', 'main.js'), 'serve', ...flags, ...rest],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  try {
    const [line] = await once(createInterface(child.stdout), 'line');
    const { url } = JSON.parse(line);
    // until what is hot is compiled
    for (const row of ROWS) await rowOf(url, row, Math.min(seconds, 5));
    const rows = [];
    for (const row of ROWS) {
      console.error(`${row.what}, ${row.clients} clients …`);
      rows.push(await rowOf(url, row, seconds));
    }
    const tokens = program === undefined ? undefined : await guidellm(program, url, 50 * STREAMS);
    const { devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
    return {
      ...(await measuredBy()),
      seconds,
      autocannon: devDependencies.autocannon,
      rows,
      ...(tokens && { guidellm: tokens }),
    };
  } finally {
    child.kill();
  }
}

export function loadText({ machine, seconds, autocannon: version, rows, guidellm: tokens }) {
  const cells = ({ what, clients, requestsPerSecond, ms, failed, lagP99Ms, residentMb }) => [
    what,
    clients,
    requestsPerSecond,
    ms.p50,
    ms.p99,
    failed,
    lagP99Ms,
    residentMb,
  ];
  const head =
    `\`tiny\`, ${TOKENS} tokens a reply, one compute thread, 16 replies at once, ` +
    `on ${machine.processor} (${machine.cores} cores, which the\n` +
    `generator shares); autocannon ${version}, ${seconds} seconds a row. The lag is that of the event loop, p99; memory is resident.`;
  const { firstTokenMs: first, betweenTokensMs: between } = tokens ?? {};
  const times =
    tokens &&
    `guidellm ${tokens.version}, ${tokens.streams} streams, ${tokens.answered} replies (${tokens.failed} failed): ` +
      `${first.p50} ms to the first token (p99\n${first.p99}), ${between.p50} ms between two (p99 ${between.p99}).`;
  const columns = ['', 'clients', 'requests/s', 'ms, p50', 'ms, p99', 'failed', 'lag, ms', 'MB'];
  return [head, table(columns, rows.map(cells)), times].filter(Boolean).join('\n\n');
}
export const withLoad = (page, content) => betweenMarks(page, 'load', content);
export const readLoad = () => JSON.parse(readFileSync(RESULTS, 'utf8'));

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const flag = { type: 'boolean', default: false };
  const { values } = parseArgs({
    options: { write: flag, try: flag, guidellm: { type: 'string' } },
  });
  if (!values.write) {
    const result = await measure(values.guidellm, values.try ? 1 : 15);
    if (values.try) console.log(JSON.stringify(result, null, 1));
    else await writeResult(RESULTS, result);
    if (result.rows.some(({ failed, answered }) => failed > 0 || answered === 0))
      process.exitCode = 1;
  }
  if (!values.try) {
    const page = path.join(root, PAGE);
    writeFileSync(page, withLoad(readFileSync(page, 'utf8'), loadText(readLoad())));
  }
}
