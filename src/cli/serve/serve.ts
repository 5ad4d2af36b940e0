import path from 'node:path';
import { hashFile } from '../../engine/adapter.js';
import { resolveModel } from '../../engine/model-files.js';
import { readJson } from '../../files.js';
import { given } from '../../given.js';
import { backendMembers, kindOf } from '../../operations/backend-settings.js';
import { kebab } from '../../operations/flags.js';
import type { JobOptions } from '../../server/jobs/index.js';
import { findAdapter } from '../../lookup/adapters.js';
import { checkKeys, hashKey, newKey, type HashedKey } from '../../server/keys.js';
import { isLoopback } from '../../server/origin.js';
import { declareKey } from '../../keys.js';
import { DEFAULT_LIMITS, startServer } from '../../server/server.js';
import { shellWord } from '../../shell-word.js';
import { askedBehind, note, noteOtherBase, noteWarnings, sentByClients } from '../adapter-notes.js';
import { end, interruption, printJsonLine, reportFailure, UsageError, write } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command, type Stated } from '../command.js';
import {
  contextOption,
  fixedThreadsOption,
  matmulOption,
  modelOption,
  number,
  text,
  texts,
  threadsOption,
} from '../option.js';

const options = {
  model: modelOption,
  name: text('name of the model in the API; default: --model, without folder and .gguf'),
  adapter: texts(
    'NAME=ADAPTER: serve an adapter (GGUF file, or run by folder or id) under this name; repeatable',
  ),
  registry: {
    ...registryOption,
    describe: 'registry whose aliases are served too',
    defaultDescription: 'none',
  },
  adapters: text('folder from which /v1/load_lora_adapter may load; default: disabled'),
  runs: text('runs folder; enables the web page and jobs over HTTP (docs/ui.md, docs/jobs.md)'),
  'allow-model': texts(
    'MODEL or NAME=MODEL: additional model for jobs, in any form of --model; repeatable',
  ),
  'allow-task': texts('NAME=TASK: additional task for jobs, in any form of --task; repeatable'),
  'allow-backend': texts(
    'NAME=SPEC: who may answer in jobs in place of a model of this server, in any form of --backend; repeatable',
  ),
  'key-env': texts(
    'NAME=VARIABLE: environment variable with the key of a back end of --allow-backend; repeatable',
  ),
  jobs: number('concurrent jobs; others wait', 1),
  host: text('address to listen on; any but loopback requires keys', '127.0.0.1'),
  port: number('port; 0: any free port', 8080),
  'api-key': texts(
    'key for reading and inference, 16 characters or more; repeatable; $ISOPRO_API_KEY hides it from other users',
  ),
  'admin-key': {
    ...text('key with full access; also $ISOPRO_ADMIN_KEY'),
    defaultDescription: 'generated and printed',
  },
  keys: text('JSON file of SHA-256 hashes of keys: [{"name", "sha256", "scopes"}]'),
  'tls-cert': text('PEM file of the certificate and its chain; serves HTTPS only; needs --tls-key'),
  'tls-key': text('PEM file of the private key, without a passphrase'),
  'allow-host': texts('additional host name of this server; repeatable'),
  'allow-origin': texts('origin of web pages that may call the API; repeatable'),
  'max-sequences': number('concurrent replies', 64),
  'prefix-tokens': number(
    'cached tokens of finished conversations, reused for the same key and beginning; 0: none',
    0,
  ),
  'max-waiting': number('max waiting replies; more get 429', DEFAULT_LIMITS.waiting),
  'max-tokens': {
    ...number('max tokens per reply'),
    defaultDescription: 'limited by the context',
  },
  'max-body': number('max size of a request, in bytes', DEFAULT_LIMITS.bodyBytes),
  'max-connections': number('max concurrent connections', DEFAULT_LIMITS.connections),
  rate: number('max requests per minute and key; more get 429', DEFAULT_LIMITS.requestsPerMinute),
  timeout: number('max seconds per request', DEFAULT_LIMITS.requestSeconds),
  drain: number('seconds for replies to finish after SIGTERM', DEFAULT_LIMITS.drainSeconds),
  threads: threadsOption,
  'fixed-threads': fixedThreadsOption,
  matmul: matmulOption,
  context: contextOption,
};

type Flags = Stated<typeof options>;

export const serveCommand = command({
  command: 'serve',
  describe: 'Serve a model and named adapters over an OpenAI-compatible HTTP API',
  options,
  examples: [
    ['$0 serve --model qwen2.5-0.5b', 'http://127.0.0.1:8080/v1 for any OpenAI client'],
    ['$0 serve --model tiny --adapter sql=./sql.gguf', 'the model, and "sql" with an adapter'],
  ],
  handler: async (argv) => {
    const { model, json, runs } = argv;
    const jobs = jobsOf(argv);
    const adapters = argv.adapter.map(adapterOf);
    const { keys, made } = keysOf(argv);
    requireNumbers(argv);
    if ((argv.tlsCert === undefined) !== (argv.tlsKey === undefined))
      throw new UsageError('Give both --tls-cert and --tls-key.');
    const signal = interruption();
    using download = Progress.ofDownload(model);
    const server = await startServer({
      model,
      name: argv.name ?? path.basename(model, '.gguf'),
      adapters: adapters.map(({ name, file }) => ({ name, file })),
      adapterFolder: argv.adapters,
      registry: argv.registry === undefined ? undefined : registryOf({ registry: argv.registry }),
      ...{ runs, jobs, keys },
      host: argv.host,
      port: argv.port,
      hosts: argv.allowHost,
      origins: argv.allowOrigin,
      tls: argv.tlsCert === undefined ? undefined : { cert: argv.tlsCert, key: argv.tlsKey! },
      load: {
        signal,
        onDownload: download.onDownload,
        ...given(argv, 'maxSequences', 'prefixTokens', 'fixedThreads', 'matmul', 'threads'),
        ...given({ contextTokens: argv.context }),
      },
      limits: {
        bodyBytes: argv.maxBody,
        waiting: argv.maxWaiting,
        connections: argv.maxConnections,
        requestsPerMinute: argv.rate,
        requestSeconds: argv.timeout,
        drainSeconds: argv.drain,
        ...given({ replyTokens: argv.maxTokens }),
      },
      report: (error) => void reportFailure(error, json),
    });
    noteWarnings(server.models.model);
    const { url } = server;
    const models = server.models.entries().map(({ id }) => id);
    const page =
      runs === undefined ? undefined : `${url}/ui/${made === undefined ? '' : `#token=${made}`}`;
    if (json) printJsonLine({ url, models, ...given({ adminKey: made, page }) });
    else
      await write(
        `${url}/v1 serves ${models.join(', ')}\n` +
          `${made === undefined ? '' : `admin key: ${made}\n`}` +
          `${page === undefined ? '' : `web page: ${page}\n`}`,
      );
    await noteOtherBases(model, adapters);
    await end(signal);
    await server.close();
  },
});

/** `NAME=THING` of a flag. */
const named = (value: string): readonly string[] => /^([^=]+)=(.+)$/.exec(value)?.slice(1) ?? [];

/** Parses --adapter and prints notes about its training prompt. */
function adapterOf(value: string) {
  const [name, thing] = named(value);
  if (name === undefined || thing === undefined)
    throw new UsageError(
      `--adapter: expected NAME=ADAPTER, such as --adapter mine=${shellWord(value.replaceAll('=', '') || 'runs/first')}, got ${value}`,
    );
  const found = findAdapter(thing);
  const behind = askedBehind(found, sentByClients(found));
  note(behind === null ? null : `${name}: ${behind}`);
  return { ...found, name, published: null };
}

/** Job options; undefined without --runs. @throws UsageError */
function jobsOf(argv: Flags): JobOptions | undefined {
  const { runs, allowModel, allowTask, jobs: atOnce } = argv;
  const models = allowModel.map((value) => {
    const [name = value, model = value] = named(value);
    return { name, model };
  });
  const tasks = allowTask.map((value) => {
    const [name, task] = named(value);
    if (name === undefined || task === undefined)
      throw new UsageError(`--allow-task: expected NAME=TASK, got ${value}`);
    return { name, task };
  });
  const backends = backendsOf(argv);
  if (runs !== undefined) return { runs: path.resolve(runs), models, tasks, backends, atOnce };
  if (models.length + tasks.length + backends.length > 0)
    throw new UsageError('--allow-model, --allow-task and --allow-backend need --runs.');
  return undefined;
}

/** Back ends that jobs may name, and the variables with their keys. @throws UsageError */
function backendsOf({ allowBackend, keyEnv }: Flags): NonNullable<JobOptions['backends']> {
  const variables = new Map<string, string>();
  for (const value of keyEnv) {
    const [name, variable] = named(value);
    // what was given may be the key itself, so it is not shown
    if (name === undefined || variable === undefined)
      throw new UsageError('--key-env: expected NAME=VARIABLE');
    declareKey(variable);
    variables.set(name, variable);
  }
  const backends = allowBackend.map((value) => {
    const [name, spec] = named(value);
    if (name === undefined || spec === undefined || name === 'local')
      throw new UsageError(`--allow-backend: expected NAME=SPEC, got ${value}`);
    const read = backendMembers.backend.safeParse(spec);
    if (!read.success)
      throw new UsageError(`--allow-backend: ${read.error.issues[0]!.message}, got ${value}`);
    const kind = kindOf({ backend: spec });
    if (kind === 'local' || kind === 'human')
      throw new UsageError(
        kind === 'local'
          ? `--allow-backend: use --allow-model for a model of this machine, got ${value}`
          : `--allow-backend: a job has no terminal for a person, got ${value}`,
      );
    return { name, spec, ...given({ keyEnv: variables.get(name) }) };
  });
  const unknown = [...variables.keys()].find((name) =>
    backends.every((each) => each.name !== name),
  );
  if (unknown !== undefined)
    throw new UsageError(`--key-env: no --allow-backend has the name ${unknown}`);
  return backends;
}

/** All keys of the server, and the generated admin key, if any. @throws UsageError */
function keysOf(argv: Flags): {
  readonly keys: readonly HashedKey[];
  readonly made: string | undefined;
} {
  const { ISOPRO_API_KEY, ISOPRO_ADMIN_KEY } = process.env;
  const stated = [
    ...argv.apiKey.map((key) => ['--api-key', key] as const),
    ...(ISOPRO_API_KEY === undefined ? [] : [['$ISOPRO_API_KEY', ISOPRO_API_KEY] as const]),
  ];
  const keys: readonly HashedKey[] = [
    ...(argv.keys === undefined ? [] : checkKeys(readJson(argv.keys))),
    ...stated.map(([from, key], i) => hashKey(`key ${i + 1}`, key, ['read', 'infer'], from)),
  ];
  if (!isLoopback(argv.host) && keys.length === 0)
    throw new UsageError(
      `--host ${argv.host} is open to other machines: give --api-key or --keys.`,
    );
  const given = argv.adminKey ?? ISOPRO_ADMIN_KEY;
  const made = given === undefined ? newKey() : undefined;
  const from = argv.adminKey === undefined ? '$ISOPRO_ADMIN_KEY' : '--admin-key';
  return { keys: [...keys, hashKey('admin', (given ?? made)!, ['admin'], from)], made };
}

/** @throws UsageError */
function requireNumbers(argv: Flags): void {
  const wrong = (names: readonly string[], least: number, most: number): string | undefined =>
    names.find((name) => {
      const value = (argv[name] ?? least) as number;
      return !Number.isInteger(value) || value < least || value > most;
    });
  const bounded = wrong(['port', 'maxWaiting'], 0, 65_535);
  if (bounded !== undefined)
    throw new UsageError(`--${kebab(bounded)}: expected 0 to 65535, got ${argv[bounded]}`);
  const counted = wrong(COUNTS, 1, Infinity);
  if (counted !== undefined)
    throw new UsageError(
      `--${kebab(counted)}: expected a whole number above 0, got ${argv[counted]}`,
    );
}
const COUNTS = ['maxTokens', 'maxBody', 'maxConnections', 'rate', 'jobs', 'timeout'];

/** Prints a note for each adapter that was trained on another model file. */
async function noteOtherBases(
  model: string,
  adapters: readonly ReturnType<typeof adapterOf>[],
): Promise<void> {
  const { path: base } = await resolveModel(model, { download: false });
  let sha256: Promise<string> | undefined;
  const hash = (): Promise<string> => (sha256 ??= hashFile(base));
  for (const adapter of adapters)
    await noteOtherBase(adapter, { path: base, hash }).catch(() => undefined);
}
