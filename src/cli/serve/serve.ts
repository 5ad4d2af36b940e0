import path from 'node:path';
import { hashFile } from '../../engine/adapter.js';
import { MATMUL_HELP, MATMULS } from '../../engine/addon.js';
import { resolveModel } from '../../engine/model-files.js';
import { readJson } from '../../files.js';
import { given as stated } from '../../given.js';
import { findAdapter } from '../../lookup/adapters.js';
import { checkKeys, hashKey, newKey, type HashedKey } from '../../server/keys.js';
import { isLoopback } from '../../server/origin.js';
import { DEFAULT_LIMITS, startServer } from '../../server/server.js';
import { shellWord } from '../../shell-word.js';
import { askedBehind, note, noteOtherBase, noteWarnings, sentByClients } from '../adapter-notes.js';
import { interruption, printJsonLine, reportFailure, UsageError, write } from '../output.js';
import { Progress } from '../progress.js';
import { registryOf, registryOption } from '../registry-flags.js';
import { command } from '../command.js';
import { number, text, texts, toggle, modelOption } from '../option.js';

/** What jobs are run by. */

export const serveCommand = command({
  command: 'serve',
  describe: 'Answer other programs over HTTP, as OpenAI does: a model, and adapters by name',
  options: {
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
    threads: number('default: the physical cores'),
    'fixed-threads': toggle('the results of this many threads, under load too'),
    matmul: {
      choices: MATMULS,
      default: 'auto' as const,
      describe: MATMUL_HELP,
    },
    context: number('tokens of KV cache; default: what fits into 1 GiB, 4,096 to 16,384'),
  },
  examples: [
    ['$0 serve --model qwen2.5-0.5b', 'http://127.0.0.1:8080/v1 for any OpenAI client'],
    [
      '$0 serve --model tiny --adapter sql=./sql.gguf',
      'the model, and "sql", the model with an adapter',
    ],
  ],
  handler: async (argv) => {
    const adapters = argv.adapter.map((text) => {
      const [, name, file] = /^([^=]+)=(.+)$/.exec(text) ?? [];
      if (name === undefined || file === undefined)
        throw new UsageError(
          `--adapter: expected NAME=ADAPTER, such as --adapter mine=${shellWord(text.replaceAll('=', '') || 'runs/first')}, got ${text}`,
        );
      const found = findAdapter(file);
      const behind = askedBehind(found, sentByClients(found));
      note(behind === null ? null : `${name}: ${behind}`);
      return { name, file: found.file, found };
    });
    const models = argv.allowModel.map((text) => {
      const [, name = text, model = text] = /^([^=]+)=(.+)$/.exec(text) ?? [];
      return { name, model };
    });
    const tasks = argv.allowTask.map((text) => {
      const [, name, task] = /^([^=]+)=(.+)$/.exec(text) ?? [];
      if (name === undefined || task === undefined)
        throw new UsageError(`--allow-task: expected NAME=TASK, got ${text}`);
      return { name, task };
    });
    if (argv.runs === undefined && models.length + tasks.length > 0)
      throw new UsageError('--allow-model and --allow-task go with --runs.');
    if ((argv.tlsCert === undefined) !== (argv.tlsKey === undefined))
      throw new UsageError('--tls-cert and --tls-key go together.');
    const adminKey = argv.adminKey ?? process.env.ISOPRO_ADMIN_KEY ?? newKey();
    const { ISOPRO_API_KEY: fromEnvironment } = process.env;
    const given = [
      ...argv.apiKey.map((key) => ['--api-key', key] as const),
      ...(fromEnvironment === undefined ? [] : [['$ISOPRO_API_KEY', fromEnvironment] as const]),
    ];
    const keys: HashedKey[] = [
      ...(argv.keys === undefined ? [] : checkKeys(readJson(argv.keys))),
      ...given.map(([from, key], i) => hashKey(`key ${i + 1}`, key, ['read', 'infer'], from)),
    ];
    const isMade = argv.adminKey === undefined && process.env.ISOPRO_ADMIN_KEY === undefined;
    if (!isLoopback(argv.host) && keys.length === 0)
      throw new UsageError(
        `--host ${argv.host} is open to other machines: give --api-key or --keys.`,
      );
    for (const [flag, value] of Object.entries({ port: argv.port, 'max-waiting': argv.maxWaiting }))
      if (!Number.isInteger(value) || value < 0 || value > 65_535)
        throw new UsageError(`--${flag}: expected 0 to 65535, got ${value}`);
    for (const [flag, value] of Object.entries({
      'max-tokens': argv.maxTokens ?? 1,
      'max-body': argv.maxBody,
      'max-connections': argv.maxConnections,
      rate: argv.rate,
      jobs: argv.jobs,
      timeout: argv.timeout,
    }))
      if (!Number.isInteger(value) || value < 1)
        throw new UsageError(`--${flag}: expected a whole number above 0, got ${value}`);

    const signal = interruption();
    using download = new Progress({ label: `download ${argv.model}`, unit: 'bytes' });
    const server = await startServer({
      model: argv.model,
      name: argv.name ?? path.basename(argv.model, '.gguf'),
      adapters: adapters.map(({ name, file }) => ({ name, file })),
      adapterFolder: argv.adapters,
      registry: argv.registry === undefined ? undefined : registryOf({ registry: argv.registry }),
      runs: argv.runs,
      host: argv.host,
      port: argv.port,
      jobs:
        argv.runs === undefined
          ? undefined
          : { runs: path.resolve(argv.runs), models, tasks, atOnce: argv.jobs },
      hosts: argv.allowHost,
      origins: argv.allowOrigin,
      keys: [
        ...keys,
        hashKey(
          'admin',
          adminKey,
          ['admin'],
          argv.adminKey === undefined ? '$ISOPRO_ADMIN_KEY' : '--admin-key',
        ),
      ],
      tls: argv.tlsCert === undefined ? undefined : { cert: argv.tlsCert, key: argv.tlsKey! },
      load: {
        signal,
        onDownload: ({ downloadedBytes, totalBytes }) =>
          download.update(downloadedBytes, totalBytes === null ? {} : { total: totalBytes }),
        maxSequences: argv.maxSequences,
        prefixTokens: argv.prefixTokens,
        fixedThreads: argv.fixedThreads,
        matmul: argv.matmul,
        ...stated({ threads: argv.threads, contextTokens: argv.context }),
      },
      limits: {
        bodyBytes: argv.maxBody,
        waiting: argv.maxWaiting,
        connections: argv.maxConnections,
        requestsPerMinute: argv.rate,
        requestSeconds: argv.timeout,
        drainSeconds: argv.drain,
        ...stated({ replyTokens: argv.maxTokens }),
      },
      report: (error) => void reportFailure(error, argv.json),
    });
    noteWarnings(server.models.model);
    const served = server.models.entries().map(({ id }) => id);
    const page =
      argv.runs === undefined ? null : `${server.url}/ui/${isMade ? `#token=${adminKey}` : ''}`;
    if (argv.json)
      printJsonLine({
        url: server.url,
        models: served,
        ...(isMade && { adminKey }),
        ...(page !== null && { page }),
      });
    else
      await write(
        `${server.url}/v1 answers for ${served.join(', ')}\n${isMade ? `key for administrative calls: ${adminKey}\n` : ''}` +
          `${page === null ? '' : `the page: ${page}\n`}`,
      );
    const { path: base } = await resolveModel(argv.model, { download: false });
    let sha256: Promise<string> | undefined;
    for (const { found } of adapters)
      await noteOtherBase(
        { ...found, published: null },
        { path: base, hash: () => (sha256 ??= hashFile(base)) },
      ).catch(() => undefined);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await server.close();
  },
});
