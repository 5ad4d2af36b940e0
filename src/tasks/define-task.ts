import type { Forecast } from '../statistics/index.js';
import type {
  ChatMessage,
  ExploitCase,
  FinishReason,
  Problem,
  PromptStyle,
  Task,
  TaskLimits,
  Tier,
  Verdict,
  VerifyContext,
} from './task.js';

/** A verdict; `violations` and `metrics` may be left out. */
export interface GivenVerdict {
  readonly kind: 'pass' | 'fail' | 'none';
  readonly violations?: readonly { readonly category: string; readonly detail: string }[];
  readonly metrics?: Readonly<Record<string, number>>;
  readonly reason?: string;
  readonly results?: Verdict['results'];
  readonly score?: number;
  readonly forecast?: Forecast;
}

/**
 * What a reply was read as; `form` may be left out, and what is wrong with one that could not be
 * read.
 */
export type GivenParsed<A> =
  | { readonly ok: true; readonly answer: A; readonly form?: string }
  | { readonly ok: false; readonly category?: string; readonly detail?: string };

/**
 * What a user writes: the members of a task without what has an obvious default. Problem ids are
 * assigned by the host.
 */
export interface TaskDefinition<P extends object, A> {
  readonly id: string;
  readonly version: string;
  /** `title` defaults to the id, `trains` to true. */
  readonly tiers: readonly (Partial<Tier> & Pick<Tier, 'id'>)[];
  generate(tier: string, seed: bigint): P | Promise<P>;
  prompt(problem: P & Problem, style: PromptStyle): ChatMessage[];
  parse(text: string, problem: P & Problem, earlier?: readonly string[]): GivenParsed<A>;
  verify(
    problem: P & Problem,
    answer: A,
    context: VerifyContext,
  ): GivenVerdict | Promise<GivenVerdict>;
  readLeniently?(text: string, problem: P & Problem): readonly A[];
  readonly answerGrammar?: string;
  readonly limits?: TaskLimits;
  readonly grade?: Task<P & Problem, A>['grade'];
  readonly feedback?: Task<P & Problem, A>['feedback'];
  readonly step?: Task<P & Problem, A>['step'];
  readonly checkTrace?: Task<P & Problem, A>['checkTrace'];
  readonly fewShot?: Task<P & Problem, A>['fewShot'];
  readonly reference?: Task<P & Problem, A>['reference'];
  readonly referenceReply?: Task<P & Problem, A>['referenceReply'];
  readonly trivialPolicies?: Readonly<Record<string, (problem: P & Problem) => A>>;
  readonly policyNotes?: Readonly<Record<string, string>>;
  readonly exploits?: readonly (Omit<ExploitCase, 'problem' | 'source' | 'finish'> & {
    problem: P;
    source?: string;
    finish?: FinishReason;
  })[];
}

/** Types a user's task; the file exports the result as its default. */
export const defineTask = <P extends object, A>(
  definition: TaskDefinition<P, A>,
): TaskDefinition<P, A> => definition;
