// `npm run measure:clients`: runs the suites with clients that no one here wrote, keeps what each
// passed in results/clients.json, and writes the table of docs/serve.md between its marks from that
// file. `-- --write`: nothing is run, only the page is written.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { betweenMarks } from './between-marks.mjs';
import { PACKAGES } from './python-environment.mjs';
import { table } from './table.mjs';

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)));
export const PAGE = 'docs/serve.md';
const RESULTS = path.join(root, 'results', 'clients.json');

const { devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
const { whole, alone } = PACKAGES.clients;
const pinned = (name) =>
  [...whole, ...alone].find((each) => each.startsWith(`${name}==`)).split('==')[1];
const curl = () => spawnSync('curl', ['--version'], { encoding: 'utf8' }).stdout.split(' ')[1];

/** Names of the suites' groups, and how each client came to be asked. */
const CLIENTS = {
  'openai for Node': { version: () => devDependencies.openai },
  'the AI SDK': {
    version: () =>
      `${devDependencies.ai} (@ai-sdk/openai-compatible ${devDependencies['@ai-sdk/openai-compatible']})`,
  },
  curl: { version: curl },
  'openai for Python': { version: () => pinned('openai') },
  'langchain-openai': { version: () => pinned('langchain-openai') },
  llm: { version: () => pinned('llm') },
  'trl, its clients of vLLM': {
    version: () => pinned('trl'),
    how: 'its two classes, without torch and the rest of it',
  },
  'agent-lightning': {
    version: () => '0.3.0',
    how:
      'recorded requests of its LLMProxy are replayed; it ran as a whole once (litellm 1.106.2), and its 150 or so ' +
      'packages are not installed again',
  },
};

/** Tests of jest's results as [client, feature, passed]. */
function featuresOf({ testResults }) {
  return testResults.flatMap(({ assertionResults }) =>
    assertionResults
      .filter(({ status }) => status !== 'pending')
      .flatMap(({ ancestorTitles: [group = ''], title, status }) => {
        const passed = status === 'passed';
        if (group in CLIENTS) return [[group, title, passed]];
        if (title in CLIENTS) return [[title, 'completes a chat', passed]];
        const [, replayed] = /^agent-lightning (?:[\d.]+: )?(.+)$/.exec(title) ?? [];
        return group === 'clients of vLLM' && replayed !== undefined
          ? [['agent-lightning', replayed, passed]]
          : [];
      }),
  );
}

export function clientsText(clients) {
  const cells = ({ client, version, how, features }) => {
    const of = (wanted) =>
      features.filter(({ passed }) => passed === wanted).map(({ feature }) => feature);
    const [passed, failed] = [of(true), of(false)];
    const told = [
      passed.join('; '),
      ...(failed.length > 0 ? [`**failed**: ${failed.join('; ')}`] : []),
    ].join('; ');
    return [
      how === undefined ? client : `${client}: ${how}`,
      version,
      `${passed.length} of ${features.length}`,
      told,
    ];
  };
  return table(['client', 'version', 'passed', 'what'], clients.map(cells));
}
export const withClients = (page, content) => betweenMarks(page, 'clients', content);
export const readClients = () => JSON.parse(readFileSync(RESULTS, 'utf8'));

function jest(suite, env, folder) {
  const out = path.join(folder, `${path.basename(path.dirname(suite))}.json`);
  const args = [
    '--experimental-vm-modules',
    'node_modules/jest/bin/jest.js',
    suite,
    '--json',
    '--outputFile',
    out,
  ];
  spawnSync(process.execPath, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, ...env },
  });
  return JSON.parse(readFileSync(out, 'utf8'));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv[2] !== '--write') {
    const folder = mkdtempSync(path.join(tmpdir(), 'isopro-clients-'));
    try {
      const passed = [
        ...featuresOf(jest('test/server/clients', {}, folder)),
        ...featuresOf(jest('test/real/clients', { ISOPRO_REAL_MODEL: 'none' }, folder)),
      ];
      const clients = Object.entries(CLIENTS).map(([client, { version, how }]) => ({
        client,
        version: version(),
        ...(how !== undefined && { how }),
        features: passed
          .filter(([name]) => name === client)
          .map(([, feature, passes]) => ({ feature, passed: passes })),
      }));
      writeFileSync(RESULTS, `${JSON.stringify(clients, null, 1)}\n`);
      if (
        clients.some(
          ({ features }) => features.length === 0 || features.some(({ passed: passes }) => !passes),
        )
      )
        process.exitCode = 1;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }
  const page = path.join(root, PAGE);
  writeFileSync(page, withClients(readFileSync(page, 'utf8'), clientsText(readClients())));
}
