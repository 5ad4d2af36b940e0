import type { Summary } from '../statistics/index.js';
import { measureBaselines } from '../tasks/baselines.js';
import { openTask } from '../tasks/open-task.js';
import { defineCommand } from './command.js';
import { interruption, printJson } from './output.js';
import { Progress } from './progress.js';
import { askingFlags, openedWith, readCount, readSeed, seedOption, setOption, taskOption } from './tasks-generate.js';

const percent = (fraction: number | null): string => (fraction === null ? '-' : (100 * fraction).toFixed(1));
const bounds = ({ low, high }: { low: number; high: number }): string => `${(100 * low).toFixed(0)}-${(100 * high).toFixed(0)}`;

/** Two lines a policy: per cent accepted, and the 95 % interval below it. */
function printTable(policies: Readonly<Record<string, Summary>>): void {
  const names = Object.keys(policies);
  const columns = Object.keys(policies[names[0]!]!.byTier);
  const width = Math.max(...names.map((name) => name.length)) + 1;
  const row = (head: string, cells: readonly string[]): void =>
    void process.stdout.write(`${head.padEnd(width)}${cells.map((cell) => cell.padStart(8)).join('')}\n`);
  row('', [...columns, 'mean']);
  for (const name of names) {
    const summary = policies[name]!;
    row(name, [...columns.map((column) => percent(summary.byTier[column]!.mean)), percent(summary.mean)]);
    row('', [...columns.map((column) => bounds(summary.byTier[column]!)), bounds(summary)]);
  }
}

export const tasksBaselinesCommand = defineCommand({
  command: 'baselines',
  describe: 'Accuracy of the trivial policies: what a model must exceed',
  builder: (yargs) =>
    yargs
      .option('task', taskOption)
      .options(askingFlags)
      .option('count', { type: 'number', default: 400, describe: 'problems of each tier' })
      .option('seed', seedOption)
      .option('set', setOption)
      .example('$0 tasks baselines', 'per cent accepted by tier, with 95 % intervals')
      .example('$0 tasks baselines --task scheduling-classic', "the original's benchmark"),
  handler: async ({ task: specifier, count, seed, set, json, ...flags }) => {
    readCount('count', count, 1);
    await using task = await openTask(specifier, openedWith(flags));
    using progress = new Progress({ label: 'baselines', unit: 'verdicts' });
    const baselines = await measureBaselines(task, {
      count,
      seed: readSeed(seed),
      ...(set === undefined ? {} : { set }),
      signal: interruption(),
      onProgress: (done, total) => progress.update(done, { total }),
    });
    progress.clear();
    if (json) return printJson(baselines);
    process.stdout.write(`${baselines.task}, ${baselines.set}, ${baselines.problems} problems; per cent accepted, 95 % interval below\n\n`);
    if (task.policies.length === 0) process.stdout.write('The task has no trivial policies.\n');
    else printTable(baselines.policies);
    const notes = Object.entries(baselines.notes);
    if (notes.length > 0) process.stdout.write(`\n${notes.map(([name, note]) => `${name}: ${note}`).join('\n')}\n`);
  },
});
