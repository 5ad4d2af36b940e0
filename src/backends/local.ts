/** A model in this process. It has every capability. */
import path from 'node:path';
import { Adapter } from '../engine/adapter.js';
import type { Rollout } from '../engine/generation.js';
import type { Model } from '../engine/model.js';
import { IsoproError } from '../errors.js';
import type { Backend, SamplePrompt } from './backend.js';

/**
 * One request of a back end is one of `Model.generate`: the composition of the batches, and with it the last bits of the logits, is the
 * same each time. `dispose` frees the model.
 */
export function localBackend(model: Model): Backend<Rollout> {
  const promptIds = ({ messages, ids }: SamplePrompt): Int32Array => {
    if (ids !== undefined) return ids;
    const last = messages.at(-1);
    if (last?.role !== 'assistant') return model.renderChat(messages).tokenIds;
    return Int32Array.from([...model.renderChat(messages.slice(0, -1)).tokenIds, ...model.tokenize(last.content)]);
  };
  return {
    identity: { kind: 'local', name: path.basename(model.path) },
    capabilities: { tokenIds: true, logprobs: true, seeds: true, adapters: true, grammar: true },
    digest: () => model.hash(),
    sample({ prompts, adapter, ...request }) {
      if (adapter !== undefined && adapter !== null && !(adapter instanceof Adapter))
        throw new IsoproError('INVALID_ARGUMENT', `the adapter ${adapter.id} was not loaded onto this model`);
      return model.generate({
        ...request,
        prompts: prompts.map((prompt) => ({ tokenIds: promptIds(prompt), seeds: prompt.seeds })),
        ...(adapter === undefined ? {} : { adapter }),
      });
    },
    score: (prefixIds, continuationIds, options) => model.score(prefixIds, continuationIds, options),
    renderTurn: (before, said) => model.renderTurn(before, said),
    dispose: () => model.dispose(),
  };
}
