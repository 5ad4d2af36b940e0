/**
 * Tokens a second of the server and the time to a reply's first token, beside llama-server with the
 * same file and threads: clients that each ask again as soon as they are answered, with prompts of
 * English words in an order that no two have in common. Both are processes of their own; their
 * rounds take turns.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { loadAddon, type Matmul } from '../src/engine/addon.js';
import { loadModel } from '../src/engine/model.js';
import { createTrainer } from '../src/engine/trainer.js';
import { IsoproError } from '../src/errors.js';
import { readForgettingText } from '../src/evaluation/forgetting.js';
import { Random } from '../src/random.js';
import {
  endingOf,
  findLlamaServer,
  startLlamaServer,
  type RunningServer,
} from './peer/llama-server.js';

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
  /** Whose kernels our server multiplies with (LoadModelOptions.matmul). */
  readonly matmul: Matmul;
  /** How long a server may say nothing to a reply; after that its row is omitted. */
  readonly silenceSeconds: number;
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
  /** Null without a llama-server, and where it did not answer. */
  readonly peer: number | null;
  readonly firstTokenMs: FirstTokenTimes;
  readonly peerFirstTokenMs: FirstTokenTimes | null;
  /** Why the peer's part is omitted. */
  readonly peerFailure?: string;
}

export interface ServeBenchResult {
  readonly rows: readonly ServeBenchRow[];
  readonly mixedAdapters: Pick<ServeBenchRow, 'ours' | 'peer' | 'peerFailure'> | null;
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

interface MeasuredSides {
  readonly ours: readonly Measured[];
  /** Empty without a peer. */
  readonly peer: readonly Measured[];
  readonly peerFailure?: string;
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
function ask(url: string, agent: Agent, body: object, silenceSeconds: number): Promise<Timed> {
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
    sent.setTimeout(silenceSeconds * 1000, () => {
      const problem = `${url} left a reply open and said nothing for ${silenceSeconds} seconds`;
      sent.destroy(
        new IsoproError('SERVER_NOT_READY', problem, {
          remedy: 'Ask for fewer clients or tokens, or raise --silence.',
        }),
      );
    });
    sent.end(JSON.stringify(body));
  });
}

/**
 * llama-server closes some connections before it says anything; the time that is lost is the
 * reply's.
 */
const HANG_UPS = 5;
async function askUntilHeard(
  url: string,
  agent: Agent,
  body: object,
  silenceSeconds: number,
): Promise<Timed> {
  const began = performance.now();
  for (let hangUps = 0; ; hangUps++) {
    const lost = performance.now() - began;
    try {
      const { firstTokenMs, tokens } = await ask(url, agent, body, silenceSeconds);
      return { firstTokenMs: firstTokenMs + lost, tokens };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ECONNRESET' || hangUps === HANG_UPS)
        throw error;
    }
  }
}

const middle = (values: readonly number[]): number => quantile(values, 0.5);
function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!;
}

export async function benchServe(options: ServeBenchOptions): Promise<ServeBenchResult> {
  const {
    model,
    requests,
    promptTokens,
    tokens,
    rounds,
    adapterClients,
    silenceSeconds,
    onRound = (): void => undefined,
  } = options;
  const threads = options.threads ?? loadAddon().addon.physicalCores();
  const { program, reason } = findLlamaServer(options.peer, (folder) =>
    onRound(`llama-server is built in ${folder}`),
  );
  if (program === null) onRound(`no llama-server: ${reason}`);
  const newPrompt = await promptsOf(model, promptTokens);
  const folder = mkdtempSync(path.join(tmpdir(), 'isopro-bench-serve-'));
  const slotTokens = Math.ceil((promptTokens + tokens) / 256) * 256;

  const load = async (
    { server, more }: Side,
    clients: number,
    adapters: number,
  ): Promise<Measured> => {
    // A connection a reply: llama-server closes those that it kept, at times just when they are
    // taken again.
    const agent = new Agent({ maxSockets: clients });
    const began = performance.now();
    const asking = Promise.all(
      Array.from({ length: clients }, async (_, client) => {
        const own: Timed[] = [];
        for (let i = 0; i < requests; i++) {
          const settings = {
            max_tokens: tokens,
            temperature: TEMPERATURE,
            ignore_eos: true,
            stream: true,
            seed: i,
          };
          const body = {
            prompt: newPrompt(),
            ...settings,
            stream_options: { include_usage: true },
            ...more(adapters === 0 ? null : client % adapters),
          };
          own.push(await askUntilHeard(server.url, agent, body, silenceSeconds));
        }
        return own;
      }),
    );
    // Of one that failed the others are closed: a server waits for them before it ends.
    const replies = await asking.finally(() => agent.destroy());
    const seconds = (performance.now() - began) / 1000;
    const all = replies.flat();
    const sampled = all.reduce((sum, reply) => sum + reply.tokens, 0);
    if (sampled !== clients * requests * tokens)
      throw new Error(`expected ${clients * requests * tokens} tokens, got ${sampled}`);
    return {
      tokensPerSecond: sampled / seconds,
      firstTokenMs: all.map(({ firstTokenMs }) => firstTokenMs),
    };
  };

  const start = async (
    clients: number,
    adapters: readonly string[],
  ): Promise<{ ours: Side; peer: Side | null }> => {
    const ours = await startOurs(options, clients, adapters, threads, clients * slotTokens);
    const side = {
      server: ours,
      more: (adapter: number | null) => ({
        model: adapter === null ? 'base' : `adapter${adapter}`,
      }),
    };
    if (program === null) return { ours: side, peer: null };
    try {
      const server = await startLlamaServer(program, {
        model,
        adapters,
        slots: clients,
        slotTokens,
        threads,
      });
      const scales = (chosen: number | null): object[] =>
        adapters.map((_, id) => ({ id, scale: id === chosen ? 1 : 0 }));
      const more = (adapter: number | null): object => ({
        cache_prompt: false,
        ...(adapters.length > 0 && { lora: scales(adapter) }),
      });
      return { ours: side, peer: { server, more } };
    } catch (error) {
      await ours.close();
      throw error;
    }
  };

  const measure = async (clients: number, adapters: readonly string[]): Promise<MeasuredSides> => {
    const sides = await start(clients, adapters);
    const ours: Measured[] = [];
    let peer: Measured[] = [];
    let peerFailure: string | undefined;
    const told = (of: string, { tokensPerSecond }: Measured): void =>
      onRound(
        `${clients} clients${adapters.length > 0 ? ', adapters' : ''}  ${of}  ${tokensPerSecond.toFixed(1)} tokens/s`,
      );
    try {
      for (let round = 0; round < rounds; round++) {
        ours.push(await load(sides.ours, clients, adapters.length));
        told('ours', ours.at(-1)!);
        if (sides.peer === null || peerFailure !== undefined) continue;
        try {
          peer.push(await load(sides.peer, clients, adapters.length));
          told('peer', peer.at(-1)!);
        } catch (error) {
          peer = [];
          peerFailure = error instanceof Error ? error.message : String(error);
          onRound(`${clients} clients  the peer is omitted: ${peerFailure}`);
          await sides.peer.server.close();
        }
      }
    } finally {
      await Promise.all([sides.ours.server.close(), sides.peer?.server.close()]);
    }
    return { ours, peer, ...(peerFailure !== undefined && { peerFailure }) };
  };

  const rate = (of: readonly Measured[]): number =>
    middle(of.map(({ tokensPerSecond }) => tokensPerSecond));
  const times = (of: readonly Measured[]): FirstTokenTimes => {
    const all = of.flatMap(({ firstTokenMs }) => firstTokenMs);
    return { p50: quantile(all, 0.5), p99: quantile(all, 0.99) };
  };
  try {
    const rows: ServeBenchRow[] = [];
    for (const clients of options.clients) {
      const { ours, peer, ...failure } = await measure(clients, []);
      rows.push({
        clients,
        ours: rate(ours),
        peer: peer.length > 0 ? rate(peer) : null,
        firstTokenMs: times(ours),
        peerFirstTokenMs: peer.length > 0 ? times(peer) : null,
        ...failure,
      });
    }
    let mixedAdapters: ServeBenchResult['mixedAdapters'] = null;
    if (adapterClients > 0) {
      const { ours, peer, ...failure } = await measure(
        adapterClients,
        await writeAdapters(model, folder),
      );
      mixedAdapters = { ours: rate(ours), peer: peer.length > 0 ? rate(peer) : null, ...failure };
    }
    return { rows, mixedAdapters, ...(reason !== undefined && { peerMissing: reason }) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Prompts of so many tokens, each its own: llama-server leaves replies to some prompts of random
 * tokens open for ever.
 */
async function promptsOf(model: string, length: number): Promise<() => number[]> {
  await using tokenizer = await loadModel(model, { threads: 1, contextTokens: 256 });
  const words = readForgettingText('english')
    .split(/\s+/)
    .filter((word) => word !== '')
    .map((word) => [...tokenizer.tokenize(` ${word}`)]);
  const random = new Random(0n);
  return () => {
    const prompt: number[] = [];
    while (prompt.length < length) prompt.push(...words[random.nextInteger(0, words.length - 1)]!);
    return prompt.slice(0, length);
  };
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
/** Starts `serve` of this program on a model that is called `base`. */
export async function startOurs(
  { model, matmul }: Pick<ServeBenchOptions, 'model' | 'matmul'>,
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
    matmul,
    context: contextTokens,
    'max-sequences': clients,
    'max-connections': 2 * clients + 8,
    rate: 1_000_000,
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const served = adapters.flatMap((file, i) => ['--adapter', `adapter${i}=${file}`]);
  const child = spawn(
    process.execPath,
    [process.argv[1]!, 'serve', ...flags, ...served, '--json'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
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
