/** What a caller of a host asks for and gets. */
import type { BatchReply, BatchToken } from '../engine/running-batch.js';
import type { BatchRequest } from '../engine/generate-request.js';
import type { HostedAdapter } from './hosted-adapter.js';

/** One prompt with settings of its own: exactly one of `prompt`, `messages`, `text` and `tokenIds`. */
export interface HostRequest extends Omit<BatchRequest, 'adapter'> {
  /** One that was loaded onto the same model; null or absent: the bare base. */
  readonly adapter?: HostedAdapter | null;
}

/**
 * One reply. Its tokens come from the same stream of random numbers as those of `Model.generate` for one sample of the same prompt, `id`
 * and seed; a reply that has the model to itself, nothing kept of earlier ones, is the same bit for bit. In company the last bits of the
 * logits depend on who else runs, and with them, now and then, a token: llama.cpp's attention adds f16 keys and values in f16, in the order
 * of their places in the cache. With `kvType: 'bf16'` no token was seen to differ (docs/log.md).
 */
export type HostReply = BatchReply;

/** One sampled token, as it is sampled. */
export type TokenEvent = BatchToken;
