import { benchModel } from '../../../bench/models.js';
import { benchServe } from '../../../bench/serve.js';
import { resolveModel } from '../../engine/model-files.js';
import { given } from '../../given.js';
import { print, printJson, printNote, UsageError } from '../output.js';
import { command } from '../command.js';
import { matmulOption, number, text, threadsOption } from '../option.js';

export const benchServeCommand = command({
  command: 'serve',
  describe:
    'Compare the server with llama-server under load: tokens per second and time to first token',
  options: {
    model: text(
      'GGUF file, alias or hf: URI; default: random weights in the shape of Qwen2.5-0.5B',
    ),
    clients: text('numbers of concurrent clients, one row each', '1,8,32'),
    requests: number('requests per client in a round', 4),
    tokens: number('tokens per answer', 64),
    'prompt-tokens': number('tokens per prompt', 256),
    rounds: number('interleaved rounds; medians are reported', 3),
    'adapter-clients': number('clients sharing four adapters; 0: skip', 8),
    threads: threadsOption,
    matmul: matmulOption,
    silence: number('seconds without output after which a server is abandoned', 120),
    peer: {
      ...text('path of a llama-server, or none'),
      defaultDescription: 'built on first use',
    },
  },
  examples: [['$0 bench serve --model smollm2-135m --json', '']],
  handler: async (argv) => {
    const clients = argv.clients.split(',').map(Number);
    if (!clients.every((count) => Number.isInteger(count) && count > 0 && count <= 253))
      throw new UsageError(
        `--clients: expected whole numbers from 1 to 253, such as 1,8,32, got ${argv.clients}`,
      );
    const result = await benchServe({
      model:
        argv.model === undefined
          ? benchModel('qwen2.5-0.5b')
          : (await resolveModel(argv.model)).path,
      clients,
      ...given(argv, 'requests', 'promptTokens', 'tokens', 'rounds', 'adapterClients'),
      ...given(argv, 'matmul', 'threads', 'peer'),
      silenceSeconds: argv.silence,
      onRound: (what) => printNote(`${what}\n`),
    });
    if (argv.json) return printJson(result);
    const beside = (ours: number, peer: number | null): string =>
      `${ours.toFixed(1).padStart(8)} tokens/s` +
      (peer === null
        ? ''
        : `  llama-server ${peer.toFixed(1).padStart(8)}  (isopro-native: ${(ours / peer).toFixed(2)} times as fast)`);
    for (const { clients: count, ours, peer, firstTokenMs, peerFirstTokenMs } of result.rows) {
      const times = [firstTokenMs, peerFirstTokenMs]
        .filter((of) => of !== null)
        .map(({ p50, p99 }) => `${p50.toFixed(0)}/${p99.toFixed(0)}`);
      print(
        `${String(count).padStart(3)} clients  ${beside(ours, peer)}  first token ${times.join(' against ')} ms (p50/p99)\n`,
      );
    }
    const { mixedAdapters } = result;
    if (mixedAdapters !== null)
      print(`4 adapters   ${beside(mixedAdapters.ours, mixedAdapters.peer)}\n`);
  },
});
