import { z } from 'zod';
import { SET_NAMES } from '../../tasks/frozen-sets.js';
import { PROMPT_STYLES } from '../../tasks/task.js';
import { flags, jobKind } from './kind.js';
import { contextOf, memoryOf, memoryOfGrader } from '../../operations/memory.js';
import { check, count, maxTokens, model, seed, task, text } from './members.js';

const settings = z.strictObject({
  model,
  adapter: z
    .string()
    .min(1)
    .max(200)
    .optional()
    .describe('an adapter of this server, or the id of a job that made one'),
  task,
  check,
  answerTag: z
    .string()
    .min(1)
    .max(31)
    .optional()
    .describe('of rows: the answer is what stands between <tag> and </tag>'),
  verifySeconds: z
    .number()
    .gt(0)
    .max(3600)
    .optional()
    .describe('seconds that judging a reply may take; default: 5'),
  system: text.optional().describe("before every prompt, as the system's message"),
  stop: z
    .array(z.string().min(1).max(200))
    .min(1)
    .max(16)
    .optional()
    .describe('texts that end a reply'),
  judgeTruncated: z.boolean().optional().describe('judge replies that were cut off as they stand'),
  set: z
    .enum(SET_NAMES as [string, ...string[]])
    .optional()
    .describe('which held-out problems; default: test'),
  perTier: count(1000).optional().describe('the first so many problems of each tier; default: all'),
  style: z
    .enum(PROMPT_STYLES as ['cot', 'plain'])
    .optional()
    .describe('ask for reasoning before the answer, or for the answer alone'),
  maxTokens: maxTokens.describe('tokens an answer; default: 1024'),
  samples: count(1024)
    .optional()
    .describe('1 (default): greedy; more: pass@k from so many samples'),
  fewShot: count(64).optional().describe('solved examples of the same tier before each question'),
  constrained: z.boolean().optional().describe("decode under the task's grammar of answers"),
  temperature: z.number().gt(0).max(10).optional().describe('of the samples; default: 0.8'),
  seed,
  turns: count(64).optional().describe('replies of an episode, at most; default: as the task says'),
  threads: count(1024).optional().describe('default: the physical cores; embedded: 1'),
  context: count(2 ** 26)
    .optional()
    .describe('tokens of KV cache over all running answers'),
  batch: count(1024).optional().describe('answers at once'),
});

export const evaluate = jobKind({
  id: 'eval',
  title: "Accuracy of a model on a task's held-out problems",
  settings,
  async prepare(stated, { names }) {
    const {
      model: named = names.allowed.model,
      adapter,
      task: asked = 'scheduling',
      check: checked,
      ...others
    } = stated;
    const real = names.model(named, 'settings.model');
    const standing = checked === undefined ? undefined : names.check(checked, 'settings.check');
    return {
      args: [
        'eval',
        ...flags({
          model: real,
          ...(adapter !== undefined && { adapter: names.adapter(adapter, 'settings.adapter') }),
          task: names.task(asked, 'settings.task'),
          ...(standing !== undefined && { check: standing }),
          ...others,
        }),
      ],
      run: null,
      memoryBytes:
        (await memoryOf(real, stated.context ?? contextOf(real))) +
        (await memoryOfGrader(standing)),
      resolved: { ...stated, model: named, task: asked },
    };
  },
});
