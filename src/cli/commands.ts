import type { CommandModule } from 'yargs';
import { keepMemorySteady } from './serve/steady-memory.js';

type Load = () => Promise<CommandModule>;

/**
 * Commands in the order of --help. Each command has its own file, which only reads flags and
 * prints. Files are imported on demand: importing all of them takes half of the time of a short
 * command.
 */
const COMMANDS: Readonly<Record<string, Load>> = {
  run: async () => (await import('./run/run-command.js')).runCommand,
  'self-improve': async () => (await import('./run/run-command.js')).selfImproveCommand,
  distill: async () => (await import('./run/run-command.js')).distillCommand,
  ablate: async () => (await import('./run/ablate.js')).ablateCommand,
  runs: async () => (await import('./runs/runs.js')).runsCommand,
  report: async () => (await import('./report.js')).reportCommand,
  generate: async () => (await import('./generate.js')).generateCommand,
  chat: async () => (await import('./chat/chat.js')).chatCommand,
  serve: async () => (await import('./serve/serve.js')).serveCommand,
  ui: async () => (await import('./serve/ui.js')).uiCommand,
  train: async () => (await import('./train/train.js')).trainCommand,
  adapters: async () => (await import('./adapters/adapters.js')).adaptersCommand,
  models: async () => (await import('./models/models.js')).modelsCommand,
  doctor: async () => (await import('./doctor.js')).doctorCommand,
  tasks: async () => (await import('./tasks/tasks.js')).tasksCommand,
  bench: async () => (await import('./bench/bench.js')).benchCommand,
  eval: async () => (await import('./eval/eval.js')).evalCommand,
  truth: async () => (await import('./truth/truth.js')).truthCommand,
  harness: async () => (await import('./harness/harness.js')).harnessCommand,
  judge: async () => (await import('./judge/judge.js')).judgeCommand,
  log: async () => (await import('./log/log.js')).logCommand,
  witness: async () => (await import('./witness.js')).witnessCommand as CommandModule,
};

export const COMMAND_NAMES: readonly string[] = Object.keys(COMMANDS);

/** Commands whose processes keep running. */
const SERVING = ['serve', 'ui'];

export type Summary = Pick<CommandModule, 'command' | 'describe'>;

/** Set by scripts/bundle-program.mjs: the lines of --help, which the commands gave when built. */
const SUMMARIES = (globalThis as { readonly isoproBundledSummaries?: readonly Summary[] })
  .isoproBundledSummaries;

/** What the list of commands shows, and the nearest name is found in. None of these can be run. */
async function summaries(): Promise<CommandModule[]> {
  const known = SUMMARIES ?? (await loadCommands());
  return known.map(({ command, describe }) => ({ command, describe, handler: () => undefined }));
}

/** The commands that a command line may run or name. */
export async function commandsFor(args: readonly string[]): Promise<CommandModule[]> {
  const [first = '--help'] = args;
  if (first === '--version') return [];
  if (Object.hasOwn(COMMANDS, first)) return loadCommands(first);
  // behind another flag there may be a command
  return first === '--help' || !first.startsWith('-') ? summaries() : loadCommands();
}

/** @param name of a command; default: all that there are */
export async function loadCommands(name?: string): Promise<CommandModule[]> {
  const named = name === undefined ? Object.values(COMMANDS) : [COMMANDS[name]!];
  if (SERVING.includes(name ?? '')) keepMemorySteady(); // before what they stand on is imported
  const commands: CommandModule[] = [];
  for (const load of named) commands.push(await load());
  return commands;
}
