/** A reasoner that is a language model in this process. */
import { hash } from 'node:crypto';
import { canonicalJson } from '../canonical-json.js';
import type { Adapter } from '../engine/adapter.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { TokenIds } from '../engine/generate-request.js';
import { given } from '../given.js';
import {
  asBranch,
  type InferOptions,
  type InferRequest,
  type Reasoner,
  type Reply,
  type Target,
} from './reasoner.js';

/** Everything that determines the answers of a local reasoner. */
export interface LocalIdentity {
  readonly kind: 'local';
  /** SHA-256 of the model file. */
  readonly model: string;
  /** SHA-256 of the adapter's file. */
  readonly adapter: string | null;
  readonly adapterScale: number;
  readonly renderer: string;
  readonly kvType: string;
  /**
   * Own matrix kernels, if the model uses them instead of llama.cpp's: they change the last bits of
   * a belief.
   */
  readonly matmul?: 'own';
  readonly threads: number;
  readonly seed: string;
}

export interface LocalReasonerOptions {
  /** Default: none, which is the bare base. */
  readonly adapter?: Adapter | null;
  readonly adapterScale?: number;
  /** Seed of replies without one of their own. Default 0. */
  readonly seed?: bigint;
}

/**
 * Scoring in progress per model. Scoring sets the adapter of the model, so reasoners that share a
 * model take turns.
 */
const turns = new WeakMap<Model, Promise<unknown>>();

function inTurn<T>(model: Model, work: () => Promise<T>): Promise<T> {
  const turn = (turns.get(model) ?? Promise.resolve()).then(work);
  turns.set(
    model,
    turn.catch(() => undefined),
  );
  return turn;
}

/**
 * `score` says of the first token of a continuation what `generate` said of it; that a branch
 * cannot be asked for.
 */
async function scoresOf(
  model: Model,
  prefix: TokenIds,
  targets: readonly Target[],
  options: { readonly signal?: AbortSignal },
): Promise<readonly Float32Array[]> {
  const whole = targets.filter((target): target is TokenIds => !('tokenIds' in target));
  if (whole.length === targets.length) return model.score(prefix, whole, options);
  const branches = targets.map((target) => asBranch(target, prefix));
  return (await model.scoreBranches(prefix, branches, options)).logProbabilities;
}

/**
 * Sorts prompts with a common beginning next to each other: `generate` evaluates a shared prefix
 * once.
 */
function compareIds(a: TokenIds, b: TokenIds): number {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i++) if (a[i] !== b[i]) return a[i]! - b[i]!;
  return a.length - b.length;
}

/**
 * Makes a reasoner of a local model. Reasoners with different adapters may share a model; nothing
 * else may set its adapter meanwhile.
 * @throws IsoproError FILE_UNREADABLE where the model's file cannot be hashed
 */
export async function localReasoner(
  model: Model,
  { adapter = null, adapterScale = 1, seed = 0n }: LocalReasonerOptions = {},
): Promise<
  Reasoner &
    Required<Pick<Reasoner, 'inferMany'>> & {
      readonly identity: LocalIdentity;
      readonly ownBits: number | null;
    }
> {
  const identity: LocalIdentity = {
    kind: 'local',
    model: await model.hash(),
    adapter: adapter?.id ?? null,
    adapterScale,
    renderer: model.rendererId,
    kvType: model.info.kvType,
    ...(model.info.matmul === 'own' && { matmul: 'own' as const }),
    threads: model.info.threads,
    seed: seed.toString(),
  };
  const inferMany = async (
    requests: readonly InferRequest[],
    options: InferOptions = {},
  ): Promise<Reply[]> => {
    const { maxTokens = 256, temperature = 0.25, grammar, signal } = options;
    const rendered = requests.map(({ messages }) => model.renderChat(messages).tokenIds);
    const order = [...requests.keys()].sort(
      (a, b) => compareIds(rendered[a]!, rendered[b]!) || a - b,
    );
    const rollouts = model.generate({
      prompts: order.map((i) => ({ tokenIds: rendered[i]!, seeds: [requests[i]!.seed] })),
      samples: 1,
      maxTokens,
      sampling: { temperature },
      adapter,
      adapterScale,
      ...given({ grammar, signal }),
    });
    const replies: Reply[] = [];
    for await (const { promptIndex, text, tokenIds, finish } of rollouts)
      if (finish !== 'aborted') replies[order[promptIndex]!] = { text, tokenIds, finish };
    if (requests.some((_, i) => replies[i] === undefined))
      throw new IsoproError('ABORTED', 'the reply was cancelled');
    return replies;
  };
  return {
    id: hash('sha256', canonicalJson({ ...identity })),
    identity,
    ownBits: model.info.ownBits,
    capabilities: { logprobs: true },
    infer: async (messages, options = {}) =>
      (await inferMany([{ messages, seed: options.seed ?? seed }], options))[0]!,
    inferMany,
    promptIds: (messages) => model.renderChat(messages).tokenIds,
    textIds: (text) => model.tokenize(text),
    score: (prefix, targets, options = {}) =>
      inTurn(model, async () => {
        await model.setAdapter(adapter, adapterScale);
        return (await scoresOf(model, prefix, targets, options)).map((each) =>
          Float64Array.from(each),
        );
      }),
  };
}
