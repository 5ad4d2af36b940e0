import type { Forecast } from '../statistics/index.js';
import type { AskingOptions } from './asking-options.js';
import type { DataTaskOptions } from './data/options.js';

/** One message of a chat; the engine renders lists of them with the model's own template. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** `cot` asks for reasoning before the answer block, `plain` for the block alone. */
export type PromptStyle = 'cot' | 'plain';
export const PROMPT_STYLES: readonly PromptStyle[] = ['cot', 'plain'];

/**
 * How a rollout ended: with the end-of-turn token, at the token limit, before a turn for which the
 * context had no room (its last reply ended by itself, the episode did not), or cancelled.
 */
export const FINISH_REASONS = ['stop', 'length', 'context', 'aborted'] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];

export interface Tier {
  readonly id: string;
  readonly title: string;
  /** False: held out of training, used for evaluation only. */
  readonly trains: boolean;
  /** Tiers of one group are averaged into one tier of that name before tiers are averaged. */
  readonly group?: string;
}

export interface Problem {
  /** SHA-256 (hex) of the RFC 8785 JSON of the problem without `id` and `reference`. */
  readonly id: string;
  readonly tier: string;
}

export type VerdictKind = 'pass' | 'fail' | 'none';

export interface Violation {
  readonly category: string;
  /** The jobs, tests, … concerned, named as the prompt names them. */
  readonly jobs: readonly string[];
  /** By how much the rule is broken, in the rule's own unit. */
  readonly amount: number;
  /** One sentence for a reader of the prompt. */
  readonly detail: string;
}

/**
 * `none`: the verifier could not decide (`reason` says why); it is never counted as a failure, and
 * carries no figure.
 */
export interface Verdict {
  readonly kind: VerdictKind;
  readonly violations: readonly Violation[];
  readonly metrics: Readonly<Record<string, number>>;
  readonly reason?: string;
  /**
   * What the answer came to beside what was right, for a reader of report and log; no model is told
   * it.
   */
  readonly results?: { readonly found: string; readonly expected: string };
  /**
   * How good the answer is, in [0, 1], 1 being best. In a mean a pass without one counts 1, a fail
   * without one 0.
   */
  readonly score?: number;
  /** Of a task whose answers are probabilities; evaluation gives them proper scores. */
  readonly forecast?: Forecast;
}

/** What `verify` is given beside the answer. */
export interface VerifyContext {
  /** Aborted when the task's time limit is over, and when nobody waits for the verdict any more. */
  readonly signal: AbortSignal;
}

export interface TaskLimits {
  /**
   * Seconds in which a reply must be parsed and verified, at most 3600; 5 where the task declares
   * none. Past it the verdict is `none`.
   */
  readonly verifySeconds?: number;
  /** Replies of an episode, at most 64; a task with `step` declares them. */
  readonly turns?: number;
}

export type Parsed<A> =
  | { readonly ok: true; readonly answer: A; readonly form: string }
  | { readonly ok: false; readonly category: string; readonly detail: string };

/** One verdict per grade, e.g. `feasible`, `epsilon0`, `epsilon0.1`. */
export type Grades = Readonly<Record<string, VerdictKind>>;

/**
 * A statement in a rollout's reasoning that the problem, or the rollout's own answer, contradicts.
 */
export interface TraceFinding {
  readonly category: string;
  readonly jobs: readonly string[];
  readonly claimed: string;
  readonly actual: string;
  /** The words of the reasoning that make the claim. */
  readonly excerpt: string;
}

/** A reply that must not pass, and why somebody might have hoped that it does. */
export interface ExploitCase<P extends Problem = Problem> {
  readonly name: string;
  /** Where the trick is known from, e.g. `isopro.md §3.3 row 4`. */
  readonly source: string;
  readonly problem: P;
  readonly text: string;
  readonly finish: FinishReason;
}

/**
 * What a task is: problems, prompts, and a verifier that needs no model. `P` is the problem, `A`
 * the parsed answer, `R` the reference that grades compare with (by default an answer).
 */
export interface Task<P extends Problem, A, R = A> {
  readonly id: string;
  /** Changes whenever a problem, a prompt or a verdict of the task could change. */
  readonly version: string;
  readonly tiers: readonly Tier[];
  /** Deterministic in (tier, seed); never a problem of the frozen evaluation sets. */
  generate(tier: string, seed: bigint): P | Promise<P>;
  /** States every rule that the verifier enforces. */
  prompt(problem: P, style: PromptStyle): ChatMessage[];
  /**
   * Strict: one answer block, or the reason why not.
   * @param earlier replies of the episode, in a task of several turns
   */
  parse(text: string, problem: P, earlier?: readonly string[]): Parsed<A>;
  /**
   * The most lenient reading, which tells skill from format: every answer that can be found
   * anywhere in a reply, finished or not. A measure only, nothing is trained on it. At most the
   * first `MAX_READINGS` are judged.
   */
  readLeniently?(text: string, problem: P): readonly A[];
  /**
   * GBNF of what `parse` reads, for decoding in which the form cannot fail. General: it names
   * nothing of any problem, so that it gives no answer away.
   */
  readonly answerGrammar?: string;
  /** Deterministic, without a solver, and within the task's time limit. */
  verify(problem: P, answer: A, context: VerifyContext): Verdict | Promise<Verdict>;
  readonly limits?: TaskLimits;
  grade?(problem: P, verdict: Verdict, reference: R | null): Grades;
  /** What a user would be told before trying again. */
  feedback?(problem: P, verdict: Verdict): string;
  /**
   * A task of several turns: what the model is told after its replies so far; null where the
   * episode ends with them. Pure, and all state is in its arguments, so that a run that goes on and
   * a judge come to the same. `limits.turns` bounds it.
   */
  step?(problem: P, replies: readonly string[]): string | null;
  /**
   * A correct answer, or null where none could be found in time. Never shown to the model, never
   * trained on by the loop.
   */
  oracle?(problem: P): Promise<A | null>;
  /** What `grade` compares with; null where it could not be found in time. */
  reference?(problem: P): Promise<R | null>;
  /**
   * A reply that passes, in the form that the prompt asks for; null where none could be found in
   * time. The control `references` alone trains on it, in a task whose episodes are one reply.
   * Pure.
   */
  referenceReply?(problem: P, style: PromptStyle): string | null | Promise<string | null>;
  /** Contradictions between a reply's reasoning and the problem; empty when none was found. */
  checkTrace?(problem: P, text: string): TraceFinding[];
  /** Solved examples of the question's own tier, as alternating user and assistant messages. */
  fewShot?(problem: P, style: PromptStyle, count: number, seed: bigint): Promise<ChatMessage[]>;
  /** Policies that use no model; scored in every report. */
  readonly trivialPolicies: Readonly<Record<string, (problem: P) => A>>;
  /** What must be known beside a policy's figures, by policy. */
  readonly policyNotes?: Readonly<Record<string, string>>;
  readonly exploits: readonly ExploitCase<P>[];
  /**
   * Replies that pass although they should not: what a reproduction of somebody else's verifier
   * must accept.
   */
  readonly knownHoles?: readonly ExploitCase<P>[];
  /** Replies that were cut off are judged like complete ones instead of failing as `truncated`. */
  readonly judgesTruncated?: boolean;
  /**
   * Of a built-in task: ends what its verifier has started, processes for one. The next verdict
   * starts it again.
   */
  dispose?(): Promise<void>;
}

/** A task whose verdicts are there at once. */
export interface SynchronousTask<P extends Problem, A, R = A> extends Task<P, A, R> {
  verify(problem: P, answer: A, context?: VerifyContext): Verdict;
}

/** What is known of a task whose problems are the rows of a file. */
export interface TaskRows {
  /** In the order in which an evaluation takes them. */
  readonly heldOut: Readonly<Record<'dev' | 'test', readonly Problem[]>>;
  /** What is trained on, in the order of the file: all that a tier can generate. */
  readonly trained: (tier: string) => readonly Problem[];
  /** Rows of each part. */
  readonly counts: Readonly<Record<'dev' | 'test' | 'train', number>>;
  /** Rows that were left out: the same question and answer stand in an earlier one. */
  readonly duplicates: number;
  /**
   * `name` is as a manifest holds it, without folders; `specifier` opens it again, wherever this
   * process then is.
   */
  readonly check: {
    readonly name: string;
    readonly specifier: string;
    /** Of a model that scores: its file without folders, and what that holds. */
    readonly grader?: { readonly model: string; readonly sha256: string };
  };
  /** Where the split is written down, and as what. */
  readonly split: { readonly file: string; readonly text: string };
  /**
   * Held-out rows whose question is nearly one that is trained on, and the numbers of two such
   * rows. Not quick for a large file.
   */
  nearDuplicates(): {
    readonly rows: number;
    readonly heldOut: number;
    readonly example: { readonly heldOut: number; readonly train: number } | null;
  };
}

export interface Judgement {
  readonly verdict: Verdict;
  /**
   * The surface form of the answer as the parser names it; null where there was no answer to read.
   */
  readonly form: string | null;
}

export interface JudgeOptions {
  /** Replies of the episode before this one. */
  readonly earlier?: readonly string[];
  /** Of who waits for the verdict; the verifier is told. */
  readonly signal?: AbortSignal;
}

/**
 * A task ready for use: the same asynchronous face for a built-in one, which runs here, and a
 * user's, which runs in a thread with a time limit; several threads may judge. Answers stay inside.
 */
export interface OpenTask {
  readonly id: string;
  readonly version: string;
  readonly tiers: readonly Tier[];
  /** Names of the trivial policies. */
  readonly policies: readonly string[];
  readonly policyNotes: Readonly<Record<string, string>>;
  readonly exploits: readonly ExploitCase[];
  /**
   * `path` opens a task of a user's again, with `options`; `sha256` is over its code with all that
   * it imports, or its rows and their check.
   */
  readonly source:
    | { readonly kind: 'built-in' }
    | {
        readonly kind: 'file';
        readonly path: string;
        readonly sha256: string;
        readonly options: DataTaskOptions & AskingOptions;
      };
  /**
   * Of a task whose problems are the rows of a file; what it generates is among those that are
   * trained on.
   */
  readonly rows?: TaskRows;
  /** @throws IsoproError TIER_UNKNOWN */
  generate(tier: string, seed: bigint): Promise<Problem>;
  /** @throws IsoproError PROBLEM_INVALID */
  readProblem(value: unknown): Problem;
  prompt(problem: Problem, style: PromptStyle): Promise<ChatMessage[]>;
  /**
   * What a problem asks, where `prompt` says more: without solved examples, which need not be the
   * same for one question.
   */
  question?(problem: Problem, style: PromptStyle): Promise<ChatMessage[]>;
  /**
   * Verdicts come out in the order in which they are asked for.
   * @throws IsoproError TASK_INVALID, ABORTED
   */
  judge(
    problem: Problem,
    text: string,
    finish: FinishReason,
    options?: JudgeOptions,
  ): Promise<Judgement>;
  /** Whether the task has a most lenient reading. */
  readonly readsLeniently: boolean;
  /**
   * The verdict on the most lenient reading of a reply, cut off or not: `pass` where any answer in
   * it passes. Null where the task has no such reading. In order with the verdicts of `judge`.
   * @throws IsoproError TASK_INVALID, ABORTED
   */
  judgeLeniently(
    problem: Problem,
    text: string,
    options?: Pick<JudgeOptions, 'signal'>,
  ): Promise<Judgement | null>;
  /** GBNF of the form of an answer, the same for every problem; null where the task has none. */
  readonly answerGrammar: string | null;
  /**
   * The answer in a reply as RFC 8785 JSON, so that equal answers can be counted; null where none
   * can be read.
   */
  readAnswer(problem: Problem, text: string): Promise<string | null>;
  /** @throws IsoproError TASK_INVALID, ABORTED */
  applyPolicy(
    name: string,
    problem: Problem,
    options?: Pick<JudgeOptions, 'signal'>,
  ): Promise<Verdict>;
  /** null where the task has no grades; a grade whose reference cannot be found is `none`. */
  grade(problem: Problem, verdict: Verdict): Promise<Grades | null>;
  feedback(problem: Problem, verdict: Verdict): Promise<string | null>;
  /** Replies of an episode, at most. */
  readonly turns: number;
  /** A reply ends before the first of these texts; absent: where the model ends it. */
  readonly stop?: readonly string[];
  /**
   * What the model is told after its replies so far, each of which ended by itself; null where the
   * episode is over. A task without turns of its own that is opened with several gives its feedback
   * on a reply that fails.
   */
  step(problem: Problem, replies: readonly string[]): Promise<string | null>;
  checkTrace(problem: Problem, text: string): Promise<TraceFinding[]>;
  fewShot(
    problem: Problem,
    style: PromptStyle,
    count: number,
    seed: bigint,
  ): Promise<ChatMessage[] | null>;
  /** Whether the task knows replies that pass by themselves. */
  readonly hasReferences: boolean;
  /** A reply that passes; null where the task knows none. */
  referenceReply(problem: Problem, style: PromptStyle): Promise<string | null>;
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
