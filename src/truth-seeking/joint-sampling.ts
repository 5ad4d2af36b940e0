/** Samples the replies of several concurrent trajectories of one reasoner together. */
import { IsoproError } from '../errors.js';
import type { InferOptions, InferRequest, Message, Reasoner, Reply } from './reasoner.js';

interface Waiting {
  readonly request: InferRequest;
  readonly options: InferOptions;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: unknown) => void;
}

/** Replies of one length, temperature and grammar are one request of the policy. */
const kindOf = ({ maxTokens, temperature, grammar = '' }: InferOptions): string =>
  `${maxTokens} ${temperature} ${grammar}`;

/**
 * Runs `work` `count` times, with reasoners that wait for each other: when all unfinished ones wait
 * for a reply, their replies are sampled together. The batches follow from the work alone, not from
 * its timing.
 * @returns in order
 * @throws the first failure in order, once all are done
 */
export async function together<T>(
  reasoner: Reasoner,
  count: number,
  work: (reasoner: Reasoner, index: number) => Promise<T>,
): Promise<T[]> {
  const { inferMany } = reasoner;
  if (inferMany === undefined || count === 1) {
    const found: T[] = [];
    for (let i = 0; i < count; i++) found.push(await work(reasoner, i));
    return found;
  }
  const waiting = new Map<number, Waiting>();
  let active = count;

  const alone = async ({ request, options, resolve, reject }: Waiting): Promise<void> =>
    reasoner.infer(request.messages, { ...options, seed: request.seed }).then(resolve, reject);

  async function sample(all: readonly Waiting[]): Promise<void> {
    if (all.length === 1) return alone(all[0]!);
    try {
      const replies = await inferMany!(
        all.map(({ request }) => request),
        all[0]!.options,
      );
      for (const [i, { resolve }] of all.entries()) resolve(replies[i]!);
    } catch (error) {
      // one that does not fit ends its own reply, and nobody else's
      if (error instanceof IsoproError && error.code === 'CONTEXT_OVERFLOW')
        for (const each of all) await alone(each);
      else for (const { reject } of all) reject(error);
    }
  }

  async function go(): Promise<void> {
    if (waiting.size < active || waiting.size === 0) return;
    const all = [...waiting].sort(([a], [b]) => a - b).map(([, each]) => each);
    waiting.clear();
    for (const kind of new Set(all.map(({ options }) => kindOf(options))))
      await sample(all.filter(({ options }) => kindOf(options) === kind));
  }

  const view = (index: number): Reasoner => ({
    ...reasoner,
    infer: (messages: readonly Message[], { seed = 0n, ...options } = {}) =>
      new Promise<Reply>((resolve, reject) => {
        waiting.set(index, { request: { messages, seed }, options, resolve, reject });
        void go();
      }),
  });
  const settled = await Promise.allSettled(
    Array.from({ length: count }, (_, i) =>
      work(view(i), i).finally(() => {
        active--;
        void go();
      }),
    ),
  );
  return settled.map((each) => {
    if (each.status === 'rejected') throw each.reason;
    return each.value;
  });
}
