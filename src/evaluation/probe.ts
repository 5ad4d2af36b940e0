import { hash } from 'node:crypto';
import { invocationTokensIn } from '../engine/adapter-files.js';
import { createTrainer, type TrainSequence } from '../engine/trainer.js';
import { given } from '../given.js';
import { Random } from '../random.js';

/**
 * Result of a forward and a backward pass over the probe batch with exactly the weights of one
 * adapter file.
 */
export interface ProbeMeasurement {
  /** SHA-256 of the adapter file; null: the bare base, which has no gradients. */
  readonly adapter: string | null;
  /** SHA-256 of the batch's token ids. */
  readonly batch: string;
  /** Negative log-likelihood of each sequence, nats. */
  readonly sequenceLosses: readonly number[];
  readonly gradNorm: number;
  /** sqrt(‖gA‖² + ‖gB‖²) by module. */
  readonly modules: Readonly<Record<string, number>>;
}

const SEQUENCES = 4;
const TOKENS = 32;

/**
 * Random token ids of the whole vocabulary, drawn from the ticket's nonce: nobody knows them before
 * the adapter is under a signed head, and they depend on nothing that the run supplied.
 * @param nonce 64 hex digits
 * @param invocationTokens of an adapter that acts from the reply on: they are put before the last
 *   half, which alone is labelled
 */
export function probeBatch(
  nonce: string,
  vocabulary: number,
  invocationTokens: Int32Array = new Int32Array(),
): { readonly sequences: readonly TrainSequence[]; readonly sha256: string } {
  const seed = hash(
    'sha256',
    Buffer.concat([Buffer.from('isopro.probe.v1', 'latin1'), Buffer.from(nonce, 'hex')]),
    'buffer',
  ).readBigUInt64BE(0);
  const random = new Random(seed);
  const half = TOKENS / 2;
  const rows = Array.from({ length: SEQUENCES }, () => {
    const row = Array.from({ length: TOKENS }, () => random.nextInteger(0, vocabulary - 1));
    return [...row.slice(0, half), ...invocationTokens, ...row.slice(half)];
  });
  const from = invocationTokens.length === 0 ? 1 : half + invocationTokens.length;
  const labelMask = Uint8Array.from(rows[0]!, (_, t) => (t >= from ? 1 : 0));
  return {
    sequences: rows.map((ids) => ({ tokenIds: Int32Array.from(ids), labelMask })),
    sha256: hash('sha256', JSON.stringify(rows)),
  };
}

export interface ProbeRequest {
  readonly modelPath: string;
  /** The exported F32 GGUF and its SHA-256; null: the bare base. */
  readonly adapter: { readonly path: string; readonly sha256: string } | null;
  /** 64 hex digits. */
  readonly nonce: string;
  readonly threads?: number;
  readonly signal?: AbortSignal;
}

/**
 * The live diagnostic: run and judge both call this on the exported file.
 * @throws IsoproError MODEL_NOT_FOUND, MODEL_CORRUPT, ADAPTER_CORRUPT, ADAPTER_MISMATCH,
 *   NUMERIC_FAILURE, ABORTED
 */
export async function measureProbe({
  modelPath,
  adapter,
  nonce,
  threads = 0,
  signal,
}: ProbeRequest): Promise<ProbeMeasurement> {
  const cancelling = given({ signal });
  const invocationTokens =
    adapter === null ? new Int32Array() : await invocationTokensIn(adapter.path);
  // the file brings its own modules and ranks; what the trainer is made with is replaced
  await using trainer = await createTrainer(
    { path: modelPath },
    { threads, lora: { targets: ['q'], layers: { top: 1 }, rank: 1 }, invocationTokens },
  );
  const { sequences, sha256: batch } = probeBatch(nonce, trainer.info.vocabulary, invocationTokens);
  if (adapter !== null) await trainer.importAdapter(adapter.path);
  const evaluated = await trainer.evaluate(sequences, { adapter: adapter !== null, ...cancelling });
  const sequenceLosses = evaluated.sequences.map(({ loss }) => loss);
  if (adapter === null) return { adapter: null, batch, sequenceLosses, gradNorm: 0, modules: {} };
  const { gradNorm, modules } = await trainer.differentiate(sequences, cancelling);
  return {
    adapter: adapter.sha256,
    batch,
    sequenceLosses,
    gradNorm,
    modules: Object.fromEntries(
      Object.entries(modules).map(([name, { pairGradNorm }]) => [name, pairGradNorm]),
    ),
  };
}
