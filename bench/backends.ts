/**
 * What a back end costs that asks this project's own server, next to the same model in this
 * process: the same problems, prompts and limits, greedy, in turns. The server runs in a process of
 * its own, with as many threads.
 */
import { localBackend } from '../src/backends/local.js';
import { sampleFrom, type Backend, type SampleRequest } from '../src/backends/backend.js';
import { openBackend } from '../src/backends/open-backend.js';
import { loadAddon, type Matmul } from '../src/engine/addon.js';
import { loadModel } from '../src/engine/model.js';
import { evaluationSet } from '../src/evaluation/evaluation-set.js';
import { openTask } from '../src/tasks/open-task.js';
import { startOurs } from './serve.js';

export interface BackendsBenchOptions {
  readonly model: string;
  readonly task: string;
  /** Problems of each tier of the dev set. */
  readonly perTier: number;
  readonly tokens: number;
  /** Requests in flight, and sequences of the batch here. */
  readonly batch: number;
  readonly rounds: number;
  readonly threads?: number;
  readonly matmul: Matmul;
  readonly onRound?: (what: string) => void;
}

export interface BackendsBenchResult {
  readonly prompts: number;
  /** Medians of the rounds. */
  readonly localSeconds: number;
  readonly remoteSeconds: number;
  readonly ratio: number;
  /**
   * The same requests for one token each: prompts, connections and JSON without the sampling, here
   * and there.
   */
  readonly oneToken: { readonly localSeconds: number; readonly remoteSeconds: number };
  /** Texts that differ: the server's batches are composed in another way. */
  readonly parted: number;
}

const NAME = 'base';
/** Of a prompt of the task and its reply, for each sequence. */
const TOKENS_OF_SEQUENCE = 2048;

const middle = (values: readonly number[]): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!;

interface Timed {
  readonly seconds: number;
  readonly texts: readonly string[];
}

async function timed(backend: Backend, request: SampleRequest): Promise<Timed> {
  const texts: string[] = [];
  const began = performance.now();
  for await (const { promptIndex, text, failure } of sampleFrom(backend, request)) {
    if (failure !== undefined) throw new Error(`a sample has failed: ${failure.message}`);
    texts[promptIndex] = text;
  }
  return { seconds: (performance.now() - began) / 1000, texts };
}

export async function benchBackends({
  model: file,
  task: name,
  perTier,
  tokens,
  batch,
  rounds,
  threads = loadAddon().addon.physicalCores(),
  matmul,
  onRound = () => undefined,
}: BackendsBenchOptions): Promise<BackendsBenchResult> {
  await using task = await openTask(name);
  const { problems } = await evaluationSet(task, 'dev', perTier);
  const prompts = await Promise.all(
    problems.map(async (problem) => ({
      id: problem.id,
      messages: await task.prompt(problem, 'cot'),
      seeds: [0n],
    })),
  );
  const asking = (maxTokens: number): SampleRequest => ({
    ...{ prompts, maxTokens, maxSequences: batch },
    sampling: { temperature: 0 },
  });
  const contextTokens = batch * TOKENS_OF_SEQUENCE;
  await using model = await loadModel(file, { matmul, contextTokens, threads });
  const server = await startOurs({ model: file, matmul }, batch, [], threads, contextTokens);
  try {
    const sides = {
      local: localBackend(model) as Backend,
      remote: await openBackend(`${server.url}#${NAME}`),
    };
    const seconds = { local: [] as number[], remote: [] as number[] };
    const one = { local: [] as number[], remote: [] as number[] };
    const texts = { local: [] as readonly string[], remote: [] as readonly string[] };
    for (let round = 0; round < rounds; round++)
      for (const side of ['local', 'remote'] as const) {
        const whole = await timed(sides[side], asking(tokens));
        seconds[side].push(whole.seconds);
        texts[side] = whole.texts;
        one[side].push((await timed(sides[side], asking(1))).seconds);
        onRound(`round ${round + 1}  ${side}  ${whole.seconds.toFixed(2)} s`);
      }
    const [localSeconds, remoteSeconds] = [middle(seconds.local), middle(seconds.remote)];
    return {
      prompts: prompts.length,
      localSeconds,
      remoteSeconds,
      ratio: remoteSeconds / localSeconds,
      oneToken: { localSeconds: middle(one.local), remoteSeconds: middle(one.remote) },
      parted: texts.local.filter((text, i) => text !== texts.remote[i]).length,
    };
  } finally {
    await server.close();
  }
}
