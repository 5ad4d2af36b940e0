import { open, type FileHandle } from 'node:fs/promises';
import { IsoproError } from '../errors.js';
import type { EvaluationOptions } from '../evaluation/answers.js';
import { failureOf, reasonOf } from '../tasks/failures.js';

type JudgedReply = Parameters<NonNullable<EvaluationOptions['onReply']>>[0];

/** A JSONL file of replies with their verdicts, written while an evaluation works. */
export class RepliesFile implements AsyncDisposable {
  readonly #name: string;
  readonly #file: FileHandle;
  #written = Promise.resolve();
  #failure: IsoproError | undefined;

  private constructor(name: string, file: FileHandle) {
    this.#name = name;
    this.#file = file;
  }

  /** @throws IsoproError WRITE_FAILED */
  static async open(name: string): Promise<RepliesFile> {
    const file = await open(name, 'w').catch((cause: unknown) => {
      throw notWritten(name, cause);
    });
    return new RepliesFile(name, file);
  }

  /** @throws IsoproError WRITE_FAILED of an earlier reply, and so not only after hours */
  add({ problem, messages, rollout, judgement }: JudgedReply): void {
    if (this.#failure !== undefined) throw this.#failure;
    const row = {
      id: problem.id,
      tier: problem.tier,
      sampleIndex: rollout.sampleIndex,
      prompt: { messages },
      text: rollout.text,
      finish: rollout.finish,
      promptTokens: rollout.promptTokens ?? rollout.promptIds?.length,
      tokens: rollout.tokens ?? rollout.tokenIds?.length,
      ...judgement.verdict,
      failure: failureOf(reasonOf(judgement, rollout.finish)),
    };
    this.#written = this.#written
      .then(() => this.#file.appendFile(`${JSON.stringify(row)}\n`))
      .catch((cause: unknown) => {
        this.#failure ??= notWritten(this.#name, cause);
      });
  }

  /** Resolves when all that was added is written. @throws IsoproError WRITE_FAILED */
  async written(): Promise<void> {
    await this.#written;
    if (this.#failure !== undefined) throw this.#failure;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#written;
    await this.#file.close();
  }
}

const notWritten = (name: string, cause: unknown): IsoproError =>
  new IsoproError('WRITE_FAILED', `${name} could not be written: ${(cause as Error).message}`, {
    cause,
  });
