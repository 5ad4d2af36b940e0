import { problemNamed } from '../tasks/problem-label.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';
import type { Model } from '../engine/model.js';
import { contextOf } from '../engine/context-overflow.js';
import { hasRoom } from '../backends/backend.js';
import { HeldOutProblems } from './held-out-problems.js';

export interface UndrawnOptions {
  readonly model: Pick<Model, 'renderChat' | 'promptIdentities' | 'limits'>;
  readonly task: Pick<OpenTask, 'prompt' | 'question'>;
  readonly style: PromptStyle;
  readonly maxTokens: number;
  /** Is told of the first problem of a tier whose prompt is too long. */
  readonly onTooLong?: (sentence: string) => void;
}

type Asking = Pick<UndrawnOptions, 'model' | 'task' | 'style' | 'maxTokens'>;

const promptTokens = async (
  problem: Problem,
  { model, task, style }: Omit<Asking, 'maxTokens'>,
): Promise<number> => model.renderChat(await task.prompt(problem, style)).tokenIds.length;

/**
 * Returns a sentence that names a problem whose prompt leaves no room for a whole reply; else null.
 */
export async function tooLong(problem: Problem, asking: Asking): Promise<string | null> {
  const { model, task, style, maxTokens } = asking;
  const context = contextOf(model.limits);
  const tokens = await promptTokens(problem, asking);
  if (hasRoom(tokens, maxTokens, context)) return null;
  const named = problemNamed(problem, await task.prompt(problem, style));
  return `the prompt of ${named} has ${tokens} tokens, and with --max-tokens ${maxTokens} exceeds the context of ${context}`;
}

/**
 * Problems that training does not draw: those of evaluation sets, and those whose prompts leave no
 * room in the context for a whole reply.
 */
export class Undrawn {
  readonly #heldOut: HeldOutProblems;
  readonly #options: UndrawnOptions;
  readonly #tooLong = new Map<string, string>();

  /** @param heldOut of every evaluation set */
  constructor(heldOut: readonly Problem[], options: UndrawnOptions) {
    this.#heldOut = new HeldOutProblems(heldOut, options);
    this.#options = options;
  }

  /**
   * Returns why a problem is not drawn; null if it may be.
   * @throws as OpenTask.prompt and Model.promptIdentities
   */
  async find(problem: Problem): Promise<'id' | 'prompt' | 'context' | null> {
    const held = await this.#heldOut.find(problem);
    if (held !== null) return held;
    const sentence = await tooLong(problem, this.#options);
    if (sentence === null) return null;
    if (!this.#tooLong.has(problem.tier)) {
      this.#tooLong.set(problem.tier, sentence);
      this.#options.onTooLong?.(`${sentence}; this problem and others like it are not used`);
    }
    return 'context';
  }

  /** Returns the most tokens of a reply to a problem. */
  async roomFor(problem: Problem): Promise<number> {
    return contextOf(this.#options.model.limits) - (await promptTokens(problem, this.#options));
  }

  /** Sentences by id of the tier, for tiers with problems that did not fit. */
  get tooLong(): ReadonlyMap<string, string> {
    return this.#tooLong;
  }
}
