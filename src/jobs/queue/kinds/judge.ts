import { z } from 'zod';
import { flags, jobKind } from './kind.js';
import { contextOf, memoryOf, memoryOfGrader } from './memory.js';
import { check, model, task } from './members.js';

const settings = z.strictObject({
  run: z
    .string()
    .min(1)
    .max(403)
    .describe(
      'name of a run folder of this server, such as the id of a job, or JOB/NAME of a run in it',
    ),
  model: model.describe("the run's base model, of this server; default: the one that it serves"),
  task: task.describe("this server's copy of the run's task, where that is a file"),
  check,
  target: z.number().gt(0).max(1).optional().describe('accuracy that scores 1'),
  heldOut: z
    .enum(['both', 'after', 'none'])
    .optional()
    .describe('which test accuracies are measured again; default: both'),
});

export const judge = jobKind({
  id: 'judge',
  title: 'Derive a finished run again from its folder',
  settings,
  async prepare(stated, { names }) {
    const {
      run,
      model: named = names.allowed.model,
      task: asked,
      check: checked,
      ...others
    } = stated;
    const real = names.model(named, 'settings.model');
    const standing = checked === undefined ? undefined : names.check(checked, 'settings.check');
    return {
      args: [
        'judge',
        names.run(run, 'settings.run'),
        ...flags({
          model: real,
          ...(asked !== undefined && { task: names.task(asked, 'settings.task') }),
          ...(standing !== undefined && { check: standing }),
          ...others,
        }),
      ],
      run: null,
      memoryBytes: (await memoryOf(real, contextOf(real))) + (await memoryOfGrader(standing)),
      resolved: { ...stated, model: named },
    };
  },
  // not ended, hard fail, not verified: all are a verdict
  isResult: (code) => code >= 3 && code <= 5,
});
