/** Requests to a host, and its replies. */
import type { BatchReply, BatchToken } from '../engine/running-batch.js';
import type { BatchRequest } from '../engine/generate-request.js';
import type { HostedAdapter } from './hosted-adapter.js';

/** One prompt with its settings: exactly one of `prompt`, `messages`, `text` and `tokenIds`. */
export interface HostRequest extends Omit<BatchRequest, 'adapter'> {
  /** Adapter that was loaded onto the same model. Default null: the bare base model. */
  readonly adapter?: HostedAdapter | null;
}

/**
 * One reply. Its tokens come from the same stream of random numbers as those of `Model.generate`
 * for one sample of the same prompt, `id` and seed; one that is `deterministic` is the same bit for
 * bit. The last bits of the logits of others depend on who else runs and on the calls in which
 * their prompts are evaluated, and with them, now and then, a token: llama.cpp's attention adds f16
 * keys and values in f16, in the order of their places in the cache, and activations are rounded to
 * 8 bits. `score` under the reply's own prompt and adapter checks it within hundredths.
 *
 * A reply takes cells of the cache as it needs them, whatever `maxTokens` allows. Where none are
 * left, the youngest of the highest rank pauses: what it was told and has said is evaluated again
 * when there is room, and its tokens go on from there.
 */
export type HostReply = BatchReply;

/** One sampled token, as it is sampled. */
export type TokenEvent = BatchToken;
