import { given } from '../../given.js';
import { visible } from '../../visible-text.js';
import { deriveSeed } from '../../random.js';
import { SET_NAMES, type SetName } from '../../tasks/frozen-sets.js';
import { CHECK_HELP } from '../../tasks/data/check.js';
import { askingOf } from '../../tasks/asking-options.js';
import { dataOptionsOf } from '../../tasks/data/options.js';
import { openTask, type OpenTaskOptions } from '../../tasks/open-task.js';
import {
  EXAMPLES_HELP,
  STOP_HELP,
  SYSTEM_HELP,
  TASK_HELP,
  TRUNCATED_HELP,
  VERIFY_SECONDS_HELP,
} from '../../training/settings.js';
import { setProblems } from '../../tasks/set-problems.js';
import { PROMPT_STYLES, type OpenTask, type PromptStyle } from '../../tasks/task.js';
import { findTier } from '../../tasks/tier.js';
import { jsonText, UsageError, write } from '../output.js';
import { command } from '../command.js';
import { number, text } from '../option.js';

/** The flags that several `tasks` commands share. */
export const taskOption = {
  type: 'string',
  default: 'scheduling',
  describe: TASK_HELP,
} as const;
export const checkOption = { type: 'string', requiresArg: true, describe: CHECK_HELP } as const;
/** How a task is judged and asked, of every command that opens one. */
export const askingFlags = {
  check: checkOption,
  'answer-tag': {
    type: 'string',
    requiresArg: true,
    describe: 'of data: the answer is what stands between <tag> and </tag>',
  },
  'verify-seconds': { type: 'number', requiresArg: true, describe: VERIFY_SECONDS_HELP },
  system: { type: 'string', requiresArg: true, describe: SYSTEM_HELP },
  examples: { type: 'number', requiresArg: true, describe: EXAMPLES_HELP },
  stop: { type: 'string', array: true, nargs: 1, describe: STOP_HELP },
  'judge-truncated': { type: 'boolean', describe: TRUNCATED_HELP },
} as const;
interface OpeningFlags {
  readonly check?: string | undefined;
  readonly answerTag?: string | undefined;
  readonly verifySeconds?: number | undefined;
  readonly system?: string | undefined;
  readonly examples?: number | undefined;
  readonly stop?: readonly string[] | undefined;
  readonly judgeTruncated?: boolean | undefined;
  readonly verifierThreads?: number | undefined;
}
/** What a task is opened with. */
export const openedWith = (flags: OpeningFlags): OpenTaskOptions => ({
  ...dataOptionsOf(flags),
  ...askingOf({
    ...flags,
    examples: flags.examples === undefined ? undefined : readCount('examples', flags.examples, 1),
  }),
  ...given({ verifierThreads: flags.verifierThreads }),
});
export const verifierThreadsOption = {
  type: 'number',
  describe:
    'threads that judge replies at once, for a slow verifier; the result is the same with any number',
  defaultDescription: '1',
} as const;
export const setOption = {
  choices: SET_NAMES,
  describe: 'problems of a frozen set, or held-out rows of data, instead of generated ones',
} as const;
export const seedOption = {
  type: 'string',
  default: '1',
  describe: 'whole number that determines the problems',
} as const;

export function readSeed(text: string): bigint {
  if (!/^\d{1,20}$/.test(text))
    throw new UsageError('--seed takes a whole number from 0 to 2^64 - 1');
  const seed = BigInt(text);
  if (seed >= 1n << 64n) throw new UsageError('--seed takes a whole number from 0 to 2^64 - 1');
  return seed;
}

export function readCount(name: string, value: number, least: number): number {
  if (!Number.isSafeInteger(value) || value < least)
    throw new UsageError(`--${name} takes a whole number from ${least}`);
  return value;
}

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
    tier: text('one tier; all of them by default'),
    count: number('problems of each tier', 1),
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
    ['$0 tasks generate --tier T5 --count 3 --seed 7 --json', 'three problems for a program'],
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
        throw new UsageError(`${task.id} has no solved examples; leave --few-shot out`);
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
