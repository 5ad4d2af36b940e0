import { builtInTasks } from '../../tasks/registry.js';
import { frozenSet, SET_NAMES } from '../../tasks/frozen-sets.js';
import { print, printJson } from '../output.js';
import { command } from '../command.js';

export const tasksListCommand = command({
  command: 'list',
  describe: 'List built-in tasks with their tiers and frozen sets',
  epilogue:
    '--task also takes the path of a .js or .ts file that exports a task, or python:MODULE[:NAME]: docs/python-task.md.',
  examples: [['$0 tasks list', 'names that --task takes']],
  handler: async ({ json }) => {
    const tasks = (await builtInTasks()).map(({ task }) => ({
      id: task.id,
      version: task.version,
      tiers: task.tiers,
      sets: SET_NAMES.map((name) => ({
        name,
        problems: frozenSet(task.id, name).problems.length,
        sha256: frozenSet(task.id, name).sha256,
      })),
      policies: Object.keys(task.trivialPolicies),
      exploits: task.exploits.length,
      knownHoles: task.knownHoles?.length ?? 0,
    }));
    if (json) return printJson({ tasks });
    for (const { id, version, tiers, sets, exploits, knownHoles } of tasks) {
      const holes = knownHoles === 0 ? '' : `, ${knownHoles} known holes (not for training)`;
      print(
        `${id}, version ${version}: ${sets.map(({ name, problems }) => `${problems} ${name} problems`).join(', ')}; ${exploits} replies ` +
          `that must not pass${holes}\n`,
      );
      const width = Math.max(...tiers.map((tier) => tier.id.length));
      for (const tier of tiers)
        print(
          `  ${tier.id.padEnd(width)}  ${tier.title}${tier.trains ? '' : ' (held out of training)'}\n`,
        );
    }
  },
});
