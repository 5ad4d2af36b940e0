/**
 * A task that is asked with a system prompt or solved examples, whose replies end at a given text,
 * or whose truncated ones are judged: the same task in all else.
 */
import { IsoproError } from '../errors.js';
import { given as stated } from '../given.js';
import type { AskingOptions } from './asking-options.js';
import type { ChatMessage, OpenTask, Problem, PromptStyle } from './task.js';
import { isSystem, TierExamples } from './tier-examples.js';

/** The system's message first, once. */
function withSystem(system: string | undefined, messages: readonly ChatMessage[]): ChatMessage[] {
  const said = [
    ...(system === undefined ? [] : [system]),
    ...messages.filter(isSystem).map(({ content }) => content),
  ];
  const others = messages.filter((message) => !isSystem(message));
  return said.length === 0 ? others : [{ role: 'system', content: said.join('\n\n') }, ...others];
}

/**
 * @throws IsoproError INVALID_ARGUMENT where stop strings are given for a task of several turns,
 * whose dialogue goes on after the model's own end token; at the first prompt, where the task has
 * no solved examples
 */
export function askedOtherwise(task: OpenTask, asking: AskingOptions): OpenTask {
  const { system, examples = 0, stop, judgeTruncated = false } = asking;
  if (system === undefined && examples === 0 && stop === undefined && !judgeTruncated) return task;
  if (stop?.includes(''))
    throw new IsoproError('INVALID_ARGUMENT', 'stop: an empty text cannot end a reply');
  if (stop !== undefined && task.turns > 1)
    throw new IsoproError(
      'INVALID_ARGUMENT',
      `stop: ${task.id} has ${task.turns} turns, and the model itself has to end each of them`,
    );
  const shown = examples === 0 ? null : new TierExamples(task, examples);
  const prompt = async (problem: Problem, style: PromptStyle): Promise<ChatMessage[]> => {
    const asked = await task.prompt(problem, style);
    if (shown === null) return withSystem(system, asked);
    const before = await shown.before(problem, asked, style);
    return withSystem(system, [
      ...asked.filter(isSystem),
      ...before,
      ...asked.filter((message) => !isSystem(message)),
    ]);
  };
  const { source } = task;
  // the exploits of a built-in task take long to make: they are inherited, and made when asked for
  return Object.assign(Object.create(task) as OpenTask, {
    source:
      source.kind === 'built-in'
        ? source
        : { ...source, options: { ...source.options, ...asking } },
    ...stated({ stop }),
    generate: (tier, seed) => (shown ?? task).generate(tier, seed),
    prompt,
    question: (problem, style) => task.prompt(problem, style),
    judge: (problem, text, finish, options) =>
      task.judge(problem, text, judgeTruncated && finish !== 'aborted' ? 'stop' : finish, options),
  } satisfies Partial<OpenTask>);
}
