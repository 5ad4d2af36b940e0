import type {
  ExploitCase,
  Problem,
  Task,
  Tier,
  Verdict,
  VerifyContext,
  Violation,
} from './task.js';

/** A verdict; `violations` and `metrics` may be left out. */
export interface GivenVerdict
  extends Pick<Verdict, 'kind' | 'reason' | 'results' | 'score' | 'forecast'>,
    Partial<Pick<Verdict, 'metrics'>> {
  readonly violations?: readonly Pick<Violation, 'category' | 'detail'>[];
}

/** Result of reading a reply. `form`, `category` and `detail` may be left out. */
export type GivenParsed<A> =
  | { readonly ok: true; readonly answer: A; readonly form?: string }
  | { readonly ok: false; readonly category?: string; readonly detail?: string };

/**
 * Task as a user writes it; members with an obvious default may be left out. The host assigns
 * problem ids.
 */
export interface TaskDefinition<P extends object, A>
  extends Pick<
      Task<P & Problem, A>,
      | 'id'
      | 'version'
      | 'prompt'
      | 'readLeniently'
      | 'answerGrammar'
      | 'limits'
      | 'grade'
      | 'feedback'
      | 'step'
      | 'checkTrace'
      | 'fewShot'
      | 'reference'
      | 'referenceReply'
      | 'policyNotes'
    >,
    Partial<Pick<Task<P & Problem, A>, 'trivialPolicies'>> {
  /** `title` defaults to the id, `trains` to true. */
  readonly tiers: readonly (Partial<Tier> & Pick<Tier, 'id'>)[];
  generate(tier: string, seed: bigint): P | Promise<P>;
  parse(text: string, problem: P & Problem, earlier?: readonly string[]): GivenParsed<A>;
  verify(
    problem: P & Problem,
    answer: A,
    context: VerifyContext,
  ): GivenVerdict | Promise<GivenVerdict>;
  readonly exploits?: readonly (Pick<ExploitCase, 'name' | 'text'> &
    Partial<Pick<ExploitCase, 'source' | 'finish'>> & { problem: P })[];
}

/** Types a user's task; the file exports the result as its default. */
export const defineTask = <P extends object, A>(
  definition: TaskDefinition<P, A>,
): TaskDefinition<P, A> => definition;
