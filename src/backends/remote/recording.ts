/**
 * Replies that were paid for, on the disk before anybody works with them: one JSON line each, which
 * `recorded:FILE` reads. A request whose reply is there is not sent again.
 */
import { createHash } from 'node:crypto';
import { open, type FileHandle } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { canonicalJson, type Json } from '../../canonical-json.js';
import type { ChatMessage } from '../../engine/prompt-renderer.js';
import { IsoproError } from '../../errors.js';
import { makeFolder, readLines, refuseLink, requireTarget, unwritable } from '../../files.js';
import { OwnerLock } from '../../log/owner-lock.js';

const VERSION = 1;

/** What a reply depends on. */
export interface Asked {
  readonly endpoint: string;
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  /** Of the sampling, with the limit and the stop strings. */
  readonly sampling: Json;
  readonly schema: Json;
  readonly sample: { readonly index: number; readonly seed: string };
}

/** Name of a request and its reply in a recording. */
export const keyOf = ({ messages, ...asked }: Asked): string =>
  createHash('sha256')
    .update(
      canonicalJson({
        ...asked,
        version: VERSION,
        messages: messages.map(({ role, content }) => ({ role, content })),
      }),
    )
    .digest('hex');

const count = z.int().min(0);
const recordedReply = z.object({
  key: z.string().regex(/^[0-9a-f]{64}$/),
  text: z.string(),
  finish: z.enum(['stop', 'length', 'refused']),
  promptTokens: count.optional(),
  tokens: count.optional(),
  reasoningTokens: count.optional(),
  /** As the server names it. */
  model: z.string().optional(),
});
export type RecordedReply = z.output<typeof recordedReply>;

/** Members of a line that `recorded:FILE` reads besides the reply. */
export interface RecordedPrompt {
  readonly id: string;
  readonly sampleIndex: number;
  readonly prompt: { readonly messages: readonly ChatMessage[] };
}

interface Waiting {
  readonly line: string;
  readonly done: () => void;
  readonly failed: (error: unknown) => void;
}

const TAIL = 2 ** 16;

/** The place after the last whole line: a killed process may leave a part of one. */
async function endOfLines(file: FileHandle): Promise<number> {
  let { size: end } = await file.stat();
  const bytes = Buffer.alloc(TAIL);
  while (end > 0) {
    const from = Math.max(0, end - TAIL);
    const { bytesRead } = await file.read(bytes, 0, end - from, from);
    const last = bytes.subarray(0, bytesRead).lastIndexOf(0x0a);
    if (last >= 0) return from + last + 1;
    end = from;
  }
  return 0;
}

export class Recording {
  readonly name: string;
  readonly #file: FileHandle;
  readonly #lock: OwnerLock;
  readonly #replies: Map<string, RecordedReply>;
  #waiting: Waiting[] = [];
  #writing: Promise<void> | undefined;
  #failure: unknown;

  private constructor(
    name: string,
    file: FileHandle,
    lock: OwnerLock,
    replies: Map<string, RecordedReply>,
  ) {
    this.name = name;
    this.#file = file;
    this.#lock = lock;
    this.#replies = replies;
  }

  /**
   * Opens a recording, or makes one; its folder is made as well.
   * @throws IsoproError WRITE_FAILED, RECORDING_INVALID, LOG_BUSY if another process writes to it
   */
  static async open(name: string): Promise<Recording> {
    makeFolder(path.dirname(path.resolve(name)));
    requireTarget(name);
    refuseLink(name);
    const lock = OwnerLock.take(`${name}.lock`);
    if (lock === null)
      throw new IsoproError('LOG_BUSY', `another process records replies in ${name}`, {
        remedy: 'Wait until it finishes or end it, or give another file with --record.',
      });
    let file: FileHandle | undefined;
    try {
      // replies may be private
      file = await open(name, 'a+', 0o600).catch((cause: unknown) => {
        throw unwritable(name, cause);
      });
      const { size } = await file.stat();
      const end = await endOfLines(file);
      if (end < size) await file.truncate(end);
      return new Recording(name, file, lock, await repliesIn(name));
    } catch (error) {
      await file?.close();
      lock.release();
      throw error;
    }
  }

  get size(): number {
    return this.#replies.size;
  }

  find(key: string): RecordedReply | undefined {
    return this.#replies.get(key);
  }

  /**
   * Resolves when the reply would survive the end of the machine.
   * @throws IsoproError WRITE_FAILED
   */
  async add(prompt: RecordedPrompt, reply: RecordedReply): Promise<void> {
    const line = `${JSON.stringify({ ...prompt, ...reply })}\n`;
    this.#replies.set(reply.key, reply);
    await new Promise<void>((done, failed) => {
      this.#waiting.push({ line, done, failed });
      this.#writing ??= this.#write();
    });
  }

  /** Lines that came while others were written share the next write. */
  async #write(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting.splice(0);
      try {
        if (this.#failure !== undefined) throw this.#failure;
        await this.#file.appendFile(lines.map(({ line }) => line).join(''));
        await this.#file.datasync();
        for (const { done } of lines) done();
      } catch (cause) {
        this.#failure ??= unwritable(this.name, cause);
        for (const { failed } of lines) failed(this.#failure);
      }
    }
    this.#writing = undefined;
  }

  async close(): Promise<void> {
    await this.#writing;
    await this.#file.close();
    this.#lock.release();
  }
}

async function repliesIn(name: string): Promise<Map<string, RecordedReply>> {
  const replies = new Map<string, RecordedReply>();
  let number = 0;
  for await (const line of readLines(name)) {
    number++;
    if (line.trim() === '') continue;
    let value: unknown;
    try {
      value = JSON.parse(line);
    } catch (cause) {
      throw new IsoproError('RECORDING_INVALID', `${name}, line ${number}: not JSON`, {
        cause,
        remedy: 'Remove the line named above, or give another file with --record.',
      });
    }
    // lines of other programs have no key: `recorded:` reads them, and they answer nothing here
    const read = recordedReply.safeParse(value);
    if (read.success) replies.set(read.data.key, read.data);
  }
  return replies;
}
