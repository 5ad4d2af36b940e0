import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import type { Worker } from 'node:worker_threads';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';
import { startThread } from '../thread.js';
import type {
  ChatMessage,
  ExploitCase,
  FinishReason,
  Grades,
  Judgement,
  OpenTask,
  Problem,
  PromptStyle,
  Tier,
  TraceFinding,
  Verdict,
} from './task.js';
import { BundleError, bundleTask, type TaskBundle } from './task-bundle.js';
import { findTier } from './tier.js';
import type { WorkerCall, WorkerReply } from './user-task-worker.js';
import { undecided } from './verdict.js';

/** Longest time that one call of a user's task may take. */
export const CALL_LIMIT_MS = 5_000;
/** Starting the thread, which is not the user's code. */
const START_LIMIT_MS = 60_000;
const MEMORY_LIMIT_MB = 512;

interface Description extends Pick<OpenTask, 'id' | 'version' | 'tiers' | 'policies' | 'policyNotes' | 'exploits'> {
  readonly optional: Readonly<Record<'grade' | 'feedback' | 'checkTrace' | 'fewShot', boolean>>;
}

class CallTimeout extends Error {}
class ThreadLost extends Error {}

/** The thread that runs a user's task; replaced after a call that hangs or brings it down. */
class TaskThread {
  readonly #path: string;
  readonly #code: string;
  #worker: Promise<Worker> | undefined;
  #queue: Promise<unknown> = Promise.resolve();
  #calls = 0;

  constructor(path: string, code: string) {
    this.#path = path;
    this.#code = code;
  }

  /** One call at a time. @throws CallTimeout, ThreadLost, IsoproError TASK_INVALID */
  call(method: WorkerCall['method'], ...args: unknown[]): Promise<unknown> {
    const result = this.#queue.then(async () => this.#send(await (this.#worker ??= this.#start()), method, args));
    this.#queue = result.catch(() => undefined);
    return result;
  }

  async dispose(): Promise<void> {
    const worker = this.#worker;
    this.#worker = undefined;
    await (await worker?.catch(() => undefined))?.terminate();
  }

  async #start(): Promise<Worker> {
    const worker = startThread(new URL('./user-task-worker.js', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_LIMIT_MB },
    });
    worker.on('error', () => undefined); // each call listens for itself
    worker.once('exit', () => (this.#worker = undefined));
    try {
      await new Promise<void>((started, failed) => {
        const timer = setTimeout(() => failed(new ThreadLost('it did not start')), START_LIMIT_MS);
        worker.once('message', () => (clearTimeout(timer), started()));
        worker.once('error', (error) => (clearTimeout(timer), failed(error)));
      });
      await this.#send(worker, 'load', [this.#code, this.#path]);
      return worker;
    } catch (error) {
      this.#worker = undefined;
      void worker.terminate();
      throw error;
    }
  }

  #send(worker: Worker, method: WorkerCall['method'], args: readonly unknown[]): Promise<unknown> {
    const call = ++this.#calls;
    return new Promise((done, failed) => {
      const settle = (finish: () => void): void => {
        clearTimeout(timer);
        worker.off('message', receive).off('error', lost).off('exit', lost);
        worker.unref();
        finish();
      };
      const receive = (reply: WorkerReply): void => {
        if (!('call' in reply) || reply.call !== call) return;
        settle(() => ('member' in reply ? failed(invalid(this.#path, reply.member, reply.message)) : done(reply.value)));
      };
      const lost = (cause?: unknown): void => {
        this.#worker = undefined;
        settle(() => failed(new ThreadLost(cause instanceof Error ? cause.message : 'its thread ended')));
      };
      const limit = method === 'load' ? START_LIMIT_MS : CALL_LIMIT_MS; // a file that imports much, on a busy machine
      const timer = setTimeout(() => {
        this.#worker = undefined;
        void worker.terminate();
        settle(() => failed(new CallTimeout(`it took longer than ${limit / 1000} seconds`)));
      }, limit);
      worker.on('message', receive).on('error', lost).on('exit', lost);
      worker.ref();
      worker.postMessage({ call, method, args } satisfies WorkerCall);
    });
  }
}

const invalid = (path: string, member: string, message: string): IsoproError =>
  new IsoproError('TASK_INVALID', `${path}: member "${member}" ${message}`);

/** Timeouts and crashes of a member other than the verifier are errors of the task. */
function asError(path: string, member: string, error: unknown): unknown {
  if (error instanceof CallTimeout) return new IsoproError('TASK_TIMEOUT', `${path}: member "${member}": ${error.message}`);
  if (error instanceof ThreadLost) return invalid(path, member, `brought its thread down: ${error.message}`);
  return error;
}

class UserTask implements OpenTask {
  readonly id: string;
  readonly version: string;
  readonly tiers: readonly Tier[];
  readonly policies: readonly string[];
  readonly policyNotes: Readonly<Record<string, string>>;
  readonly exploits: readonly ExploitCase[];
  readonly source: OpenTask['source'];
  readonly #thread: TaskThread;
  readonly #path: string;
  readonly #optional: Description['optional'];

  constructor(path: string, sha256: string, thread: TaskThread, description: Description) {
    ({
      id: this.id,
      version: this.version,
      tiers: this.tiers,
      policies: this.policies,
      policyNotes: this.policyNotes,
      exploits: this.exploits,
      optional: this.#optional,
    } = description);
    this.source = { kind: 'file', path, sha256 };
    this.#path = path;
    this.#thread = thread;
  }

  async #call<T>(member: WorkerCall['method'], ...args: unknown[]): Promise<T> {
    try {
      return (await this.#thread.call(member, ...args)) as T;
    } catch (error) {
      throw asError(this.#path, member, error);
    }
  }

  /** As `#call`, but a verifier that hangs or crashes has no verdict. */
  async #undecidedIfLost<T>(member: WorkerCall['method'], args: readonly unknown[], otherwise: (reason: string) => T): Promise<T> {
    try {
      return (await this.#thread.call(member, ...args)) as T;
    } catch (error) {
      if (error instanceof CallTimeout || error instanceof ThreadLost) return otherwise(`the verifier gave no verdict: ${error.message}`);
      throw error;
    }
  }

  async generate(tier: string, seed: bigint): Promise<Problem> {
    findTier(this.id, this.tiers, tier);
    return this.#call('generate', tier, BigInt.asUintN(64, seed));
  }

  readProblem(value: unknown): Problem {
    if (
      typeof value !== 'object' ||
      value === null ||
      typeof (value as Problem).id !== 'string' ||
      typeof (value as Problem).tier !== 'string'
    ) {
      throw new IsoproError('PROBLEM_INVALID', `not a problem of ${this.id}: it needs the members id and tier`);
    }
    return value as Problem;
  }

  prompt(problem: Problem, style: PromptStyle): Promise<ChatMessage[]> {
    return this.#call('prompt', problem, style);
  }

  judge(problem: Problem, text: string, finish: FinishReason): Promise<Judgement> {
    return this.#undecidedIfLost<Judgement>('judge', [problem, text, finish], (reason) => ({ verdict: undecided(reason), form: null }));
  }

  readAnswer(problem: Problem, text: string): Promise<string | null> {
    return this.#undecidedIfLost<string | null>('answer', [problem, text], () => null);
  }

  applyPolicy(name: string, problem: Problem): Promise<Verdict> {
    return this.#undecidedIfLost<Verdict>('policy', [name, problem], undecided);
  }

  grade(problem: Problem, verdict: Verdict): Promise<Grades | null> {
    return this.#optional.grade ? this.#call('grade', problem, verdict) : Promise.resolve(null);
  }

  feedback(problem: Problem, verdict: Verdict): Promise<string | null> {
    return this.#optional.feedback ? this.#call('feedback', problem, verdict) : Promise.resolve(null);
  }

  checkTrace(problem: Problem, text: string): Promise<TraceFinding[]> {
    return this.#optional.checkTrace ? this.#call('checkTrace', problem, text) : Promise.resolve([]);
  }

  fewShot(problem: Problem, style: PromptStyle, count: number, seed: bigint): Promise<ChatMessage[] | null> {
    return this.#optional.fewShot ? this.#call('fewShot', problem, style, count, seed) : Promise.resolve(null);
  }

  dispose(): Promise<void> {
    return this.#thread.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/**
 * Loads a task from a .js or .ts file, with everything that it imports, into a thread of its own.
 * @throws IsoproError TASK_UNKNOWN where there is no such file, TASK_INVALID naming the member that is missing or wrong, TASK_TIMEOUT
 */
export async function openUserTask(file: string): Promise<OpenTask> {
  const path = resolve(file);
  requireFile(path, 'TASK_UNKNOWN');
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new IsoproError('TASK_UNKNOWN', `${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  let bundle: TaskBundle;
  try {
    bundle = await bundleTask(path);
  } catch (error) {
    if (error instanceof BundleError) throw invalid(path, 'module', `cannot be bundled: ${error.message}`);
    throw error;
  }
  const thread = new TaskThread(path, bundle.code);
  try {
    const description = (await thread.call('load', bundle.code, path)) as Description;
    return new UserTask(path, bundle.sha256, thread, description);
  } catch (error) {
    await thread.dispose();
    throw asError(path, 'module', error);
  }
}
