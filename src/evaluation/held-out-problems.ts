import type { Model } from '../engine/model.js';
import type { ChatMessage, OpenTask, Problem, PromptStyle } from '../tasks/task.js';

/**
 * Problems that training must not see, by their ids and by the tokens of their prompts. A member
 * that the prompt leaves out changes the id but not the question.
 */
export class HeldOutProblems {
  readonly #identitiesOf: (problems: readonly Problem[]) => Promise<string[]>;
  readonly #problems: readonly Problem[];
  readonly #ids: ReadonlySet<string>;
  #prompts: Promise<ReadonlySet<string>> | undefined;

  constructor(
    problems: readonly Problem[],
    {
      model,
      task,
      style,
    }: {
      readonly model: Pick<Model, 'promptIdentities'>;
      readonly task: Pick<OpenTask, 'prompt' | 'question'>;
      readonly style: PromptStyle;
    },
  ) {
    this.#problems = problems;
    this.#ids = new Set(problems.map(({ id }) => id));
    this.#identitiesOf = async (problems) => {
      const conversations: ChatMessage[][] = [];
      for (const problem of problems)
        conversations.push(await (task.question?.(problem, style) ?? task.prompt(problem, style)));
      return model.promptIdentities(conversations);
    };
  }

  /**
   * Returns how a problem matches one of these; null if it does not.
   * @throws as OpenTask.prompt and Model.promptIdentities
   */
  async find(problem: Problem): Promise<'id' | 'prompt' | null> {
    if (this.#ids.has(problem.id)) return 'id';
    this.#prompts ??= this.#identitiesOf(this.#problems).then((prompts) => new Set(prompts));
    const [prompt] = await this.#identitiesOf([problem]);
    return (await this.#prompts).has(prompt!) ? 'prompt' : null;
  }
}
