/**
 * Solved examples of a tier, the same before every question of it. Their problems are never
 * generated as questions.
 */
import { hash } from 'node:crypto';
import { IsoproError } from '../errors.js';
import type { ChatMessage, OpenTask, Problem, PromptStyle } from './task.js';
import { seedOf } from './seed.js';

/**
 * Most draws to replace a problem that is an example. A tier with hardly more problems than
 * examples may still return one.
 */
const MOST_REDRAWS = 100;

export const isSystem = ({ role }: ChatMessage): boolean => role === 'system';

/** A question's messages with its answer, which ends them. */
type Example = readonly ChatMessage[];

const question = (messages: readonly ChatMessage[]): string =>
  messages.findLast(({ role }) => role === 'user')?.content ?? '';

function asExamples(messages: readonly ChatMessage[]): Example[] {
  const examples: ChatMessage[][] = [];
  for (const [index, message] of messages.entries()) {
    if (index === 0 || (message.role === 'user' && messages[index - 1]!.role === 'assistant'))
      examples.push([]);
    examples.at(-1)!.push(message);
  }
  return examples;
}

export class TierExamples {
  readonly #task: OpenTask;
  readonly #count: number;
  /** Null where the task has no solved examples. */
  readonly #drawn = new Map<string, Promise<readonly ChatMessage[] | null>>();

  /** @param count examples before each question */
  constructor(task: OpenTask, count: number) {
    this.#task = task;
    this.#count = count;
  }

  /**
   * Returns the examples before a question, without the question itself.
   * @throws IsoproError INVALID_ARGUMENT if the task has no solved examples
   */
  async before(
    problem: Problem,
    asked: readonly ChatMessage[],
    style: PromptStyle,
  ): Promise<readonly ChatMessage[]> {
    const rows = this.#task.rows !== undefined; // which leave out the question themselves
    const messages = rows
      ? await this.#draw(problem, style)
      : await this.#ofTier(problem.tier, style);
    if (messages === null)
      throw new IsoproError(
        'INVALID_ARGUMENT',
        `examples: ${this.#task.id} has no solved examples`,
      );
    if (rows) return messages;
    return asExamples(messages)
      .filter((example) => question(example) !== question(asked))
      .flat();
  }

  /**
   * Generates a problem that is not one of the examples, so that no held-out problem is shown
   * solved in a training prompt.
   */
  async generate(tier: string, seed: bigint): Promise<Problem> {
    let problem = await this.#task.generate(tier, seed);
    // rows of the examples are of those that are trained on
    if (this.#task.rows !== undefined) return problem;
    const shown = new Set(asExamples((await this.#ofTier(tier, 'plain')) ?? []).map(question));
    const isShown = async (): Promise<boolean> =>
      shown.size > 0 && shown.has(question(await this.#task.prompt(problem, 'plain')));
    for (let sample = 0; sample < MOST_REDRAWS && (await isShown()); sample++)
      problem = await this.#task.generate(tier, seedOf(seed, 'not-an-example', tier, sample));
    return problem;
  }

  /** Of one question, since a task may draw other examples for each. */
  #ofTier(tier: string, style: PromptStyle): Promise<readonly ChatMessage[] | null> {
    const key = JSON.stringify([tier, style]);
    const known = this.#drawn.get(key);
    if (known !== undefined) return known;
    const drawn = this.#task.generate(tier, 0n).then((first) => this.#draw(first, style));
    this.#drawn.set(key, drawn);
    drawn.catch(() => this.#drawn.delete(key));
    return drawn;
  }

  async #draw(problem: Problem, style: PromptStyle): Promise<readonly ChatMessage[] | null> {
    const seed = BigInt(`0x${hash('sha256', problem.tier).slice(0, 16)}`);
    const messages = await this.#task.fewShot(problem, style, this.#count, seed);
    return messages?.filter((message) => !isSystem(message)) ?? null;
  }
}
