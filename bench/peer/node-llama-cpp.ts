/**
 * node-llama-cpp as the engine's peer: in the arithmetic that the engine uses, so that only an
 * error can part them.
 */
import type { Llama, LlamaContextOptions, Token } from 'node-llama-cpp';

/**
 * The engine's contexts run flash attention, which sums in f16; node-llama-cpp's own default does
 * not. On some processors the two round to the same greedy tokens, on others they part.
 */
export const PEER_CONTEXT: LlamaContextOptions = { flashAttention: true };

/**
 * What the peer continues the prompt with, evaluated as the engine evaluates a request for one
 * sample: in one call a token.
 */
export async function peerGreedy(
  llama: Llama,
  file: string,
  prompt: string | Int32Array,
  count: number,
  options: Pick<LlamaContextOptions, 'lora'> = {},
): Promise<number[]> {
  const model = await llama.loadModel({ modelPath: file });
  try {
    const context = await model.createContext({
      ...PEER_CONTEXT,
      ...options,
      contextSize: 512,
      threads: 1,
    });
    const tokens = typeof prompt === 'string' ? model.tokenize(prompt) : ([...prompt] as Token[]);
    const ids: number[] = [];
    for await (const id of context
      .getSequence()
      .evaluate(tokens, { temperature: 0, yieldEogToken: true })) {
      ids.push(id);
      if (ids.length === count) break;
    }
    return ids;
  } finally {
    await model.dispose();
  }
}
