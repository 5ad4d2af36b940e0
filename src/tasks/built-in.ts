/** What the tasks that ship have in common. */
import { z } from 'zod';
import { IsoproError } from '../errors.js';
import { Random } from '../random.js';
import { frozenIndex } from './frozen-sets.js';
import { problemId } from './problem-id.js';
import { seedOf } from './seed.js';
import type { ChatMessage, ExploitCase, FinishReason, Problem } from './task.js';

/** Returns the first problem of a stream that is in no frozen set of the task. */
export function unfrozen<P extends Problem>(task: string, draw: () => P): P {
  let problem = draw();
  while (frozenIndex(task).has(problem.id)) problem = draw();
  return problem;
}

/**
 * Returns `count` solved problems of the question's tier, as user and assistant messages; never the
 * question itself.
 * @param solved messages of an example with its answer, or null for an example that has none;
 *   `draw` counts the examples drawn so far
 */
export async function solvedExamples<P extends Problem>(
  question: P,
  count: number,
  seed: bigint,
  generate: (tier: string, seed: bigint) => P,
  solved: (
    example: P,
    draw: number,
  ) => readonly ChatMessage[] | Promise<readonly ChatMessage[] | null>,
): Promise<ChatMessage[]> {
  const messages: ChatMessage[] = [];
  const used = new Set([question.id]);
  for (let draw = 0; used.size <= count; draw++) {
    const example = generate(question.tier, seedOf(seed, 'few-shot', question.id, draw));
    if (used.has(example.id)) continue;
    const shown = await solved(example, draw);
    if (shown === null) continue;
    used.add(example.id);
    messages.push(...shown);
  }
  return messages;
}

/** Random numbers of a policy, the same each time for a problem. */
export const policyRandom = ({ id }: Problem): Random => new Random(seedOf(0n, 'random-valid', id));

/** A trick by its name and text; `finish` defaults to `stop`. */
export type ExploitRow = readonly [name: string, text: string, finish?: FinishReason];

/** Makes exploits of one problem from rows. */
export const exploitCases = <P extends Problem>(
  problem: P,
  rows: readonly ExploitRow[],
  source = 'own',
): ExploitCase<P>[] =>
  rows.map(([name, text, finish = 'stop']) => ({ name, source, problem, text, finish }));

/** A trick whose text is made from some material. */
export type Trick<Material> = readonly [
  name: string,
  text: (material: Material) => string,
  finish?: FinishReason,
];

/** Makes exploits of the problem of a material. */
export const shownOn = <M extends { readonly problem: Problem }>(
  material: M,
  tricks: readonly Trick<M>[],
): ExploitCase<M['problem']>[] =>
  exploitCases<M['problem']>(
    material.problem,
    tricks.map(([name, text, finish = 'stop']) => [name, text(material), finish]),
  );

type Frozen<T> = T extends object ? { readonly [Name in keyof T]: Frozen<T[Name]> } : T;
/** The problems of a form. */
export type ProblemOf<S extends z.ZodType> = Problem & Frozen<Content<S>>;

type Content<S extends z.ZodType> = Omit<z.output<S>, 'id'>;

/**
 * Reads a problem that came from outside: its form, its task, what `check` asks of it, and that its
 * `id`, where given, is the content hash.
 * @param named what it should be, such as `an SQL problem`
 * @throws IsoproError PROBLEM_INVALID
 */
export function readContent<
  S extends z.ZodType<{ readonly id?: string | undefined; readonly task: string }>,
>(
  named: string,
  task: string,
  form: S,
  value: unknown,
  check: (content: Content<S>, invalid: (what: string) => never) => void = () => undefined,
): Content<S> & { readonly id: string } {
  const invalid = (what: string): never => {
    throw new IsoproError('PROBLEM_INVALID', `not ${named}: ${what}`);
  };
  const result = form.safeParse(value);
  if (!result.success) return invalid(z.prettifyError(result.error));
  const { id, ...content } = result.data;
  if (content.task !== task)
    invalid(`it is a problem of the task ${JSON.stringify(content.task)}, not of ${task}`);
  check(content, invalid);
  const computed = problemId(content);
  if (id !== undefined && id !== computed) invalid(`its id is not its content hash ${computed}`);
  return { id: computed, ...content };
}
