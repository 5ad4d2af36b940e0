import { canonicalJson, type Json } from '../canonical-json.js';
import { IsoproError } from '../errors.js';
import { BUILT_IN_TASKS, type BuiltInTask } from './registry.js';
import type { ChatMessage, ExploitCase, FinishReason, Grades, Problem, PromptStyle, Tier, TraceFinding, Verdict } from './task.js';
import { openUserTask } from './user-task.js';
import { judgeReply } from './verdict.js';

export interface Judgement {
  readonly verdict: Verdict;
  /** The surface form of the answer as the parser names it; null where there was no answer to read. */
  readonly form: string | null;
}

/**
 * A task ready for use: the same asynchronous face for a built-in one, which runs here, and a user's, which runs in a
 * thread with a time limit. Answers stay inside.
 */
export interface OpenTask {
  readonly id: string;
  readonly version: string;
  readonly tiers: readonly Tier[];
  /** Names of the trivial policies. */
  readonly policies: readonly string[];
  readonly policyNotes: Readonly<Record<string, string>>;
  readonly exploits: readonly ExploitCase[];
  readonly source: { readonly kind: 'built-in' } | { readonly kind: 'file'; readonly path: string; readonly sha256: string };
  /** @throws IsoproError TIER_UNKNOWN */
  generate(tier: string, seed: bigint): Promise<Problem>;
  /** @throws IsoproError PROBLEM_INVALID */
  readProblem(value: unknown): Problem;
  prompt(problem: Problem, style: PromptStyle): Promise<ChatMessage[]>;
  judge(problem: Problem, text: string, finish: FinishReason): Promise<Judgement>;
  /** The answer in a reply as RFC 8785 JSON, so that equal answers can be counted; null where none can be read. */
  readAnswer(problem: Problem, text: string): Promise<string | null>;
  applyPolicy(name: string, problem: Problem): Promise<Verdict>;
  /** null where the task has no grades; a grade whose reference cannot be found is `none`. */
  grade(problem: Problem, verdict: Verdict): Promise<Grades | null>;
  feedback(problem: Problem, verdict: Verdict): Promise<string | null>;
  checkTrace(problem: Problem, text: string): Promise<TraceFinding[]>;
  fewShot(problem: Problem, style: PromptStyle, count: number, seed: bigint): Promise<ChatMessage[] | null>;
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * Opens a built-in task by its id or a user's task by the path of its file.
 * @throws IsoproError TASK_UNKNOWN, TASK_INVALID, TASK_TIMEOUT
 */
export async function openTask(specifier: string): Promise<OpenTask> {
  const builtIn = BUILT_IN_TASKS.find(({ task }) => task.id === specifier);
  if (builtIn !== undefined) return openBuiltIn(builtIn);
  if (/[/\\]|\.[cm]?[jt]s$/.test(specifier)) {
    const task = await openUserTask(specifier);
    if (!BUILT_IN_TASKS.some(({ task: { id } }) => id === task.id)) return task;
    await task.dispose();
    throw new IsoproError('TASK_INVALID', `${specifier}: member "id" is ${JSON.stringify(task.id)}, which is a built-in task`);
  }
  throw new IsoproError(
    'TASK_UNKNOWN',
    `there is no task ${JSON.stringify(specifier)}; built in are ${BUILT_IN_TASKS.map(({ task }) => task.id).join(', ')}`,
  );
}

function openBuiltIn({ task, readProblem }: BuiltInTask): OpenTask {
  const policy = (name: string): ((problem: Problem) => unknown) => {
    const found = Object.hasOwn(task.trivialPolicies, name) ? task.trivialPolicies[name] : undefined;
    if (found === undefined) throw new IsoproError('INVALID_ARGUMENT', `${task.id} has no policy ${JSON.stringify(name)}`);
    return found;
  };
  return {
    id: task.id,
    version: task.version,
    tiers: task.tiers,
    policies: Object.keys(task.trivialPolicies),
    policyNotes: task.policyNotes ?? {},
    get exploits() {
      return task.exploits;
    },
    source: { kind: 'built-in' },
    generate: async (tier, seed) => task.generate(tier, seed),
    readProblem,
    prompt: async (problem, style) => task.prompt(problem, style),
    judge: async (problem, text, finish) => judgeReply(task, problem, text, finish),
    readAnswer: async (problem, text) => {
      const parsed = task.parse(text, problem);
      return parsed.ok ? canonicalJson(parsed.answer as Json) : null;
    },
    applyPolicy: async (name, problem) => task.verify(problem, policy(name)(problem)),
    grade: async (problem, verdict) =>
      task.grade === undefined ? null : task.grade(problem, verdict, (await task.reference?.(problem)) ?? null),
    feedback: async (problem, verdict) => task.feedback?.(problem, verdict) ?? null,
    checkTrace: async (problem, text) => task.checkTrace?.(problem, text) ?? [],
    fewShot: async (problem, style, count, seed) => task.fewShot?.(problem, style, count, seed) ?? null,
    dispose: async () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}
