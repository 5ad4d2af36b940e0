import { given } from '../../given.js';
import { measureBaselines } from '../../tasks/baselines.js';
import { openTask } from '../../tasks/open-task.js';
import { terminalStyle } from '../../text/terminal-style.js';
import { measureTables, table } from '../estimate-tables.js';
import { interruption, print, printJson } from '../output.js';
import { Progress } from '../progress.js';
import { askingFlags, openedWith, seedOption, setOption, taskOption } from './opening.js';
import { number, readCount, readSeed } from '../option.js';
import { command } from '../command.js';

export const tasksBaselinesCommand = command({
  command: 'baselines',
  describe: 'Measure the accuracy of the trivial policies, which a model must exceed',
  options: {
    task: taskOption,
    ...askingFlags,
    count: number('problems per tier', 400),
    seed: seedOption,
    set: setOption,
  },
  examples: [
    ['$0 tasks baselines', 'per cent accepted by tier, with 95 % intervals'],
    ['$0 tasks baselines --task scheduling-classic', "the original's benchmark"],
  ],
  handler: async ({ task: specifier, count, seed, set, json, ...flags }) => {
    readCount('count', count, 1);
    using progress = new Progress({ label: 'baselines', unit: 'verdicts' });
    progress.begin('opening the task');
    await using task = await openTask(specifier, openedWith(flags));
    const baselines = await measureBaselines(task, {
      count,
      seed: readSeed(seed),
      ...given({ set }),
      signal: interruption(),
      onProgress: (done, total) => progress.update(done, { total }),
    });
    progress.clear();
    if (json) return printJson(baselines);
    print(
      `${baselines.task}, ${baselines.set}, ${baselines.problems} problems; per cent accepted, 95 % interval below\n\n`,
    );
    if (task.policies.length === 0) print('The task has no trivial policies.\n');
    else {
      const rows = Object.entries(baselines.policies);
      const style = terminalStyle(process.stdout);
      const measures = measureTables(
        rows.map(([name, summary]) => [name, summary.measures] as const),
        style,
      );
      print(`${table(rows, style)}\n${measures === '' ? '' : `\n${measures.trimEnd()}\n`}`);
    }
    const notes = Object.entries(baselines.notes);
    if (notes.length > 0)
      print(`\n${notes.map(([name, note]) => `${name}: ${note}`).join('\n')}\n`);
  },
});
