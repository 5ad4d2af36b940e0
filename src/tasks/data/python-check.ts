/** Python function that judges replies to data rows, in a process that restarts after a crash. */
import { offAbort, onAbort } from '../../abort.js';
import { IsoproError } from '../../errors.js';
import { PythonProcess } from '../python-process.js';
import type { PythonDescription } from '../python-results.js';
import type { PythonModule } from '../python-module.js';
import type { Judgement, Problem, Verdict } from '../task.js';
import type { WorkerCall, WorkerReply } from '../thread-messages.js';

const START_SECONDS = 60;

export class PythonCheck {
  readonly #program: PythonModule;
  #running:
    | Promise<{ readonly process: PythonProcess; readonly description: PythonDescription }>
    | undefined;
  #calls = 0;

  constructor(program: PythonModule) {
    this.#program = program;
  }

  /** @throws IsoproError TASK_INVALID naming what is missing, TASK_UNKNOWN, PYTHON_UNAVAILABLE */
  async describe(): Promise<PythonDescription> {
    return (await this.#started()).description;
  }

  /** @throws Error if the process ends or the signal fires, which ends the process */
  async judge(problem: Problem, reply: string, signal: AbortSignal): Promise<Verdict> {
    const { process } = await this.#started();
    return ((await this.#send(process, 'judge', [problem, reply, 'stop', []], signal)) as Judgement)
      .verdict;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await (await this.#running?.catch(() => undefined))?.process.terminate();
  }

  #started(): Promise<{
    readonly process: PythonProcess;
    readonly description: PythonDescription;
  }> {
    this.#running ??= this.#start();
    return this.#running;
  }

  async #start(): Promise<{
    readonly process: PythonProcess;
    readonly description: PythonDescription;
  }> {
    const process = new PythonProcess(this.#program);
    process.on('error', () => undefined); // each call listens for itself
    process.once('exit', () => (this.#running = undefined));
    process.ref();
    const signal = AbortSignal.timeout(1000 * START_SECONDS);
    try {
      await heard(process, (reply) => ('started' in reply ? true : undefined), signal);
      return {
        process,
        description: (await this.#send(process, 'load', [], signal)) as PythonDescription,
      };
    } catch (error) {
      this.#running = undefined;
      await process.terminate();
      throw error;
    }
  }

  async #send(
    process: PythonProcess,
    method: WorkerCall['method'],
    args: readonly unknown[],
    signal: AbortSignal,
  ): Promise<unknown> {
    const call = ++this.#calls;
    const answer = heard(
      process,
      (reply) => ('call' in reply && reply.call === call ? reply : undefined),
      signal,
    );
    process.postMessage({ call, method, args });
    const reply = await answer;
    if ('error' in reply) throw reply.error;
    if ('member' in reply)
      throw new IsoproError(
        'TASK_INVALID',
        `${this.#program.specifier}: member "${reply.member}" ${reply.message}`,
      );
    return reply.value;
  }
}

/**
 * Waits for the message that `meant` accepts. @throws what ends the process, or its cancellation
 */
function heard<T>(
  process: PythonProcess,
  meant: (reply: WorkerReply) => T | undefined,
  signal: AbortSignal,
): Promise<T> {
  return new Promise((found, failed) => {
    const settle = (finish: () => void): void => {
      process.off('message', hear).off('error', lost).off('exit', lost);
      offAbort(signal, stop);
      finish();
    };
    const hear = (reply: WorkerReply): void => {
      const answer = meant(reply);
      if (answer !== undefined) settle(() => found(answer));
    };
    const lost = (cause: unknown): void =>
      settle(() => failed(cause instanceof Error ? cause : new Error('its process ended')));
    const stop = (): void => void process.terminate().then(() => lost(undefined));
    process.on('message', hear).on('error', lost).on('exit', lost);
    onAbort(signal, stop);
    if (signal.aborted) stop();
  });
}
