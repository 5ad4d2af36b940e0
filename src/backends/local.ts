/** A model in this process. It has every capability. */
import path from 'node:path';
import { Adapter } from '../engine/adapter.js';
import { contextOf } from '../engine/context-overflow.js';
import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import { given } from '../given.js';
import type { Backend, SamplePrompt } from './backend.js';

/** A rollout whose seed is what the back end was asked with. */
export interface LocalReply extends Omit<Rollout, 'seed'> {
  readonly seed: bigint;
}

async function* asReplies(rollouts: AsyncIterable<Rollout>): AsyncGenerator<LocalReply, void> {
  for await (const rollout of rollouts) yield { ...rollout, seed: BigInt(rollout.seed) };
}

/**
 * One request of a back end is one of `Model.generate`: the composition of the batches, and with it
 * the last bits of the logits, is the same each time. `dispose` frees the model.
 */
export function localBackend(model: Model): Backend<LocalReply> {
  const promptIds = (prompts: readonly SamplePrompt[]): Int32Array[] => {
    const begun = (messages: SamplePrompt['messages']): string | null =>
      messages.at(-1)?.role === 'assistant' ? messages.at(-1)!.content : null;
    const told = prompts.filter(({ ids }) => ids === undefined);
    const rendered = model.renderChats(
      told.map(({ messages }) => (begun(messages) === null ? messages : messages.slice(0, -1))),
    );
    return prompts.map(({ messages, ids }) => {
      if (ids !== undefined) return ids;
      const { tokenIds } = rendered.shift()!;
      const reply = begun(messages);
      return reply === null ? tokenIds : Int32Array.from([...tokenIds, ...model.tokenize(reply)]);
    });
  };
  return {
    identity: { kind: 'local', name: path.basename(model.path) },
    capabilities: {
      tokenIds: true,
      logprobs: true,
      seeds: true,
      adapters: true,
      grammar: true,
      jsonSchema: true,
    },
    contextTokens: contextOf(model.limits),
    digest: () => model.hash(),
    sample({ prompts, adapter, ...request }) {
      if (adapter !== undefined && adapter !== null && !(adapter instanceof Adapter))
        throw new IsoproError(
          'INVALID_ARGUMENT',
          `the adapter ${adapter.id} was not loaded onto this model`,
        );
      const rollouts = model.generate({
        ...request,
        prompts: promptIds(prompts).map((tokenIds, i) => ({ tokenIds, seeds: prompts[i]!.seeds })),
        ...given({ adapter }),
      });
      return asReplies(rollouts);
    },
    score: (prefixIds, continuationIds, options) =>
      model.score(prefixIds, continuationIds, options),
    renderTurn: (before, said) => model.renderTurn(before, said),
    dispose: () => model.dispose(),
  };
}
