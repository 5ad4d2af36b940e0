import { problemNamed } from '../tasks/problem-named.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';
import type { Model } from '../engine/model.js';
import { contextOf } from '../engine/context-overflow.js';
import { hasRoom } from '../backends/backend.js';
import { HeldOutProblems } from './held-out-problems.js';

export interface UndrawnOptions {
  readonly model: Pick<Model, 'renderChat' | 'renderChats' | 'limits'>;
  readonly task: Pick<OpenTask, 'prompt' | 'question'>;
  readonly style: PromptStyle;
  readonly maxTokens: number;
  /** Is told of the first problem of a tier whose prompt is too long. */
  readonly onTooLong?: (sentence: string) => void;
}

/** What training does not draw: problems of evaluation sets, and those whose prompts leave no room in the context for a whole reply. */
export class Undrawn {
  readonly #heldOut: HeldOutProblems;
  readonly #options: UndrawnOptions;
  readonly #tooLong = new Map<string, string>();

  /** @param heldOut of every evaluation set */
  constructor(heldOut: readonly Problem[], options: UndrawnOptions) {
    this.#heldOut = new HeldOutProblems(heldOut, options);
    this.#options = options;
  }

  /** Why a problem is not drawn; null where it is. @throws as OpenTask.prompt and Model.renderChats */
  async find(problem: Problem): Promise<'id' | 'prompt' | 'context' | null> {
    const held = await this.#heldOut.find(problem);
    if (held !== null) return held;
    const { model, task, style, maxTokens, onTooLong } = this.#options;
    const messages = await task.prompt(problem, style);
    const { tokenIds } = model.renderChat(messages);
    const context = contextOf(model.limits);
    if (hasRoom(tokenIds.length, maxTokens, context)) return null;
    if (!this.#tooLong.has(problem.tier)) {
      const sentence =
        `${problemNamed(problem, messages)} is not drawn, nor are others like it: its prompt has ${tokenIds.length} tokens, and with ` +
        `--max-tokens ${maxTokens} it exceeds the context of ${context}`;
      this.#tooLong.set(problem.tier, sentence);
      onTooLong?.(sentence);
    }
    return 'context';
  }

  /** A sentence for each tier of which problems had no room, by its id. */
  get tooLong(): ReadonlyMap<string, string> {
    return this.#tooLong;
  }
}
