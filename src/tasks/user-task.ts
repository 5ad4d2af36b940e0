import { accessSync, constants } from 'node:fs';
import { resolve } from 'node:path';
import { IsoproError } from '../errors.js';
import { requireFile } from '../files.js';
import { deriveSeed } from '../random.js';
import type {
  ChatMessage,
  ExploitCase,
  FinishReason,
  Grades,
  JudgeOptions,
  Judgement,
  OpenTask,
  Problem,
  PromptStyle,
  TaskRows,
  Tier,
  TraceFinding,
  Verdict,
} from './task.js';
import { BundleError, bundleTask, type TaskBundle } from './task-bundle.js';
import { CallTimeout, invalidMember, ThreadLost, type TaskThread } from './task-thread.js';
import { isPythonSpecifier, readPythonSpecifier } from './python-module.js';
import type { PythonDescription } from './python-results.js';
import { readData } from './data/open-data.js';
import type { DataTaskOptions } from './data/options.js';
import type { GraderModel } from './data/grader-models.js';
import type { TaskDescription, ThreadTask } from './thread-messages.js';
import { findTier } from './tier.js';
import { nextAttempt, turnsOf } from './turns.js';
import { VerifierThreads } from './verifier-threads.js';

export interface UserTaskOptions {
  readonly verifierThreads: number;
  readonly turns?: number;
  readonly silent?: boolean;
  readonly clockAhead?: number;
}

const LOADS_TOO_LONG =
  'Let the task read and compute less while it is loaded, such as when it is first asked; where other programs keep the machine busy, ' +
  'try again.';

/** What a module of Python calls the members that are called otherwise there. */
const PYTHON_MEMBERS: Readonly<Record<string, string>> = {
  generate: 'problem',
  referenceReply: 'solution',
};
const memberNamed = (path: string, called: string): string =>
  (isPythonSpecifier(path) ? PYTHON_MEMBERS[called] : undefined) ?? called;

/** Timeouts and crashes of a member other than the verifier are errors of the task. */
function asError(path: string, called: string, error: unknown): unknown {
  const member = memberNamed(path, called);
  if (error instanceof CallTimeout && error.loading)
    return new IsoproError('TASK_TIMEOUT', `${path} was not loaded: ${error.message}`, {
      remedy: LOADS_TOO_LONG,
    });
  if (error instanceof CallTimeout)
    return new IsoproError('TASK_TIMEOUT', `${path}: member "${member}": ${error.message}`);
  if (error instanceof ThreadLost)
    return invalidMember(
      path,
      member,
      `brought its ${isPythonSpecifier(path) ? 'process' : 'thread'} down: ${error.message}`,
    );
  return error;
}

/** Draws beyond the examples wanted, of which some ask the same or have no reference. */
const EXAMPLE_DRAWS = 100;

class UserTask implements OpenTask {
  readonly id: string;
  readonly version: string;
  readonly tiers: readonly Tier[];
  readonly policies: readonly string[];
  readonly policyNotes: Readonly<Record<string, string>>;
  readonly exploits: readonly ExploitCase[];
  readonly answerGrammar: string | null;
  readonly source: OpenTask['source'];
  readonly #threads: VerifierThreads;
  readonly #grader: GraderModel | undefined;
  readonly turns: number;
  readonly #path: string;
  readonly #optional: TaskDescription['optional'];

  readonly rows?: TaskRows;

  constructor(
    source: OpenTask['source'] & { readonly kind: 'file' },
    threads: VerifierThreads,
    description: TaskDescription,
    turns: number | undefined,
    rows: TaskRows | undefined,
    grader: GraderModel | undefined,
  ) {
    ({
      id: this.id,
      version: this.version,
      tiers: this.tiers,
      policies: this.policies,
      policyNotes: this.policyNotes,
      exploits: this.exploits,
      answerGrammar: this.answerGrammar,
      optional: this.#optional,
    } = description);
    this.source = source;
    this.#path = source.path;
    if (rows !== undefined) this.rows = rows;
    this.#threads = threads;
    this.#grader = grader;
    const { step, feedback } = this.#optional;
    this.turns = turnsOf(
      { id: this.id, own: step ? (description.limits.turns ?? 1) : null, feedback },
      turns,
    );
  }

  async #call<T>(member: Parameters<TaskThread['call']>[0], ...args: unknown[]): Promise<T> {
    try {
      return (await this.#threads.first.call(member, args)) as T;
    } catch (error) {
      throw asError(this.#path, member, error);
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
      throw new IsoproError(
        'PROBLEM_INVALID',
        `not a problem of ${this.id}: it needs the members id and tier`,
      );
    }
    return value as Problem;
  }

  prompt(problem: Problem, style: PromptStyle): Promise<ChatMessage[]> {
    return this.#call('prompt', problem, style);
  }

  judge(
    problem: Problem,
    text: string,
    finish: FinishReason,
    options: JudgeOptions = {},
  ): Promise<Judgement> {
    return this.#threads.judge(problem, text, finish, options);
  }

  get readsLeniently(): boolean {
    return this.#optional.readLeniently;
  }

  async judgeLeniently(
    problem: Problem,
    text: string,
    { signal }: Pick<JudgeOptions, 'signal'> = {},
  ): Promise<Judgement | null> {
    return this.#optional.readLeniently
      ? this.#threads.judgeLeniently(problem, text, signal)
      : null;
  }

  async readAnswer(problem: Problem, text: string): Promise<string | null> {
    try {
      return (await this.#threads.first.call('answer', [problem, text])) as string | null;
    } catch (error) {
      if (error instanceof CallTimeout || error instanceof ThreadLost) return null;
      throw error;
    }
  }

  applyPolicy(
    name: string,
    problem: Problem,
    { signal }: Pick<JudgeOptions, 'signal'> = {},
  ): Promise<Verdict> {
    return this.#threads.applyPolicy(name, problem, signal);
  }

  grade(problem: Problem, verdict: Verdict): Promise<Grades | null> {
    return this.#optional.grade ? this.#call('grade', problem, verdict) : Promise.resolve(null);
  }

  feedback(problem: Problem, verdict: Verdict): Promise<string | null> {
    return this.#optional.feedback
      ? this.#call('feedback', problem, verdict)
      : Promise.resolve(null);
  }

  async step(problem: Problem, replies: readonly string[]): Promise<string | null> {
    if (replies.length >= this.turns) return null;
    return this.#optional.step
      ? this.#call('step', problem, replies)
      : nextAttempt(this, problem, replies);
  }

  checkTrace(problem: Problem, text: string): Promise<TraceFinding[]> {
    return this.#optional.checkTrace
      ? this.#call('checkTrace', problem, text)
      : Promise.resolve([]);
  }

  async fewShot(
    problem: Problem,
    style: PromptStyle,
    count: number,
    seed: bigint,
  ): Promise<ChatMessage[] | null> {
    if (this.#optional.fewShot) return this.#call('fewShot', problem, style, count, seed);
    return this.hasReferences ? this.#solved(problem, style, count, seed) : null;
  }

  /** Other problems of the tier with the replies that the task itself calls right. */
  async #solved(
    problem: Problem,
    style: PromptStyle,
    count: number,
    seed: bigint,
  ): Promise<ChatMessage[]> {
    const { tier } = problem;
    const own = await this.prompt(problem, style);
    const asked = new Set([own.at(-1)!.content]);
    const examples: ChatMessage[] = [];
    for (let sample = 0, found = 0; found < count && sample < count + EXAMPLE_DRAWS; sample++) {
      const other = await this.generate(
        tier,
        deriveSeed({ runSeed: seed, purpose: 'example', iteration: 0, problemId: tier, sample }),
      );
      const messages = await this.prompt(other, style);
      // such as a solved example in each prompt
      const shared = messages.findIndex(({ content }, at) => content !== own[at]?.content);
      const content = await this.referenceReply(other, style);
      if (content === null || shared < 0 || asked.has(messages.at(-1)!.content)) continue;
      asked.add(messages.at(-1)!.content);
      examples.push(...messages.slice(shared).filter(({ role }) => role !== 'system'), {
        role: 'assistant',
        content,
      });
      found++;
    }
    if (examples.length === 0) {
      const drawn = count + EXAMPLE_DRAWS;
      const detail = `is ${isPythonSpecifier(this.#path) ? 'None' : 'null'}, or the question the same, for ${drawn} problems in turn`;
      throw invalidMember(this.#path, memberNamed(this.#path, 'referenceReply'), detail);
    }
    return examples;
  }

  get hasReferences(): boolean {
    return this.#optional.referenceReply && !this.#optional.step;
  }

  referenceReply(problem: Problem, style: PromptStyle): Promise<string | null> {
    return this.#optional.referenceReply
      ? this.#call('referenceReply', problem, style)
      : Promise.resolve(null);
  }

  async dispose(): Promise<void> {
    await this.#threads.dispose();
    await this.#grader?.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/**
 * Loads a task from a .js or .ts file, with everything that it imports, into threads of its own.
 * @throws IsoproError TASK_UNKNOWN where there is no such file, TASK_INVALID naming the member that
 *   is missing or wrong, TASK_TIMEOUT
 */
export async function openUserTask(file: string, options: UserTaskOptions): Promise<OpenTask> {
  const path = resolve(file);
  requireFile(path, 'TASK_UNKNOWN');
  try {
    accessSync(path, constants.R_OK);
  } catch (error) {
    throw new IsoproError('TASK_UNKNOWN', `${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    });
  }
  let bundle: TaskBundle;
  try {
    bundle = await bundleTask(path);
  } catch (error) {
    if (error instanceof BundleError)
      throw invalidMember(path, 'module', `cannot be bundled: ${error.message}`);
    throw error;
  }
  const { code, sourceMap, sha256 } = bundle;
  const held = { kind: 'bundle', path, code, sourceMap, silent: options.silent === true } as const;
  return openInThreads({ path, options: {} }, held, () => sha256, options);
}

/**
 * A task in Python, `python:MODULE[:NAME]`, in processes of its own.
 * @throws IsoproError TASK_UNKNOWN, TASK_INVALID naming the function that is missing or wrong,
 * TASK_TIMEOUT, PYTHON_UNAVAILABLE where the interpreter or the module is not there
 */
export async function openPythonTask(
  specifier: string,
  options: UserTaskOptions,
): Promise<OpenTask> {
  const program = { ...readPythonSpecifier(specifier), silent: options.silent === true };
  const sha256Of = (description: TaskDescription): string =>
    (description as PythonDescription).sha256;
  return openInThreads(
    { path: program.specifier, options: {} },
    { kind: 'python', program },
    sha256Of,
    options,
  );
}

/**
 * The rows of a data file, `.jsonl` or `.csv`, judged by a check in threads of their own.
 * @throws IsoproError FILE_UNREADABLE, DATA_INVALID naming the row, INVALID_ARGUMENT where the
 *   check is none
 */
export async function openDataTask(
  file: string,
  options: UserTaskOptions,
  given: DataTaskOptions,
): Promise<OpenTask> {
  const path = resolve(file);
  const { program, sha256, rows } = await readData(path, given);
  const again = { ...given, check: rows.check.specifier };
  const { check } = program;
  if (check.kind !== 'model')
    return openInThreads(
      { path, options: again },
      { kind: 'data', program },
      () => sha256,
      options,
      rows,
    );
  // the engine is for this check alone
  const { GraderModel } = await import('./data/grader-models.js');
  // which answers one reply at a time: further threads would wait in their own time
  return openInThreads(
    { path, options: again },
    { kind: 'data', program },
    () => sha256,
    { ...options, verifierThreads: 1 },
    rows,
    new GraderModel(check),
  );
}

async function openInThreads(
  { path, options: again }: { readonly path: string; readonly options: DataTaskOptions },
  task: ThreadTask,
  sha256Of: (description: TaskDescription) => string,
  { verifierThreads, turns, clockAhead }: UserTaskOptions,
  rows?: TaskRows,
  grader?: GraderModel,
): Promise<OpenTask> {
  const held = clockAhead === undefined ? task : { ...task, clockAhead };
  const threads = new VerifierThreads(
    held,
    verifierThreads,
    grader && ((messages) => grader.grade(messages)),
  );
  try {
    const description = await threads.first.describe();
    const source = { kind: 'file', path, sha256: sha256Of(description), options: again } as const;
    return new UserTask(source, threads, description, turns, rows, grader);
  } catch (error) {
    await threads.dispose();
    await grader?.dispose();
    throw asError(path, 'module', error);
  }
}
