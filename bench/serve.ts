/**
 * Tokens a second of the server and the time to a reply's first token, beside llama-server with the same file and threads: clients that
 * each ask again as soon as they are answered, with prompts of random tokens that no two have in common. Both are processes of their
 * own; their rounds take turns.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadAddon } from '../src/engine/addon.js';
import { inspectModel } from '../src/engine/inspect.js';
import { createTrainer } from '../src/engine/trainer.js';
import { Random } from '../src/random.js';
import { endingOf, findLlamaServer, startLlamaServer, type RunningServer } from './peer/llama-server.js';

export interface ServeBenchOptions {
  readonly model: string;
  /** How many at once, a row each. */
  readonly clients: readonly number[];
  /** Replies that each client waits for in a round. */
  readonly requests: number;
  readonly promptTokens: number;
  readonly tokens: number;
  readonly rounds: number;
  /** Clients that share four adapters; 0: not measured. */
  readonly adapterClients: number;
  readonly threads?: number;
  /** Path of a llama-server, or 'none'. */
  readonly peer?: string;
  readonly onRound?: (what: string) => void;
}

export interface FirstTokenTimes {
  readonly p50: number;
  readonly p99: number;
}

export interface ServeBenchRow {
  readonly clients: number;
  /** Sampled tokens a second over the whole time, prompts included: medians of the rounds. */
  readonly ours: number;
  /** Null without a llama-server. */
  readonly peer: number | null;
  readonly firstTokenMs: FirstTokenTimes;
  readonly peerFirstTokenMs: FirstTokenTimes | null;
}

export interface ServeBenchResult {
  readonly rows: readonly ServeBenchRow[];
  readonly mixedAdapters: { readonly ours: number; readonly peer: number | null } | null;
  /** Why there is no peer. */
  readonly peerMissing?: string;
}

const ADAPTERS = 4;
const ADAPTER_RANK = 8;
const TEMPERATURE = 0.8;

interface Measured {
  readonly tokensPerSecond: number;
  readonly firstTokenMs: readonly number[];
}

/** One server, and what a client sends to it. */
interface Side {
  readonly server: RunningServer;
  /** Members of a body beside those that both have. */
  readonly more: (adapter: number | null) => object;
}

interface Timed {
  readonly firstTokenMs: number;
  readonly tokens: number;
}

/** One reply, streamed; its events are not read beyond what is measured. */
function ask(url: string, agent: Agent, body: object): Promise<Timed> {
  const began = performance.now();
  return new Promise((resolve, reject) => {
    const sent = httpRequest(
      `${url}/v1/completions`,
      { method: 'POST', agent, headers: { 'content-type': 'application/json' } },
      (response) => {
        let firstTokenMs = 0;
        let end = '';
        response.setEncoding('latin1');
        response.on('data', (text: string) => {
          if (firstTokenMs === 0) firstTokenMs = performance.now() - began;
          end = (end + text).slice(-2000);
        });
        response.on('error', reject);
        response.on('end', () => {
          const tokens = Number(/"completion_tokens": ?(\d+)/.exec(end)?.[1]);
          if (response.statusCode === 200 && tokens > 0) resolve({ firstTokenMs, tokens });
          else reject(new Error(`${url} answered ${response.statusCode}: ${end.slice(-500)}`));
        });
      },
    );
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
}

const middle = (values: readonly number[]): number => quantile(values, 0.5);
function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

export async function benchServe(options: ServeBenchOptions): Promise<ServeBenchResult> {
  const { model, requests, promptTokens, tokens, rounds, adapterClients, onRound = (): void => undefined } = options;
  const threads = options.threads ?? loadAddon().addon.physicalCores();
  const { program, reason } = findLlamaServer(options.peer, (folder) => onRound(`llama-server is built in ${folder}`));
  if (program === null) onRound(`no llama-server: ${reason}`);
  const { vocabularySize } = await inspectModel(model);
  const random = new Random(0n);
  // Control tokens stand at either end.
  const ordinary = [Math.ceil(vocabularySize / 8), Math.floor((vocabularySize * 7) / 8)] as const;
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-bench-serve-'));
  const slotTokens = Math.ceil((promptTokens + tokens) / 256) * 256;

  const load = async ({ server, more }: Side, clients: number, adapters: number): Promise<Measured> => {
    // A connection a reply: llama-server closes those that it kept, at times just when they are taken again.
    const agent = new Agent({ maxSockets: clients });
    const began = performance.now();
    const replies = await Promise.all(
      Array.from({ length: clients }, async (_, client) => {
        const own: Timed[] = [];
        for (let i = 0; i < requests; i++) {
          const prompt = Array.from({ length: promptTokens }, () => random.nextInteger(...ordinary));
          const settings = { max_tokens: tokens, temperature: TEMPERATURE, ignore_eos: true, stream: true, seed: i };
          const body = { prompt, ...settings, stream_options: { include_usage: true }, ...more(adapters === 0 ? null : client % adapters) };
          own.push(await ask(server.url, agent, body));
        }
        return own;
      }),
    );
    const seconds = (performance.now() - began) / 1000;
    agent.destroy();
    const all = replies.flat();
    const sampled = all.reduce((sum, reply) => sum + reply.tokens, 0);
    if (sampled !== clients * requests * tokens) throw new Error(`expected ${clients * requests * tokens} tokens, got ${sampled}`);
    return { tokensPerSecond: sampled / seconds, firstTokenMs: all.map(({ firstTokenMs }) => firstTokenMs) };
  };

  const start = async (clients: number, adapters: readonly string[]): Promise<{ ours: Side; peer: Side | null }> => {
    const ours = await startOurs(model, clients, adapters, threads, clients * slotTokens);
    const side = { server: ours, more: (adapter: number | null) => ({ model: adapter === null ? 'base' : `adapter${adapter}` }) };
    if (program === null) return { ours: side, peer: null };
    try {
      const server = await startLlamaServer(program, { model, adapters, slots: clients, slotTokens, threads });
      const scales = (chosen: number | null): object[] => adapters.map((_, id) => ({ id, scale: id === chosen ? 1 : 0 }));
      const more = (adapter: number | null): object => ({ cache_prompt: false, ...(adapters.length > 0 && { lora: scales(adapter) }) });
      return { ours: side, peer: { server, more } };
    } catch (error) {
      await ours.close();
      throw error;
    }
  };

  const measure = async (clients: number, adapters: readonly string[]): Promise<{ ours: Measured[]; peer: Measured[] }> => {
    const sides = await start(clients, adapters);
    const measured = { ours: [] as Measured[], peer: [] as Measured[] };
    try {
      for (let round = 0; round < rounds; round++) {
        for (const of of ['ours', 'peer'] as const) {
          const side = sides[of];
          if (side === null) continue;
          const result = await load(side, clients, adapters.length);
          measured[of].push(result);
          onRound(`${clients} clients${adapters.length > 0 ? ', adapters' : ''}  ${of}  ${result.tokensPerSecond.toFixed(1)} tokens/s`);
        }
      }
    } finally {
      await Promise.all([sides.ours.server.close(), sides.peer?.server.close()]);
    }
    return measured;
  };

  const rate = (of: readonly Measured[]): number => middle(of.map(({ tokensPerSecond }) => tokensPerSecond));
  const times = (of: readonly Measured[]): FirstTokenTimes => {
    const all = of.flatMap(({ firstTokenMs }) => firstTokenMs);
    return { p50: quantile(all, 0.5), p99: quantile(all, 0.99) };
  };
  try {
    const rows: ServeBenchRow[] = [];
    for (const clients of options.clients) {
      const { ours, peer } = await measure(clients, []);
      rows.push({
        clients,
        ours: rate(ours),
        peer: peer.length > 0 ? rate(peer) : null,
        firstTokenMs: times(ours),
        peerFirstTokenMs: peer.length > 0 ? times(peer) : null,
      });
    }
    let mixedAdapters: ServeBenchResult['mixedAdapters'] = null;
    if (adapterClients > 0) {
      const { ours, peer } = await measure(adapterClients, await writeAdapters(model, folder));
      mixedAdapters = { ours: rate(ours), peer: peer.length > 0 ? rate(peer) : null };
    }
    return { rows, mixedAdapters, ...(reason !== undefined && { peerMissing: reason }) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What they say is of no matter to how long they take. */
async function writeAdapters(model: string, folder: string): Promise<string[]> {
  const files: string[] = [];
  await using trainer = await createTrainer({ path: model }, { lora: { rank: ADAPTER_RANK } });
  for (let i = 0; i < ADAPTERS; i++) {
    files.push(path.join(folder, `adapter${i}.gguf`));
    await trainer.exportAdapter(files[i]!);
  }
  return files;
}

/** `isopro-native serve` as a user starts it. */
async function startOurs(
  model: string,
  clients: number,
  adapters: readonly string[],
  threads: number,
  contextTokens: number,
): Promise<RunningServer> {
  const settings = {
    model,
    name: 'base',
    port: 0,
    threads,
    context: contextTokens,
    'max-sequences': clients,
    'max-connections': 2 * clients + 8,
    rate: 1_000_000,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const served = adapters.flatMap((file, i) => ['--adapter', `adapter${i}=${file}`]);
  const child = spawn(process.execPath, [process.argv[1]!, 'serve', ...flags, ...served, '--json'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const close = endingOf(child);
  const url = await new Promise<string>((resolve, reject) => {
    let text = '';
    child.stdout.setEncoding('utf8').on('data', (piece: string) => {
      text += piece;
      if (text.includes('\n')) resolve((JSON.parse(text) as { url: string }).url);
    });
    child.once('close', (code) => reject(new Error(`serve ended with ${code}`)));
    child.once('error', reject);
  });
  return { url, close };
}
