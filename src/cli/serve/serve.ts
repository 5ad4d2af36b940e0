import path from 'node:path';
import { hashFile } from '../../engine/adapter.js';
import { resolveModel } from '../../engine/model-files.js';
import { readJson } from '../../files.js';
import { given } from '../../given.js';
import { kebab } from '../../operations/flags.js';
import type { JobOptions } from '../../server/jobs/index.js';
import { findAdapter } from '../../lookup/adapters.js';
import { checkKeys, hashKey, newKey, type HashedKey } from '../../server/keys.js';
import { isLoopback } from '../../server/origin.js';
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
  name: text('that the model answers to; default: as --model, a file without folder and .gguf'),
  adapter: texts(
    'NAME=ADAPTER: one in GGUF, or a run by folder or id, and the name of the model with it; may be repeated',
  ),
  registry: {
    ...registryOption,
    describe: 'folder of a registry whose names are served too',
    defaultDescription: 'none',
  },
  adapters: text('folder from which /v1/load_lora_adapter may load; none: it may not'),
  runs: text(
    'folder of runs: the page shows them, and jobs over HTTP make further ones (docs/ui.md, docs/jobs.md); default: neither',
  ),
  'allow-model': texts(
    'MODEL or NAME=MODEL: further model that jobs may name, as --model takes it; may be repeated',
  ),
  'allow-task': texts(
    'NAME=TASK: task that jobs may name beside those that ship, as --task takes it; may be repeated',
  ),
  jobs: number('jobs at once; others wait', 1),
  host: text('address; any but a loopback one needs keys', '127.0.0.1'),
  port: number('0: any that is free', 8080),
  'api-key': texts(
    'key that may read and ask, 16 characters or more; repeatable; also $ISOPRO_API_KEY, which other users of the machine do not see',
  ),
  'admin-key': {
    ...text('key that may all; also $ISOPRO_ADMIN_KEY'),
    defaultDescription: 'one that is made and printed',
  },
  keys: text('file of keys by their SHA-256: [{"name", "sha256", "scopes"}]'),
  'tls-cert': text(
    'file with a certificate and its chain, in PEM: HTTPS, and nothing else; goes with --tls-key',
  ),
  'tls-key': text('file with its private key, in PEM, without a passphrase'),
  'allow-host': texts('further name that leads here; may be repeated'),
  'allow-origin': texts('origin of pages that may call; may be repeated'),
  'max-sequences': number('replies that run at once', 64),
  'prefix-tokens': number(
    'tokens of finished conversations that are kept, for those of the same key that begin alike; 0: none',
    0,
  ),
  'max-waiting': number('replies that wait; more get 429', DEFAULT_LIMITS.waiting),
  'max-tokens': {
    ...number('tokens that a reply may have'),
    defaultDescription: 'what the context has room for',
  },
  'max-body': number('bytes of a request', DEFAULT_LIMITS.bodyBytes),
  'max-connections': number('connections at once', DEFAULT_LIMITS.connections),
  rate: number('requests a minute of a key; more get 429', DEFAULT_LIMITS.requestsPerMinute),
  timeout: number('seconds that a request may take', DEFAULT_LIMITS.requestSeconds),
  drain: number('seconds that replies have to end after SIGTERM', DEFAULT_LIMITS.drainSeconds),
  threads: threadsOption,
  'fixed-threads': fixedThreadsOption,
  matmul: matmulOption,
  context: contextOption,
};

type Flags = Stated<typeof options>;

export const serveCommand = command({
  command: 'serve',
  describe: 'Answer other programs over HTTP, as OpenAI does: a model, and adapters by name',
  options,
  examples: [
    ['$0 serve --model qwen2.5-0.5b', 'http://127.0.0.1:8080/v1 for any OpenAI client'],
    [
      '$0 serve --model tiny --adapter sql=./sql.gguf',
      'the model, and "sql", the model with an adapter',
    ],
  ],
  handler: async (argv) => {
    const { model, json, runs } = argv;
    const jobs = jobsOf(argv);
    const adapters = argv.adapter.map(adapterOf);
    const { keys, made } = keysOf(argv);
    requireNumbers(argv);
    if ((argv.tlsCert === undefined) !== (argv.tlsKey === undefined))
      throw new UsageError('--tls-cert and --tls-key go together.');
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
        `${url}/v1 answers for ${models.join(', ')}\n` +
          `${made === undefined ? '' : `key for administrative calls: ${made}\n`}` +
          `${page === undefined ? '' : `the page: ${page}\n`}`,
      );
    await noteOtherBases(model, adapters);
    await end(signal);
    await server.close();
  },
});

/** `NAME=THING` of a flag. */
const named = (value: string): readonly string[] => /^([^=]+)=(.+)$/.exec(value)?.slice(1) ?? [];

/** Of --adapter; says what it was asked behind. */
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

/** What jobs may name, and how many run at once; undefined: there are none. */
function jobsOf({ runs, allowModel, allowTask, jobs: atOnce }: Flags): JobOptions | undefined {
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
  if (runs !== undefined) return { runs: path.resolve(runs), models, tasks, atOnce };
  if (models.length + tasks.length > 0)
    throw new UsageError('--allow-model and --allow-task go with --runs.');
  return undefined;
}

/** Every key that the server takes, and the one for administrators that was made. */
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

/** Says of each adapter whether it was trained on another file than the model's. */
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
