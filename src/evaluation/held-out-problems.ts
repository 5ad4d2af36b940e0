import type { Model } from '../engine/model.js';
import type { OpenTask, Problem, PromptStyle } from '../tasks/task.js';

/**
 * What training may not see: problems of evaluation sets, by their ids and by the tokens that the model reads of them. A member that the
 * prompt leaves out gives a problem another id, and the model the same question.
 */
export class HeldOutProblems {
  readonly #promptOf: (problem: Problem) => Promise<string>;
  readonly #problems: readonly Problem[];
  readonly #ids: ReadonlySet<string>;
  #prompts: Promise<ReadonlySet<string>> | undefined;

  constructor(
    problems: readonly Problem[],
    {
      model,
      task,
      style,
    }: { readonly model: Pick<Model, 'renderChat'>; readonly task: Pick<OpenTask, 'prompt'>; readonly style: PromptStyle },
  ) {
    this.#problems = problems;
    this.#ids = new Set(problems.map(({ id }) => id));
    this.#promptOf = async (problem) => model.renderChat(await task.prompt(problem, style)).tokenIds.join();
  }

  /** By what a problem is one of these; null where it is none. @throws as OpenTask.prompt and Model.renderChat */
  async find(problem: Problem): Promise<'id' | 'prompt' | null> {
    if (this.#ids.has(problem.id)) return 'id';
    this.#prompts ??= this.#render();
    return (await this.#prompts).has(await this.#promptOf(problem)) ? 'prompt' : null;
  }

  async #render(): Promise<ReadonlySet<string>> {
    const prompts = new Set<string>();
    for (const problem of this.#problems) prompts.add(await this.#promptOf(problem));
    return prompts;
  }
}
