/**
 * Saved replies of an interrupted run. They are in a file next to the log, which names its length
 * and digest; replies that no record under a signed head names are sampled again.
 */
import { createHash } from 'node:crypto';
import {
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  ftruncateSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { Backend, SamplePrompt, SampleRequest, TokenReply } from '../backends/backend.js';
import { durable } from '../durable.js';
import { IsoproError } from '../errors.js';
import { unreadable } from '../files.js';
import { parseCheckpoint } from '../log/checkpoint.js';
import { LogReader } from '../log/read.js';
import {
  keptReplies,
  keptRepliesRecord,
  type KeptRepliesNamed,
} from '../run-folder/course-records.js';
import { KEPT_REPLIES, runPaths } from '../run-folder/paths.js';
import { RUN_STREAMS, type RunLog } from '../run-folder/streams.js';

/** Seconds of sampling that an interruption may cost. */
const SECONDS = 10;

/** A line of the file. Arrays as the base64 of their bytes: none of these numbers may change. */
const line = z.object({
  key: z.string(),
  text: z.string(),
  finish: z.enum(['stop', 'length']),
  adapterId: z.string().nullable(),
  promptIds: z.string(),
  tokenIds: z.string(),
  logprobs: z.string(),
  sampledLogprobs: z.string(),
});
type Line = z.infer<typeof line>;

const base64 = ({ buffer, byteOffset, byteLength }: Int32Array | Float32Array): string =>
  Buffer.from(buffer, byteOffset, byteLength).toString('base64');
/** Bytes in an aligned buffer of their own. */
const bytesOf = (text: string): ArrayBuffer => Uint8Array.from(Buffer.from(text, 'base64')).buffer;

export interface KeptRepliesOptions {
  readonly folder: string;
  readonly log: RunLog;
  /** Heads of the signer, as notes. */
  readonly heads: readonly string[];
  /** Records of the log that belong to the checkpoint that is gone on with. */
  readonly after: number;
  readonly seconds?: number;
  readonly onNotice: (text: string) => void;
}

export class KeptReplies {
  readonly #folder: string;
  readonly #log: RunLog;
  readonly #milliseconds: number;
  readonly #onNotice: (text: string) => void;
  /** Replies from before the interruption. */
  readonly #kept = new Map<string, Line>();
  #after: number;
  /** Lines that are not on the disk, and when the first of them was finished. */
  #finished: string[] = [];
  #since = 0;
  /** Replies and bytes of the file that the log names. */
  #replies = 0;
  #bytes = 0;
  #hash = createHash('sha256');
  /** A record names replies, and no head covers it. */
  #unsigned = false;
  /** The file could not be written. */
  #gaveUp = false;

  /**
   * @throws IsoproError LOG_TAMPERED for a file that is not the one that the log names,
   *   FILE_UNREADABLE
   */
  constructor({ folder, log, heads, after, seconds = SECONDS, onNotice }: KeptRepliesOptions) {
    this.#folder = folder;
    this.#log = log;
    this.#milliseconds = 1000 * seconds;
    this.#onNotice = onNotice;
    this.#after = after;
    this.#sweep();
    const named = this.#named(Math.max(0, ...heads.map((head) => parseCheckpoint(head).size)));
    if (named !== null && existsSync(this.#file)) this.#read(named);
  }

  get #file(): string {
    return runPaths(this.#folder).keptReplies(this.#after);
  }

  /** Removes what earlier checkpoints have left, where that can be done. */
  #sweep(): void {
    for (const name of readdirSync(this.#folder)) {
      const file = path.join(this.#folder, name);
      if (KEPT_REPLIES.test(name) && file !== this.#file) remove(file);
    }
  }

  /** Last record of this checkpoint under a signed head, including abandoned attempts. */
  #named(signed: number): KeptRepliesNamed | null {
    const reader = new LogReader(runPaths(this.#folder).log, RUN_STREAMS);
    try {
      let last: KeptRepliesNamed | null = null;
      for (const { gseq, payload } of reader.records({
        stream: 'metrics',
        abandoned: true,
        from: this.#after,
      })) {
        const parsed = keptReplies.safeParse(payload);
        if (parsed.success && parsed.data.after === this.#after && gseq < signed)
          last = parsed.data;
      }
      return last;
    } finally {
      reader.close();
    }
  }

  #read(named: KeptRepliesNamed): void {
    let bytes: Buffer;
    try {
      // more of it nobody has vouched for
      bytes = readFileSync(this.#file).subarray(0, named.bytes);
    } catch (cause) {
      throw unreadable(this.#file, cause);
    }
    this.#hash.update(bytes);
    if (bytes.length < named.bytes || this.#hash.copy().digest('hex') !== named.sha256)
      throw new IsoproError(
        'LOG_TAMPERED',
        `the saved replies in ${this.#file} differ from those named in the log`,
        {
          remedy: 'Restore the file, or delete it to sample its replies again.',
        },
      );
    for (let at = 0; at < bytes.length; ) {
      const end = bytes.indexOf('\n', at);
      const reply = line.parse(JSON.parse(bytes.toString('utf8', at, end)));
      this.#kept.set(reply.key, reply);
      at = end + 1;
    }
    [this.#replies, this.#bytes] = [named.replies, named.bytes];
    // that this attempt begins with them
    this.#name();
  }

  /**
   * A checkpoint is complete: nothing before it will be sampled again.
   * @param after records of the log up to the one that names it
   */
  begin(after: number): void {
    remove(this.#file);
    this.#after = after;
    this.#kept.clear();
    this.#finished = [];
    [this.#replies, this.#bytes, this.#hash] = [0, 0, createHash('sha256')];
    this.#unsigned = this.#gaveUp = false;
  }

  /**
   * Writes finished replies to disk, and has the log name them and the signer sign that. If the
   * disk is full, the run continues without saving.
   * @throws IsoproError LOG_WRITE_FAILED, WITNESS_UNAVAILABLE, …
   */
  async keep(): Promise<void> {
    if (this.#finished.length > 0 && this.#write()) this.#name();
    if (!this.#unsigned) return;
    await this.#log.checkpoint();
    this.#unsigned = false;
  }

  #write(): boolean {
    const bytes = Buffer.from(this.#finished.join(''));
    let file: number | null = null;
    try {
      file = openSync(
        this.#file,
        constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0),
        0o600,
      );
      // over what an attempt has left that ended before the log named it
      for (let at = 0; at < bytes.length; )
        at += writeSync(file, bytes, at, bytes.length - at, this.#bytes + at);
      ftruncateSync(file, this.#bytes + bytes.length);
      fsyncSync(file);
    } catch (error) {
      this.#gaveUp = true;
      this.#onNotice(`replies cannot be saved for resumption: ${(error as Error).message}`);
    } finally {
      if (file !== null) closeSync(file);
    }
    if (this.#gaveUp) remove(this.#file);
    else {
      durable('run.replies');
      this.#hash.update(bytes);
      this.#bytes += bytes.length;
      this.#replies += this.#finished.length;
    }
    this.#finished = [];
    return !this.#gaveUp;
  }

  #name(): void {
    const sha256 = this.#hash.copy().digest('hex');
    this.#log.append([
      keptRepliesRecord({ after: this.#after, replies: this.#replies, bytes: this.#bytes, sha256 }),
    ]);
    this.#unsigned = true;
  }

  /**
   * Wraps a back end so that it returns saved replies and samples the others. One saved reply is
   * sampled again as a control: if it differs, replies depend on other requests, and the whole
   * request is sampled again.
   * @param backend whose replies do not depend on that (`info.batchInvariant`)
   * @param own the adapter that it answers with where a request names none
   */
  keeping(backend: Backend<TokenReply>, own: () => string | null): Backend<TokenReply> {
    return { ...backend, sample: (request) => this.#sample(backend, own(), request) };
  }

  async *#sample(
    backend: Backend<TokenReply>,
    own: string | null,
    request: SampleRequest,
  ): AsyncGenerator<TokenReply, void, undefined> {
    const { prompts, adapter, onProgress } = request;
    const keyOf = keys(request, adapter === undefined ? own : (adapter?.id ?? null));
    const asked = prompts.flatMap((prompt, promptIndex) =>
      prompt.seeds.map((seed, sampleIndex) => ({
        promptIndex,
        sampleIndex,
        key: keyOf(prompt, seed),
        seed,
      })),
    );
    const given = asked.flatMap(({ key, ...place }) => {
      const kept = this.#kept.get(key);
      return kept === undefined ? [] : [{ ...place, kept }];
    });
    // with it at least two are sampled: one alone has kernels of its own, and the last bits of
    // another's
    const control = given.length < asked.length ? given.shift() : undefined;
    // of an episode's first turn
    if (given.length > 0 && prompts.every(({ ids }) => ids === undefined))
      this.#onNotice(
        `${given.length} of ${asked.length} samples reused from before the interruption`,
      );
    const kept = given.map(({ kept: reply, ...place }) => replyOf(reply, place));
    if (kept.length === asked.length) {
      yield* kept;
      return;
    }

    const found = new Set(
      given.map(({ promptIndex, sampleIndex }) => `${promptIndex}/${sampleIndex}`),
    );
    const rest = prompts.flatMap((prompt, promptIndex) => {
      const samples = [...prompt.seeds.keys()].filter(
        (sampleIndex) => !found.has(`${promptIndex}/${sampleIndex}`),
      );
      const seeds = samples.map((i) => prompt.seeds[i]!);
      return samples.length === 0 ? [] : [{ promptIndex, samples, prompt: { ...prompt, seeds } }];
    });
    const replies = backend.sample({
      ...request,
      prompts: rest.map(({ prompt }) => prompt),
      ...(onProgress && {
        onProgress: (progress) =>
          onProgress({
            ...progress,
            finished: progress.finished + kept.length,
            total: progress.total + kept.length,
          }),
      }),
    });
    let waiting = control === undefined ? null : kept;
    for await (const sampled of replies) {
      const { promptIndex, samples, prompt } = rest[sampled.promptIndex]!;
      const reply = { ...sampled, promptIndex, sampleIndex: samples[sampled.sampleIndex]! };
      if (sampled.finish !== 'aborted') {
        const now = lineOf(keyOf(prompt, prompt.seeds[sampled.sampleIndex]!), {
          ...reply,
          finish: sampled.finish,
        });
        if (now.key !== control?.kept.key) {
          await this.#take(now);
        } else if (isDeepStrictEqual(now, control.kept)) {
          yield* waiting ?? [];
          waiting = null;
        } else {
          this.#onNotice(
            'resampling a saved reply gave a different result; all saved replies are discarded',
          );
          this.#kept.clear();
          yield* this.#sample(backend, own, request);
          return;
        }
      }
      if (waiting === null) yield reply;
      else waiting.push(reply);
    }
  }

  async #take(reply: Line): Promise<void> {
    if (this.#gaveUp) return;
    if (this.#finished.length === 0) this.#since = performance.now();
    this.#finished.push(`${JSON.stringify(reply)}\n`);
    if (performance.now() - this.#since >= this.#milliseconds) await this.keep();
  }
}

/** Names of a request's samples by all that their replies depend on. */
function keys(
  { sampling, maxTokens, stop, grammar, jsonSchema }: SampleRequest,
  adapterId: string | null,
) {
  const of = JSON.stringify([sampling, maxTokens, stop, grammar, jsonSchema, adapterId]);
  return ({ messages, ids }: SamplePrompt, seed: bigint): string =>
    createHash('sha256')
      .update(JSON.stringify([of, messages, ids === undefined ? null : [...ids], seed.toString()]))
      .digest('hex');
}

const lineOf = (key: string, reply: TokenReply & Pick<Line, 'finish'>): Line => ({
  key,
  text: reply.text,
  finish: reply.finish,
  adapterId: reply.adapterId,
  promptIds: base64(reply.promptIds),
  tokenIds: base64(reply.tokenIds),
  logprobs: base64(reply.logprobs),
  sampledLogprobs: base64(reply.sampledLogprobs),
});

const replyOf = (
  { text, finish, adapterId, promptIds, tokenIds, logprobs, sampledLogprobs }: Line,
  place: Pick<TokenReply, 'promptIndex' | 'sampleIndex' | 'seed'>,
): TokenReply => ({
  ...place,
  text,
  finish,
  adapterId,
  promptIds: new Int32Array(bytesOf(promptIds)),
  tokenIds: new Int32Array(bytesOf(tokenIds)),
  logprobs: new Float32Array(bytesOf(logprobs)),
  sampledLogprobs: new Float32Array(bytesOf(sampledLogprobs)),
});

function remove(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // what is left of it is in nobody's way
  }
}
