import { visible } from '../../visible-text.js';
import { deriveSeed } from '../../random.js';
import type { SetName } from '../../tasks/frozen-sets.js';
import { openTask } from '../../tasks/open-task.js';
import { setProblems } from '../../tasks/set-problems.js';
import { PROMPT_STYLES, type OpenTask, type PromptStyle } from '../../tasks/task.js';
import { findTier } from '../../tasks/tier.js';
import { jsonText, UsageError, write } from '../output.js';
import { command } from '../command.js';
import { number, readCount, readSeed, text } from '../option.js';
import { askingFlags, openedWith, seedOption, setOption, taskOption } from './opening.js';

async function* problems(
  task: OpenTask,
  tiers: readonly string[],
  count: number,
  seed: bigint,
  set: SetName | undefined,
) {
  for (const tier of tiers) {
    if (set !== undefined)
      yield* setProblems(task, set)
        .filter((problem) => problem.tier === tier)
        .slice(0, count);
    else
      for (let sample = 0; sample < count; sample++)
        yield await task.generate(
          tier,
          deriveSeed({ runSeed: seed, purpose: 'generate', iteration: 0, problemId: tier, sample }),
        );
  }
}

export const tasksGenerateCommand = command({
  command: 'generate',
  describe: 'Print problems as a model sees them, or as JSON lines {problem, messages}',
  options: {
    task: taskOption,
    ...askingFlags,
    tier: text('one tier; default: all'),
    count: number('problems per tier', 1),
    seed: seedOption,
    set: setOption,
    style: {
      choices: PROMPT_STYLES,
      default: 'cot' as PromptStyle,
      describe: 'ask for reasoning before the answer, or for the answer alone',
    },
    'few-shot': number('solved examples of the same tier before each problem', 0),
  },
  examples: [
    ['$0 tasks generate --tier T5 --count 3 --seed 7 --json', 'three problems as JSON lines'],
    ['$0 tasks generate --set test --json', 'the frozen test set'],
  ],
  handler: async ({
    task: specifier,
    tier,
    count,
    seed: seedText,
    set,
    style,
    fewShot,
    json,
    ...flags
  }) => {
    const seed = readSeed(seedText);
    readCount('count', count, 1);
    readCount('few-shot', fewShot, 0);
    await using task = await openTask(specifier, openedWith(flags));
    const tiers =
      tier === undefined
        ? task.tiers.map(({ id }) => id)
        : [findTier(task.id, task.tiers, tier).id];
    for await (const problem of problems(task, tiers, count, seed, set)) {
      const examples = fewShot === 0 ? [] : await task.fewShot(problem, style, fewShot, seed);
      if (examples === null)
        throw new UsageError(`${task.id} has no solved examples; leave out --few-shot`);
      const messages = [...examples, ...(await task.prompt(problem, style))];
      const texts = messages.map(({ role, content }) =>
        messages.length === 1 ? content : `[${role}]\n${content}`,
      );
      await write(
        json
          ? `${jsonText({ problem, messages })}\n`
          : visible(`${problem.tier} ${problem.id}\n\n${texts.join('\n\n')}\n\n`),
      );
    }
  },
});
