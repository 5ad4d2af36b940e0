/** One running generation: turns the addon's events into an AsyncGenerator of finished rollouts. */
import { offAbort, onAbort } from '../abort.js';
import { withReason } from '../errors.js';
import { given } from '../given.js';
import type { Adapter } from './adapter.js';
import {
  fromNative,
  typed,
  type Addon,
  type GenerationProgress,
  type NativeModel,
  type NativeRollout,
  type NativeText,
  type TokenChance,
} from './addon.js';
import { withContextRemedy } from './context-overflow.js';
import { nativeReplySettings, type CheckedRequest } from './generate-request.js';
import { withJson } from './json-form.js';

/** Residual-stream rows at a layer boundary, for the trainer's boundary cache. */
export interface CapturedBoundary {
  /** The layer that these rows enter. */
  readonly layer: number;
  /** SHA-256 of the base model's file. */
  readonly modelHash: string;
  /** f16 bits, [prompt tokens + sampled tokens - 1, d_model]. */
  readonly rows: Uint16Array;
}

/** One reply. JSON.stringify writes its seed as a decimal string and its typed arrays as lists. */
export interface Rollout {
  readonly promptIndex: number;
  readonly sampleIndex: number;
  readonly promptIds: Int32Array;
  /** Exactly the sampled ids, the end-of-turn or stop token included. */
  readonly tokenIds: Int32Array;
  /** Without end-of-turn token and stop string. */
  readonly text: string;
  /**
   * Natural log-probability of each sampled token under the model's own distribution: temperature
   * 1, nothing cut.
   */
  readonly logprobs: Float32Array;
  /**
   * Natural log-probability of each sampled token under the distribution that it was drawn from:
   * after repeat penalty, grammar, temperature and truncation, each renormalised. 0 at temperature
   * 0. At temperature 1 with nothing else set, bit for bit `logprobs`.
   */
  readonly sampledLogprobs: Float32Array;
  /**
   * For each sampled token the `topLogprobs` most likely ones under the model's own distribution,
   * most likely first; absent at 0.
   */
  readonly topLogprobs?: readonly (readonly TokenChance[])[];
  readonly finish: 'stop' | 'length' | 'aborted';
  /** Seed of its draws, 64 bits in decimal digits, a form that JSON and requests accept. */
  readonly seed: string;
  /** SHA-256 of the adapter that was active, or null. */
  readonly adapterId: string | null;
  /**
   * Present where the adapter acts from the reply on and the prompt lacks its invocation tokens:
   * the base model answered, and `adapterId` is null.
   */
  readonly notActivated?: true;
  readonly boundary: CapturedBoundary | null;
}

/** Parts of a model that a generation needs. */
export interface GenerationContext {
  readonly addon: Addon;
  readonly native: NativeModel;
  readonly contextTokens: number;
  readonly trainedContext: number;
  /** The model's own adapter. */
  readonly adapter: Adapter | null;
  readonly prompts: readonly { tokens: Int32Array; seeds: bigint[] }[];
  readonly modelHash: string;
}

/** Returns the sampled tokens under the names of a reply. */
export const tokensOf = (said: NativeText) => ({
  tokenIds: said.tokens,
  text: said.text,
  logprobs: said.logProbabilities,
  sampledLogprobs: said.sampledLogProbabilities,
  ...given({ topLogprobs: said.top }),
});

/** Which adapter a reply is from. */
export const activityOf = ({ notActivated }: NativeText, adapter: Adapter | null) =>
  notActivated === true ? { adapterId: null, notActivated } : { adapterId: adapter?.id ?? null };

type Outcome = { readonly progress: GenerationProgress } | { readonly failure: unknown };

export async function* runGeneration(
  request: CheckedRequest,
  { addon, native, contextTokens, trainedContext, adapter, prompts, modelHash }: GenerationContext,
): AsyncGenerator<Rollout, GenerationProgress, undefined> {
  const { signal, onProgress, captureBoundary } = request;
  const settings = nativeReplySettings(request);
  const active = request.adapter === undefined ? adapter : request.adapter;

  const finished: NativeRollout[] = [];
  let callbackFailure: Outcome | undefined;
  let outcome: Outcome | undefined;
  let wake = (): void => {};
  const cancellation = typed(() => new addon.Cancellation());
  const abort = (): void => cancellation.cancel();
  if (signal?.aborted === true) abort();
  onAbort(signal, abort);
  // Asynchronous, so that what the addon throws at once arrives like what it throws later.
  const start = async (...call: Parameters<NativeModel['generate']>): Promise<GenerationProgress> =>
    native.generate(...call);
  const running = start(
    {
      ...settings,
      prompts: [...prompts],
      boundary: captureBoundary ?? -1,
      cellBudget: contextTokens,
      maxSequences: request.maxSequences,
      adapter: request.adapter === undefined ? undefined : (request.adapter?.native ?? null),
    },
    cancellation,
    ({ rollout, progress }) => {
      if (rollout !== undefined) {
        finished.push(rollout);
        wake();
      } else if (progress !== undefined) {
        try {
          onProgress?.(progress);
        } catch (error) {
          callbackFailure ??= { failure: error };
          cancellation.cancel();
        }
      }
    },
  )
    .then(
      (progress) => {
        outcome = callbackFailure ?? { progress };
      },
      (failure: unknown) => {
        const error = withContextRemedy(fromNative(failure), { contextTokens, trainedContext });
        outcome = callbackFailure ?? { failure: withReason(error, signal) };
      },
    )
    .then(() => wake());

  try {
    for (;;) {
      for (let rollout = finished.shift(); rollout !== undefined; rollout = finished.shift()) {
        yield withJson({
          promptIndex: rollout.prompt,
          sampleIndex: rollout.sample,
          promptIds: prompts[rollout.prompt]!.tokens,
          ...tokensOf(rollout),
          finish: rollout.finish,
          seed: rollout.seed.toString(),
          ...activityOf(rollout, active),
          boundary:
            rollout.boundary === null
              ? null
              : { layer: captureBoundary as number, modelHash, rows: rollout.boundary },
        });
      }
      if (outcome !== undefined) break;
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    const ended: Outcome = outcome;
    if ('failure' in ended) throw ended.failure;
    return ended.progress;
  } finally {
    offAbort(signal, abort);
    cancellation.cancel();
    await running;
  }
}
