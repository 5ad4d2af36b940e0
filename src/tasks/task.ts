import type { Forecast } from '../statistics/index.js';
import type { AskingOptions } from './asking-options.js';
import type { DataTaskOptions } from './data/options.js';

/** Message of a chat; the engine renders lists of them with the chat template of the model. */
export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

/** `cot` asks for reasoning before the answer block, `plain` for the block alone. */
export type PromptStyle = 'cot' | 'plain';
export const PROMPT_STYLES: readonly PromptStyle[] = ['cot', 'plain'];

/**
 * How a rollout ended: `stop`, with the end-of-turn token; `length`, at the token limit; `context`,
 * before a turn for which the context had no room, although its last reply ended by itself;
 * `aborted`, cancelled.
 */
export const FINISH_REASONS = ['stop', 'length', 'context', 'aborted'] as const;
export type FinishReason = (typeof FINISH_REASONS)[number];
/**
 * How an episode ended: as its last reply did; `refused`, by a content filter, which is a fail;
 * `failed`, without a reply, which is no verdict. The last two are decided without the task.
 */
export type EpisodeEnd = FinishReason | 'refused' | 'failed';

export interface Tier {
  readonly id: string;
  readonly title: string;
  /** False: the tier is held out of training and used for evaluation only. */
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
  /** Jobs, tests or other things concerned, named as in the prompt. */
  readonly jobs: readonly string[];
  /** Amount by which the rule is broken, in the unit of the rule. */
  readonly amount: number;
  /** One sentence for a reader of the prompt. */
  readonly detail: string;
}

/**
 * Verdict on an answer. `none`: the verifier could not decide, and `reason` says why; it never
 * counts as a failure and has no score.
 */
export interface Verdict {
  readonly kind: VerdictKind;
  readonly violations: readonly Violation[];
  readonly metrics: Readonly<Record<string, number>>;
  readonly reason?: string;
  /**
   * Result of the answer and the expected result, for readers of the report and the log. Never
   * shown to a model.
   */
  readonly results?: { readonly found: string; readonly expected: string };
  /**
   * Quality of the answer in [0, 1], 1 being best. In a mean, a pass without a score counts 1 and a
   * fail without one 0.
   */
  readonly score?: number;
  /** For tasks whose answers are probabilities; evaluation computes proper scores from it. */
  readonly forecast?: Forecast;
}

/** Passed to `verify` with the answer. */
export interface VerifyContext {
  /** Aborted when the time limit is over, or when the verdict is no longer needed. */
  readonly signal: AbortSignal;
}

export interface TaskLimits {
  /**
   * Seconds in which a reply must be parsed and verified, at most 3600; default: 5. After that the
   * verdict is `none`.
   */
  readonly verifySeconds?: number;
  /** Most replies of an episode, up to 64; required for a task with `step`. */
  readonly turns?: number;
}

export type Parsed<A> =
  | { readonly ok: true; readonly answer: A; readonly form: string }
  | { readonly ok: false; readonly category: string; readonly detail: string };

/** Verdicts by grade, e.g. `feasible`, `epsilon0`, `epsilon0.1`. */
export type Grades = Readonly<Record<string, VerdictKind>>;

/**
 * Statement in the reasoning of a rollout that contradicts the problem or the rollout's own answer.
 */
export interface TraceFinding {
  readonly category: string;
  readonly jobs: readonly string[];
  readonly claimed: string;
  readonly actual: string;
  /** Words of the reasoning that make the claim. */
  readonly excerpt: string;
}

/** Reply that must not pass, although a weak verifier might accept it. */
export interface ExploitCase<P extends Problem = Problem> {
  readonly name: string;
  /** Source of the trick, e.g. `isopro.md §3.3 row 4`. */
  readonly source: string;
  readonly problem: P;
  readonly text: string;
  readonly finish: FinishReason;
}

/**
 * Problems, prompts, and a verifier that needs no model. `P` is the problem, `A` the parsed answer,
 * `R` the reference that grades compare with (default: an answer).
 */
export interface Task<P extends Problem, A, R = A> {
  readonly id: string;
  /** Changes whenever a problem, a prompt or a verdict of the task could change. */
  readonly version: string;
  readonly tiers: readonly Tier[];
  /** Makes a problem, the same for the same arguments; never one of the frozen evaluation sets. */
  generate(tier: string, seed: bigint): P | Promise<P>;
  /** Writes the prompt, which states every rule that the verifier enforces. */
  prompt(problem: P, style: PromptStyle): ChatMessage[];
  /**
   * Reads a reply strictly: one answer block, or the reason why there is none.
   * @param earlier earlier replies of the episode, in a task of several turns
   */
  parse(text: string, problem: P, earlier?: readonly string[]): Parsed<A>;
  /**
   * Reads a reply as leniently as possible, to separate skill from format: every answer that can be
   * found anywhere in a reply, finished or not. Only a measure: nothing trains on it. At most the
   * first `MAX_READINGS` answers are judged.
   */
  readLeniently?(text: string, problem: P): readonly A[];
  /**
   * GBNF of what `parse` reads, for decoding that cannot break the form. It names nothing from any
   * problem, so it gives no answer away.
   */
  readonly answerGrammar?: string;
  /** Judges an answer: deterministic, without a solver, within the time limit of the task. */
  verify(problem: P, answer: A, context: VerifyContext): Verdict | Promise<Verdict>;
  readonly limits?: TaskLimits;
  grade?(problem: P, verdict: Verdict, reference: R | null): Grades;
  /** Tells the model what was wrong, before it tries again. */
  feedback?(problem: P, verdict: Verdict): string;
  /**
   * Returns the next message to the model after its replies so far, in a task of several turns;
   * null if the episode is over. Pure: a resumed run and a judge must get the same. `limits.turns`
   * bounds the episode.
   */
  step?(problem: P, replies: readonly string[]): string | null;
  /**
   * Returns a correct answer, or null if none could be found in time. Never shown to the model and
   * never trained on by a run.
   */
  oracle?(problem: P): Promise<A | null>;
  /** Returns what `grade` compares with; null if it could not be found in time. */
  reference?(problem: P): Promise<R | null>;
  /**
   * Returns a reply that passes, in the form that the prompt asks for; null if none could be found
   * in time. Only the control `references` trains on it, for tasks of one reply per episode. Pure.
   */
  referenceReply?(problem: P, style: PromptStyle): string | null | Promise<string | null>;
  /** Finds contradictions between the reasoning of a reply and the problem. */
  checkTrace?(problem: P, text: string): TraceFinding[];
  /** Returns solved examples of the question's tier, as user and assistant messages in turn. */
  fewShot?(problem: P, style: PromptStyle, count: number, seed: bigint): Promise<ChatMessage[]>;
  /** Shortcut programs that answer without a model; every report scores them. */
  readonly trivialPolicies: Readonly<Record<string, (problem: P) => A>>;
  /** Notes that explain the figures of a policy, by its name. */
  readonly policyNotes?: Readonly<Record<string, string>>;
  readonly exploits: readonly ExploitCase<P>[];
  /**
   * Replies that pass although they should not, in a task that reproduces the verifier of someone
   * else.
   */
  readonly knownHoles?: readonly ExploitCase<P>[];
  /** Judges replies that were cut off like complete ones; otherwise they fail as `truncated`. */
  readonly judgesTruncated?: boolean;
  /**
   * Ends what the verifier of a built-in task has started, such as processes. The next verdict
   * starts it again.
   */
  dispose?(): Promise<void>;
}

/** Task whose `verify` returns no promise. */
export interface SynchronousTask<P extends Problem, A, R = A> extends Task<P, A, R> {
  verify(problem: P, answer: A, context?: VerifyContext): Verdict;
}

/** Data about a task whose problems are the rows of a file. */
export interface TaskRows {
  /** Held-out rows, in the order in which an evaluation takes them. */
  readonly heldOut: Readonly<Record<'dev' | 'test', readonly Problem[]>>;
  /** Training rows of a tier, in the order of the file: all that it can generate. */
  readonly trained: (tier: string) => readonly Problem[];
  /** Rows of each part. */
  readonly counts: Readonly<Record<'dev' | 'test' | 'train', number>>;
  /** Rows that were left out because an earlier row has the same question and answer. */
  readonly duplicates: number;
  /**
   * `name` is the name in the manifest, without folders; `specifier` opens the check again from any
   * working directory.
   */
  readonly check: {
    readonly name: string;
    readonly specifier: string;
    /** For a model that scores: name of its file without folders, and SHA-256 of the file. */
    readonly grader?: { readonly model: string; readonly sha256: string };
  };
  /** File that records the split, and its text. */
  readonly split: { readonly file: string; readonly text: string };
  /**
   * Counts the held-out rows whose question is nearly that of a training row, with the numbers of
   * two such rows. Slow for a large file.
   */
  nearDuplicates(): {
    readonly rows: number;
    readonly heldOut: number;
    readonly example: { readonly heldOut: number; readonly train: number } | null;
  };
}

export interface Judgement {
  readonly verdict: Verdict;
  /** Surface form of the answer, as the parser names it; null if no answer could be read. */
  readonly form: string | null;
}

export interface JudgeOptions {
  /** Earlier replies of the episode. */
  readonly earlier?: readonly string[];
  /** Cancels the verdict; the verifier sees it. */
  readonly signal?: AbortSignal;
}

/**
 * Task ready for use. A built-in task runs in this thread, a user's task in one or more threads
 * with a time limit; the interface is the same. Answers stay inside.
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
   * `path` opens a user's task again, with `options`; `sha256` covers its code with everything it
   * imports, or its rows and their check.
   */
  readonly source:
    | { readonly kind: 'built-in' }
    | {
        readonly kind: 'file';
        readonly path: string;
        readonly sha256: string;
        readonly options: DataTaskOptions & AskingOptions;
      };
  /** Present if the problems are the rows of a file; `generate` then returns training rows. */
  readonly rows?: TaskRows;
  /** @throws IsoproError TIER_UNKNOWN */
  generate(tier: string, seed: bigint): Promise<Problem>;
  /** @throws IsoproError PROBLEM_INVALID */
  readProblem(value: unknown): Problem;
  prompt(problem: Problem, style: PromptStyle): Promise<ChatMessage[]>;
  /**
   * Returns the prompt without solved examples, which may differ for the same question. Absent if
   * `prompt` adds nothing.
   */
  question?(problem: Problem, style: PromptStyle): Promise<ChatMessage[]>;
  /**
   * Judges a reply. Verdicts arrive in the order of the calls.
   * @throws IsoproError TASK_INVALID, ABORTED
   */
  judge(
    problem: Problem,
    text: string,
    finish: FinishReason,
    options?: JudgeOptions,
  ): Promise<Judgement>;
  /** True if `judgeLeniently` returns verdicts. */
  readonly readsLeniently: boolean;
  /**
   * Judges the most lenient reading of a reply, cut off or not: `pass` if any answer in it passes.
   * Null if the task has no such reading. Verdicts keep their order with those of `judge`.
   * @throws IsoproError TASK_INVALID, ABORTED
   */
  judgeLeniently(
    problem: Problem,
    text: string,
    options?: Pick<JudgeOptions, 'signal'>,
  ): Promise<Judgement | null>;
  /** GBNF of the form of an answer, the same for every problem; null if the task has none. */
  readonly answerGrammar: string | null;
  /**
   * Returns the answer in a reply as RFC 8785 JSON, so that equal answers can be counted; null if
   * none can be read.
   */
  readAnswer(problem: Problem, text: string): Promise<string | null>;
  /** @throws IsoproError TASK_INVALID, ABORTED */
  applyPolicy(
    name: string,
    problem: Problem,
    options?: Pick<JudgeOptions, 'signal'>,
  ): Promise<Verdict>;
  /** Returns null if the task has no grades; a grade whose reference cannot be found is `none`. */
  grade(problem: Problem, verdict: Verdict): Promise<Grades | null>;
  feedback(problem: Problem, verdict: Verdict): Promise<string | null>;
  /** Most replies of an episode. */
  readonly turns: number;
  /** Texts before which a reply ends; absent: the model ends it. */
  readonly stop?: readonly string[];
  /**
   * Returns the next message to the model after its replies so far, each of which ended by itself;
   * null if the episode is over. A task without turns of its own that is opened with several
   * returns its feedback on a reply that fails.
   */
  step(problem: Problem, replies: readonly string[]): Promise<string | null>;
  checkTrace(problem: Problem, text: string): Promise<TraceFinding[]>;
  fewShot(
    problem: Problem,
    style: PromptStyle,
    count: number,
    seed: bigint,
  ): Promise<ChatMessage[] | null>;
  /** True if `referenceReply` can return replies. */
  readonly hasReferences: boolean;
  /** Returns a reply that passes; null if the task knows none. */
  referenceReply(problem: Problem, style: PromptStyle): Promise<string | null>;
  dispose(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}
